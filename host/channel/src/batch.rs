//! A batch that is being filled: payload in a sink's memory, and the index of its records.

use pipemill_decode::{Emitted, MADE};
use pipemill_types::{ABSENT, Column};

/// Records of one object, laid out in one piece of memory.
#[derive(Debug, Default)]
pub struct Batch {
    /// From 0.
    pub epoch: u32,
    /// The object's name.
    pub object: String,
    /// Number, in its object, of the first record.
    pub first_record: u64,
    /// A byte offset in the object at or before the first record.
    pub object_offset: u64,
    /// Bytes of the memory that are in use.
    pub payload: usize,
    /// A column a field; offsets count from the start of the memory.
    pub columns: Vec<Column>,
    /// Where each record begins in the object, if the decoder was asked for it.
    pub starts: Vec<u64>,
    /// Number of records.
    pub records: usize,
    /// Whether a field is absent.
    pub absent: bool,
}

impl Batch {
    /// Forgets its records and starts anew at this place of the object.
    pub(super) fn restart(&mut self, first_record: u64, object_offset: u64) {
        for column in &mut self.columns {
            column.offsets.clear();
            column.lengths.clear();
        }
        self.starts.clear();
        self.payload = 0;
        self.records = 0;
        self.absent = false;
        self.first_record = first_record;
        self.object_offset = object_offset;
    }

    /// Adds all records of a call. Those in the chunk have their bytes at `chunk`, those that were
    /// made at `made` (anywhere in the payload if all of these are empty), both counted from the start
    /// of the memory.
    pub(super) fn add_in_place(&mut self, emitted: &Emitted, chunk: usize, made: usize, from: u64) {
        let (chunk, made) = (chunk as u32, made as u32);
        let plain = !emitted.made && !emitted.absent;
        for (to, column) in self.columns.iter_mut().zip(&emitted.columns) {
            to.lengths.extend_from_slice(&column.lengths);
            if plain {
                to.offsets.extend(column.offsets.iter().map(|offset| offset + chunk));
                continue;
            }
            to.offsets.extend(column.offsets.iter().map(|offset| match *offset {
                ABSENT => ABSENT,
                offset if offset & MADE != 0 => offset - MADE + made,
                offset => offset + chunk,
            }));
        }
        self.starts.extend(emitted.starts.iter().map(|start| from + u64::from(*start)));
        self.records += emitted.records;
        self.absent |= emitted.absent;
    }

    /// Adds one record of a call by copying its bytes to the end of the payload.
    pub(super) fn add_copied(
        &mut self,
        memory: &mut [u8],
        emitted: &Emitted,
        record: usize,
        chunk: &[u8],
        from: u64,
    ) {
        for (to, column) in self.columns.iter_mut().zip(&emitted.columns) {
            let (offset, length) = (column.offsets[record], column.lengths[record]);
            to.lengths.push(length);
            if offset == ABSENT {
                to.offsets.push(ABSENT);
                self.absent = true;
                continue;
            }
            let source = if offset & MADE != 0 { &emitted.payload } else { chunk };
            let (start, length) = ((offset & !MADE) as usize, length as usize);
            memory[self.payload..self.payload + length]
                .copy_from_slice(&source[start..start + length]);
            to.offsets.push(self.payload as u32);
            self.payload += length;
        }
        if let Some(start) = emitted.starts.get(record) {
            self.starts.push(from + u64::from(*start));
        }
        self.records += 1;
    }
}
