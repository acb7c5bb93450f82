//! Records that a decoder emits field by field.

use std::ops::Range;

use crate::records::IN_PAYLOAD;
use crate::{Block, Records, pack};

/// The values of a column should begin at a multiple of this many bytes of those that the decoder
/// made: consumers read them without a copy then.
pub const COLUMN_ALIGN: usize = 64;

/// The values of one field of many records, for [`Records::columns`].
#[derive(Debug, Clone)]
pub struct ColumnValues<'a> {
    /// The values, one after the other. A record that lacks the field has a value here, too.
    pub values: ColumnBytes<'a>,
    /// Where each value begins and ends in them: one more 32-bit little-endian integer than there
    /// are records, none less than the one before it. `None` if all have the size of the field's
    /// type.
    pub offsets: Option<ColumnBytes<'a>>,
    /// A bit for each record, the lowest one first, set if the record has the field. `None` if all
    /// have it.
    pub present: Option<ColumnBytes<'a>>,
}

impl<'a> ColumnValues<'a> {
    /// Values that all have the size of the field's type, and are all there.
    pub fn new(values: ColumnBytes<'a>) -> Self {
        Self { values, offsets: None, present: None }
    }
}

/// Bytes of a column.
#[derive(Debug, Clone)]
pub enum ColumnBytes<'a> {
    /// A part of the chunk.
    Chunk(Range<usize>),
    /// A part of the bytes that the decoder made: of the `made` that [`Records::columns`] gets.
    Made(Range<usize>),
    /// A part of a decompressed block of the same call of [`decode`](crate::Decoder::decode).
    Block(&'a Block, Range<usize>),
}

/// The bytes that those of columns are parts of.
pub(crate) struct ColumnSources<'a> {
    pub(crate) chunk: &'a [u8],
    pub(crate) made: &'a [u8],
}

impl<'a> ColumnSources<'a> {
    /// These bytes.
    ///
    /// # Panics
    /// If they are outside of their source.
    fn find(&self, bytes: &ColumnBytes<'a>) -> &'a [u8] {
        match bytes {
            ColumnBytes::Chunk(range) => &self.chunk[range.clone()],
            ColumnBytes::Made(range) => &self.made[range.clone()],
            ColumnBytes::Block(block, range) => &block.bytes[range.clone()],
        }
    }

    /// The value of each record.
    ///
    /// # Panics
    /// If values, offsets or bits do not fit the number of records.
    pub(crate) fn values(
        &self,
        column: &ColumnValues<'a>,
        records: usize,
    ) -> impl Iterator<Item = Option<&'a [u8]>> {
        let values = self.find(&column.values);
        let offsets = column.offsets.as_ref().map(|offsets| self.find(offsets).as_chunks::<4>().0);
        let present = column.present.as_ref().map(|present| self.find(present));
        let size = values.len() / records.max(1);
        (0..records).map(move |record| {
            let range = match offsets {
                Some(offsets) => {
                    let at = |record: usize| u32::from_le_bytes(offsets[record]) as usize;
                    at(record)..at(record + 1)
                }
                None => record * size..(record + 1) * size,
            };
            let is_there = present.is_none_or(|bits| bits[record / 8] >> (record % 8) & 1 == 1);
            is_there.then(|| &values[range])
        })
    }
}

impl Records {
    /// Emits records field by field: `columns` has one column for each field of the schema, each
    /// with `records` values. `made` has the bytes that the decoder made, `chunk` is the chunk. All
    /// records begin at `start` of it, as those of a compressed block do.
    ///
    /// The values are passed on as they lie, so this is the fastest way for a format that stores
    /// the values of a column one after the other. The host copies columns of less than some KiB
    /// as often as records that are emitted one by one: emit many records at once.
    ///
    /// # Panics
    /// If it is called inside a record, or if there is not one column for each field.
    pub fn columns(
        &mut self,
        chunk: &[u8],
        records: usize,
        columns: &[ColumnValues<'_>],
        made: &[u8],
        start: usize,
    ) {
        assert!(self.fields_so_far() == 0, "columns were emitted inside a record");
        let fields = self.field_count();
        assert!(columns.len() == fields, "{} columns for {fields} fields", columns.len());
        self.flush();
        if self.emit_columns(records, columns, made, start) {
            return;
        }
        let sources = ColumnSources { chunk, made };
        let mut values: Vec<_> =
            columns.iter().map(|column| sources.values(column, records)).collect();
        for _ in 0..records {
            for value in &mut values {
                match value.next().flatten() {
                    Some(value) => self.field_bytes(value),
                    None => self.absent(),
                }
            }
            self.end_record(start);
        }
    }
}

/// The spans of a column: of its values, its offsets and its bits. `base` is the number of bytes that
/// the payload has before those that the decoder made.
pub(crate) fn column_spans(column: &ColumnValues<'_>, base: usize) -> [u64; 3] {
    let span = |bytes: &ColumnBytes<'_>| match bytes {
        ColumnBytes::Chunk(range) => pack(range.clone()),
        ColumnBytes::Made(range) => IN_PAYLOAD | pack(base + range.start..base + range.end),
        ColumnBytes::Block(block, range) => block.span(range.clone()),
    };
    let optional = |bytes: &Option<ColumnBytes<'_>>| bytes.as_ref().map_or(0, span);
    [span(&column.values), optional(&column.offsets), optional(&column.present)]
}
