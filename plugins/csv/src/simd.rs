//! Compares a block of bytes with one byte: the result is a mask whose bit i is for byte i.
//!
//! This is the only file of the crate with `unsafe`. There are three implementations, with the same
//! four functions: for WebAssembly (production), for x86-64 (native tests), and in plain `u64`s
//! (other machines). The tests compare each that the machine can run with a byte-by-byte loop.

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub(crate) use lane::{load, store};

/// A block of bytes in vector registers, 16 in each.
#[derive(Clone, Copy)]
pub(crate) struct Block<const REGISTERS: usize>([lane::Lane; REGISTERS]);

impl<const REGISTERS: usize> Block<REGISTERS> {
    /// The first bytes of `bytes`, which must be enough for the registers.
    #[inline(always)]
    pub(crate) fn load(bytes: &[u8]) -> Self {
        let (parts, _) = bytes.as_chunks();
        Self(parts.first_chunk().expect("enough bytes for the registers").map(lane::load))
    }

    /// The mask of the bytes that are `needle`.
    #[inline(always)]
    pub(crate) fn eq(&self, needle: u8) -> u64 {
        const { assert!(REGISTERS <= 4) }
        let needle = lane::splat(needle);
        let mask = |i: usize| u64::from(lane::eq(self.0[i], needle)) << (16 * i);
        (0..REGISTERS).fold(0, |all, i| all | mask(i))
    }
}

/// Bit i of the result is the parity of the bits 0 to i.
#[inline(always)]
pub(crate) fn prefix_xor(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod lane {
    use core::arch::wasm32::{i8x16_bitmask, u8x16_eq, u8x16_splat, v128};

    pub(super) type Lane = v128;

    #[inline(always)]
    pub(crate) fn load(bytes: [u8; 16]) -> Lane {
        // SAFETY: both types have 16 bytes without padding, and any bits are valid for both.
        unsafe { core::mem::transmute(bytes) }
    }
    #[inline(always)]
    pub(crate) fn store(lane: Lane) -> [u8; 16] {
        // SAFETY: as for `load`.
        unsafe { core::mem::transmute(lane) }
    }
    #[inline(always)]
    pub(super) fn splat(byte: u8) -> Lane {
        u8x16_splat(byte)
    }
    #[inline(always)]
    pub(super) fn eq(lane: Lane, needle: Lane) -> u16 {
        i8x16_bitmask(u8x16_eq(lane, needle))
    }
}

#[cfg(target_arch = "x86_64")]
mod lane {
    use core::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set1_epi8};

    pub(super) type Lane = __m128i;

    #[inline(always)]
    pub(super) fn load(bytes: [u8; 16]) -> Lane {
        // SAFETY: both types have 16 bytes without padding, and any bits are valid for both.
        unsafe { core::mem::transmute(bytes) }
    }
    #[inline(always)]
    pub(super) fn splat(byte: u8) -> Lane {
        // SAFETY: SSE2 is part of every x86_64.
        unsafe { _mm_set1_epi8(byte as i8) }
    }
    #[inline(always)]
    pub(super) fn eq(lane: Lane, needle: Lane) -> u16 {
        // SAFETY: SSE2 is part of every x86_64.
        unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(lane, needle)) as u16 }
    }
}

#[cfg(any(test, not(any(target_arch = "x86_64", target_feature = "simd128"))))]
mod words {
    //! The same in two `u64`s, for machines without vector instructions.

    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;

    pub(super) type Lane = [u64; 2];

    #[inline(always)]
    pub(super) fn load(bytes: [u8; 16]) -> Lane {
        let whole = u128::from_le_bytes(bytes);
        [whole as u64, (whole >> 64) as u64]
    }
    #[inline(always)]
    pub(super) fn splat(byte: u8) -> Lane {
        [u64::from_le_bytes([byte; 8]); 2]
    }
    #[inline(always)]
    pub(super) fn eq(lane: Lane, needle: Lane) -> u16 {
        let half = |i: usize| {
            let differs = lane[i] ^ needle[i];
            // Sets the top bit of each byte that is not 0. No addition carries into the next byte.
            let differs = ((differs & LOW) + LOW) | differs;
            let equal = !differs & !LOW;
            // The multiplication moves the top bits of all bytes into the top byte.
            ((equal >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u16
        };
        half(0) | half(1) << 8
    }
}
#[cfg(not(any(
    target_arch = "x86_64",
    all(target_arch = "wasm32", target_feature = "simd128")
)))]
use words as lane;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn masks_are_those_of_a_byte_loop(bytes in prop::array::uniform32(0u8..4), needle in 0u8..4, high: bool) {
            let top = if high { 0xfc } else { 0 };
            let mut block = [0; 64];
            block[..32].copy_from_slice(&bytes.map(|b| b | top));
            block[32..].copy_from_slice(&bytes.map(|b| b ^ 1));
            let needle = needle | top;
            let expected = (0..64).fold(0, |mask, i| mask | u64::from(block[i] == needle) << i);
            prop_assert_eq!(Block::<4>::load(&block).eq(needle), expected);
            prop_assert_eq!(Block::<3>::load(&block).eq(needle), expected << 16 >> 16);
            let part: [u8; 16] = block[24..40].try_into().expect("16 bytes");
            let plain = words::eq(words::load(part), words::splat(needle));
            prop_assert_eq!(plain, (expected >> 24) as u16);
        }

        #[test]
        fn prefix_xor_is_the_parity(bits: u64) {
            let expected = (0..64).fold(0, |all, i| {
                all | u64::from((bits & (!0 >> (63 - i))).count_ones() & 1) << i
            });
            prop_assert_eq!(prefix_xor(bits), expected);
        }
    }
}
