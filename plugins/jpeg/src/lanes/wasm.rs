//! The operations of [`super`] on the registers of WebAssembly.

use std::arch::wasm32::*;

/// Eight integers of 16 bits.
#[derive(Clone, Copy)]
pub(crate) struct I16s(v128);

/// Four integers of 32 bits.
#[derive(Clone, Copy)]
pub(crate) struct I32s(v128);

impl I16s {
    #[inline(always)]
    pub(crate) fn splat(value: i16) -> Self {
        Self(i16x8_splat(value))
    }
    /// The two numbers, four times.
    #[inline(always)]
    pub(crate) fn splat_pair(even: i16, odd: i16) -> Self {
        Self(i32x4_splat(i32::from(odd) << 16 | i32::from(even as u16)))
    }
    #[inline(always)]
    pub(crate) fn load(from: &[i16; 8]) -> Self {
        // SAFETY: the array has 16 bytes, and loads need not be aligned.
        Self(unsafe { v128_load(from.as_ptr().cast()) })
    }
    #[inline(always)]
    pub(crate) fn store(self, to: &mut [i16; 8]) {
        // SAFETY: the array has 16 bytes, and stores need not be aligned.
        unsafe { v128_store(to.as_mut_ptr().cast(), self.0) }
    }
    #[inline(always)]
    pub(crate) fn load_bytes(from: &[u8; 8]) -> Self {
        // SAFETY: the array has 8 bytes, and loads need not be aligned.
        Self(unsafe { i16x8_load_extend_u8x8(from.as_ptr()) })
    }
    /// Converts to bytes, with saturation.
    #[inline(always)]
    pub(crate) fn store_bytes(self, to: &mut [u8; 8]) {
        let bytes = u8x16_narrow_i16x8(self.0, self.0);
        *to = (i64x2_extract_lane::<0>(bytes) as u64).to_le_bytes();
    }
    #[inline(always)]
    pub(crate) fn add(self, other: Self) -> Self {
        Self(i16x8_add(self.0, other.0))
    }
    #[inline(always)]
    pub(crate) fn sub(self, other: Self) -> Self {
        Self(i16x8_sub(self.0, other.0))
    }
    /// Interleaves a0 b0 a1 b1 a2 b2 a3 b3, and the same for the last four.
    #[inline(always)]
    pub(crate) fn interleave(self, other: Self) -> (Self, Self) {
        (
            Self(i16x8_shuffle::<0, 8, 1, 9, 2, 10, 3, 11>(self.0, other.0)),
            Self(i16x8_shuffle::<4, 12, 5, 13, 6, 14, 7, 15>(self.0, other.0)),
        )
    }
    /// Products, and sums of neighbours.
    #[inline(always)]
    pub(crate) fn dot(self, other: Self) -> I32s {
        I32s(i32x4_dot_i16x8(self.0, other.0))
    }
}

impl I32s {
    #[inline(always)]
    pub(crate) fn splat(value: i32) -> Self {
        Self(i32x4_splat(value))
    }
    #[inline(always)]
    pub(crate) fn add(self, other: Self) -> Self {
        Self(i32x4_add(self.0, other.0))
    }
    #[inline(always)]
    pub(crate) fn sub(self, other: Self) -> Self {
        Self(i32x4_sub(self.0, other.0))
    }
    #[inline(always)]
    pub(crate) fn shift<const BITS: u32>(self) -> Self {
        Self(i32x4_shr(self.0, BITS))
    }
    /// With saturation.
    #[inline(always)]
    pub(crate) fn narrow(low: Self, high: Self) -> I16s {
        I16s(i16x8_narrow_i32x4(low.0, high.0))
    }
}

/// Eight pixels: bytes of red, green and blue, with saturation.
#[inline(always)]
pub(crate) fn store_rgb(red: I16s, green: I16s, blue: I16s, to: &mut [u8; 24]) {
    let red_green = u8x16_narrow_i16x8(red.0, green.0);
    let blue = u8x16_narrow_i16x8(blue.0, blue.0);
    let first =
        i8x16_shuffle::<0, 8, 16, 1, 9, 17, 2, 10, 18, 3, 11, 19, 4, 12, 20, 5>(red_green, blue);
    let rest =
        i8x16_shuffle::<13, 21, 6, 14, 22, 7, 15, 23, 0, 0, 0, 0, 0, 0, 0, 0>(red_green, blue);
    // SAFETY: the array has 24 bytes, and stores need not be aligned.
    unsafe {
        v128_store(to.as_mut_ptr().cast(), first);
        v128_store64_lane::<0>(rest, to.as_mut_ptr().add(16).cast());
    }
}
