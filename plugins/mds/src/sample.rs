//! Reads a sample: the sizes of those values that have no common size, then the values of all
//! columns.

use std::ops::Range;

use pipemill_plugin::Records;

use crate::columns::{Column, Columns};
use crate::encoding::Form;

/// Bytes of a size.
const SIZE: usize = 4;

impl Columns {
    /// Adds the fields of the sample that lies here in the chunk. Returns how many bytes were made,
    /// which are no spans of the chunk. The error says what is wrong.
    pub(crate) fn emit(
        &self,
        chunk: &[u8],
        sample: Range<usize>,
        out: &mut Records,
    ) -> Result<usize, String> {
        let places = self.places(&chunk[sample.clone()])?;
        let mut made = 0;
        for one in &self.emitted {
            let place = &places[one.column];
            let value = sample.start + place.start..sample.start + place.end;
            made += emit(one.form, chunk, value, out)
                .map_err(|why| format!("column `{}`: {why}", self.columns[one.column].name))?;
        }
        Ok(made)
    }

    /// Where the value of each column lies in a sample.
    fn places(&self, sample: &[u8]) -> Result<Vec<Range<usize>>, String> {
        let mut at = SIZE * self.sized;
        let Some(sizes) = sample.get(..at) else {
            let (sized, found) = (self.sized, sample.len());
            return Err(format!("expected the sizes of {sized} values, found {found} bytes"));
        };
        let mut sizes = sizes.as_chunks().0.iter().map(|size| u32::from_le_bytes(*size));
        let mut place = |column: &Column| {
            let size = column.size.or_else(|| sizes.next()).unwrap_or(0);
            let left = sample.len() - at;
            let value = at..at + (size as usize).min(left);
            at = value.end;
            match size as usize {
                size if size <= left => Ok(value),
                size => Err(format!(
                    "column `{}`: expected a value of at most {left} bytes, found the size {size}",
                    column.name
                )),
            }
        };
        let places = self.columns.iter().map(&mut place).collect::<Result<_, _>>()?;
        match sample.len() - at {
            0 => Ok(places),
            left => Err(format!("expected its end after the last value, found {left} bytes more")),
        }
    }
}

/// Adds the value that lies here in the chunk. Returns how many bytes were made for it.
fn emit(form: Form, chunk: &[u8], value: Range<usize>, out: &mut Records) -> Result<usize, String> {
    let bytes = &chunk[value.clone()];
    match form {
        Form::Bytes => out.field(value),
        Form::Text => match std::str::from_utf8(bytes) {
            Ok(_) => out.field(value),
            Err(error) => {
                let at = error.valid_up_to();
                return Err(format!("expected text, found bytes that are no UTF-8 at +{at}"));
            }
        },
        Form::Fixed(size) if bytes.len() == size => out.field(value),
        Form::Fixed(size) => {
            return Err(format!("expected {size} bytes, found {}", bytes.len()));
        }
        Form::Array { item } => {
            let (_, head) = shape(bytes, item)?;
            out.field(value.start + head..value.end);
        }
        Form::Shape { item } => {
            let (shape, _) = shape(bytes, item)?;
            out.u64s(&shape);
            return Ok(8 * shape.len());
        }
        Form::List { skip } => {
            out.list(elements(bytes, skip)?);
            return Ok(bytes.len());
        }
    }
    Ok(0)
}

/// The shape of an array, and the number of bytes before its elements: a byte with the number of
/// dimensions and the width of their sizes, then the sizes.
fn shape(bytes: &[u8], item: usize) -> Result<(Vec<u64>, usize), String> {
    let first = *bytes.first().ok_or("expected a shape, found no bytes")?;
    let (dimensions, width) = (usize::from(first >> 2), 1 << (first & 3));
    let head = 1 + dimensions * width;
    let Some(sizes) = bytes.get(1..head) else {
        let found = bytes.len();
        return Err(format!("expected a shape of {head} bytes, found {found}"));
    };
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
    let shape: Vec<_> = sizes.chunks_exact(width).map(number).collect();
    let elements = shape.iter().try_fold(item as u64, |all, size| all.checked_mul(*size));
    let found = (bytes.len() - head) as u64;
    match elements {
        Some(expected) if expected == found => Ok((shape, head)),
        _ => Err(format!("expected the elements of the shape {shape:?}, found {found} bytes")),
    }
}

/// The elements of a list.
fn elements(bytes: &[u8], skip: usize) -> Result<Vec<&[u8]>, String> {
    let number = |at: usize| {
        let bytes = bytes.get(at..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes) as usize)
    };
    let count = number(skip).ok_or("expected the length of a list, found the end")?;
    let sizes = skip + SIZE;
    let most = (bytes.len() - sizes) / SIZE;
    if count > most {
        return Err(format!("expected a list of at most {most} elements, found {count}"));
    }
    let mut at = sizes + SIZE * count;
    let mut elements = Vec::with_capacity(count);
    for number_of in 0..count {
        let size = number(sizes + SIZE * number_of).unwrap_or(0);
        let left = bytes.len() - at;
        if size > left {
            return Err(format!(
                "element {number_of}: expected at most {left} bytes, found the size {size}"
            ));
        }
        elements.push(&bytes[at..at + size]);
        at += size;
    }
    match bytes.len() - at {
        0 => Ok(elements),
        left => Err(format!("expected its end after the last element, found {left} bytes more")),
    }
}
