//! Bytes as hexadecimal digits, two a byte, without anything between them.

use std::fmt::Write;

/// The digits of these bytes, in lower case.
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a String can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The bytes of these digits, if they are such, and an even number of them.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> =
        text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn there_and_back() {
        let all: Vec<u8> = (0..=u8::MAX).collect();
        assert_eq!(decode(&encode(&all)), Some(all));
        assert_eq!(decode("Ff00"), Some(vec![255, 0]));
        for bad in ["f", "0g", "\u{661}0", "0 0 "] {
            assert_eq!(decode(bad), None, "{bad:?}");
        }
    }
}
