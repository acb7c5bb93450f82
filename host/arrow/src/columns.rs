//! Lays the values of a column out as Arrow's buffers.

use std::ops::Range;

use pipemill_types::{ABSENT, Column, Scalar, list_elements, list_problem};
use polars_arrow_format::ipc;

use crate::types::{Element, Layout};

/// Buffers begin at multiples of this many bytes, as Arrow's specification recommends.
const ALIGNMENT: usize = 64;

/// The buffers of a record batch in their order, and their description in the batch's message.
#[derive(Default)]
pub struct Body {
    pub bytes: Vec<u8>,
    pub nodes: Vec<ipc::FieldNode>,
    pub buffers: Vec<ipc::Buffer>,
}

impl Body {
    /// Empties the buffers and keeps their memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.nodes.clear();
        self.buffers.clear();
    }

    fn node(&mut self, length: usize, nulls: usize) {
        self.nodes.push(ipc::FieldNode { length: length as i64, null_count: nulls as i64 });
    }

    /// Appends one buffer.
    fn buffer(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let offset = self.bytes.len();
        write(&mut self.bytes);
        let length = self.bytes.len() - offset;
        self.buffers.push(ipc::Buffer { offset: offset as i64, length: length as i64 });
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
    }

    /// Describes `length` values, with a bitmap of those that are present: a bit of 1 is a value.
    fn validity(&mut self, values: &Values<'_>) {
        let length = values.records.len();
        if values.column.even().is_some() {
            return self.all_valid(length);
        }
        let offsets = &values.column.offsets()[values.records.clone()];
        let nulls = offsets.iter().filter(|offset| **offset == ABSENT).count();
        self.node(length, nulls);
        self.buffer(|out| {
            if nulls > 0 {
                push_bits(out, offsets.iter().map(|offset| *offset != ABSENT));
            }
        });
    }

    /// Describes `length` values, all of them present.
    fn all_valid(&mut self, length: usize) {
        self.node(length, 0);
        self.buffer(|_| {});
    }

    /// Appends offsets: 0, then the running sum of `lengths`.
    fn offsets(&mut self, lengths: impl Iterator<Item = usize>) {
        self.buffer(|out| {
            out.extend_from_slice(&0i32.to_le_bytes());
            let mut end = 0;
            for length in lengths {
                end += length;
                // `StreamWriter` has checked that the sum fits.
                out.extend_from_slice(&(end as i32).to_le_bytes());
            }
        });
    }
}

/// The values of one column for some records.
#[derive(Clone)]
pub struct Values<'a> {
    pub memory: &'a [u8],
    pub column: &'a Column,
    pub records: Range<usize>,
}

impl<'a> Values<'a> {
    /// The value of each record; `None` if it is absent.
    fn iter(&self) -> impl Iterator<Item = Option<&'a [u8]>> + Clone + use<'a> {
        let memory = self.memory;
        let offsets = &self.column.offsets()[self.records.clone()];
        let lengths = &self.column.lengths()[self.records.clone()];
        offsets.iter().zip(lengths).map(move |(offset, length)| {
            let start = *offset as usize;
            (*offset != ABSENT).then(|| &memory[start..start + *length as usize])
        })
    }

    /// Bytes of all values.
    pub fn bytes(&self) -> u64 {
        self.column.bytes(self.records.clone())
    }
}

/// A value that Arrow can't represent: the record, counted from the first of the batch, and the
/// reason.
pub type Unfit = (usize, String);

/// Appends the buffers of a column.
///
/// # Errors
/// A value that Arrow can't represent.
pub fn append(
    body: &mut Body,
    layout: &Layout,
    categories: usize,
    values: &Values<'_>,
) -> Result<(), Unfit> {
    let unfit = |index: usize, why: String| (values.records.start + index, why);
    match layout {
        Layout::Strings(scalar) => {
            for (index, value) in values.iter().enumerate() {
                check_text(*scalar, value.unwrap_or_default()).map_err(|why| unfit(index, why))?;
            }
            body.validity(values);
            append_strings(body, values.iter().map(Option::unwrap_or_default));
        }
        Layout::StringLists(scalar) => {
            for (index, value) in values.iter().enumerate() {
                check_list(*scalar, value).map_err(|why| unfit(index, why))?;
            }
            append_lists(body, values);
        }
        Layout::Categories(_) => {
            for (index, value) in values.iter().enumerate() {
                check_category(categories, value).map_err(|why| unfit(index, why))?;
            }
            body.validity(values);
            let size = size_of_one(values);
            body.buffer(|out| append_numbers(out, Element::Plain(size), 1, values));
        }
        Layout::Numbers(element, shape) => append_arrays(body, *element, shape, values)
            .map_err(|(index, why)| unfit(index, why))?,
    }
    Ok(())
}

/// Bytes of a value, in a column whose values all have the same length.
fn size_of_one(values: &Values<'_>) -> usize {
    values.iter().flatten().next().map_or(1, <[u8]>::len)
}

fn check_text(scalar: Scalar, text: &[u8]) -> Result<(), String> {
    match scalar {
        Scalar::Utf8 => std::str::from_utf8(text)
            .map(drop)
            .map_err(|error| format!("is no valid UTF-8: {error}")),
        _ => Ok(()),
    }
}

fn check_list(scalar: Scalar, value: Option<&[u8]>) -> Result<(), String> {
    let Some(value) = value else { return Ok(()) };
    if let Some(problem) = list_problem(value) {
        return Err(format!("is no list: it {problem}"));
    }
    list_elements(value).try_for_each(|element| check_text(scalar, element))
}

fn check_category(categories: usize, value: Option<&[u8]>) -> Result<(), String> {
    let Some(value) = value else { return Ok(()) };
    let mut index = [0; 8];
    index[..value.len().min(8)].copy_from_slice(&value[..value.len().min(8)]);
    match u64::from_le_bytes(index) {
        index if index < categories as u64 => Ok(()),
        index => Err(format!("is {index}, which is none of the {categories} categories")),
    }
}

/// Appends strings: offsets, then their bytes.
fn append_strings<'a>(body: &mut Body, strings: impl Iterator<Item = &'a [u8]> + Clone) {
    body.offsets(strings.clone().map(<[u8]>::len));
    body.buffer(|out| strings.for_each(|text| out.extend_from_slice(text)));
}

fn append_lists(body: &mut Body, values: &Values<'_>) {
    let lists = values.iter().map(|value| value.map(list_elements).into_iter().flatten());
    body.validity(values);
    body.offsets(lists.clone().map(Iterator::count));
    let elements: Vec<_> = lists.flatten().collect();
    body.all_valid(elements.len());
    append_strings(body, elements.iter().copied());
}

/// Appends arrays of numbers: the lists that hold them, from the outermost dimension on, then the
/// numbers.
fn append_arrays(
    body: &mut Body,
    element: Element,
    shape: &[u32],
    values: &Values<'_>,
) -> Result<(), Unfit> {
    // Elements of a value without the dimension that follows from its length.
    let known: usize = shape.iter().filter(|size| **size > 0).map(|size| *size as usize).product();
    let unit = known * element.source_bytes();
    for (index, value) in values.iter().enumerate() {
        let fits = |length: usize| match shape.contains(&0) {
            true => length.is_multiple_of(unit),
            false => length == unit,
        };
        if let Some(length) = value.map(<[u8]>::len).filter(|length| !fits(*length)) {
            return Err((index, format!("has {length} bytes, where its type has {unit}")));
        }
        check_range(element, value).map_err(|why| (index, why))?;
    }
    body.validity(values);
    let records = values.records.len();
    // Number of lists at this level: a fixed number for each record, except below the dimension of
    // any size.
    let (mut for_each, mut total) = (1, records);
    for size in shape {
        if *size == 0 {
            let outer = for_each;
            let length = |value: Option<&[u8]>| value.map_or(0, <[u8]>::len) / unit;
            let lengths = values.iter().flat_map(|value| (0..outer).map(move |_| length(value)));
            body.offsets(lengths);
            total = outer * values.iter().map(length).sum::<usize>();
        } else {
            for_each *= *size as usize;
            total *= *size as usize;
        }
        body.all_valid(total);
    }
    let absent = if shape.contains(&0) { 0 } else { known };
    body.buffer(|out| append_numbers(out, element, absent, values));
    Ok(())
}

fn check_range(element: Element, value: Option<&[u8]>) -> Result<(), String> {
    let (Element::Int64As32, Some(value)) = (element, value) else { return Ok(()) };
    let out_of_range = int64s(value).find(|number| i32::try_from(*number).is_err());
    out_of_range.map_or(Ok(()), |number| Err(format!("is {number}, which is no time of a day")))
}

fn int64s(value: &[u8]) -> impl Iterator<Item = i64> {
    value.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes))
}

/// Appends numbers. A record without a value gets `absent` elements of 0, which readers skip.
fn append_numbers(out: &mut Vec<u8>, element: Element, absent: usize, values: &Values<'_>) {
    match element {
        Element::Plain(size) => append_plain(out, size * absent, values),
        Element::Bit => {
            let bits = values.iter().flat_map(|value| {
                let missing = if value.is_none() { absent } else { 0 };
                let there = value.unwrap_or_default().iter().map(|byte| *byte != 0);
                there.chain((0..missing).map(|_| false))
            });
            push_bits(out, bits);
        }
        Element::Bfloat16 => {
            for value in values.iter() {
                let Some(value) = value else {
                    out.resize(out.len() + 4 * absent, 0);
                    continue;
                };
                for number in value.as_chunks::<2>().0 {
                    out.extend_from_slice(&[0, 0, number[0], number[1]]);
                }
            }
        }
        Element::Int64As32 => {
            for value in values.iter() {
                let Some(value) = value else {
                    out.resize(out.len() + 4 * absent, 0);
                    continue;
                };
                int64s(value).for_each(|number| {
                    // `check_range` has refused other values.
                    out.extend_from_slice(&(number as i32).to_le_bytes());
                });
            }
        }
    }
}

/// Appends values unchanged. Values of 4 and 8 bytes are the most frequent: a copy of a known
/// length is one instruction.
fn append_plain(out: &mut Vec<u8>, absent_bytes: usize, values: &Values<'_>) {
    out.reserve(values.bytes() as usize);
    for value in values.iter() {
        match value {
            None => out.resize(out.len() + absent_bytes, 0),
            Some(value) => match (<&[u8; 4]>::try_from(value), <&[u8; 8]>::try_from(value)) {
                (Ok(value), _) => out.extend_from_slice(value),
                (_, Ok(value)) => out.extend_from_slice(value),
                _ => out.extend_from_slice(value),
            },
        }
    }
}

/// Appends bits, the lowest of each byte first.
fn push_bits(out: &mut Vec<u8>, bits: impl Iterator<Item = bool>) {
    let (mut byte, mut count) = (0u8, 0);
    for bit in bits {
        byte |= u8::from(bit) << count;
        count += 1;
        if count == 8 {
            out.push(byte);
            (byte, count) = (0, 0);
        }
    }
    if count > 0 {
        out.push(byte);
    }
}

#[cfg(test)]
mod tests {
    use pipemill_types::Field;

    use super::*;
    use crate::types::layout;

    /// The last buffer of a column with these values.
    fn data(field: &Field, values: &[Option<&[u8]>]) -> Result<Vec<u8>, Unfit> {
        let (mut memory, mut column) = (Vec::new(), Column::default());
        for value in values {
            let offset = value.map_or(ABSENT, |_| memory.len() as u32);
            column.push(offset, value.map_or(0, |value| value.len() as u32));
            memory.extend_from_slice(value.unwrap_or_default());
        }
        let values = Values { memory: &memory, column: &column, records: 0..values.len() };
        let mut body = Body::default();
        append(&mut body, &layout(field, 0), field.categories.len(), &values)?;
        let last = body.buffers.last().copied().unwrap_or_default();
        Ok(body.bytes[last.offset as usize..(last.offset + last.length) as usize].to_vec())
    }

    #[test]
    fn bfloat16_becomes_float32() {
        let field = Field::new("f", Scalar::Bfloat16, vec![2]);
        let found = data(&field, &[Some(&[0x80, 0x3f, 0, 0xc0]), None]).unwrap();
        let numbers: Vec<_> =
            found.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        assert_eq!(numbers, [1.0, -2.0, 0.0, 0.0]);
    }

    #[test]
    fn booleans_become_bits() {
        let field = Field::new("f", Scalar::Boolean, vec![3]);
        let found = data(&field, &[Some(&[1, 0, 1]), None, Some(&[1, 1, 1])]).unwrap();
        assert_eq!(found, [0b1100_0101, 0b1]);
    }

    #[test]
    fn values_without_a_form_in_arrow_are_refused() {
        let mut time = Field::new("f", Scalar::Int64, vec![]);
        time.logical = "time[ms]".to_owned();
        let day = 86_400_000i64;
        assert_eq!(data(&time, &[Some(&day.to_le_bytes())]).unwrap(), (day as i32).to_le_bytes());
        let (record, why) = data(&time, &[None, Some(&i64::MAX.to_le_bytes())]).unwrap_err();
        assert!(record == 1 && why.contains("no time of a day"), "{why}");
        let mut category = Field::new("f", Scalar::Uint16, vec![]);
        category.categories = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(data(&category, &[Some(&[1, 0])]).unwrap(), [1, 0]);
        let (_, why) = data(&category, &[Some(&[2, 0])]).unwrap_err();
        assert!(why.contains("none of the 2 categories"), "{why}");
        let text = Field::new("f", Scalar::Utf8, vec![]);
        assert!(data(&text, &[Some(b"\xff")]).is_err());
    }
}
