//! From a value in the text to a field of a record: spans where the bytes can stay as they are, made
//! bytes where they can't.

use std::ops::Range;

use pipemill_parsing::numbers::Number;
use pipemill_plugin::{Field, Records, Scalar};

use crate::text::unescape;
use crate::walk::{Kind, Value};

/// A field that is wanted.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) pointer: String,
    pub(crate) scalar: Scalar,
    /// Whether it is an array, and of how many numbers; 0 is for any.
    pub(crate) array: Option<u32>,
    pub(crate) optional: bool,
    /// The node of the tree where its value is.
    pub(crate) node: usize,
}

/// Why a value can't be the field.
#[derive(Debug)]
pub(crate) enum Wrong {
    /// There is none.
    Missing,
    /// It is null.
    Null(Range<usize>),
    /// It is something else.
    Type(Range<usize>),
    /// It is a number, and too large.
    Range(Range<usize>),
    /// It is an array with so many numbers.
    Count(usize),
}

impl Wanted {
    pub(crate) fn field(&self) -> Field {
        Field::new(&*self.name, self.scalar).shaped(Vec::from_iter(self.array))
    }

    /// Emits the field of a value.
    #[inline]
    pub(crate) fn emit(
        &self,
        chunk: &[u8],
        value: Option<Value>,
        out: &mut Records,
    ) -> Result<(), Wrong> {
        let Some(value) = value else { return self.absent(Wrong::Missing, out) };
        let range = value.range();
        match (self.scalar, value.kind) {
            (Scalar::Bytes, Kind::Null) if !self.optional => out.field(range),
            (_, Kind::Null) => return self.absent(Wrong::Null(range), out),
            (Scalar::Bytes, _) => out.field(range),
            (Scalar::Utf8, Kind::String { escaped: false }) => {
                out.field(range.start + 1..range.end - 1);
            }
            (Scalar::Utf8, Kind::String { escaped: true }) => {
                let text = &chunk[range.start + 1..range.end - 1];
                out.field_made(|payload| unescape(text, payload));
            }
            (Scalar::Boolean, Kind::True) => out.field_bytes(&[1]),
            (Scalar::Boolean, Kind::False) => out.field_bytes(&[0]),
            (Scalar::Utf8 | Scalar::Boolean, _) => return Err(Wrong::Type(range)),
            (_, Kind::Number { integer }) if self.array.is_none() => {
                return out.field_made(|payload| self.number(chunk, range, integer, payload));
            }
            (_, Kind::Array) if self.array.is_some() => {
                return out.field_made(|payload| self.numbers(chunk, range, payload));
            }
            _ => return Err(Wrong::Type(range)),
        }
        Ok(())
    }

    fn absent(&self, wrong: Wrong, out: &mut Records) -> Result<(), Wrong> {
        if !self.optional {
            return Err(wrong);
        }
        out.absent();
        Ok(())
    }

    /// Appends the number that stands there.
    #[inline(always)]
    fn number(
        &self,
        chunk: &[u8],
        range: Range<usize>,
        integer: bool,
        to: &mut Vec<u8>,
    ) -> Result<(), Wrong> {
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
                _ if !integer => return Err(Wrong::Type(range)),
                Scalar::Int32 => i32::read(chunk, start, end)
                    .map(|value| to.extend_from_slice(&value.to_le_bytes())),
                _ => i64::read(chunk, start, end)
                    .map(|value| to.extend_from_slice(&value.to_le_bytes())),
            };
        fits.ok_or(Wrong::Range(range))
    }

    /// Appends the numbers of the array that stands there, which is known to be sound.
    fn numbers(&self, chunk: &[u8], array: Range<usize>, to: &mut Vec<u8>) -> Result<(), Wrong> {
        let (mut at, mut count) = (array.start + 1, 0);
        // The bracket that closes it is no number.
        while at + 1 < array.end {
            if matches!(chunk[at], b' ' | b'\t' | b'\r' | b',') {
                at += 1;
                continue;
            }
            let (end, integer) = number_end(chunk, at);
            if end == at {
                return Err(Wrong::Type(at..array.end - 1));
            }
            self.number(chunk, at..end, integer, to)?;
            count += 1;
            at = end;
        }
        match self.array {
            Some(wanted) if wanted != 0 && wanted as usize != count => Err(Wrong::Count(count)),
            _ => Ok(()),
        }
    }
}

/// Where the number that starts at `at` ends, and whether it is an integer. No number starts there if
/// it ends there.
#[inline(always)]
fn number_end(chunk: &[u8], at: usize) -> (usize, bool) {
    let (mut end, mut integer) = (at, true);
    loop {
        match chunk[end] {
            b'0'..=b'9' | b'-' | b'+' => {}
            // Only behind a digit: a word has an `e`, too.
            b'.' | b'e' | b'E' if end > at => integer = false,
            _ => return (end, integer),
        }
        end += 1;
    }
}
