//! Numbers as people write them, which no column type reads: with separators of thousands, or with
//! a decimal comma. The option `decimal` reads the latter.

use pipemill_parsing::numbers::Number;

/// The notation of a number that no type reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    Thousands,
    DecimalComma,
}

impl Written {
    /// A text for a message: the peculiarity of the number.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Thousands => "separators of thousands",
            Self::DecimalComma => "a decimal comma",
        }
    }

    /// The notation of a text without blanks around it, if it is such a number.
    pub(crate) fn of(text: &[u8]) -> Option<Self> {
        let digits = match text {
            [b'+' | b'-', rest @ ..] => rest,
            all => all,
        };
        if !digits.first()?.is_ascii_digit() && digits.first() != Some(&b',') {
            return None;
        }
        let is_part = |byte: &u8| byte.is_ascii_digit() || b"., '_".contains(byte);
        let odd: Vec<_> = digits.iter().filter(|byte| b", '_".contains(byte)).collect();
        if odd.is_empty() || !digits.iter().all(is_part) || !digits.last()?.is_ascii_digit() {
            return None;
        }
        let place = |wanted: u8| digits.iter().position(|byte| *byte == wanted);
        if odd.len() == 1 && place(b'.').is_some_and(|dot| place(b',') > Some(dot)) {
            return Some(Self::DecimalComma);
        }
        let groups: Vec<_> = digits.split(|byte| byte == odd[0] || *byte == b'.').collect();
        let whole = groups.len() - usize::from(digits.contains(&b'.'));
        let are_thousands = groups[0].len() <= 3
            && whole > 1
            && groups[1..whole].iter().all(|group| group.len() == 3);
        match (are_thousands, odd[0], odd.len()) {
            (true, ..) => Some(Self::Thousands),
            (false, b',', 1) => Some(Self::DecimalComma),
            _ => None,
        }
    }
}

/// The number in a text without blanks around it, with a decimal comma. A point is not a part of
/// it: it may separate thousands.
pub(crate) fn parse_with_comma<N: Number>(text: &[u8]) -> Option<N> {
    if text.contains(&b'.') {
        return None;
    }
    let comma_to_point = |byte: &u8| if *byte == b',' { b'.' } else { *byte };
    let text: Vec<u8> = text.iter().map(comma_to_point).collect();
    N::parse(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_are_named() {
        let (thousands, comma) = (Some(Written::Thousands), Some(Written::DecimalComma));
        for (text, expected) in [
            ("1,234", thousands),
            ("-1,234,567.5", thousands),
            ("1 234 567", thousands),
            ("12'345", thousands),
            ("1,5", comma),
            ("-0,25", comma),
            (",5", comma),
            ("1.234,5", comma),
            ("a,b", None),
            ("1,", None),
            ("1234", None),
            ("2024-01", None),
        ] {
            assert_eq!(Written::of(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_comma_is_the_point_and_a_point_is_none() {
        assert_eq!(parse_with_comma::<f64>(b"-1,5"), Some(-1.5));
        assert_eq!(parse_with_comma::<f64>(b"7"), Some(7.0));
        assert_eq!(parse_with_comma::<f64>(b"nan").map(f64::is_nan), Some(true));
        for text in [&b"1.5"[..], b"1.234,5", b"1,2,3", b"", b","] {
            assert_eq!(parse_with_comma::<f64>(text), None);
        }
        assert_eq!(parse_with_comma::<i64>(b"1,5"), None);
    }
}
