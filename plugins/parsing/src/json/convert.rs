//! Emits a JSON value as a field of a record: as a span of the chunk if its bytes need no change,
//! otherwise as newly made bytes.

use std::ops::Range;

use pipemill_plugin::{Field, Records, Scalar};

use super::arrays::MAX_DIMENSIONS;
use super::parser::{JsonValue, ValueKind};
use super::text::unescape;
use super::whole::{NotWhole, whole};
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
    /// For an array, the number of its elements; for an array of arrays, the sizes of all of them.
    /// 0 means any number.
    pub(super) shape: Vec<u32>,
    /// Whether null in an array of floats is NaN.
    pub(super) nan: bool,
    /// The node of the pointer tree for its value.
    node: usize,
    /// The values that are plain for it.
    plain: Plain,
}

/// The values of a field of which only the kind must be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plain {
    /// Strings without escapes.
    Text,
    /// Numbers.
    Number,
    /// No values.
    Other,
}

/// The reason why a text has no value for a field. Ranges are in the chunk.
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
    /// The array in this range, in an array of arrays, has another number of elements.
    Size {
        /// The inner array.
        range: Range<usize>,
        /// Its elements.
        found: usize,
        /// The number of elements that it should have.
        wanted: usize,
    },
    /// An element of the array is null.
    NullElement(Range<usize>),
}

impl JsonField {
    /// A field of this type, one of [`SCALARS`]. `node` is the node of its pointer.
    ///
    /// # Errors
    /// The error is a message for the operator, if the type is an array of bools, bytes or lists of
    /// text, or has too many dimensions.
    pub fn new(
        name: String,
        selector: String,
        field_type: &FieldType,
        optional: bool,
        node: usize,
    ) -> Result<Self, String> {
        let why = match (field_type.scalar, field_type.shape.len()) {
            (Scalar::Boolean, 1..) => "can't be an array of bool; arrays are of numbers".to_owned(),
            (Scalar::Bytes, 1..) => format!(
                "as bytes is the JSON text of the value, so it can't be a list; leave the brackets \
                 out, or take \"{selector}:utf8[]\""
            ),
            (Scalar::Utf8, 2..) => {
                format!("can't be lists in a list; lists of text are \"{selector}:utf8[]\"")
            }
            (_, dimensions @ MAX_DIMENSIONS..) if dimensions > MAX_DIMENSIONS => {
                format!("has {dimensions} sizes; there may be {MAX_DIMENSIONS}")
            }
            _ => {
                let (scalar, shape) = (field_type.scalar, field_type.shape.clone());
                let plain = match scalar {
                    _ if !shape.is_empty() => Plain::Other,
                    Scalar::Bytes | Scalar::Boolean => Plain::Other,
                    Scalar::Utf8 => Plain::Text,
                    _ => Plain::Number,
                };
                return Ok(Self {
                    name,
                    selector,
                    optional,
                    scalar,
                    shape,
                    nan: false,
                    node,
                    plain,
                });
            }
        };
        Err(format!("option `fields`: `{selector}` {why}"))
    }

    /// The same field. With `nan`, null in an array of floats is NaN.
    pub fn with_nan(self, nan: bool) -> Self {
        Self { nan, ..self }
    }

    pub(super) fn is_float(&self) -> bool {
        matches!(self.scalar, Scalar::Float32 | Scalar::Float64)
    }

    fn is_array(&self) -> bool {
        !self.shape.is_empty()
    }

    /// The node of the pointer tree for the value.
    #[inline]
    pub fn node(&self) -> usize {
        self.node
    }

    /// The field in the schema.
    pub fn field(&self) -> Field {
        let field = Field::new(&*self.name, self.scalar).shaped(&*self.shape);
        Field { nullable: self.optional, ..field }
    }

    /// Says what was expected of a value, and what was found. `texts` is the operator's word for
    /// the texts, such as "lines"; the first byte of the text is at `start` in the chunk.
    #[cold]
    pub fn describe(&self, error: &FieldError, chunk: &[u8], start: usize, texts: &str) -> String {
        let expected = display_type(self.scalar, &self.shape);
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
            FieldError::Size { range, found, wanted } => {
                format!("found an array of {found} at +{} where {wanted} belong", at(range))
            }
            FieldError::NullElement(range) => {
                let remedy = match self.is_float() {
                    true => "nan = true takes it as NaN",
                    false => "only an array of floats can have NaN for it, with nan = true",
                };
                format!("found null in the array at +{}; {remedy}", at(range))
            }
        };
        format!("expected {expected}, {why}")
    }

    /// Emits the value, or an absent field.
    ///
    /// # Errors
    /// The text has no value for the field. Either nothing was emitted, or a field that must be
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
        // These are most values: the tests cost less than a choice among all.
        if self.plain == Plain::Number
            && let ValueKind::Number { integer } = value.kind
        {
            return out.field_made(|payload| self.number(chunk, range, integer, payload));
        }
        if self.plain == Plain::Text && value.kind == (ValueKind::String { escaped: false }) {
            out.field(range.start + 1..range.end - 1);
            return Ok(());
        }
        match (self.scalar, value.kind) {
            (Scalar::Bytes, ValueKind::Null) if !self.optional => out.field(range),
            (_, ValueKind::Null) => return self.absent(FieldError::Null(range), out),
            (Scalar::Bytes, _) => out.field(range),
            (Scalar::Utf8, ValueKind::Array) if self.is_array() => {
                return out.field_made(|payload| self.strings(chunk, range, payload));
            }
            (Scalar::Utf8, _) if self.is_array() => return Err(FieldError::Type(range)),
            (Scalar::Utf8, ValueKind::String { .. }) => {
                let text = &chunk[range.start + 1..range.end - 1];
                out.field_made(|payload| unescape(text, payload));
            }
            (Scalar::Boolean, ValueKind::True) => out.field_bytes(&[1]),
            (Scalar::Boolean, ValueKind::False) => out.field_bytes(&[0]),
            (Scalar::Utf8 | Scalar::Boolean, _) => return Err(FieldError::Type(range)),
            (_, ValueKind::Array) if self.shape.len() == 1 => {
                return out.field_made(|payload| self.numbers(chunk, range, payload));
            }
            (_, ValueKind::Array) if self.is_array() => {
                return out.field_made(|payload| self.rows(chunk, range, payload));
            }
            _ => return Err(FieldError::Type(range)),
        }
        Ok(())
    }

    /// Emits an absent field if the field is optional, otherwise returns the error.
    fn absent(&self, error: FieldError, out: &mut Records) -> Result<(), FieldError> {
        if !self.optional {
            return Err(error);
        }
        out.absent();
        Ok(())
    }

    /// Appends the number in this range. `integer` says whether it is written as an integer.
    #[inline(always)]
    pub(super) fn number(
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
                    let value = f32::read(chunk, start, end)
                        .filter(|value| value.is_finite() || is_word(&chunk[start..end]));
                    value.map(|value| to.extend_from_slice(&value.to_le_bytes()))
                }
                Scalar::Float64 => {
                    let value = f64::read(chunk, start, end)
                        .filter(|value| value.is_finite() || is_word(&chunk[start..end]));
                    value.map(|value| to.extend_from_slice(&value.to_le_bytes()))
                }
                _ if !integer => return self.whole_number(chunk, range, to),
                Scalar::Int32 => i32::read(chunk, start, end)
                    .map(|value| to.extend_from_slice(&value.to_le_bytes())),
                _ => i64::read(chunk, start, end)
                    .map(|value| to.extend_from_slice(&value.to_le_bytes())),
            };
        fits.ok_or(FieldError::OutOfRange(range))
    }

    /// Appends the integer in this range, which is written with a fraction or an exponent.
    #[cold]
    fn whole_number(
        &self,
        chunk: &[u8],
        range: Range<usize>,
        to: &mut Vec<u8>,
    ) -> Result<(), FieldError> {
        let value = match whole(&chunk[range.clone()]) {
            _ if is_word(&chunk[range.clone()]) => return Err(FieldError::Type(range)),
            Err(NotWhole::Fraction) => return Err(FieldError::Type(range)),
            Err(NotWhole::OutOfRange) => return Err(FieldError::OutOfRange(range)),
            Ok(value) => value,
        };
        match (self.scalar, i32::try_from(value)) {
            (Scalar::Int32, Ok(value)) => to.extend_from_slice(&value.to_le_bytes()),
            (Scalar::Int32, Err(_)) => return Err(FieldError::OutOfRange(range)),
            _ => to.extend_from_slice(&value.to_le_bytes()),
        }
        Ok(())
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

    pub(super) fn check_count(&self, count: usize) -> Result<(), FieldError> {
        match self.shape[..] {
            [wanted] if wanted != 0 && wanted as usize != count => Err(FieldError::Count(count)),
            _ => Ok(()),
        }
    }
}

/// Whether a number that the parser accepted is one of Python's words, `NaN`, `Infinity` or
/// `-Infinity`.
#[cold]
fn is_word(number: &[u8]) -> bool {
    matches!(number, [b'N' | b'I', ..] | [b'-', b'I', ..])
}

/// The elements of an array of strings, which is valid JSON: the bytes between the quotes of each.
#[derive(Clone)]
struct Strings<'a> {
    chunk: &'a [u8],
    /// The start of the next element, or of the bytes before it.
    at: usize,
    /// The position of the closing bracket.
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
