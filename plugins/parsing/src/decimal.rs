//! Decimal numbers as text.

use std::fmt::Write;

/// The digits of a number in two's complement, the highest byte first, with `scale` of them after
/// the point.
pub fn decimal(mut number: Vec<u8>, scale: u32) -> String {
    let is_negative = number.first().is_some_and(|byte| byte & 0x80 != 0);
    if is_negative {
        let mut carry = true;
        for byte in number.iter_mut().rev() {
            let (value, more) = (!*byte).overflowing_add(carry.into());
            (*byte, carry) = (value, more);
        }
    }
    // Nine digits at a time, the lowest first.
    let mut parts = Vec::new();
    while number.iter().any(|byte| *byte != 0) {
        let mut rest = 0u64;
        for byte in &mut number {
            let value = rest << 8 | u64::from(*byte);
            (*byte, rest) = ((value / 1_000_000_000) as u8, value % 1_000_000_000);
        }
        parts.push(rest as u32);
    }
    let mut digits = String::new();
    for (at, part) in parts.iter().rev().enumerate() {
        // A String takes everything that is written to it.
        let _ = match at {
            0 => write!(digits, "{part}"),
            _ => write!(digits, "{part:09}"),
        };
    }
    let scale = scale as usize;
    let missing = (scale + 1).saturating_sub(digits.len());
    digits.insert_str(0, &"0".repeat(missing));
    if scale > 0 {
        digits.insert(digits.len() - scale, '.');
    }
    if is_negative {
        digits.insert(0, '-');
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(number: i128, scale: u32) -> String {
        decimal(number.to_be_bytes().to_vec(), scale)
    }

    #[test]
    fn decimals_keep_all_digits() {
        assert_eq!(of(0, 0), "0");
        assert_eq!(of(0, 2), "0.00");
        assert_eq!(of(-5, 2), "-0.05");
        assert_eq!(of(123_456, 3), "123.456");
        assert_eq!(of(1_000_000_000, 0), "1000000000");
        assert_eq!(of(i128::MAX, 0), i128::MAX.to_string());
        assert_eq!(of(i128::MIN, 0), i128::MIN.to_string());
        assert_eq!(decimal(Vec::new(), 1), "0.0");
    }
}
