//! The rows of a column that are read and not emitted yet.

use pipemill_plugin::{COLUMN_ALIGN, ColumnBytes, ColumnValues};

/// Whether each of some rows is there.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Presence {
    /// A bit for each row, the lowest one first. Empty as long as all rows are there.
    bits: Vec<u8>,
    rows: usize,
}

impl Presence {
    /// Adds rows, until there are `rows`.
    #[inline]
    pub(crate) fn fill_to(&mut self, rows: usize, is_there: bool) {
        if !is_there && self.bits.is_empty() && rows > self.rows {
            self.bits.resize(self.rows.div_ceil(8), u8::MAX);
            self.clear_after(self.rows);
        }
        if is_there && self.bits.is_empty() {
            self.rows = rows;
            return;
        }
        while self.rows < rows {
            let bit = self.rows % 8;
            if bit == 0 {
                let whole = (rows - self.rows) / 8;
                self.bits.resize(self.bits.len() + whole, if is_there { u8::MAX } else { 0 });
                self.rows += 8 * whole;
                if self.rows == rows {
                    return;
                }
                self.bits.push(0);
            }
            if let Some(last) = self.bits.last_mut().filter(|_| is_there) {
                *last |= 1 << (self.rows % 8);
            }
            self.rows += 1;
        }
    }

    /// Clears the bits of the last byte after this many rows.
    fn clear_after(&mut self, rows: usize) {
        if let Some(last) = self.bits.last_mut().filter(|_| !rows.is_multiple_of(8)) {
            *last &= u8::MAX >> (8 - rows % 8);
        }
    }

    fn is_there(&self, row: usize) -> bool {
        self.bits.get(row / 8).is_none_or(|bits| bits >> (row % 8) & 1 == 1)
    }

    /// Forgets the first rows.
    fn drop_first(&mut self, rows: usize) {
        let mut left = Self::default();
        for row in rows..self.rows {
            left.fill_to(row + 1 - rows, self.is_there(row));
        }
        *self = left;
    }
}

/// Values that are appended.
pub(crate) struct Sink<'a> {
    pub(crate) bytes: &'a mut Vec<u8>,
    /// Where each value ends, counted from `start`, if they have different sizes.
    pub(crate) ends: Option<&'a mut Vec<u32>>,
    pub(crate) start: usize,
}

impl Sink<'_> {
    /// Number of values so far, if they have different sizes.
    pub(crate) fn count(&self) -> usize {
        self.ends.as_ref().map_or(0, |ends| ends.len())
    }

    /// Ends a value.
    #[inline]
    pub(crate) fn end_value(&mut self) {
        let end = (self.bytes.len() - self.start) as u32;
        if let Some(ends) = &mut self.ends {
            ends.push(end);
        }
    }
}

/// Rows of a column. While they are read, their values lie in a buffer that all columns share.
#[derive(Debug)]
pub(crate) struct Rows {
    /// The values; those of this column begin at `start`.
    pub(crate) bytes: Vec<u8>,
    start: usize,
    /// Where they end in the buffer, once it was returned, and the number of rows then.
    end: usize,
    read: usize,
    /// Where each value ends, counted from `start`, if they have different sizes.
    pub(crate) ends: Vec<u32>,
    /// Bytes of each value, if they have one size.
    size: Option<usize>,
    presence: Presence,
}

impl Rows {
    pub(crate) fn new(size: Option<usize>) -> Self {
        let (bytes, ends, presence) = (Vec::new(), Vec::new(), Presence::default());
        Self { bytes, start: 0, end: 0, read: 0, ends, size, presence }
    }

    /// Number of rows.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self.size {
            Some(size) => (self.bytes.len() - self.start) / size,
            None => self.ends.len(),
        }
    }

    /// Bytes of the values.
    #[inline]
    pub(crate) fn byte_count(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Where values are appended.
    pub(crate) fn sink(&mut self) -> Sink<'_> {
        let ends = self.size.is_none().then_some(&mut self.ends);
        Sink { bytes: &mut self.bytes, ends, start: self.start }
    }

    /// Notes that the values that were appended are there.
    #[inline]
    pub(crate) fn note_present(&mut self) {
        self.presence.fill_to(self.len(), true);
    }

    /// Adds rows without a value.
    pub(crate) fn push_absent(&mut self, rows: usize) {
        match self.size {
            Some(size) => self.bytes.resize(self.bytes.len() + rows * size, 0),
            None => {
                let end = (self.bytes.len() - self.start) as u32;
                self.ends.resize(self.ends.len() + rows, end);
            }
        }
        self.presence.fill_to(self.len(), false);
    }

    /// Continues at the end of a buffer, with the rows that are left.
    pub(crate) fn enter(&mut self, mut buffer: Vec<u8>) {
        buffer.resize(buffer.len().next_multiple_of(COLUMN_ALIGN), 0);
        self.start = buffer.len();
        buffer.append(&mut self.bytes);
        self.bytes = buffer;
    }

    /// Returns the buffer, which ends with the values.
    pub(crate) fn leave(&mut self) -> Vec<u8> {
        (self.end, self.read) = (self.bytes.len(), self.len());
        std::mem::take(&mut self.bytes)
    }

    /// Number of rows when the buffer was returned.
    pub(crate) fn read(&self) -> usize {
        self.read
    }

    /// Appends offsets and bits of the first `rows` rows to the buffer. Returns the column of these
    /// rows.
    pub(crate) fn column(&self, rows: usize, buffer: &mut Vec<u8>) -> ColumnValues<'static> {
        let values_end = match self.size {
            Some(size) => self.start + rows * size,
            None => self.start + self.value_end(rows),
        };
        let mut column = ColumnValues::new(ColumnBytes::Made(self.start..values_end));
        if self.size.is_none() {
            let from = buffer.len();
            buffer.extend_from_slice(&0_u32.to_le_bytes());
            buffer.extend(self.ends[..rows].iter().flat_map(|end| end.to_le_bytes()));
            column.offsets = Some(ColumnBytes::Made(from..buffer.len()));
        }
        if !self.presence.bits.is_empty() {
            let from = buffer.len();
            buffer.extend_from_slice(&self.presence.bits[..rows.div_ceil(8)]);
            column.present = Some(ColumnBytes::Made(from..buffer.len()));
        }
        column
    }

    /// Where the first `rows` values end.
    fn value_end(&self, rows: usize) -> usize {
        rows.checked_sub(1).map_or(0, |last| self.ends[last] as usize)
    }

    /// Keeps what comes after the first `rows` rows in the buffer.
    pub(crate) fn keep_after(&mut self, rows: usize, buffer: &[u8]) {
        let from = match self.size {
            Some(size) => rows * size,
            None => self.value_end(rows),
        };
        self.bytes.extend_from_slice(&buffer[self.start + from..self.end]);
        (self.start, self.end) = (0, 0);
        self.ends.drain(..rows.min(self.ends.len()));
        self.ends.iter_mut().for_each(|end| *end -= from as u32);
        self.presence.drop_first(rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presence_is_that_of_each_row() {
        let runs =
            [(3, true), (1, false), (9, true), (20, false), (7, true), (64, true), (1, false)];
        for skipped in 0..runs.len() {
            let (mut presence, mut expected) = (Presence::default(), Vec::new());
            for (count, is_there) in &runs[skipped..] {
                expected.resize(expected.len() + count, *is_there);
                presence.fill_to(expected.len(), *is_there);
            }
            let found = |presence: &Presence| -> Vec<bool> {
                (0..presence.rows).map(|row| presence.is_there(row)).collect()
            };
            assert_eq!(found(&presence), expected);
            for dropped in [0, 1, 5, 8, expected.len()] {
                let mut rest = presence.clone();
                rest.drop_first(dropped.min(expected.len()));
                assert_eq!(found(&rest), expected[dropped.min(expected.len())..]);
            }
        }
    }

    #[test]
    fn rows_that_are_kept_are_the_first_ones_of_the_next_block() {
        let mut rows = Rows::new(None);
        rows.enter(vec![9; 70]);
        for value in ["a", "bc", "", "def"] {
            rows.bytes.extend_from_slice(value.as_bytes());
            rows.sink().end_value();
            rows.note_present();
        }
        rows.push_absent(1);
        let mut buffer = rows.leave();
        let column = rows.column(2, &mut buffer);
        let ColumnBytes::Made(values) = column.values else { panic!("{column:?}") };
        assert_eq!((values.clone(), &buffer[values]), (128..131, &b"abc"[..]));
        rows.keep_after(2, &buffer);
        rows.enter(Vec::new());
        assert_eq!((rows.len(), &rows.bytes[..], &rows.ends[..]), (3, &b"def"[..], &[0, 3, 3][..]));
        assert_eq!(rows.presence.bits, [0b011]);
    }
}
