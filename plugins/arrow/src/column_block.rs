//! Rows that are emitted together, field by field. Buffers that a field has in the same form are
//! passed on as they lie.

use std::ops::Range;

use pipemill_parsing::blocks::{self, BLOCK_BYTES, INDEX_BYTES, are_text};
use pipemill_plugin::{COLUMN_ALIGN, ColumnBytes, ColumnValues, Records};

use crate::batch::OpenColumn;
use crate::columns::Storage;
use crate::convert::Convert;

/// Likely bytes of a value of a dictionary.
const DICTIONARY_BYTES: usize = 32;
/// How many times as many bytes as wanted a block may have.
const MOST_TIMES: usize = 4;

/// The next rows to emit together: some of `rows`, with about `most` bytes. All but the last block
/// of a batch end at a whole byte of bits.
pub(crate) fn rows_together(
    columns: &[OpenColumn<'_>],
    rows: Range<usize>,
    most: usize,
) -> Range<usize> {
    let of_row = |column: &OpenColumn<'_>| {
        let dictionary = column.column.values.dictionary.as_ref().map_or(0, |_| DICTIONARY_BYTES);
        column.values.byte_count() / rows.end.max(1) + dictionary + INDEX_BYTES
    };
    let bytes: usize = columns.iter().map(of_row).sum();
    let count = blocks::rows_together(BLOCK_BYTES.min(most), bytes);
    let to_byte = (rows.start + count).next_multiple_of(8);
    rows.start..to_byte.min(rows.end)
}

/// The columns of some rows.
pub(crate) struct Block<'a> {
    rows: usize,
    /// Bytes that are not in the chunk.
    made: Vec<u8>,
    columns: Vec<BlockColumn<'a>>,
}

/// Where the values of a column lie: in buffers of the batch, or in the bytes that were made.
struct BlockColumn<'a> {
    values: Place<'a>,
    offsets: Option<Place<'a>>,
    present: Option<Place<'a>>,
}

enum Place<'a> {
    Buffer(&'a [u8]),
    Made(Range<usize>),
}

impl<'a> Block<'a> {
    /// The columns of these rows. `None` if one of the values has an error, or if they have many
    /// more than `most` bytes.
    pub(crate) fn of(columns: &[OpenColumn<'a>], rows: Range<usize>, most: usize) -> Option<Self> {
        let mut block = Self { rows: rows.len(), made: Vec::new(), columns: Vec::new() };
        for column in columns {
            let found = direct(column, rows.clone());
            let column = match found {
                Some(column) => column,
                None => block.make(column, rows.clone(), most)?,
            };
            block.columns.push(column);
        }
        Some(block)
    }

    /// Bytes that the block counts.
    pub(crate) fn bytes(&self) -> usize {
        let of_column = |column: &BlockColumn<'_>| match &column.values {
            Place::Buffer(bytes) => bytes.len(),
            Place::Made(range) => range.len(),
        };
        let values: usize = self.columns.iter().map(of_column).sum();
        values + INDEX_BYTES * self.rows * self.columns.len()
    }

    /// Makes the values of a column.
    fn make(
        &mut self,
        column: &OpenColumn<'a>,
        rows: Range<usize>,
        most: usize,
    ) -> Option<BlockColumn<'a>> {
        let made = &mut self.made;
        made.resize(made.len().next_multiple_of(COLUMN_ALIGN), 0);
        let (start, count) = (made.len(), rows.len());
        let size = column.column.field.fixed_size();
        let (mut ends, mut bits) = (Vec::new(), vec![0u8; count.div_ceil(8)]);
        let mut absent = 0;
        for (number, row) in rows.enumerate() {
            match column.value(row).ok()? {
                Some(value) => {
                    column.push_value(&value, made).ok()?;
                    bits[number / 8] |= 1 << (number % 8);
                }
                None => {
                    made.resize(made.len() + size.unwrap_or(0), 0);
                    absent += 1;
                }
            }
            ends.push((made.len() - start) as u32);
            if made.len() > MOST_TIMES * most.max(BLOCK_BYTES) {
                return None;
            }
        }
        if absent > 0 && !column.column.field.nullable {
            return None;
        }
        let values = Place::Made(start..made.len());
        let offsets = size.is_none().then(|| {
            let from = made.len();
            made.extend_from_slice(&0u32.to_le_bytes());
            made.extend(ends.iter().flat_map(|end| end.to_le_bytes()));
            Place::Made(from..made.len())
        });
        let present = (absent > 0).then(|| {
            let from = made.len();
            made.extend_from_slice(&bits);
            Place::Made(from..made.len())
        });
        Some(BlockColumn { values, offsets, present })
    }

    /// Emits the rows. They begin at `start` of the chunk.
    pub(crate) fn emit(mut self, chunk: &[u8], start: usize, out: &mut Records) {
        let columns = std::mem::take(&mut self.columns);
        let columns: Vec<_> = columns
            .into_iter()
            .map(|column| ColumnValues {
                values: self.placed(chunk, column.values),
                offsets: column.offsets.map(|place| self.placed(chunk, place)),
                present: column.present.map(|place| self.placed(chunk, place)),
            })
            .collect();
        out.columns(chunk, self.rows, &columns, &self.made, start);
    }

    /// Bytes of a column as the host finds them. Decompressed buffers are copied.
    fn placed(&mut self, chunk: &[u8], place: Place<'a>) -> ColumnBytes<'static> {
        let bytes = match place {
            Place::Made(range) => return ColumnBytes::Made(range),
            Place::Buffer(bytes) => bytes,
        };
        if let Some(range) = range_in(chunk, bytes) {
            return ColumnBytes::Chunk(range);
        }
        let from = self.made.len().next_multiple_of(COLUMN_ALIGN);
        self.made.resize(from, 0);
        self.made.extend_from_slice(bytes);
        ColumnBytes::Made(from..self.made.len())
    }
}

/// The place of these bytes in the chunk, if they are a part of it.
fn range_in(chunk: &[u8], bytes: &[u8]) -> Option<Range<usize>> {
    let start = bytes.as_ptr().addr().checked_sub(chunk.as_ptr().addr())?;
    let range = start..start + bytes.len();
    (range.end <= chunk.len()).then_some(range)
}

/// A column whose buffers have the form of a field. `None` for others, and for those with an error.
fn direct<'a>(column: &OpenColumn<'a>, rows: Range<usize>) -> Option<BlockColumn<'a>> {
    let (field, leaf) = (&column.column.field, &column.column.values);
    let is_plain =
        column.structs.is_empty() && column.lists.is_empty() && leaf.dictionary.is_none();
    if !is_plain || !rows.start.is_multiple_of(8) {
        return None;
    }
    let bits = column.values.valid.of(rows.clone());
    if bits.is_some() && !field.nullable {
        return None;
    }
    let (values, offsets) = match (leaf.storage, leaf.convert) {
        (Storage::Fixed(size), Convert::Same) if field.fixed_size() == Some(size) => {
            (column.values.first.get(rows.start * size..rows.end * size)?, None)
        }
        (Storage::Offsets { is_wide: false }, Convert::Same | Convert::Text) => {
            let offsets = column.values.first.get(4 * rows.start..4 * (rows.end + 1))?;
            let values = column.values.second;
            check_offsets(offsets, values, leaf.convert)?;
            (values, Some(Place::Buffer(offsets)))
        }
        _ => return None,
    };
    Some(BlockColumn { values: Place::Buffer(values), offsets, present: bits.map(Place::Buffer) })
}

/// Whether offsets are in order and within the values, and whether these are text if they have to
/// be.
fn check_offsets(offsets: &[u8], values: &[u8], convert: Convert) -> Option<()> {
    let (offsets, _) = offsets.as_chunks::<4>();
    let numbers = || offsets.iter().map(|offset| u32::from_le_bytes(*offset));
    let (first, last) = (numbers().next()?, numbers().next_back()?);
    let pairs = numbers().zip(numbers().skip(1));
    let is_ordered = pairs.fold(true, |is_ordered, (start, end)| is_ordered & (start <= end));
    let used = values.get(first as usize..last as usize).filter(|_| is_ordered)?;
    if convert == Convert::Text {
        are_text(used, numbers().map(|offset| (offset - first) as usize)).then_some(())?;
    }
    Some(())
}
