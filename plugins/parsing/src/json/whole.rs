//! Integers that are written with a fraction or an exponent: `1.0`, `2e3`. Python and pandas write
//! the integers of a column with gaps like this.

/// The reason why a number is not an integer of 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotWhole {
    /// It has a fraction.
    Fraction,
    /// It is an integer outside of the range.
    OutOfRange,
}

/// The exact value of a JSON number.
#[cold]
pub(super) fn whole(number: &[u8]) -> Result<i64, NotWhole> {
    let (negative, number) = match number.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, number),
    };
    let is_exponent = |byte: &u8| matches!(byte, b'e' | b'E');
    let mantissa = number.iter().position(is_exponent).unwrap_or(number.len());
    let exponent = number.get(mantissa + 1..).map_or(0, exponent);
    let mantissa = &number[..mantissa];
    let dot = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
    let places = mantissa.len().saturating_sub(dot + 1) as i64;
    let digits = || mantissa.iter().filter(|byte| **byte != b'.').map(|byte| byte & 15);
    let zeros = digits().rev().take_while(|digit| *digit == 0).count();
    let significant = digits().count() - zeros;
    if significant == 0 {
        return Ok(0);
    }
    // The value is the significant digits times ten to this power.
    let power = exponent.saturating_sub(places).saturating_add(zeros as i64);
    if power < 0 {
        return Err(NotWhole::Fraction);
    }
    let out_of_range = NotWhole::OutOfRange;
    let mut value = 0i128;
    let last_zeros = std::iter::repeat_n(0, power.min(20) as usize);
    for digit in digits().take(significant).chain(last_zeros) {
        value = value * 10 + i128::from(digit);
        if value > 1 << 63 {
            return Err(out_of_range);
        }
    }
    i64::try_from(if negative { -value } else { value }).map_err(|_| out_of_range)
}

/// The value of an exponent. An exponent with too many digits is replaced by one with the same
/// effect.
fn exponent(text: &[u8]) -> i64 {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        digits => (false, digits),
    };
    let value = digits.iter().fold(0i64, |value, digit| {
        value.saturating_mul(10).saturating_add(i64::from(digit & 15)).min(1 << 40)
    });
    if negative { -value } else { value }
}

#[cfg(test)]
mod tests {
    use super::{NotWhole, whole};

    #[test]
    fn whole_numbers_are_read_exactly() {
        for (text, value) in [
            ("1.0", 1),
            ("-2.000", -2),
            ("0.0", 0),
            ("-0.0", 0),
            ("0e99999999999999999999", 0),
            ("1e3", 1000),
            ("1E+3", 1000),
            ("1.5e1", 15),
            ("1200e-2", 12),
            ("9007199254740993.0", 9_007_199_254_740_993),
            ("9223372036854775807.0", i64::MAX),
            ("-9.223372036854775808e18", i64::MIN),
            ("100000000000000000000e-2", 1_000_000_000_000_000_000),
        ] {
            assert_eq!(whole(text.as_bytes()), Ok(value), "{text}");
        }
        let long = format!("7.{}", "0".repeat(5000));
        assert_eq!(whole(long.as_bytes()), Ok(7));
    }

    #[test]
    fn what_is_no_integer() {
        for text in ["1.5", "-0.1", "1e-1", "12e-1", "0.1e0", "5e-99999999999999999999"] {
            assert_eq!(whole(text.as_bytes()), Err(NotWhole::Fraction), "{text}");
        }
        for text in ["9223372036854775808.0", "-9223372036854775809.0", "1e19", "1e999999999999999"]
        {
            assert_eq!(whole(text.as_bytes()), Err(NotWhole::OutOfRange), "{text}");
        }
    }
}
