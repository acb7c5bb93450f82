//! Hints for values that do not have the type of their column: the option that reads them.

use pipemill_parsing::numbers::{Number, trimmed};
use pipemill_plugin::Scalar;

use crate::emit::RowContext;
use crate::guess::is_null_word;
use crate::layout::Layout;

/// The hint for the value of a column whose type is `expected`. Empty if no option reads it.
#[cold]
pub(crate) fn of_value(
    context: &RowContext,
    layout: &Layout,
    column: usize,
    expected: &str,
    text: &[u8],
) -> String {
    let text = trimmed(text);
    if expected == Scalar::Utf8.word() {
        return String::new();
    }
    if text.contains(&b'\r') {
        return "; if lines end at CR in this file, set lone_cr = true".to_owned();
    }
    if is_null_word(text) {
        return null(context, text);
    }
    let is_integer = expected.starts_with("int");
    let name = layout.name_in_types(column);
    let takes = |scalar: Scalar| match layout.types_are_learnt {
        true => format!("types = \"auto,{name}:{}\"", scalar.word()),
        false => format!("`types` with {name}:{}", scalar.word()),
    };
    if is_integer && is_fraction(text) {
        return format!("; {} takes fractions", takes(Scalar::Float64));
    }
    let (utf8, what) = (takes(Scalar::Utf8), separator(text));
    match (what, layout.types_are_learnt) {
        (Some(what), _) if context.is_dense => format!("; it has {what}: rewrite such numbers"),
        (Some(what), _) => format!("; it has {what}: rewrite such numbers, or take text by {utf8}"),
        (None, true) => format!("; the first rows have this type: {utf8} takes text"),
        (None, false) => String::new(),
    }
}

/// The hint for a word that stands for no value in many files.
fn null(context: &RowContext, text: &[u8]) -> String {
    let word = String::from_utf8_lossy(text);
    if context.is_dense && !context.empty_is_nan {
        return format!(
            "; if it means that there is none, set empty = \"nan\" and null = \"{word}\""
        );
    }
    let others = context.null.iter().map(|word| format!("{},", String::from_utf8_lossy(word)));
    let others: String = others.collect();
    format!("; if it means that there is none, set null = \"{others}{word}\"")
}

/// Whether a text is a number that is no integer.
fn is_fraction(text: &[u8]) -> bool {
    let is_integer = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'+' | b'-');
    !text.iter().all(is_integer) && f64::parse(text).is_some()
}

/// What a number has in it that no number of a type has: separators of thousands, or a comma in place
/// of the point.
fn separator(text: &[u8]) -> Option<&'static str> {
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
        return Some("a decimal comma");
    }
    let groups: Vec<_> = digits.split(|byte| byte == odd[0] || *byte == b'.').collect();
    let whole = groups.len() - usize::from(digits.contains(&b'.'));
    let are_thousands =
        groups[0].len() <= 3 && whole > 1 && groups[1..whole].iter().all(|group| group.len() == 3);
    match (are_thousands, odd[0], odd.len()) {
        (true, ..) => Some("separators of thousands"),
        (false, b',', 1) => Some("a decimal comma"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_are_named() {
        for (text, expected) in [
            ("1,234", Some("separators of thousands")),
            ("-1,234,567.5", Some("separators of thousands")),
            ("1 234 567", Some("separators of thousands")),
            ("12'345", Some("separators of thousands")),
            ("1,5", Some("a decimal comma")),
            ("-0,25", Some("a decimal comma")),
            (",5", Some("a decimal comma")),
            ("1.234,5", Some("a decimal comma")),
            ("a,b", None),
            ("1,", None),
            ("1234", None),
            ("2024-01", None),
        ] {
            assert_eq!(separator(text.as_bytes()), expected, "{text}");
        }
    }
}
