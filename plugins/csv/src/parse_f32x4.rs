//! Parses four decimals of up to 15 bytes at once, as float32.
//!
//! # Advice for the next person
//!
//! **The idea.** A number is not read byte by byte. Its bytes are put into a vector register, one
//! shuffle (`swizzle`) moves each digit to its decimal place, and a few multiplications add up the
//! digits of four numbers at once. Then each number is multiplied by a power of ten, which also has
//! its sign. The differences of numbers (length, sign, place of the dot) select a row in a table of
//! 512 shuffles and factors. There are no branches: one mispredicted branch costs as much as ten
//! numbers.
//!
//! **The window.** A number ends at byte 14 of a window of 16 bytes, and byte 15 is the delimiter.
//! Bytes before the number belong to the fields before it; no shuffle uses them. The key of the
//! table is made in [`NumberText::new`].
//!
//! ```text
//! window   7 , 2 . 5 , - 1 2 . 3 4 5 6 7 ,     the number -12.34567: 9 bytes, negative, dot = 6
//! digits   0 0 0 0 0 0 0 0 0 1 2 3 4 5 6 7     after the shuffle, as values
//! factor   -1e-5                               dot - 1 digits after the dot
//! ```
//!
//! **Invariants.**
//! - A number that is returned is the nearest float32. At most 15 digits are exact as f64. The
//!   factor and the product are each rounded by half a unit in the last place at most, so the f64
//!   is less than three units away from the number. Rounding it to f32 is wrong only if the middle
//!   between two floats is as close: such a number is refused. A division would give the nearest
//!   f64, but it takes three times as long. All numbers except for 0 are at least 1e-13, so no
//!   subnormals occur.
//! - A text that is not a decimal is refused. Every byte that a shuffle selects must be a digit;
//!   for a text without digits the table selects the delimiter, which must therefore not be one.
//! - If one number is refused, all four are. The caller reads them in another way.
//!
//! **Changing it.** There are two implementations: `vector` for WebAssembly, and `scalar` for tests
//! and other machines. The tests below run `scalar`; the end-to-end tests and `make bench` run
//! `vector`. It uses instructions of relaxed SIMD, which are faster, in ways in which all machines
//! agree. Both use the same table, which the tests compare with Rust's `parse`, for edge cases
//! and random texts after different preceding bytes. If you change `vector`, look at the compiled
//! code: LLVM may take a vector apart, and then the speed is gone. The first command measures
//! `scalar`, the second one `vector`:
//!
//! ```text
//! cargo run --release -p pipemill-csv --example speed dense
//! pipemill plugin bench csv -o emit=dense --data FILE
//! ```

use crate::simd::Block;

/// Largest length of a number in bytes.
pub(crate) const MAX_LENGTH: usize = 15;

/// The text of one number, and how to read it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NumberText<'a> {
    /// The last 15 bytes before the end of the number, then the delimiter, which must not be a
    /// digit.
    window: &'a [u8; 16],
    layout: &'static DigitLayout,
}

/// How to read a text with a certain length, sign and place of the dot.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(32))]
struct DigitLayout {
    /// For each of 16 digits (with leading zeros), its offset in the window, or [`ZERO`].
    offsets: [u8; 16],
    /// The number without its dot is multiplied by this `f64`. It is here twice, for two lanes.
    factor: [u8; 16],
}

impl<'a> NumberText<'a> {
    /// A text of `length` bytes, at most [`MAX_LENGTH`], that starts with the byte `first`. The
    /// text need not be a number: [`parse_f32x4`] checks that.
    #[inline(always)]
    pub(crate) fn new(window: &'a [u8; 16], length: usize, first: u8) -> Self {
        // The low four bits of the leading zeros are the number of bytes after the last dot, with
        // the delimiter. Bit 4 is set, because the mask uses 16 of 32 bits. Bit 0 of the mask is
        // always set: without a dot the number is 15, which the table treats as "no dot".
        let dots = Block::<1>::load(window).eq(b'.') as u32 | 1;
        // XOR with SIGN clears bit 4 for positive numbers.
        let key = dots.leading_zeros() as usize ^ usize::from(SIGN[usize::from(first)]);
        Self { window, layout: &LAYOUTS[(length << 5 | key) & 511] }
    }
}

/// Value to XOR with the key, by the first byte of a text, so that bit 4 is set only for negative
/// numbers.
static SIGN: [u8; 256] = {
    let mut all = [16; 256];
    all[b'-' as usize] = 0;
    all
};

/// The layouts by their keys: length (4 bits), negative (1 bit), number of bytes after the dot with
/// the delimiter (4 bits).
static LAYOUTS: [DigitLayout; 512] = {
    let mut all = [DigitLayout { offsets: [0; 16], factor: [0; 16] }; 512];
    let mut key: usize = 0;
    while key < 512 {
        let (length, negative, dot) = (key >> 5, key >> 4 & 1, key & 15);
        let unsigned = length.saturating_sub(negative);
        // A dot before the text belongs to another field.
        let dot = if dot > unsigned || dot == 15 { 0 } else { dot };
        let factor = 1.0 / power_of_ten(dot.saturating_sub(1));
        let factor = (if negative == 1 { -factor } else { factor }).to_bits() as u128;
        all[key] = DigitLayout {
            offsets: offsets(unsigned, dot),
            factor: (factor << 64 | factor).to_le_bytes(),
        };
        key += 1;
    }
    all
};

/// A power of ten; exact up to 10^22.
const fn power_of_ten(exponent: usize) -> f64 {
    let (mut power, mut i) = (1.0, 0);
    while i < exponent {
        power *= 10.0;
        i += 1;
    }
    power
}

/// The offset that selects no byte but a zero.
const ZERO: u8 = 0x80;
/// The offset of the delimiter in the window.
const DELIMITER: u8 = 15;

/// The offsets of the digits of a text with `unsigned` bytes after its sign. `dot` is the number of
/// bytes after the dot, with the delimiter; 0 if there is no dot.
const fn offsets(unsigned: usize, dot: usize) -> [u8; 16] {
    let digits = unsigned - (dot > 0) as usize;
    let mut offsets = [ZERO; 16];
    if digits == 0 {
        // The delimiter is not a digit, so the text is refused.
        offsets[15] = DELIMITER;
    }
    let mut digit = 0;
    while digit < digits {
        let before_dot = dot > 0 && digit >= dot - 1;
        offsets[15 - digit] = DELIMITER - 1 - digit as u8 - before_dot as u8;
        digit += 1;
    }
    offsets
}

/// The four numbers as float32, little-endian, each the nearest one. `None` if one of them is
/// refused: it is not such a decimal, or its f64 is too close to the middle between two floats.
///
/// Without `LONG`, numbers of more than eight digits are refused, too; that is faster.
#[inline(always)]
pub(crate) fn parse_f32x4<const LONG: bool>(texts: [NumberText; 4]) -> Option<[u8; 16]> {
    #[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
    return vector::parse::<LONG>(texts);
    #[cfg(not(all(target_arch = "wasm32", target_feature = "relaxed-simd")))]
    return scalar::parse::<LONG>(texts);
}

/// The bits of an f64 that don't fit into an f32.
const LOST: u64 = 0x1fff_ffff;
/// The value of these bits exactly half between two floats.
const MIDDLE: u64 = 0x1000_0000;
/// A number is refused if these bits have one of eight values, the first of which is this one: so
/// if none of the bits [`FAR`] is set in their difference.
const NEAR_MIDDLE: u64 = MIDDLE - 4;
const FAR: u64 = LOST & !7;

#[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
mod vector {
    use core::arch::wasm32::*;

    use super::{FAR, NEAR_MIDDLE, NumberText, ZERO as Z};
    use crate::simd::{load, store};

    #[inline(always)]
    pub(super) fn parse<const LONG: bool>([a, b, c, d]: [NumberText; 4]) -> Option<[u8; 16]> {
        let factors = [factors(a, b), factors(c, d)];
        let digits = [digits(a), digits(b), digits(c), digits(d)];
        let (refused, [ab, cd]) = if LONG { sum_long(digits) } else { sum_short(digits) };
        let (ab, cd) = (f64x2_mul(ab, factors[0]), f64x2_mul(cd, factors[1]));
        let refused = v128_or(refused, v128_or(near_middle(ab), near_middle(cd)));
        if v128_any_true(refused) {
            return None;
        }
        let (ab, cd) = (f32x4_demote_f64x2_zero(ab), f32x4_demote_f64x2_zero(cd));
        // `refused` is zero here, but the compiler does not know it. With a constant shuffle
        // instead, it would take the vectors apart and round the numbers one by one.
        let upper = v128_or(u8x16(Z, Z, Z, Z, Z, Z, Z, Z, 0, 1, 2, 3, 4, 5, 6, 7), refused);
        Some(store(v128_or(ab, select(cd, upper))))
    }

    /// Numbers of up to eight digits: a mask that is nonzero if one is refused, and the numbers
    /// without their dots.
    #[inline(always)]
    fn sum_short([a, b, c, d]: [v128; 4]) -> (v128, [v128; 2]) {
        // `ab` and `cd` have the last eight digits of two numbers. The first eight digits must be
        // zeros.
        let (ab, cd) = (i64x2_shuffle::<1, 3>(a, b), i64x2_shuffle::<1, 3>(c, d));
        let first = v128_or(i64x2_shuffle::<0, 2>(a, b), i64x2_shuffle::<0, 2>(c, d));
        let whole = eights(quads(ab), quads(cd));
        let upper = i64x2_shuffle::<1, 1>(whole, whole);
        let values = [f64x2_convert_low_i32x4(whole), f64x2_convert_low_i32x4(upper)];
        (v128_or(not_digits(u8x16_max(ab, cd)), first), values)
    }

    /// Like `sum_short`, for numbers of up to 15 digits.
    #[inline(always)]
    fn sum_long([a, b, c, d]: [v128; 4]) -> (v128, [v128; 2]) {
        let all = u8x16_max(u8x16_max(a, b), u8x16_max(c, d));
        let (ab, cd) = (eights(quads(a), quads(b)), eights(quads(c), quads(d)));
        (not_digits(all), [joined(ab), joined(cd)])
    }

    /// The 16 digits of a number, as values.
    #[inline(always)]
    fn digits(text: NumberText) -> v128 {
        let window = u8x16_sub(load(*text.window), u8x16_splat(b'0'));
        select(window, load(text.layout.offsets))
    }

    /// The bytes at the offsets, each from 0 to 15 or [`ZERO`](Z). For other offsets, machines
    /// differ.
    #[inline(always)]
    fn select(bytes: v128, offsets: v128) -> v128 {
        i8x16_relaxed_swizzle(bytes, offsets)
    }

    #[inline(always)]
    fn factors(a: NumberText, b: NumberText) -> v128 {
        i64x2_shuffle::<0, 2>(load(a.layout.factor), load(b.layout.factor))
    }

    /// The number that each four digits make.
    #[inline(always)]
    fn quads(digits: v128) -> v128 {
        // Machines differ only where a weight is negative, or a sum has no room in 16 bits.
        let tens_and_ones = u8x16(10, 1, 10, 1, 10, 1, 10, 1, 10, 1, 10, 1, 10, 1, 10, 1);
        let pairs = i16x8_relaxed_dot_i8x16_i7x16(digits, tens_and_ones);
        i32x4_dot_i16x8(pairs, i16x8(100, 1, 100, 1, 100, 1, 100, 1))
    }

    /// The number that each eight digits make, from the numbers of four digits.
    #[inline(always)]
    fn eights(a: v128, b: v128) -> v128 {
        let quads = i16x8_narrow_i32x4(a, b);
        i32x4_dot_i16x8(quads, i16x8(10_000, 1, 10_000, 1, 10_000, 1, 10_000, 1))
    }

    /// The number that each sixteen digits make, from the numbers of eight digits. It is exact,
    /// because at most fifteen digits are not leading zeros.
    #[inline(always)]
    fn joined(eights: v128) -> v128 {
        let first = f64x2_convert_low_i32x4(i32x4_shuffle::<0, 2, 0, 2>(eights, eights));
        let last = f64x2_convert_low_i32x4(i32x4_shuffle::<1, 3, 1, 3>(eights, eights));
        f64x2_add(f64x2_mul(first, f64x2_splat(1e8)), last)
    }

    /// Nonzero where a byte is greater than 9, so that it was not a digit.
    #[inline(always)]
    fn not_digits(bytes: v128) -> v128 {
        u8x16_sub_sat(bytes, u8x16_splat(9))
    }

    /// All bits set where a number is close to the middle between two floats.
    #[inline(always)]
    fn near_middle(doubles: v128) -> v128 {
        let after = u64x2_sub(doubles, u64x2_splat(NEAR_MIDDLE));
        i64x2_eq(v128_and(after, u64x2_splat(FAR)), u64x2_splat(0))
    }
}

#[cfg(not(all(target_arch = "wasm32", target_feature = "relaxed-simd")))]
mod scalar {
    //! The same, one number at a time: for tests and for machines without these instructions.

    use super::{FAR, NEAR_MIDDLE, NumberText, ZERO};

    #[inline(always)]
    pub(super) fn parse<const LONG: bool>(texts: [NumberText; 4]) -> Option<[u8; 16]> {
        let mut all = [0; 16];
        for (number, text) in all.as_chunks_mut().0.iter_mut().zip(texts) {
            *number = one::<LONG>(text)?.to_le_bytes();
        }
        Some(all)
    }

    #[inline(always)]
    fn one<const LONG: bool>(text: NumberText) -> Option<f32> {
        let (first, last) = text.layout.offsets.split_at(8);
        if !LONG && first[7] != ZERO {
            return None;
        }
        let (mut whole, mut greatest) = (0, 0);
        for offset in if LONG { first } else { &[] }.iter().chain(last) {
            let byte = text.window[usize::from(offset & 15)];
            let digit = if *offset == ZERO { 0 } else { byte.wrapping_sub(b'0') };
            greatest = greatest.max(digit);
            whole = whole * 10 + i64::from(digit);
        }
        if greatest > 9 {
            return None;
        }
        let (factor, _) = text.layout.factor.split_first_chunk().expect("16 bytes");
        let value = whole as f64 * f64::from_le_bytes(*factor);
        let near_middle = value.to_bits().wrapping_sub(NEAR_MIDDLE) & FAR == 0;
        (!near_middle).then_some(value as f32)
    }
}

#[cfg(test)]
mod tests {
    use pipemill_parsing::testing::near_middle;
    use proptest::prelude::*;

    use super::*;

    /// The number in a text. Asserts that the bytes before the text make no difference.
    fn number(text: &str) -> Option<f32> {
        let [number, others @ ..] =
            [b'7', b'.', b'-', b','].map(|before| number_after(before, text));
        assert!(others.iter().all(|other| other.map(f32::to_bits) == number.map(f32::to_bits)));
        number
    }

    fn number_after(before: u8, text: &str) -> Option<f32> {
        let mut window = [before; 16];
        window[15 - text.len()..15].copy_from_slice(text.as_bytes());
        window[15] = b',';
        let text = NumberText::new(&window, text.len(), window[15 - text.len()]);
        let all = parse_f32x4::<true>([text; 4])?;
        let short = parse_f32x4::<false>([text; 4]);
        assert!(short.is_none_or(|short| short == all));
        let (numbers, _) = all.as_chunks();
        assert!(numbers.iter().all(|number| number == &numbers[0]));
        Some(f32::from_le_bytes(numbers[0]))
    }

    #[test]
    fn edge_cases() {
        for (text, value) in [
            ("0", 0.0f32),
            ("-0", -0.0),
            ("5.", 5.0),
            (".5", 0.5),
            ("-.5", -0.5),
            ("12345678", 12_345_678.0),
            ("-1234.5678", -1_234.567_8),
            (".12345678", 0.123_456_78),
            ("-00000000", -0.0),
            ("123456789", 123_456_789.0),
            ("-0.123456789012", -0.123_456_79),
            ("999999999999999", 999_999_999_999_999.0),
            (".0000000000001", 1e-13),
        ] {
            assert_eq!(number(text).map(f32::to_bits), Some(value.to_bits()), "{text:?}");
        }
        let refused = ",.,-,-.,--1,1-,+1,1e5,1.2345678.,1..2,1.2.3, 1,1 ,/1,:1,nan,12345678 ,123456789:,16777217,\
                   8388608.5";
        for text in refused.split(',') {
            assert_eq!(number(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn decimals(text in "-?[0-9]{0,8}\\.?[0-9]{0,5}|[0-9]{9,15}") {
            let expected: Option<f32> = text.parse().ok();
            if let Some(found) = number(&text) {
                prop_assert_eq!(Some(found.to_bits()), expected.map(f32::to_bits), "{}", text);
            } else if expected.is_some() {
                let value: f64 = text.parse().expect("as float32");
                let from_middle = (value.to_bits() & LOST).abs_diff(MIDDLE);
                prop_assert!(from_middle <= 6, "{} is refused", text);
            }
        }

        /// The middle between two floats, and decimals next to it, as close as 14 digits allow.
        #[test]
        fn near_the_middle(bits in 0x3580_0000u32..0x5580_0000, away in -3i64..=3) {
            let text = near_middle(bits, away);
            let expected: f32 = text.parse().expect("a number");
            if let Some(found) = number(&text) {
                prop_assert_eq!(found.to_bits(), expected.to_bits(), "{}", text);
            }
        }

        #[test]
        fn random_text(text in "[-+.,0-9eE/:a]{0,15}") {
            if let Some(found) = number(&text) {
                prop_assert_eq!(Some(found.to_bits()), text.parse().ok().map(f32::to_bits), "{}", text);
            }
        }
    }
}
