//! Hints for values that do not have the type of their column: the option that reads them.

use pipemill_parsing::numbers::{Number, trimmed};
use pipemill_plugin::Scalar;

use crate::guess::is_null_word;
use crate::layout::Layout;
use crate::row_context::RowContext;
use crate::written_numbers::Written;

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
    let (utf8, written) = (takes(Scalar::Utf8), Written::of(text));
    let written = written.filter(|_| !context.chunk.dialect.decimal_comma);
    match (written, layout.types_are_learnt) {
        (Some(Written::DecimalComma), _) => {
            "; it has a decimal comma: set decimal = \",\" if all numbers have".to_owned()
        }
        (Some(written), _) if context.is_dense => {
            format!("; it has {}: rewrite such numbers", written.text())
        }
        (Some(written), _) => {
            format!("; it has {}: rewrite such numbers, or take text by {utf8}", written.text())
        }
        (None, true) => format!("; the first rows have this type: {utf8} takes text"),
        (None, false) => String::new(),
    }
}

/// The hint for a word that many files use for an absent value.
fn null(context: &RowContext, text: &[u8]) -> String {
    let word = String::from_utf8_lossy(text);
    if context.is_dense && !context.empty_is_nan {
        return format!(
            "; if it means that there is none, set empty = \"nan\" and null = \"{word}\""
        );
    }
    format!("; if it means that there is none, set {}", null_with(context.null, text))
}

/// The option `null` with one more word.
pub(crate) fn null_with(others: &[Vec<u8>], word: &[u8]) -> String {
    let others = others.iter().map(|word| format!("{},", String::from_utf8_lossy(word)));
    let others: String = others.collect();
    format!("null = \"{others}{}\"", String::from_utf8_lossy(word))
}

/// Whether a text is a number that is not an integer.
fn is_fraction(text: &[u8]) -> bool {
    let is_integer = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'+' | b'-');
    !text.iter().all(is_integer) && f64::parse(text).is_some()
}
