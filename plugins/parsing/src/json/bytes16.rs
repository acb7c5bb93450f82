//! Compares 16 bytes at once: bit `i` of a result is for byte `i`. It uses WebAssembly's vectors if
//! there are any, otherwise code that compilers vectorize. Neither uses unsafe code.

pub(super) use lanes::Bytes16;

/// Number of bytes that are compared at once.
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
        i8x16_add, i8x16_bitmask, i8x16_lt, i8x16_splat, u8x16_bitmask, u8x16_eq, u8x16_le,
        u8x16_splat, u64x2, v128, v128_or,
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
        pub(in super::super) fn stops(self) -> u16 {
            let quotes = u8x16_eq(self.0, u8x16_splat(b'"'));
            let escapes = u8x16_eq(self.0, u8x16_splat(b'\\'));
            let controls = u8x16_le(self.0, u8x16_splat(0x1f));
            u8x16_bitmask(v128_or(v128_or(quotes, escapes), controls))
        }

        /// The same, and the bytes that are not ASCII.
        #[inline(always)]
        pub(in super::super) fn stops_or_high(self) -> u16 {
            let quotes = u8x16_eq(self.0, u8x16_splat(b'"'));
            let escapes = u8x16_eq(self.0, u8x16_splat(b'\\'));
            // As signed values.
            let others = i8x16_lt(self.0, i8x16_splat(0x20));
            u8x16_bitmask(v128_or(v128_or(quotes, escapes), others))
        }

        /// The bytes that are not ASCII.
        #[inline(always)]
        pub(in super::super) fn high(self) -> u16 {
            u8x16_bitmask(self.0)
        }

        /// The digits.
        #[inline(always)]
        pub(in super::super) fn digits(self) -> u16 {
            // This makes them the smallest signed values: processors have only this comparison.
            let values = i8x16_add(self.0, i8x16_splat((b'0' + 0x80).wrapping_neg() as i8));
            i8x16_bitmask(i8x16_lt(values, i8x16_splat(i8::MIN + 10)))
        }

        /// The bytes that may follow a number in an array: commas, brackets, blanks, and some
        /// invalid ones.
        #[inline(always)]
        pub(in super::super) fn separators(self) -> u16 {
            let commas = u8x16_eq(self.0, u8x16_splat(b','));
            let brackets = u8x16_eq(self.0, u8x16_splat(b']'));
            let blanks = u8x16_le(self.0, u8x16_splat(b' '));
            u8x16_bitmask(v128_or(v128_or(commas, brackets), blanks))
        }

        /// The bytes that differ from those of `other`.
        #[inline(always)]
        pub(in super::super) fn differences(self, other: Self) -> u16 {
            !u8x16_bitmask(u8x16_eq(self.0, other.0))
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
        pub(in super::super) fn stops(self) -> u16 {
            mask(self.0.map(|byte| byte == b'"' || byte == b'\\' || byte < 0x20))
        }

        /// The same, and the bytes that are not ASCII.
        #[inline(always)]
        pub(in super::super) fn stops_or_high(self) -> u16 {
            mask(self.0.map(|byte| byte == b'"' || byte == b'\\' || (byte as i8) < 0x20))
        }

        /// The bytes that are not ASCII.
        #[inline(always)]
        pub(in super::super) fn high(self) -> u16 {
            mask(self.0.map(|byte| byte >= 0x80))
        }

        /// The digits.
        #[inline(always)]
        pub(in super::super) fn digits(self) -> u16 {
            mask(self.0.map(|byte| byte.wrapping_sub(b'0') <= 9))
        }

        /// The bytes that may follow a number in an array: commas, brackets, blanks, and some
        /// invalid ones.
        #[inline(always)]
        pub(in super::super) fn separators(self) -> u16 {
            mask(self.0.map(|byte| matches!(byte, b',' | b']' | ..=b' ')))
        }

        /// The bytes that differ from those of `other`.
        #[inline(always)]
        pub(in super::super) fn differences(self, other: Self) -> u16 {
            let mut differs = [false; 16];
            for ((differs, one), other) in differs.iter_mut().zip(self.0).zip(other.0) {
                *differs = one != other;
            }
            mask(differs)
        }
    }

    /// A bit for each byte.
    #[inline(always)]
    fn mask(bytes: [bool; 16]) -> u16 {
        // Bit i for byte i of each half; the multiplication adds the bytes of a half in the top
        // one.
        let half = |from: usize| {
            let mut bits = [0u8; 8];
            for (index, bit) in bits.iter_mut().enumerate() {
                *bit = u8::from(bytes[from + index]) << index;
            }
            (u64::from_le_bytes(bits).wrapping_mul(0x0101_0101_0101_0101) >> 56) as u16
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
                        (0..16).fold(0, |mask, i| mask | u16::from(is(bytes[i])) << i)
                    };
                    let found = Bytes16::new(&bytes);
                    assert_eq!(
                        found.stops(),
                        expected(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))
                    );
                    let stops = |byte| matches!(byte, b'"' | b'\\' | 0..0x20 | 0x80..);
                    assert_eq!(found.stops_or_high(), expected(stops));
                    assert_eq!(found.high(), expected(|byte| byte >= 0x80));
                    assert_eq!(found.digits(), expected(|byte| byte.is_ascii_digit()));
                    let separators = expected(|byte| byte <= b' ' || byte == b',' || byte == b']');
                    assert_eq!(found.separators(), separators);
                    let differences = found.differences(Bytes16::new(&[around; 16]));
                    assert_eq!(differences, u16::from(byte != around) << place);
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
