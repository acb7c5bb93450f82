//! Numbers from text: always the nearest value there is, and fast for the short plain decimals that
//! most files hold.

/// An integer or a float that can stand in a field.
pub(crate) trait Number: Sized {
    /// What messages and the option `types` call it.
    const NAME: &'static str;
    /// The number that these bytes are, blanks around it apart.
    fn parse(text: &[u8]) -> Option<Self>;
}

impl Number for i64 {
    const NAME: &'static str = "int64";
    #[inline]
    fn parse(text: &[u8]) -> Option<Self> {
        // Accepts a sign before the digits, and refuses what does not fit.
        str::from_utf8(text).ok()?.parse().ok()
    }
}

impl Number for i32 {
    const NAME: &'static str = "int32";
    #[inline]
    fn parse(text: &[u8]) -> Option<Self> {
        str::from_utf8(text).ok()?.parse().ok()
    }
}

impl Number for f64 {
    const NAME: &'static str = "float64";
    #[inline]
    fn parse(text: &[u8]) -> Option<Self> {
        plain(text).or_else(|| str::from_utf8(text).ok()?.parse().ok())
    }
}

impl Number for f32 {
    const NAME: &'static str = "float32";
    #[inline]
    fn parse(text: &[u8]) -> Option<Self> {
        if let Some(value) = plain(text) {
            // Rounding twice goes wrong only where the first result lies just between two floats: no
            // other value can have got there from the other side of the middle. The smallest value
            // of `plain` other than 0 is 1e-15, far from the subnormals.
            if value.to_bits() & 0x1fff_ffff != 0x1000_0000 {
                return Some(value as f32);
            }
        }
        str::from_utf8(text).ok()?.parse().ok()
    }
}

/// The text without blanks around it.
#[inline]
pub(crate) fn trimmed(text: &[u8]) -> &[u8] {
    match text {
        [b' ' | b'\t', ..] | [.., b' ' | b'\t'] => text.trim_ascii(),
        _ => text,
    }
}

/// Powers of ten up to the digits that [`plain`] takes. Each is exact.
const POWERS: [f64; 16] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

const ZEROS: u64 = 0x3030_3030_3030_3030;

/// A decimal of at most 16 digits and dot, without an exponent, whose digits fit the mantissa: then
/// one division of two exact numbers gives the nearest value (Clinger's fast path).
#[inline]
fn plain(text: &[u8]) -> Option<f64> {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let (digits, fraction) = match text.len() {
        1..=8 => short(text)?,
        9..=16 => long(text)?,
        _ => return None,
    };
    if digits > 1 << 53 {
        return None;
    }
    let value = digits as f64 / POWERS[fraction];
    Some(if negative { -value } else { value })
}

/// The digits of up to 8 bytes as a number, and how many of them stand behind the dot.
#[inline]
fn short(text: &[u8]) -> Option<(u64, usize)> {
    let count = text.len();
    // Digits at the top end, zeros below: as if written with leading zeros.
    let word = if let Some(word) = text.first_chunk() {
        u64::from_le_bytes(*word) ^ ZEROS
    } else {
        (load(text) ^ ZEROS) << (64 - 8 * count)
    };
    let other = not_digits(word);
    if other == 0 {
        return Some((eight(word), 0));
    }
    let dot = other.trailing_zeros() as usize / 8;
    let word = without_dot(word, dot)?;
    (not_digits(word) == 0 && count > 1).then(|| (eight(word), 7 - dot))
}

/// The same of 9 to 16 bytes.
#[inline]
fn long(text: &[u8]) -> Option<(u64, usize)> {
    let low = u64::from_le_bytes(*text.first_chunk()?) ^ ZEROS;
    let mut high = u64::from_le_bytes(*text.last_chunk()?) ^ ZEROS;
    // The bytes that are in both words are cut from the lower.
    let mut low = low.checked_shl(8 * (16 - text.len()) as u32)?;
    let (other_low, other_high) = (not_digits(low), not_digits(high));
    let mut fraction = 0;
    if other_low != 0 {
        let dot = other_low.trailing_zeros() as usize / 8;
        low = without_dot(low, dot)?;
        fraction = 15 - dot;
    } else if other_high != 0 {
        let dot = other_high.trailing_zeros() as usize / 8;
        high = without_dot(high, dot)? | low >> 56;
        low <<= 8;
        fraction = 7 - dot;
    }
    (not_digits(low) | not_digits(high) == 0)
        .then(|| (eight(low) * 100_000_000 + eight(high), fraction))
}

/// Up to 7 bytes as the low end of a word.
#[inline]
fn load(text: &[u8]) -> u64 {
    // Two reads that overlap, so that no length needs a loop.
    if let (Some(head), Some(tail)) = (text.first_chunk(), text.last_chunk()) {
        let shift = 8 * (text.len() - 4);
        u64::from(u32::from_le_bytes(*head)) | u64::from(u32::from_le_bytes(*tail)) << shift
    } else {
        text.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
    }
}

/// Not 0 where a byte is greater than 9; the lowest set bit lies in the first such byte.
#[inline(always)]
fn not_digits(word: u64) -> u64 {
    (word.wrapping_add(0x7676_7676_7676_7676) | word) & 0x8080_8080_8080_8080
}

/// Takes the byte at `at`, which must be a dot, out of the word; what stood below moves up.
#[inline(always)]
fn without_dot(word: u64, at: usize) -> Option<u64> {
    let bits = 8 * at;
    if (word >> bits) as u8 != b'.' ^ b'0' {
        return None;
    }
    let below = word & !(!0 << bits);
    let above = word & (!0xff << bits);
    Some(above | below << 8)
}

/// Eight digits, the first in the lowest byte, as a number.
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

    fn same(text: &str) {
        let bytes = text.as_bytes();
        let bits = |value: Option<f32>| value.map(f32::to_bits);
        assert_eq!(bits(f32::parse(bytes)), bits(text.parse().ok()), "{text:?} as float32");
        let bits = |value: Option<f64>| value.map(f64::to_bits);
        assert_eq!(bits(f64::parse(bytes)), bits(text.parse().ok()), "{text:?} as float64");
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
