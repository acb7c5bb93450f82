//! Four decimals of up to 15 bytes at once, as float32. Which bytes of a text are its digits is looked
//! up and never branched on: a branch that goes wrong costs as much as ten numbers.

use crate::simd::Block;

/// Bytes that a text may have.
pub(crate) const LONGEST: usize = 15;

/// The text of a number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<'a> {
    /// Its last bytes, and the one behind it, which must be no digit.
    window: &'a [u8; 16],
    shape: &'static Shape,
}

/// How to read a text.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(32))]
struct Shape {
    /// For each of 16 digits, as if written with leading zeros, its place in the window, or none.
    places: [u8; 16],
    /// What the number without its dot is to be divided by: twice, as registers want it.
    divisor: [u8; 16],
}

impl<'a> Text<'a> {
    /// A text of so many bytes, at most [`LONGEST`], that starts with the byte `first`. One that is not
    /// understood is odd for [`parse`].
    #[inline(always)]
    pub(crate) fn new(window: &'a [u8; 16], bytes: usize, first: u8) -> Self {
        // How many bytes stand behind the last dot. Bit 0 ends the search; a dot there is too far away
        // for any text that we take. The 16 that are too many, the sign takes off or leaves.
        let dots = Block::<1>::load(window).eq(b'.') as u32 | 1;
        let dot = dots.leading_zeros() as usize ^ usize::from(SIGN[usize::from(first)]);
        Self { window, shape: &SHAPES[(bytes << 5 | dot) & 511] }
    }
}

/// What a text's first byte does to the key of its shape: in there, 16 is for negative numbers.
static SIGN: [u8; 256] = {
    let mut all = [16; 256];
    all[b'-' as usize] = 0;
    all
};

/// Shapes by the bytes of the text, the sign, and how many bytes stand behind the dot, with the one
/// behind the text.
static SHAPES: [Shape; 512] = {
    let mut all = [Shape { places: [0; 16], divisor: [0; 16] }; 512];
    let mut key: usize = 0;
    while key < 512 {
        let (bytes, negative, dot) = (key >> 5, key >> 4 & 1, key & 15);
        let digits = bytes.saturating_sub(negative);
        // A dot that is too far away is in another text; one that is as far as can be, none at all.
        let dot = if dot > digits || dot == 15 { 0 } else { dot };
        let divisor = power(dot.saturating_sub(1));
        let divisor = (if negative == 1 { -divisor } else { divisor }).to_bits() as u128;
        all[key] =
            Shape { places: places(digits, dot), divisor: (divisor << 64 | divisor).to_le_bytes() };
        key += 1;
    }
    all
};

/// A power of ten, exact up to 22.
const fn power(exponent: usize) -> f64 {
    let (mut power, mut i) = (1.0, 0);
    while i < exponent {
        power *= 10.0;
        i += 1;
    }
    power
}

/// No place: a zero.
const NONE: u8 = 0x80;
/// Behind the text.
const BEHIND: u8 = 15;

/// The places of the digits of a text of so many bytes behind its sign.
const fn places(bytes: usize, dot: usize) -> [u8; 16] {
    let digits = bytes - (dot > 0) as usize;
    let mut places = [NONE; 16];
    if digits == 0 {
        // What stands there is no digit, and so the text is odd.
        places[15] = BEHIND;
    }
    let mut digit = 0;
    while digit < digits {
        let over_dot = dot > 0 && digit >= dot - 1;
        places[15 - digit] = BEHIND - 1 - digit as u8 - over_dot as u8;
        digit += 1;
    }
    places
}

/// The four numbers in little-endian, each the nearest there is. `None` if one is odd: no such decimal,
/// or so close to the middle between two floats that it takes more care.
///
/// Up to 15 digits and a power of ten are exact as f64, so that one division gives the nearest of
/// those (Clinger's fast path). Rounding that again goes wrong only where it lies just between two
/// floats: no other value can have got there from the other side of the middle. None but 0 is less than
/// 1e-15, far from the subnormals.
///
/// `LONG` says whether numbers of more than eight digits are taken, too; else they are odd.
#[inline(always)]
pub(crate) fn parse<const LONG: bool>(texts: [Text; 4]) -> Option<[u8; 16]> {
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    return lanes::parse::<LONG>(texts);
    #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
    return one_by_one::parse::<LONG>(texts);
}

/// The bits of a double that a float has no room for, and what they are in the middle of two floats.
const LOST: u64 = 0x1fff_ffff;
const MIDDLE: u64 = 0x1000_0000;

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod lanes {
    use core::arch::wasm32::*;

    use super::{LOST, MIDDLE, NONE as N, Text};
    use crate::simd::{load, store};

    #[inline(always)]
    pub(super) fn parse<const LONG: bool>([a, b, c, d]: [Text; 4]) -> Option<[u8; 16]> {
        let divisors = [divisors(a, b), divisors(c, d)];
        let digits = [digits(a), digits(b), digits(c), digits(d)];
        let (odd, [ab, cd]) = if LONG { long(digits) } else { short(digits) };
        let (ab, cd) = (f64x2_div(ab, divisors[0]), f64x2_div(cd, divisors[1]));
        let odd = v128_or(odd, v128_or(middle(ab), middle(cd)));
        if v128_any_true(odd) {
            return None;
        }
        let (ab, cd) = (f32x4_demote_f64x2_zero(ab), f32x4_demote_f64x2_zero(cd));
        // `odd` is zero, but the compiler does not know it. Were this a plain shuffle, it would take all
        // apart and round one by one.
        let upper = v128_or(u8x16(N, N, N, N, N, N, N, N, 0, 1, 2, 3, 4, 5, 6, 7), odd);
        Some(store(v128_or(ab, u8x16_swizzle(cd, upper))))
    }

    /// The numbers, and not 0 where one is odd.
    #[inline(always)]
    fn short([a, b, c, d]: [v128; 4]) -> (v128, [v128; 2]) {
        // The last eight digits of a number, then those of another. The first eight must be zeros.
        let (ab, cd) = (i64x2_shuffle::<1, 3>(a, b), i64x2_shuffle::<1, 3>(c, d));
        let first = v128_or(i64x2_shuffle::<0, 2>(a, b), i64x2_shuffle::<0, 2>(c, d));
        let whole = eights(quads(ab), quads(cd));
        let upper = i64x2_shuffle::<1, 1>(whole, whole);
        let values = [f64x2_convert_low_i32x4(whole), f64x2_convert_low_i32x4(upper)];
        (v128_or(not_digits(u8x16_max(ab, cd)), first), values)
    }

    /// The same, of up to 15 digits.
    #[inline(always)]
    fn long([a, b, c, d]: [v128; 4]) -> (v128, [v128; 2]) {
        let all = u8x16_max(u8x16_max(a, b), u8x16_max(c, d));
        let (ab, cd) = (eights(quads(a), quads(b)), eights(quads(c), quads(d)));
        (not_digits(all), [joined(ab), joined(cd)])
    }

    /// The values of a number's digits.
    #[inline(always)]
    fn digits(text: Text) -> v128 {
        let window = u8x16_sub(load(*text.window), u8x16_splat(b'0'));
        u8x16_swizzle(window, load(text.shape.places))
    }

    #[inline(always)]
    fn divisors(a: Text, b: Text) -> v128 {
        i64x2_shuffle::<0, 2>(load(a.shape.divisor), load(b.shape.divisor))
    }

    /// Four digits each as a number.
    #[inline(always)]
    fn quads(digits: v128) -> v128 {
        let (tens, ones) = (v128_and(digits, u16x8_splat(0xff)), u16x8_shr(digits, 8));
        let pairs = i16x8_add(i16x8_mul(tens, i16x8_splat(10)), ones);
        i32x4_dot_i16x8(pairs, i16x8(100, 1, 100, 1, 100, 1, 100, 1))
    }

    /// Eight digits each as a number, from numbers of four.
    #[inline(always)]
    fn eights(a: v128, b: v128) -> v128 {
        let quads = i16x8_narrow_i32x4(a, b);
        i32x4_dot_i16x8(quads, i16x8(10_000, 1, 10_000, 1, 10_000, 1, 10_000, 1))
    }

    /// Sixteen digits each as a number: exact, as they are at most fifteen without leading zeros.
    #[inline(always)]
    fn joined(eights: v128) -> v128 {
        let first = f64x2_convert_low_i32x4(i32x4_shuffle::<0, 2, 0, 2>(eights, eights));
        let last = f64x2_convert_low_i32x4(i32x4_shuffle::<1, 3, 1, 3>(eights, eights));
        f64x2_add(f64x2_mul(first, f64x2_splat(1e8)), last)
    }

    /// Not 0 where a byte is no digit.
    #[inline(always)]
    fn not_digits(bytes: v128) -> v128 {
        u8x16_sub_sat(bytes, u8x16_splat(9))
    }

    #[inline(always)]
    fn middle(doubles: v128) -> v128 {
        i64x2_eq(v128_and(doubles, u64x2_splat(LOST)), u64x2_splat(MIDDLE))
    }
}

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
mod one_by_one {
    //! The same for machines without such instructions, and for tests.

    use super::{LOST, MIDDLE, NONE, Text};

    #[inline(always)]
    pub(super) fn parse<const LONG: bool>(texts: [Text; 4]) -> Option<[u8; 16]> {
        let mut all = [0; 16];
        for (number, text) in all.as_chunks_mut().0.iter_mut().zip(texts) {
            *number = one::<LONG>(text)?.to_le_bytes();
        }
        Some(all)
    }

    #[inline(always)]
    fn one<const LONG: bool>(text: Text) -> Option<f32> {
        let (first, last) = text.shape.places.split_at(8);
        if !LONG && first[7] != NONE {
            return None;
        }
        let (mut whole, mut greatest) = (0, 0);
        for place in if LONG { first } else { &[] }.iter().chain(last) {
            let byte = text.window[usize::from(place & 15)];
            let digit = if *place == NONE { 0 } else { byte.wrapping_sub(b'0') };
            greatest = greatest.max(digit);
            whole = whole * 10 + i64::from(digit);
        }
        if greatest > 9 {
            return None;
        }
        let (divisor, _) = text.shape.divisor.split_first_chunk().expect("16 bytes");
        let value = whole as f64 / f64::from_le_bytes(*divisor);
        (value.to_bits() & LOST != MIDDLE).then_some(value as f32)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The number, whatever stands before it.
    fn number(text: &str) -> Option<f32> {
        let [number, others @ ..] =
            [b'7', b'.', b'-', b','].map(|before| number_behind(before, text));
        assert!(others.iter().all(|other| other.map(f32::to_bits) == number.map(f32::to_bits)));
        number
    }

    fn number_behind(before: u8, text: &str) -> Option<f32> {
        let mut window = [before; 16];
        window[15 - text.len()..15].copy_from_slice(text.as_bytes());
        window[15] = b',';
        let text = Text::new(&window, text.len(), window[15 - text.len()]);
        let all = parse::<true>([text; 4])?;
        let short = parse::<false>([text; 4]);
        assert!(short.is_none_or(|short| short == all));
        let (numbers, _) = all.as_chunks();
        assert!(numbers.iter().all(|number| number == &numbers[0]));
        Some(f32::from_le_bytes(numbers[0]))
    }

    #[test]
    fn edges() {
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
        let odd = ",.,-,-.,--1,1-,+1,1e5,1.2345678.,1..2,1.2.3, 1,1 ,/1,:1,nan,12345678 ,123456789:,16777217,\
                   8388608.5";
        for text in odd.split(',') {
            assert_eq!(number(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn nearest(text in "-?[0-9]{0,8}\\.?[0-9]{0,5}|[0-9]{9,15}") {
            let expected: Option<f32> = text.parse().ok();
            if let Some(found) = number(&text) {
                prop_assert_eq!(Some(found.to_bits()), expected.map(f32::to_bits), "{}", text);
            } else if expected.is_some() {
                let value: f64 = text.parse().expect("as float32");
                prop_assert_eq!(value.to_bits() & LOST, MIDDLE, "{} is odd", text);
            }
        }

        #[test]
        fn no_number(text in "[-+.,0-9eE/:a]{0,15}") {
            if let Some(found) = number(&text) {
                prop_assert_eq!(Some(found.to_bits()), text.parse().ok().map(f32::to_bits), "{}", text);
            }
        }
    }
}
