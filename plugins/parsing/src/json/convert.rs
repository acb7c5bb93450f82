//! Emits a JSON value as a field of a record: as a span of the chunk if its bytes need no change,
//! else as bytes that are made.

use std::ops::Range;

use pipemill_plugin::{Field, Records, Scalar};

use super::parser::{JsonValue, ValueKind};
use super::text::unescape;
use crate::field_spec::{FieldType, display_type, type_name};
use crate::numbers::Number;
use crate::shown;

/// The types that a field can have.
pub const SCALARS: &[Scalar] = &[
    Scalar::Bytes,
    Scalar::Utf8,
    Scalar::Boolean,
    Scalar::Int32,
    Scalar::Int64,
    Scalar::Float32,
    Scalar::Float64,
];

/// A field that the operator wants.
#[derive(Debug)]
pub struct JsonField {
    /// Name of the field.
    pub name: String,
    /// How the operator selects its value.
    pub selector: String,
    /// Whether a text may lack the value.
    pub optional: bool,
    /// Type of an element.
    scalar: Scalar,
    /// For an array, the number of its elements; 0 means any number.
    array: Option<u32>,
    /// The node of the pointer tree for its value.
    node: usize,
}

/// Why a text has no value for a field. Ranges are in the chunk.
#[derive(Debug)]
pub enum FieldError {
    /// The text lacks the value.
    Missing,
    /// The value is null.
    Null(Range<usize>),
    /// The value in this range has another type.
    Type(Range<usize>),
    /// The number in this range does not fit into the type.
    OutOfRange(Range<usize>),
    /// The array has this number of elements, not the wanted one.
    Count(usize),
}

impl JsonField {
    /// A field of this type, one of [`SCALARS`]. `node` is that of its pointer.
    ///
    /// # Errors
    /// A text for the operator, if the type is an array of several dimensions, or a list of bytes.
    pub fn new(
        name: String,
        selector: String,
        field_type: &FieldType,
        optional: bool,
        node: usize,
    ) -> Result<Self, String> {
        let array = match field_type.shape[..] {
            [] => None,
            [..] if field_type.scalar == Scalar::Boolean => {
                return Err(format!(
                    "option `fields`: `{selector}` can't be an array of bool; arrays are of numbers"
                ));
            }
            [size] => Some(size),
            _ => {
                return Err(format!(
                    "option `fields`: `{selector}` can't be an array in rows; arrays have one size, as \
                     in \"{selector}:float32[128]\", or any, as in \"{selector}:int64[]\""
                ));
            }
        };
        if array.is_some() && field_type.scalar == Scalar::Bytes {
            return Err(format!(
                "option `fields`: `{selector}` as bytes is the JSON text of the value, so it can't be a \
                 list; leave the brackets out, or take \"{selector}:utf8[]\""
            ));
        }
        Ok(Self { name, selector, optional, scalar: field_type.scalar, array, node })
    }

    /// The node of the pointer tree for the value.
    #[inline]
    pub fn node(&self) -> usize {
        self.node
    }

    /// The field in the schema.
    pub fn field(&self) -> Field {
        let field = Field::new(&*self.name, self.scalar).shaped(Vec::from_iter(self.array));
        Field { nullable: self.optional, ..field }
    }

    /// What was expected of a value, and what was found. `texts` is what the texts are to the
    /// operator, as "lines"; the first byte of the text is at `start` in the chunk.
    #[cold]
    pub fn describe(&self, error: &FieldError, chunk: &[u8], start: usize, texts: &str) -> String {
        let expected = display_type(self.scalar, self.array.as_slice());
        let at = |range: &Range<usize>| range.start - start;
        let found = |range: &Range<usize>| shown(&chunk[range.clone()], "nothing");
        let mark = format!("mark it with `?` if {texts} may lack it");
        let why = match error {
            FieldError::Missing => format!("found no such value; {mark}"),
            FieldError::Null(range) => format!("found null at +{}; {mark}", at(range)),
            FieldError::Type(range) => format!("found {} at +{}", found(range), at(range)),
            FieldError::OutOfRange(range) => {
                format!("found {} at +{}, which is out of its range", found(range), at(range))
            }
            FieldError::Count(count) => format!(
                "found {count} {}; set fields to \"{}:{}[]\" if they may be any number",
                if self.scalar == Scalar::Utf8 { "strings" } else { "numbers" },
                self.selector,
                type_name(self.scalar)
            ),
        };
        format!("expected {expected}, {why}")
    }

    /// Emits the value, or an absent field.
    ///
    /// # Errors
    /// The text has no value for the field. Then nothing is emitted, or a field that must be
    /// abandoned.
    #[inline]
    pub fn emit(
        &self,
        chunk: &[u8],
        value: Option<JsonValue>,
        out: &mut Records,
    ) -> Result<(), FieldError> {
        let Some(value) = value else { return self.absent(FieldError::Missing, out) };
        let range = value.range();
        match (self.scalar, value.kind) {
            (Scalar::Bytes, ValueKind::Null) if !self.optional => out.field(range),
            (_, ValueKind::Null) => return self.absent(FieldError::Null(range), out),
            (Scalar::Bytes, _) => out.field(range),
            (Scalar::Utf8, ValueKind::Array) if self.array.is_some() => {
                return out.field_made(|payload| self.strings(chunk, range, payload));
            }
            (Scalar::Utf8, _) if self.array.is_some() => return Err(FieldError::Type(range)),
            (Scalar::Utf8, ValueKind::String { escaped: false }) => {
                out.field(range.start + 1..range.end - 1);
            }
            (Scalar::Utf8, ValueKind::String { escaped: true }) => {
                let text = &chunk[range.start + 1..range.end - 1];
                out.field_made(|payload| unescape(text, payload));
            }
            (Scalar::Boolean, ValueKind::True) => out.field_bytes(&[1]),
            (Scalar::Boolean, ValueKind::False) => out.field_bytes(&[0]),
            (Scalar::Utf8 | Scalar::Boolean, _) => return Err(FieldError::Type(range)),
            (_, ValueKind::Number { integer }) if self.array.is_none() => {
                return out.field_made(|payload| self.number(chunk, range, integer, payload));
            }
            (_, ValueKind::Array) if self.array.is_some() => {
                return out.field_made(|payload| self.numbers(chunk, range, payload));
            }
            _ => return Err(FieldError::Type(range)),
        }
        Ok(())
    }

    /// Emits an absent field if the field is optional, else returns the error.
    fn absent(&self, error: FieldError, out: &mut Records) -> Result<(), FieldError> {
        if !self.optional {
            return Err(error);
        }
        out.absent();
        Ok(())
    }

    /// Appends the number in this range. `integer` says whether it is written as an integer.
    #[inline(always)]
    fn number(
        &self,
        chunk: &[u8],
        range: Range<usize>,
        integer: bool,
        to: &mut Vec<u8>,
    ) -> Result<(), FieldError> {
        let (start, end) = (range.start, range.end);
        let fits =
            match self.scalar {
                Scalar::Float32 => {
                    let value = f32::read(chunk, start, end).filter(|value| value.is_finite());
                    value.map(|value| to.extend_from_slice(&value.to_le_bytes()))
                }
                Scalar::Float64 => {
                    let value = f64::read(chunk, start, end).filter(|value| value.is_finite());
                    value.map(|value| to.extend_from_slice(&value.to_le_bytes()))
                }
                _ if !integer => return Err(FieldError::Type(range)),
                Scalar::Int32 => i32::read(chunk, start, end)
                    .map(|value| to.extend_from_slice(&value.to_le_bytes())),
                _ => i64::read(chunk, start, end)
                    .map(|value| to.extend_from_slice(&value.to_le_bytes())),
            };
        fits.ok_or(FieldError::OutOfRange(range))
    }

    /// Appends the numbers of the array in this range, which is valid JSON.
    fn numbers(
        &self,
        chunk: &[u8],
        array: Range<usize>,
        to: &mut Vec<u8>,
    ) -> Result<(), FieldError> {
        let (mut at, mut count) = (array.start + 1, 0);
        // The last byte is the closing bracket.
        while at + 1 < array.end {
            if matches!(chunk[at], b' ' | b'\t' | b'\r' | b'\n' | b',') {
                at += 1;
                continue;
            }
            let (end, integer) = number_end(chunk, at);
            if end == at {
                return Err(FieldError::Type(at..array.end - 1));
            }
            self.number(chunk, at..end, integer, to)?;
            count += 1;
            at = end;
        }
        self.check_count(count)
    }

    /// Appends the strings of the array in this range, which is valid JSON, as a list.
    fn strings(
        &self,
        chunk: &[u8],
        array: Range<usize>,
        to: &mut Vec<u8>,
    ) -> Result<(), FieldError> {
        let strings = Strings { chunk, at: array.start + 1, end: array.end - 1 };
        let mut count = 0;
        for string in strings.clone() {
            string?;
            count += 1;
        }
        self.check_count(count)?;
        let start = to.len();
        let mut entry = start;
        to.resize(start + 4 * (count + 1), 0);
        let mut put_end = |to: &mut Vec<u8>| {
            let end = (to.len() - start) as u32;
            to[entry..entry + 4].copy_from_slice(&end.to_le_bytes());
            entry += 4;
        };
        put_end(to);
        for string in strings {
            unescape(&chunk[string?], to);
            put_end(to);
        }
        Ok(())
    }

    fn check_count(&self, count: usize) -> Result<(), FieldError> {
        match self.array {
            Some(wanted) if wanted != 0 && wanted as usize != count => {
                Err(FieldError::Count(count))
            }
            _ => Ok(()),
        }
    }
}

/// The elements of an array of strings, which is valid JSON: the bytes between the quotes of each.
#[derive(Clone)]
struct Strings<'a> {
    chunk: &'a [u8],
    /// Where the next element begins, or what is before it.
    at: usize,
    /// Where the closing bracket is.
    end: usize,
}

impl Iterator for Strings<'_> {
    type Item = Result<Range<usize>, FieldError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = &self.chunk[self.at..self.end];
        let blank = |byte: &u8| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b',');
        let start = self.at + rest.iter().position(blank)?;
        if self.chunk[start] != b'"' {
            self.at = self.end;
            return Some(Err(FieldError::Type(start..self.end)));
        }
        let mut end = start + 1;
        while self.chunk[end] != b'"' {
            end += if self.chunk[end] == b'\\' { 2 } else { 1 };
        }
        self.at = end + 1;
        Some(Ok(start + 1..end))
    }
}

/// Where the number at `at` ends, and whether it is written as an integer. If the end is `at`,
/// there is no number.
#[inline(always)]
fn number_end(chunk: &[u8], at: usize) -> (usize, bool) {
    let (mut end, mut integer) = (at, true);
    loop {
        match chunk[end] {
            b'0'..=b'9' | b'-' | b'+' => {}
            // Only after a digit, because words have an `e`, too.
            b'.' | b'e' | b'E' if end > at => integer = false,
            _ => return (end, integer),
        }
        end += 1;
    }
}
