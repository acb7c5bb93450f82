//! Emits a value of MessagePack as a field of a record: as a span of the chunk if its bytes need no
//! change, otherwise as newly made bytes.

use std::cell::Cell;
use std::ops::Range;

use pipemill_parsing::field_spec::{FieldType, element_size};
use pipemill_plugin::{Field, Records, Scalar};

use crate::format::{self, NIL, Number, SIZES};
use crate::numbers::{Misfit, NumberType};
use crate::timestamp::timestamp;
use crate::{runs, text};

/// A field that the operator wants.
#[derive(Debug)]
pub(crate) struct WantedField {
    pub(crate) name: String,
    /// The key or the pointer to its value, as the operator wrote it.
    pub(crate) selector: String,
    pub(crate) field_type: FieldType,
    /// For an array, the number of its elements; 0 means any number.
    pub(crate) array: Option<u32>,
    /// Whether a record may lack the value.
    pub(crate) optional: bool,
    /// The node of the pointer tree for its value.
    pub(crate) node: usize,
    kind: Kind,
    /// The node of the value itself, if it is not an array.
    usual: Option<Kind>,
}

/// The target of the conversion of a value, or of an element of an array.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Bytes,
    Utf8,
    Boolean,
    Number(NumberType),
    Timestamp,
}

/// Number of an array's numbers that are converted one by one before blocks are tried again.
const SINGLES: usize = 8;

/// A value to emit.
struct Value<'a> {
    chunk: &'a [u8],
    /// Its position in the chunk.
    range: Range<usize>,
    wanted: &'a WantedField,
    /// Number of bytes that the record's arrays may still take as fields.
    room: &'a Cell<u64>,
}

/// The reason why a record has no value for a field. Ranges are in the chunk.
#[derive(Debug)]
pub(crate) enum FieldError {
    /// The record lacks the value.
    Missing,
    /// The value is nil.
    Nil(Range<usize>),
    /// The value in this range has another type.
    Type(Range<usize>),
    /// The number or timestamp in this range does not fit into the type.
    OutOfRange(Range<usize>),
    /// The str in this range is not UTF-8 from this byte of its text on.
    NotUtf8(Range<usize>, usize),
    /// The array has this number of elements, not the wanted one.
    Count(u64),
    /// The array in this range would take this many bytes as a field, which are too many.
    TooLarge(Range<usize>, u64),
}

impl WantedField {
    pub(crate) fn new(
        name: String,
        selector: String,
        field_type: FieldType,
        array: Option<u32>,
        optional: bool,
    ) -> Self {
        let kind = match (field_type.logical, field_type.scalar) {
            (Some(_), _) => Kind::Timestamp,
            (None, Scalar::Utf8) => Kind::Utf8,
            (None, Scalar::Boolean) => Kind::Boolean,
            (None, scalar) => NumberType::new(scalar).map_or(Kind::Bytes, Kind::Number),
        };
        let usual = array.is_none().then_some(kind);
        Self { name, selector, field_type, array, optional, node: 0, kind, usual }
    }

    pub(crate) fn field(&self) -> Field {
        let logical = self.field_type.logical.map_or("", |word| word.logical);
        let field = Field::new(&*self.name, self.field_type.scalar);
        let field = field.shaped(Vec::from_iter(self.array)).logical(logical);
        Field { nullable: self.optional, ..field }
    }

    /// Number of bytes of the field that are made for each record, apart from arrays.
    pub(crate) fn made_bytes(&self) -> u64 {
        match self.array {
            None => element_size(self.field_type.scalar).unwrap_or(0) as u64,
            Some(_) => 0,
        }
    }

    /// Emits the value in this range of the chunk, or an absent field. `room` is the number of
    /// bytes that the arrays of the record may still take as fields.
    #[inline(always)]
    pub(crate) fn emit(
        &self,
        chunk: &[u8],
        range: Option<Range<usize>>,
        room: &Cell<u64>,
        out: &mut Records,
    ) -> Result<(), FieldError> {
        match &range {
            Some(range) if self.emit_usual(chunk, range.clone(), out) => return Ok(()),
            None if self.optional => out.absent(),
            _ => return self.emit_any(chunk, range, room, out),
        }
        Ok(())
    }

    /// Emits the value if it is a usual one, without a call, which is twice as fast. Otherwise it
    /// returns false.
    #[inline(always)]
    fn emit_usual(&self, chunk: &[u8], range: Range<usize>, out: &mut Records) -> bool {
        let Some(usual) = self.usual else { return false };
        let first = chunk[range.start];
        match usual {
            Kind::Bytes => {
                let Some((data, _)) = format::string(first, range) else { return false };
                out.field(data);
            }
            Kind::Utf8 => match format::string(first, range) {
                Some((data, true)) if text::is_ascii(chunk, data.clone()) => out.field(data),
                _ => return false,
            },
            Kind::Number(NumberType::Integer { width, low, high }) => {
                let Some(bits) = format::read_integer(chunk, range.start, low, high) else {
                    return false;
                };
                emit_bits(bits, width, out);
            }
            Kind::Number(NumberType::Float32) => match format::read_number(&chunk[range]) {
                Some((Number::Float32(value), _)) => out.f32(value),
                Some((Number::Float64(value), _)) if (value as f32).is_finite() => {
                    out.f32(value as f32);
                }
                _ => return false,
            },
            Kind::Number(NumberType::Float64) => match format::read_number(&chunk[range]) {
                Some((Number::Float64(value), _)) => out.f64(value),
                _ => return false,
            },
            Kind::Boolean | Kind::Number(_) | Kind::Timestamp => return false,
        }
        true
    }

    /// Like [`emit`](Self::emit), for all values.
    #[inline(never)]
    fn emit_any(
        &self,
        chunk: &[u8],
        range: Option<Range<usize>>,
        room: &Cell<u64>,
        out: &mut Records,
    ) -> Result<(), FieldError> {
        match range {
            Some(range) if chunk[range.start] != NIL => {
                Value { chunk, range, wanted: self, room }.emit(out)
            }
            Some(range) => self.absent(FieldError::Nil(range), out),
            None => self.absent(FieldError::Missing, out),
        }
    }

    /// Emits an absent field if the field is optional, otherwise returns the error.
    fn absent(&self, error: FieldError, out: &mut Records) -> Result<(), FieldError> {
        if !self.optional {
            return Err(error);
        }
        out.absent();
        Ok(())
    }
}

impl Value<'_> {
    /// Emits the value, which is not nil.
    fn emit(&self, out: &mut Records) -> Result<(), FieldError> {
        match (self.wanted.kind, self.wanted.array) {
            (Kind::Bytes | Kind::Utf8, Some(_)) => emit_list(self, out),
            (Kind::Number(number_type), Some(_)) => emit_numbers(self, number_type, out),
            (Kind::Timestamp, Some(_)) => emit_timestamps(self, out),
            (Kind::Bytes, _) => emit_bytes(self, out),
            (Kind::Utf8, _) => emit_text(self, out),
            (Kind::Boolean, _) => emit_boolean(self, out),
            (Kind::Number(number_type), None) => emit_number(self, number_type, out),
            (Kind::Timestamp, None) => emit_timestamp(self, out),
        }
    }

    /// The error of a value of another type.
    #[cold]
    fn other_type(&self) -> FieldError {
        FieldError::Type(self.range.clone())
    }

    /// The data of a str or bin, and whether it is a str.
    #[inline(always)]
    fn string(&self) -> Result<(Range<usize>, bool), FieldError> {
        let first = self.chunk[self.range.start];
        format::string(first, self.range.clone()).ok_or_else(|| self.other_type())
    }

    /// The bits of the number at `at`, and its size in the chunk.
    #[inline(always)]
    fn number(&self, at: usize, number_type: NumberType) -> Result<(u64, usize), FieldError> {
        if let NumberType::Integer { low, high, .. } = number_type
            && let Some(bits) = format::read_integer(self.chunk, at, low, high)
        {
            return Ok((bits, SIZES[usize::from(self.chunk[at])].into()));
        }
        let number = format::read_number(&self.chunk[at..]);
        let (number, size) = number.ok_or_else(|| FieldError::Type(at..self.end_of_element(at)))?;
        let bits = number_type.convert(number);
        Ok((bits.map_err(|misfit| self.misfit(at..at + size, misfit))?, size))
    }

    #[cold]
    fn misfit(&self, range: Range<usize>, misfit: Misfit) -> FieldError {
        match misfit {
            Misfit::Type => FieldError::Type(range),
            Misfit::OutOfRange => FieldError::OutOfRange(range),
        }
    }

    /// The data of `count` elements from `at` on, which are str or bin.
    fn strings(&self, mut at: usize, count: u64) -> impl Iterator<Item = &[u8]> {
        (0..count).filter_map(move |_| {
            let element = at..self.end_of_element(at);
            at = element.end;
            let (data, _) = format::string(self.chunk[element.start], element)?;
            Some(&self.chunk[data])
        })
    }

    /// The position of the array's first element, and the number of elements, which must be the
    /// wanted number.
    fn array(&self) -> Result<(usize, u64), FieldError> {
        let array = format::array_head(&self.chunk[self.range.clone()]);
        let array = array.ok_or_else(|| self.other_type())?;
        match self.wanted.array {
            Some(wanted) if wanted != 0 && u64::from(wanted) != array.values => {
                Err(FieldError::Count(array.values))
            }
            _ => Ok((self.range.start + array.head, array.values)),
        }
    }

    /// Reserves room for an array that takes this many bytes as a field.
    fn take_room(&self, size: u64) -> Result<(), FieldError> {
        // Offsets of lists have 32 bits.
        let left = self.room.get().checked_sub(size).filter(|_| size <= u32::MAX.into());
        self.room.set(left.ok_or_else(|| FieldError::TooLarge(self.range.clone(), size))?);
        Ok(())
    }

    /// The end of the element at `at`. For an array or a map, that is the end of its head, which is
    /// all that messages need.
    fn end_of_element(&self, at: usize) -> usize {
        match format::head(&self.chunk[at..self.range.end]) {
            format::Head::Leaf(size) => at + size as usize,
            format::Head::Container(container) => at + container.head,
            format::Head::NeverUsed | format::Head::Cut(_) => self.range.end,
        }
    }
}

fn emit_bytes(value: &Value, out: &mut Records) -> Result<(), FieldError> {
    let (data, _) = value.string()?;
    out.field(data);
    Ok(())
}

fn emit_text(value: &Value, out: &mut Records) -> Result<(), FieldError> {
    let (data, is_str) = value.string()?;
    if !is_str {
        return Err(value.other_type());
    }
    text::check(&value.chunk[data.clone()])
        .map_err(|at| FieldError::NotUtf8(value.range.clone(), at))?;
    out.field(data);
    Ok(())
}

fn emit_boolean(value: &Value, out: &mut Records) -> Result<(), FieldError> {
    match value.chunk[value.range.start] {
        0xc2 => out.bool(false),
        0xc3 => out.bool(true),
        _ => return Err(value.other_type()),
    }
    Ok(())
}

fn emit_number(
    value: &Value,
    number_type: NumberType,
    out: &mut Records,
) -> Result<(), FieldError> {
    let (bits, _) = value.number(value.range.start, number_type)?;
    emit_bits(bits, number_type.width(), out);
    Ok(())
}

/// Emits a number of `width` bytes.
#[inline(always)]
fn emit_bits(bits: u64, width: usize, out: &mut Records) {
    out.field_made(|payload| {
        payload.extend_from_slice(&bits.to_le_bytes());
        payload.truncate(payload.len() - 8 + width);
    });
}

fn emit_timestamp(value: &Value, out: &mut Records) -> Result<(), FieldError> {
    let time = timestamp(&value.chunk[value.range.clone()]);
    out.i64(time.map_err(|misfit| value.misfit(value.range.clone(), misfit))?);
    Ok(())
}

fn emit_numbers(
    value: &Value,
    number_type: NumberType,
    out: &mut Records,
) -> Result<(), FieldError> {
    let (mut at, count) = value.array()?;
    let width = number_type.width();
    value.take_room(count * width as u64)?;
    out.field_made(|payload| {
        let start = payload.len();
        payload.resize(start + count as usize * width, 0);
        let mut places = &mut payload[start..];
        while !places.is_empty() {
            let (done, next) = runs::convert(number_type, value.chunk, at, places);
            (at, places) = (next, &mut places[done * width..]);
            if done == 0 {
                let (singles, rest) = places.split_at_mut(places.len().min(SINGLES * width));
                for place in singles.chunks_exact_mut(width) {
                    let (bits, size) = value.number(at, number_type)?;
                    place.copy_from_slice(&bits.to_le_bytes()[..width]);
                    at += size;
                }
                places = rest;
            }
        }
        Ok(())
    })
}

fn emit_timestamps(value: &Value, out: &mut Records) -> Result<(), FieldError> {
    let (mut at, count) = value.array()?;
    value.take_room(count * 8)?;
    out.field_made(|payload| {
        for _ in 0..count {
            let element = at..value.end_of_element(at);
            at = element.end;
            let time = timestamp(&value.chunk[element.clone()]);
            let time = time.map_err(|misfit| value.misfit(element, misfit))?;
            payload.extend_from_slice(&time.to_le_bytes());
        }
        Ok(())
    })
}

/// A list of text or bytes: a table of offsets, then the elements.
fn emit_list(value: &Value, out: &mut Records) -> Result<(), FieldError> {
    let (first, count) = value.array()?;
    let is_text = value.wanted.field_type.scalar == Scalar::Utf8;
    let (mut at, mut size) = (first, 4 * (count + 1));
    for _ in 0..count {
        let element = at..value.end_of_element(at);
        at = element.end;
        let string = format::string(value.chunk[element.start], element.clone());
        let Some((data, _)) = string.filter(|(_, is_str)| *is_str || !is_text) else {
            return Err(FieldError::Type(element));
        };
        size += data.len() as u64;
        if is_text {
            text::check(&value.chunk[data]).map_err(|at| FieldError::NotUtf8(element, at))?;
        }
    }
    value.take_room(size)?;
    out.field_made(|payload| {
        let mut offset = 4 * (count as u32 + 1);
        payload.extend_from_slice(&offset.to_le_bytes());
        for data in value.strings(first, count) {
            offset += data.len() as u32;
            payload.extend_from_slice(&offset.to_le_bytes());
        }
        value.strings(first, count).for_each(|data| payload.extend_from_slice(data));
    });
    Ok(())
}
