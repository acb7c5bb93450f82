//! Eight numbers at a time, as one register of WebAssembly's 128 bits. Outside of it, for the
//! tests, the same operations on arrays: every result is the same, bit for bit.
//!
//! The vocabulary is limited to the needs of the inverse transform, the filter and the colours.

#[cfg(target_arch = "wasm32")]
mod wasm;
#[cfg(target_arch = "wasm32")]
pub(crate) use wasm::{I16s, I32s, store_rgb};

#[cfg(not(target_arch = "wasm32"))]
mod arrays;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use arrays::{I16s, I32s, store_rgb};

/// Products of pairs: the results of [`I16s::interleave`], each pair times the same two numbers.
#[derive(Clone, Copy)]
pub(crate) struct Sums(pub(crate) I32s, pub(crate) I32s);

impl Sums {
    #[inline(always)]
    pub(crate) fn splat(value: i32) -> Self {
        Self(I32s::splat(value), I32s::splat(value))
    }
    /// a × x + b × y for each pair of a and b. `factors` are [`I16s::splat_pair`] of x and y.
    #[inline(always)]
    pub(crate) fn of(pairs: (I16s, I16s), factors: I16s) -> Self {
        Self(pairs.0.dot(factors), pairs.1.dot(factors))
    }
    #[inline(always)]
    pub(crate) fn add(self, other: Self) -> Self {
        Self(self.0.add(other.0), self.1.add(other.1))
    }
    #[inline(always)]
    pub(crate) fn sub(self, other: Self) -> Self {
        Self(self.0.sub(other.0), self.1.sub(other.1))
    }
    /// Divides by 2 to the power of `BITS`, rounds down, and narrows with saturation.
    #[inline(always)]
    pub(crate) fn shift<const BITS: u32>(self) -> I16s {
        I32s::narrow(self.0.shift::<BITS>(), self.1.shift::<BITS>())
    }
}

/// Transposes rows and columns.
#[inline(always)]
pub(crate) fn transpose(mut rows: [I16s; 8]) -> [I16s; 8] {
    for _ in 0..3 {
        let pairs: [_; 4] = std::array::from_fn(|row| rows[row].interleave(rows[row + 4]));
        rows = std::array::from_fn(
            |row| if row % 2 == 0 { pairs[row / 2].0 } else { pairs[row / 2].1 },
        );
    }
    rows
}
