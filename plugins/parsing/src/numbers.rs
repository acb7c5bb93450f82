//! Numbers from text, for the decoders of text: always the nearest value there is, and fast for the
//! short plain decimals that most files hold. What may be written as a number is Rust's rule; a format
//! with a stricter one checks that first.

/// An integer or a float that can stand in a field.
pub trait Number: Sized {
    /// What messages and the option `types` call it.
    const NAME: &'static str;
    /// The number that these bytes are.
    fn parse(text: &[u8]) -> Option<Self>;
    /// The number that stands in `bytes` from `start` to `end`, blanks around it apart.
    #[inline]
    fn read(bytes: &[u8], start: usize, end: usize) -> Option<Self> {
        Self::parse(trimmed(&bytes[start..end]))
    }
}

macro_rules! parsed {
    ($number:ty) => {
        // Rust accepts a sign before the digits, refuses what does not fit, and rounds to the nearest.
        fn parse(text: &[u8]) -> Option<Self> {
            str::from_utf8(text).ok()?.parse().ok()
        }
    };
}

impl Number for i64 {
    const NAME: &'static str = "int64";
    parsed!(i64);
}

impl Number for i32 {
    const NAME: &'static str = "int32";
    parsed!(i32);
}

impl Number for f64 {
    const NAME: &'static str = "float64";
    parsed!(f64);

    #[inline(always)]
    fn read(bytes: &[u8], start: usize, end: usize) -> Option<Self> {
        plain(bytes, start, end).or_else(|| Self::parse(trimmed(&bytes[start..end])))
    }
}

impl Number for f32 {
    const NAME: &'static str = "float32";
    parsed!(f32);

    #[inline(always)]
    fn read(bytes: &[u8], start: usize, end: usize) -> Option<Self> {
        match plain(bytes, start, end) {
            // Rounding twice goes wrong only where the first result lies just between two floats: no
            // other value can have got there from the other side of the middle. The smallest value
            // of `plain` other than 0 is 1e-15, far from the subnormals.
            Some(value) if value.to_bits() & 0x1fff_ffff != 0x1000_0000 => Some(value as f32),
            _ => Self::parse(trimmed(&bytes[start..end])),
        }
    }
}

/// The text without blanks around it.
#[inline]
pub fn trimmed(text: &[u8]) -> &[u8] {
    match text {
        [b' ' | b'\t', ..] | [.., b' ' | b'\t'] => text.trim_ascii(),
        _ => text,
    }
}

/// Powers of ten up to the digits that [`plain`] takes. Each is exact.
const POWERS: [f64; 16] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// A decimal of at most 16 digits and dot, without an exponent, whose digits fit the mantissa: then
/// one division of two exact numbers gives the nearest value (Clinger's fast path). `None` is for
/// other texts, and where 16 bytes before the end are not in view.
///
/// What differs from field to field, as sign, length and the place of the dot, is looked up and never
/// branched on: a branch that goes wrong costs as much as all of the rest.
#[inline(always)]
fn plain(bytes: &[u8], start: usize, end: usize) -> Option<f64> {
    let window: &[u8; 16] = bytes.get(end.checked_sub(16)?..end)?.first_chunk()?;
    let negative = end > start && bytes[start] == b'-';
    let count = end - start - usize::from(negative);
    // As if written with leading zeros; the first byte is the lowest.
    let keep = KEEP.get(count)?;
    let low = (word(window, 0) ^ ZEROS) & keep.0;
    let high = (word(window, 8) ^ ZEROS) & keep.1;
    let dot = match (dots(low), dots(high)) {
        (0, high) => 8 + high.trailing_zeros() as usize / 8,
        (low, _) => low.trailing_zeros() as usize / 8,
    };
    // What stands before the dot moves up over it. Without one, all stays.
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

const ZEROS: u64 = 0x3030_3030_3030_3030;
/// A dot in each byte, as it is with `ZEROS` taken off.
const DOTS: u64 = 0x1e1e_1e1e_1e1e_1e1e;

/// For a place in 16 bytes, or 16 for none: the bits of all bytes before it, and behind it.
const BELOW: [(u64, u64); 17] = masks(true);
const ABOVE: [(u64, u64); 17] = masks(false);

const fn masks(before: bool) -> [(u64, u64); 17] {
    let mut all = [(0, !0); 17];
    let mut place = 0;
    while place < 17 {
        // The byte at the place is in neither. With no dot, none stands before it.
        let below = if place == 16 { 0 } else { (1u128 << (8 * place)) - 1 };
        let above = if place == 16 { !0 } else { !(below << 8 | 0xff) };
        let mask = if before { below } else { above };
        all[place] = (mask as u64, (mask >> 64) as u64);
        place += 1;
    }
    all
}

/// The bits of the last bytes of 16, by their number.
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

/// Not 0 where there is a dot; the lowest set bit lies in the first one.
#[inline(always)]
fn dots(word: u64) -> u64 {
    let other = word ^ DOTS;
    other.wrapping_sub(0x0101_0101_0101_0101) & !other & 0x8080_8080_8080_8080
}

/// Not 0 where a byte is greater than 9.
#[inline(always)]
fn not_digits(word: u64) -> u64 {
    (word.wrapping_add(0x7676_7676_7676_7676) | word) & 0x8080_8080_8080_8080
}

/// Eight digits, the first in the lowest byte, as a number; of other bytes, any number.
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

    /// As Rust reads it, whatever stands before it.
    fn same(text: &str) {
        for before in ["", "1", "-", ".", "1234567890.-1234567"] {
            let bytes = [before, text].concat().into_bytes();
            let (start, end) = (before.len(), bytes.len());
            let bits = |value: Option<f32>| value.map(f32::to_bits);
            let expected = bits(text.trim_matches([' ', '\t']).parse().ok());
            assert_eq!(bits(f32::read(&bytes, start, end)), expected, "{text:?} behind {before:?}");
            let bits = |value: Option<f64>| value.map(f64::to_bits);
            let expected = bits(text.trim_matches([' ', '\t']).parse().ok());
            assert_eq!(bits(f64::read(&bytes, start, end)), expected, "{text:?} behind {before:?}");
        }
    }

    #[test]
    fn edges() {
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
        ] {
            same(text);
        }
    }

    proptest! {
        #[test]
        fn nearest(text in "-?[0-9]{0,18}\\.?[0-9]{0,18}(e-?[0-9]{1,2})?") {
            same(&text);
        }

        #[test]
        fn halfway(bits: u32, digits in 1usize..17) {
            let low = f32::from_bits(bits & 0x7fff_ffff);
            let middle = (f64::from(low) + f64::from(f32::from_bits((bits & 0x7fff_ffff) + 1))) / 2.0;
            same(&format!("{middle:.digits$}"));
            same(&format!("{middle}"));
        }

        #[test]
        fn anything(text in "[-+.0-9eE ,a]{0,20}") {
            same(&text);
        }
    }
}
