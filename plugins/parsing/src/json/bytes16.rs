//! Compares 16 bytes at once: bit `i` of a result is for byte `i`. WebAssembly's vectors where there
//! are any, else a form that compilers make vectors of. There is no unsafe code in either.

pub(super) use lanes::Bytes16;

/// Bytes that are compared at once.
pub(super) const LANES: usize = 16;

impl Bytes16 {
    /// The 16 bytes from `at` on; `None` if the text has fewer.
    #[inline(always)]
    pub(super) fn at(text: &[u8], at: usize) -> Option<Self> {
        Some(Self::new(text.get(at..at.checked_add(LANES)?)?.first_chunk()?))
    }
}

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod lanes {
    use std::arch::wasm32::{
        u8x16_bitmask, u8x16_eq, u8x16_le, u8x16_ne, u8x16_splat, u8x16_sub, u64x2, v128, v128_or,
    };

    #[derive(Clone, Copy)]
    pub(in super::super) struct Bytes16(v128);

    impl Bytes16 {
        #[inline(always)]
        pub(in super::super) fn new(bytes: &[u8; 16]) -> Self {
            // A vector load needs `unsafe`. This compiles to one.
            let both = u128::from_le_bytes(*bytes);
            Self(u64x2(both as u64, (both >> 64) as u64))
        }

        /// The bytes that end a run of plain characters: quotes, backslashes, control characters.
        #[inline(always)]
        pub(in super::super) fn stops(self) -> u32 {
            let quotes = u8x16_eq(self.0, u8x16_splat(b'"'));
            let escapes = u8x16_eq(self.0, u8x16_splat(b'\\'));
            let controls = u8x16_le(self.0, u8x16_splat(0x1f));
            u32::from(u8x16_bitmask(v128_or(v128_or(quotes, escapes), controls)))
        }

        /// The bytes that are not ASCII.
        #[inline(always)]
        pub(in super::super) fn high(self) -> u32 {
            u32::from(u8x16_bitmask(self.0))
        }

        /// The digits.
        #[inline(always)]
        pub(in super::super) fn digits(self) -> u32 {
            let values = u8x16_sub(self.0, u8x16_splat(b'0'));
            u32::from(u8x16_bitmask(u8x16_le(values, u8x16_splat(9))))
        }

        /// The bytes that are not those of `other`.
        #[inline(always)]
        pub(in super::super) fn differences(self, other: Self) -> u32 {
            u32::from(u8x16_bitmask(u8x16_ne(self.0, other.0)))
        }
    }
}

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
mod lanes {
    #[derive(Clone, Copy)]
    pub(in super::super) struct Bytes16([u8; 16]);

    impl Bytes16 {
        #[inline(always)]
        pub(in super::super) fn new(bytes: &[u8; 16]) -> Self {
            Self(*bytes)
        }

        /// The bytes that end a run of plain characters: quotes, backslashes, control characters.
        #[inline(always)]
        pub(in super::super) fn stops(self) -> u32 {
            mask(self.0.map(|byte| byte == b'"' || byte == b'\\' || byte < 0x20))
        }

        /// The bytes that are not ASCII.
        #[inline(always)]
        pub(in super::super) fn high(self) -> u32 {
            mask(self.0.map(|byte| byte >= 0x80))
        }

        /// The digits.
        #[inline(always)]
        pub(in super::super) fn digits(self) -> u32 {
            mask(self.0.map(|byte| byte.wrapping_sub(b'0') <= 9))
        }

        /// The bytes that are not those of `other`.
        #[inline(always)]
        pub(in super::super) fn differences(self, other: Self) -> u32 {
            let mut differs = [false; 16];
            for ((differs, one), other) in differs.iter_mut().zip(self.0).zip(other.0) {
                *differs = one != other;
            }
            mask(differs)
        }
    }

    /// A bit for each byte.
    #[inline(always)]
    fn mask(bytes: [bool; 16]) -> u32 {
        // Bit i for byte i of each half; the multiplication adds the bytes of a half in the top one.
        let half = |from: usize| {
            let mut bits = [0u8; 8];
            for (index, bit) in bits.iter_mut().enumerate() {
                *bit = u8::from(bytes[from + index]) << index;
            }
            (u64::from_le_bytes(bits).wrapping_mul(0x0101_0101_0101_0101) >> 56) as u32
        };
        half(0) | half(8) << 8
    }
}

#[cfg(test)]
mod tests {
    use super::Bytes16;

    #[test]
    fn each_byte_has_its_bit() {
        for byte in 0..=u8::MAX {
            for around in [b'a', b'5', b'"', 0x1f, 0x80, b'/', b':', byte.wrapping_add(1)] {
                for place in 0..16 {
                    let mut bytes = [around; 16];
                    bytes[place] = byte;
                    let expected = |is: fn(u8) -> bool| {
                        (0..16).fold(0, |mask, i| mask | u32::from(is(bytes[i])) << i)
                    };
                    let found = Bytes16::new(&bytes);
                    assert_eq!(
                        found.stops(),
                        expected(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))
                    );
                    assert_eq!(found.high(), expected(|byte| byte >= 0x80));
                    assert_eq!(found.digits(), expected(|byte| byte.is_ascii_digit()));
                    let differences = found.differences(Bytes16::new(&[around; 16]));
                    assert_eq!(differences, u32::from(byte != around) << place);
                }
            }
        }
    }

    #[test]
    fn there_must_be_16_bytes() {
        assert!(Bytes16::at(&[0; 20], 4).is_some());
        assert!(Bytes16::at(&[0; 20], 5).is_none());
        assert!(Bytes16::at(&[0; 20], usize::MAX).is_none());
    }
}
