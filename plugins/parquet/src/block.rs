//! Rows of all columns that are emitted together, field by field.

use pipemill_parsing::blocks::{BLOCK_BYTES, INDEX_BYTES, rows_together};
use pipemill_plugin::Records;

use crate::column_reader::ColumnReader;
use crate::columns::Column;
use crate::pages::Input;
use crate::rows::Rows;

/// Bytes of values after which a column is not read further.
const MOST_BYTES: usize = 2 * BLOCK_BYTES;
/// Bytes that values of different sizes have before the first rows were read.
const LIKELY_BYTES: usize = 32;

/// Rows that are emitted together.
#[derive(Debug)]
pub(crate) struct Block {
    /// Number of rows.
    pub(crate) rows: usize,
    /// The values of all columns, also those of rows that come later.
    buffer: Vec<u8>,
    /// Bytes of the index of a row.
    index: usize,
    /// Rows that the next block should have.
    wanted: usize,
}

impl Block {
    pub(crate) fn new(columns: &[Column]) -> Self {
        let index = INDEX_BYTES * columns.len();
        let sizes = columns.iter().map(|column| column.size().unwrap_or(LIKELY_BYTES));
        let wanted = rows_together(BLOCK_BYTES, index + sizes.sum::<usize>());
        Self { rows: 0, buffer: Vec::new(), index, wanted }
    }

    /// Reads the next rows, if `left` are left. There are fewer if a column has an error, ends, or
    /// has many bytes.
    pub(crate) fn read(
        &mut self,
        columns: &[Column],
        readers: &mut [(ColumnReader, Rows)],
        (input, out): (Input, &mut Records),
        left: u64,
    ) {
        self.rows = self.wanted.min(usize::try_from(left).unwrap_or(usize::MAX));
        self.buffer.clear();
        if self.rows == 0 {
            return;
        }
        for (column, (reader, rows)) in columns.iter().zip(readers) {
            rows.enter(std::mem::take(&mut self.buffer));
            reader.read(column, input, out, rows, (self.rows.max(1), MOST_BYTES));
            self.buffer = rows.leave();
            self.rows = self.rows.min(rows.read());
        }
        if let Some(of_row) = self.buffer.len().checked_div(self.rows) {
            self.wanted = rows_together(BLOCK_BYTES, of_row + self.index).min(4 * self.rows);
        }
    }

    /// Bytes of the values.
    pub(crate) fn bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Emits the rows. They begin at `start` of the chunk.
    pub(crate) fn emit(
        &mut self,
        readers: &mut [(ColumnReader, Rows)],
        (chunk, start): (&[u8], usize),
        out: &mut Records,
    ) {
        if self.rows > 0 {
            let columns = readers.iter().map(|(_, rows)| rows.column(self.rows, &mut self.buffer));
            let columns: Vec<_> = columns.collect();
            out.columns(chunk, self.rows, &columns, &self.buffer, start);
        }
        readers.iter_mut().for_each(|(_, rows)| rows.keep_after(self.rows, &self.buffer));
    }
}
