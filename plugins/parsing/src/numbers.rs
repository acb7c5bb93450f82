//! Parses numbers, for the decoders of text. The result is always the nearest value of the type.
//! The syntax is that of Rust's `parse`; a format with a stricter syntax checks it first.
//!
//! # Advice for the next person
//!
//! **The idea.** Most numbers in files are short plain decimals, as `-12.345`. `plain` reads one
//! from the 16 bytes that end at its end, with arithmetic on two `u64`s (SWAR) and two table
//! lookups: clear the bytes before the number, find the dot, close its gap, convert eight digits at
//! a time, divide by a power of ten. Everything else is left to Rust's `parse`.
//!
//! **Invariants.** `plain` and `long` may return `None` for any text, but a value that they return
//! is the nearest one. For `long` the reason is given at `scaled`. For `plain` it holds because the
//! digits (at most 2^53) and the power of ten (at most 10^15) are exact as `f64`, and one division
//! of exact numbers rounds once. Sign, length and position of the dot vary from number to number,
//! so no branch may depend on them: one mispredicted branch costs as much as the rest.
//!
//! **Changing it.** The tests compare every result with Rust's `parse`, for edge cases, random
//! decimals, values half between two floats and random text, after different preceding bytes.
//! Measure with:
//!
//! ```text
//! cargo run --release -p pipemill-csv --example speed float32
//! cargo run --release -p pipemill-jsonl --example jsonl-speed
//! ```

/// A number that a field can hold.
pub trait Number: Sized {
    /// Name of the type in messages and in the option `types`.
    const NAME: &'static str;
    /// Parses all of `text`. `None` if it is not a number, or an integer that does not fit.
    fn parse(text: &[u8]) -> Option<Self>;
    /// Parses `bytes[start..end]`, without the blanks around the number. The bytes before `start`
    /// are not part of the number, but if there are any, `f32` and `f64` are parsed faster.
    #[inline]
    fn read(bytes: &[u8], start: usize, end: usize) -> Option<Self> {
        Self::parse(trimmed(&bytes[start..end]))
    }
}

macro_rules! parse_with_rust {
    ($number:ty) => {
        // Rust accepts a sign, refuses an integer that does not fit, and rounds a float to the
        // nearest.
        fn parse(text: &[u8]) -> Option<Self> {
            str::from_utf8(text).ok()?.parse().ok()
        }
    };
}

impl Number for i64 {
    const NAME: &'static str = "int64";
    parse_with_rust!(i64);

    #[inline(always)]
    fn read(bytes: &[u8], start: usize, end: usize) -> Option<Self> {
        integer(bytes, start, end).or_else(|| rarely::<Self>(bytes, start, end))
    }
}

impl Number for i32 {
    const NAME: &'static str = "int32";
    parse_with_rust!(i32);

    #[inline(always)]
    fn read(bytes: &[u8], start: usize, end: usize) -> Option<Self> {
        match integer(bytes, start, end) {
            Some(value) => value.try_into().ok(),
            None => rarely::<Self>(bytes, start, end),
        }
    }
}

impl Number for f64 {
    const NAME: &'static str = "float64";
    parse_with_rust!(f64);

    #[inline(always)]
    fn read(bytes: &[u8], start: usize, end: usize) -> Option<Self> {
        decimal(bytes, start, end).or_else(|| rarely::<Self>(bytes, start, end))
    }
}

impl Number for f32 {
    const NAME: &'static str = "float32";
    parse_with_rust!(f32);

    #[inline(always)]
    fn read(bytes: &[u8], start: usize, end: usize) -> Option<Self> {
        match decimal(bytes, start, end) {
            // Rounding twice, to `f64` and then to `f32`, is wrong only if the `f64` is exactly
            // half between two `f32`s: only there can the first rounding have moved the value onto
            // the middle from one side. Subnormals don't occur here: the smallest value of
            // `decimal` except 0 is 1e-19.
            Some(value) if value.to_bits() & 0x1fff_ffff != 0x1000_0000 => Some(value as f32),
            _ => rarely::<Self>(bytes, start, end),
        }
    }
}

/// Parses a number that is not plain, or a text that is not a number.
#[cold]
#[inline(never)]
fn rarely<N: Number>(bytes: &[u8], start: usize, end: usize) -> Option<N> {
    N::parse(trimmed(&bytes[start..end]))
}

/// Parses a decimal without an exponent, if it is plain or long.
#[inline(always)]
fn decimal(bytes: &[u8], start: usize, end: usize) -> Option<f64> {
    if end - start <= 16 { plain(bytes, start, end) } else { long(bytes, start, end) }
}

/// `text` without the spaces and tabs around it. Other white space is a part of the text.
#[inline]
pub fn trimmed(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// Powers of ten up to the number of digits that [`plain`] takes. Each is exact.
const POWERS: [f64; 16] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// Parses an integer of at most 16 digits. `None` for any other text, and if `end` is less than 16.
#[inline(always)]
fn integer(bytes: &[u8], start: usize, end: usize) -> Option<i64> {
    let negative = end > start && bytes[start] == b'-';
    let value = digits(bytes, start + usize::from(negative), end)? as i64;
    Some(if negative { -value } else { value })
}

/// The value of 1 to 16 digits. `None` for any other text, and if `end` is less than 16.
#[inline(always)]
fn digits(bytes: &[u8], start: usize, end: usize) -> Option<u64> {
    let window: &[u8; 16] = bytes.get(end.checked_sub(16)?..end)?.first_chunk()?;
    let keep = KEEP.get(end - start)?;
    if end - start <= 8 {
        let last = (word(window, 8) ^ ZEROS) & keep.1;
        return (not_digits(last) == 0 && end > start).then(|| eight(last));
    }
    let low = (word(window, 0) ^ ZEROS) & keep.0;
    let high = (word(window, 8) ^ ZEROS) & keep.1;
    (not_digits(low) | not_digits(high) == 0).then(|| eight(low) * 100_000_000 + eight(high))
}

/// Parses a decimal without an exponent, of more than 16 bytes, with a dot: at most 15 digits before
/// it, and at most 19 digits in all. `None` for any other text, and if there are too few bytes before
/// it.
#[inline(always)]
fn long(bytes: &[u8], start: usize, end: usize) -> Option<f64> {
    let negative = bytes[start] == b'-';
    let first = start + usize::from(negative);
    let head: &[u8; 16] = bytes.get(first..end)?.first_chunk()?;
    let dot = match (dots(word(head, 0) ^ ZEROS), dots(word(head, 8) ^ ZEROS)) {
        (0, 0) => return None,
        (0, high) => 8 + high.trailing_zeros() as usize / 8,
        (low, _) => low.trailing_zeros() as usize / 8,
    };
    let fraction = first + dot + 1;
    let places = end - fraction;
    // The first digits of the fraction, if there are more than 16, then the others.
    let last = fraction.max(end - 16);
    let above = if last > fraction { digits(bytes, fraction, last)? } else { 0 };
    let below = digits(bytes, last, end)?;
    let whole = digits(bytes, first, first + dot)?;
    // So there are at most 19 digits in all.
    if whole >= *LIMITS.get(places)? {
        return None;
    }
    let value = whole * TENS[places] + above * TENS[16] + below;
    let value = scaled(value, places)?;
    Some(f64::from_bits(value.to_bits() | u64::from(negative) << 63))
}

/// Powers of ten.
const TENS: [u64; 20] = {
    let mut all = [1; 20];
    let mut power = 1;
    while power < 20 {
        all[power] = all[power - 1] * 10;
        power += 1;
    }
    all
};

/// Upper bound of the part of a number before the dot, by the digits after the dot, if the number
/// has at most 19 digits.
const LIMITS: [u64; 20] = {
    let mut all = [0; 20];
    let mut places = 0;
    while places < 20 {
        all[places] = TENS[19 - places];
        places += 1;
    }
    all
};

/// The power of two that each reciprocal of [`RECIPROCALS`] is multiplied with.
const SCALES: [u32; 20] = {
    let mut all = [63; 20];
    let mut power = 1;
    while power < 20 {
        all[power] = 63 + (u64::BITS - TENS[power].leading_zeros());
        power += 1;
    }
    all
};

/// Reciprocals of the powers of ten, rounded down: each has 64 bits.
const RECIPROCALS: [u64; 20] = {
    let mut all = [0; 20];
    let mut power = 0;
    while power < 20 {
        all[power] = ((1u128 << SCALES[power]) / TENS[power] as u128) as u64;
        power += 1;
    }
    all
};

/// The nearest value of `value` divided by this power of ten, which is less than 20. `None` for a
/// few values that are close to the middle between two floats.
///
/// A reciprocal is too small by less than 1, and the product by less than 2. So twice the value,
/// without its power of two, is less than 3 above the product, and the value is at least `low`, and
/// less than `low + 2`. Rounding never changes an order: if both are rounded to the same `f64`, the
/// value is, too. The multiplication with a power of two is exact.
#[inline(always)]
fn scaled(value: u64, power: usize) -> Option<f64> {
    if value == 0 {
        return Some(0.0);
    }
    let zeros = value.leading_zeros();
    // Without the lowest bit it is an `i64`, which processors convert in one step.
    let low = (high_product(value << zeros, RECIPROCALS[power]) >> 1) as i64;
    let (low, high) = (low as f64, low.wrapping_add(2) as f64);
    let exponent = 65 - SCALES[power] as i64 - i64::from(zeros);
    let factor = f64::from_bits(((1023 + exponent) as u64) << 52);
    (low == high).then_some(low * factor)
}

/// The upper 64 bits of a product, or one less: the product of the lower halves is left out.
/// WebAssembly has no instruction for it.
#[inline(always)]
fn high_product(a: u64, b: u64) -> u64 {
    let half = |value: u64| (value >> 32, value & 0xffff_ffff);
    let ((a_high, a_low), (b_high, b_low)) = (half(a), half(b));
    let (middle_high, middle_low) = half(a_high * b_low);
    a_high * b_high + middle_high + ((a_low * b_high + middle_low) >> 32)
}

/// Parses a decimal without an exponent, of at most 16 bytes (digits and dot), whose digits are at
/// most 2^53: then one division of two exact numbers gives the nearest value (Clinger's fast path).
/// `None` for any other text, and if `end` is less than 16.
#[inline(always)]
fn plain(bytes: &[u8], start: usize, end: usize) -> Option<f64> {
    let window: &[u8; 16] = bytes.get(end.checked_sub(16)?..end)?.first_chunk()?;
    let negative = end > start && bytes[start] == b'-';
    let count = end - start - usize::from(negative);
    // From here on digits are values, not ASCII. The bytes before the number become 0, as if it had
    // leading zeros. The first byte of the text is the lowest byte.
    let keep = KEEP.get(count)?;
    let low = (word(window, 0) ^ ZEROS) & keep.0;
    let high = (word(window, 8) ^ ZEROS) & keep.1;
    let dot = match (dots(low), dots(high)) {
        (0, high) => 8 + high.trailing_zeros() as usize / 8,
        (low, _) => low.trailing_zeros() as usize / 8,
    };
    // The digits before the dot move up by one byte, over the dot. Without a dot nothing moves.
    let (below, above) = (&BELOW[dot], &ABOVE[dot]);
    let (low_part, high_part) = (low & below.0, high & below.1);
    let high = high & above.1 | high_part << 8 | low_part >> 56;
    let low = low & above.0 | low_part << 8;
    let digits = eight(low) * 100_000_000 + eight(high);
    let has_digits = count > usize::from(dot < 16);
    if not_digits(low) | not_digits(high) != 0 || !has_digits || digits > 1 << 53 {
        return None;
    }
    let value = digits as f64 / POWERS[15usize.saturating_sub(dot)];
    Some(f64::from_bits(value.to_bits() | u64::from(negative) << 63))
}

/// The digit `0` in each byte.
const ZEROS: u64 = 0x3030_3030_3030_3030;
/// A dot in each byte, XORed with `ZEROS`.
const DOTS: u64 = 0x1e1e_1e1e_1e1e_1e1e;

/// Masks of the bytes before the dot, by the position of the dot in 16 bytes; 16 means no dot. Each
/// mask is the low and the high `u64`.
const BELOW: [(u64, u64); 17] = masks(true);
/// Masks of the bytes after the dot, likewise.
const ABOVE: [(u64, u64); 17] = masks(false);

const fn masks(before: bool) -> [(u64, u64); 17] {
    let mut all = [(0, !0); 17];
    let mut place = 0;
    while place < 17 {
        // The dot itself is in neither mask. Without a dot all bytes are after it.
        let below = if place == 16 { 0 } else { (1u128 << (8 * place)) - 1 };
        let above = if place == 16 { !0 } else { !(below << 8 | 0xff) };
        let mask = if before { below } else { above };
        all[place] = (mask as u64, (mask >> 64) as u64);
        place += 1;
    }
    all
}

/// Masks of the last bytes of 16, by their count.
const KEEP: [(u64, u64); 17] = {
    let mut all = [(0, 0); 17];
    let mut count = 1;
    while count < 17 {
        let mask = !0u128 << (128 - 8 * count);
        all[count] = (mask as u64, (mask >> 64) as u64);
        count += 1;
    }
    all
};

#[inline(always)]
fn word(window: &[u8; 16], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&window[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Nonzero if a byte is a dot. The lowest set bit is in the first dot; higher bits can be wrong.
#[inline(always)]
fn dots(word: u64) -> u64 {
    let other = word ^ DOTS;
    other.wrapping_sub(0x0101_0101_0101_0101) & !other & 0x8080_8080_8080_8080
}

/// Nonzero if a byte is greater than 9.
#[inline(always)]
fn not_digits(word: u64) -> u64 {
    (word.wrapping_add(0x7676_7676_7676_7676) | word) & 0x8080_8080_8080_8080
}

/// The number that eight digits make, the first one in the lowest byte. If a byte is not a digit,
/// the result has no meaning.
#[inline(always)]
fn eight(word: u64) -> u64 {
    let pairs = word.wrapping_mul(10).wrapping_add(word >> 8);
    let even = (pairs & 0xff_0000_00ff).wrapping_mul(0x000f_4240_0000_0064);
    let odd = (pairs >> 16 & 0xff_0000_00ff).wrapping_mul(0x0000_2710_0000_0001);
    even.wrapping_add(odd) >> 32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Asserts that the text is read as Rust reads it, after different preceding bytes.
    fn assert_same_as_rust(text: &str) {
        for before in ["", "1", "-", ".", "1234567890.-1234567", "99999999999999999999999999"] {
            let bytes = [before, text].concat().into_bytes();
            let (start, end) = (before.len(), bytes.len());
            let bits = |value: Option<f32>| value.map(f32::to_bits);
            let expected = bits(text.trim_matches([' ', '\t']).parse().ok());
            assert_eq!(bits(f32::read(&bytes, start, end)), expected, "{text:?} after {before:?}");
            let bits = |value: Option<f64>| value.map(f64::to_bits);
            let expected = bits(text.trim_matches([' ', '\t']).parse().ok());
            assert_eq!(bits(f64::read(&bytes, start, end)), expected, "{text:?} after {before:?}");
            let expected = text.trim_matches([' ', '\t']).parse().ok();
            assert_eq!(i64::read(&bytes, start, end), expected, "{text:?} after {before:?}");
            let expected = text.trim_matches([' ', '\t']).parse().ok();
            assert_eq!(i32::read(&bytes, start, end), expected, "{text:?} after {before:?}");
        }
    }

    #[test]
    fn edge_cases() {
        for text in [
            "",
            ".",
            "-",
            "-.",
            "+1",
            "1.",
            ".5",
            "-.5",
            "-0",
            "0.0",
            "1e5",
            "1e-45",
            "inf",
            "nan",
            "1..2",
            "1.2.3",
            "12345678",
            "123456789",
            "1234567.8",
            ".12345678",
            "9007199254740993",
            "16777217",
            "16777217.0",
            "16777219.000001",
            "0x10",
            "1_0",
            "1 ",
            "--1",
            "1-",
            "٣",
            "0.000000059604645",
            "00000000.0000001",
            "12345678.12345678",
            "1.17549435e-38",
            "123456789012345.5",
            "1234567890123456.5",
            "0.12345678901234567",
            "-0.1234567890123456789",
            "0.12345678901234567890",
            "0.00000000000000000",
            "-0.000000000000000000",
            "--0.12345678901234567",
            "0.1234567890123456.7",
            ".12345678901234567",
            "1234567890123456.",
            "12345678901234567",
            "+1.2345678901234567",
            "9.999999999999999999",
            "999999999999.9999999",
            "0.9999999999999999999",
            "0.50000000000000000",
            "1.00000000000000011102",
            "9007199254740993.00",
            "900719925474099.350",
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808",
            "2147483648",
            "-2147483648",
        ] {
            assert_same_as_rust(text);
        }
    }

    proptest! {
        #[test]
        fn decimals(text in "-?[0-9]{0,18}\\.?[0-9]{0,18}(e-?[0-9]{1,2})?") {
            assert_same_as_rust(&text);
        }

        #[test]
        fn floats_as_python_writes_them(value in -1e12f64..1e12, power in -15i32..15) {
            assert_same_as_rust(&format!("{value}"));
            assert_same_as_rust(&format!("{}", value * 10f64.powi(power)));
            assert_same_as_rust(&format!("{}", value / 1e12));
        }

        #[test]
        fn values_near_the_middle_of_two(value: u64, places in 0usize..20, near in -2i128..3) {
            // The nearest decimals of `places` places to a value half between two `f64`s.
            let float = (value as f64) / 10f64.powi(places as i32);
            let next = f64::from_bits(float.to_bits() + 1);
            let half = (next - float) * 10f64.powi(places as i32) / 2.0;
            let digits = (i128::from(value) + half as i128 + near).max(0);
            let text = format!("{digits:0>width$}", width = places + 1);
            let (whole, fraction) = text.split_at(text.len() - places);
            assert_same_as_rust(&format!("{whole}.{fraction}"));
        }

        #[test]
        fn integers(value: i64, shift in 0u32..64) {
            assert_same_as_rust(&(value >> shift).to_string());
            assert_same_as_rust(&format!("{:.3}", (value >> shift) as f64));
        }

        #[test]
        fn values_half_between_two_floats(bits: u32, digits in 1usize..17) {
            let low = f32::from_bits(bits & 0x7fff_ffff);
            let middle = (f64::from(low) + f64::from(f32::from_bits((bits & 0x7fff_ffff) + 1))) / 2.0;
            assert_same_as_rust(&format!("{middle:.digits$}"));
            assert_same_as_rust(&format!("{middle}"));
        }

        #[test]
        fn random_text(text in "[-+.0-9eE ,a]{0,20}") {
            assert_same_as_rust(&text);
        }
    }
}
