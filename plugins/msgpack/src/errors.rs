//! The errors of a record and their messages. After a record that is not valid MessagePack, the
//! start of the next one is unknown.

use std::ops::Range;

use pipemill_plugin::DecodeError;

use crate::convert::{FieldError, WantedField};
use crate::format::{self, Container, Head, MAX_DEPTH, NEVER_USED, Number};

/// Number of bytes of a text that a message shows.
const MAX_SHOWN: usize = 24;

/// The byte at `at` of the record at `start` starts no value.
#[cold]
pub(crate) fn never_used(start: usize, at: u64) -> DecodeError {
    let message = format!(
        "expected a MessagePack value, found {NEVER_USED:#x} at +{at}; the object is not MessagePack, \
         or it is damaged here or before, and what follows can't be found"
    );
    DecodeError::fatal(start, message)
}

/// The value at `at` of the record at `start` is nested too deep.
#[cold]
pub(crate) fn too_deep(start: usize, at: u64) -> DecodeError {
    let message = format!(
        "expected no more than {MAX_DEPTH} arrays and maps inside of each other, found one more at \
         +{at}; the object is not MessagePack, or it is damaged here or before, and what follows can't \
         be found"
    );
    DecodeError::fatal(start, message)
}

/// With the value at `at`, the record at `start` has at least `size` bytes.
#[cold]
pub(crate) fn too_large(record: &[u8], start: usize, at: u64, size: u64, max: u64) -> DecodeError {
    let value = usize::try_from(at).ok().and_then(|at| record.get(at..)).unwrap_or_default();
    let message = format!(
        "with {} at +{at}, the record has at least {size} bytes: it is larger than max_record ({max} \
         bytes); raise max_record if records may be that large, else the object is not MessagePack, or \
         it is damaged here or before, and what follows can't be found",
        head_shown(value)
    );
    DecodeError::fatal(start, message)
}

/// The message for a record that is neither an array nor a map, and so has no fields.
#[cold]
pub(crate) fn no_fields(record: &[u8]) -> String {
    format!("expected a map or an array with the option `fields`, found {}", shown(record))
}

/// The message for a record that has no value for a wanted field. `start` is the start of the
/// record.
#[cold]
pub(crate) fn invalid_field(
    chunk: &[u8],
    start: usize,
    wanted: &WantedField,
    max_record: u64,
    error: &FieldError,
) -> String {
    let WantedField { name, selector, .. } = wanted;
    let expected = wanted.field_type.display();
    let at = |range: &Range<usize>| range.start - start;
    let found = |range: &Range<usize>| shown(&chunk[range.clone()]);
    let mark = "mark it with `?` if records may lack it";
    let why = match error {
        FieldError::Missing => format!("found no such value; {mark}"),
        FieldError::Nil(range) => format!("found nil at +{}; {mark}", at(range)),
        FieldError::Type(range) => format!("found {} at +{}", found(range), at(range)),
        FieldError::OutOfRange(range) => {
            format!("found {} at +{}, which is out of its range", found(range), at(range))
        }
        FieldError::NotUtf8(range, byte) => {
            format!("found a str at +{} that is not UTF-8 from its byte {byte} on", at(range))
        }
        FieldError::Count(count) => {
            let word = wanted.field_type.word();
            format!(
                "found {count} values; set fields to \"{selector}:{word}[]\" if they may be any number"
            )
        }
        FieldError::TooLarge(range, size) => format!(
            "found {} at +{}, which as a field has {size} bytes; the arrays of a record may have no more \
             than max_record ({max_record} bytes)",
            found(range),
            at(range)
        ),
    };
    format!("field `{name}` at {selector:?}: expected {expected}, {why}")
}

/// Describes the value at the start of `bytes` for a message; only its head must be there.
fn head_shown(bytes: &[u8]) -> String {
    let Some(first) = bytes.first() else { return "nothing".to_owned() };
    match format::head(bytes) {
        Head::Container(Container { values, is_map: true, .. }) => {
            format!("a map of {} entries", values / 2)
        }
        Head::Container(Container { values, .. }) => format!("an array of {values} values"),
        Head::NeverUsed | Head::Cut(_) => format!("{first:#x}"),
        Head::Leaf(size) => match (format::string_head(*first), format::ext_head(*first)) {
            (Some((head, true)), _) => format!("a str of {} bytes", size - head as u64),
            (Some((head, false)), _) => format!("a bin of {} bytes", size - head as u64),
            (_, Some(head)) => format!("an ext of {} bytes", size - head as u64),
            (None, None) => format!("a value of {size} bytes"),
        },
    }
}

/// Describes the value at the start of `bytes` for a message. All of it must be there, except for
/// values inside of it.
fn shown(bytes: &[u8]) -> String {
    let first = bytes.first().copied().unwrap_or_default();
    let number = match format::read_number(bytes) {
        Some((Number::Unsigned(value), _)) => Some(value.to_string()),
        Some((Number::Signed(value), _)) => Some(value.to_string()),
        Some((Number::Float32(value), _)) => Some(float_shown("float32", value.into())),
        Some((Number::Float64(value), _)) => Some(float_shown("float64", value)),
        None => None,
    };
    let text = || match format::string(first, 0..bytes.len()) {
        Some((data, true)) if data.len() <= MAX_SHOWN => {
            Some(format!("\"{}\"", bytes[data].escape_ascii()))
        }
        _ => None,
    };
    let ext = || {
        let (kind, data) = format::ext(bytes)?;
        Some(format!("an ext of type {kind} with {} bytes", data.len()))
    };
    let word = || match first {
        0xc0 => Some("nil".to_owned()),
        0xc2 => Some("false".to_owned()),
        0xc3 => Some("true".to_owned()),
        _ => None,
    };
    number.or_else(text).or_else(ext).or_else(word).unwrap_or_else(|| head_shown(bytes))
}

/// A float for a message: its type, and its size if it is large. Showing all digits would make the
/// plugin a sixth larger.
fn float_shown(word: &str, value: f64) -> String {
    let bits = value.to_bits();
    // The exponent of the nearest power of 2. The rounding may carry into it.
    let exponent = (((bits & (u64::MAX >> 1)) + (1 << 51)) >> 52) as i32 - 1023;
    let sign = if value < 0.0 { "-" } else { "" };
    match exponent {
        11..=1024 if value.is_finite() => format!("a {word} of about {sign}2^{exponent}"),
        _ => format!("a {word}"),
    }
}
