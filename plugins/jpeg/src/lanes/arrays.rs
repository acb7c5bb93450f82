//! The operations of [`super`] on arrays.

use std::array::from_fn;

/// Eight integers of 16 bits.
#[derive(Clone, Copy)]
pub(crate) struct I16s([i16; 8]);

/// Four integers of 32 bits.
#[derive(Clone, Copy)]
pub(crate) struct I32s([i32; 4]);

impl I16s {
    pub(crate) fn splat(value: i16) -> Self {
        Self([value; 8])
    }
    pub(crate) fn splat_pair(even: i16, odd: i16) -> Self {
        Self(from_fn(|lane| if lane % 2 == 0 { even } else { odd }))
    }
    pub(crate) fn load(from: &[i16; 8]) -> Self {
        Self(*from)
    }
    pub(crate) fn store(self, to: &mut [i16; 8]) {
        *to = self.0;
    }
    pub(crate) fn load_bytes(from: &[u8; 8]) -> Self {
        Self(from.map(i16::from))
    }
    pub(crate) fn store_bytes(self, to: &mut [u8; 8]) {
        *to = self.0.map(byte);
    }
    pub(crate) fn add(self, other: Self) -> Self {
        Self(from_fn(|lane| self.0[lane].wrapping_add(other.0[lane])))
    }
    pub(crate) fn sub(self, other: Self) -> Self {
        Self(from_fn(|lane| self.0[lane].wrapping_sub(other.0[lane])))
    }
    pub(crate) fn interleave(self, other: Self) -> (Self, Self) {
        let of = |from: usize| {
            from_fn(|lane| if lane % 2 == 0 { self.0 } else { other.0 }[from + lane / 2])
        };
        (Self(of(0)), Self(of(4)))
    }
    pub(crate) fn dot(self, other: Self) -> I32s {
        let product = |lane: usize| i32::from(self.0[lane]) * i32::from(other.0[lane]);
        I32s(from_fn(|pair| product(2 * pair).wrapping_add(product(2 * pair + 1))))
    }
}

impl I32s {
    pub(crate) fn splat(value: i32) -> Self {
        Self([value; 4])
    }
    pub(crate) fn add(self, other: Self) -> Self {
        Self(from_fn(|lane| self.0[lane].wrapping_add(other.0[lane])))
    }
    pub(crate) fn sub(self, other: Self) -> Self {
        Self(from_fn(|lane| self.0[lane].wrapping_sub(other.0[lane])))
    }
    pub(crate) fn shift<const BITS: u32>(self) -> Self {
        Self(self.0.map(|value| value >> BITS))
    }
    pub(crate) fn narrow(low: Self, high: Self) -> I16s {
        let narrow = |value: i32| value.clamp(i16::MIN.into(), i16::MAX.into()) as i16;
        I16s(from_fn(|lane| narrow(if lane < 4 { low.0[lane] } else { high.0[lane - 4] })))
    }
}

pub(crate) fn store_rgb(red: I16s, green: I16s, blue: I16s, to: &mut [u8; 24]) {
    *to = from_fn(|at| byte([red, green, blue][at % 3].0[at / 3]));
}

fn byte(value: i16) -> u8 {
    value.clamp(0, 255) as u8
}
