//! A batch that is being filled: payload in a sink's memory, and the index of its records.

use pipemill_decode::{DecodedRecords, IN_PAYLOAD};
use pipemill_types::{ABSENT, Column};

/// Records of one object, in one piece of memory.
#[derive(Debug, Default)]
pub struct Batch {
    /// Number of the epoch, from 0.
    pub epoch: u32,
    /// The object's name.
    pub object: String,
    /// Facts about the object that its decoder told: a JSON object of strings; empty if there are
    /// none.
    pub metadata: String,
    /// Number, in its object, of the first record.
    pub first_record: u64,
    /// A byte offset in the object at or before the first record.
    pub object_offset: u64,
    /// Bytes of the memory that the records take, from its start.
    pub payload: usize,
    /// One column for each field. Offsets count from the start of the memory.
    pub columns: Vec<Column>,
    /// Byte offset of each record in the object; empty unless the stream was opened with `offsets`.
    pub starts: Vec<u64>,
    /// Number of records.
    pub records: usize,
    /// Whether a field of a record is absent.
    pub absent: bool,
}

impl Batch {
    /// Removes all records. The next one has number `first_record` and starts at `object_offset` or
    /// later.
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

    /// Adds all records of a call without copying. `chunk` and `payload` are the offsets of the
    /// chunk and of the call's payload in the batch's memory; `from` is the offset of the chunk in
    /// the object.
    pub(super) fn add_in_place(
        &mut self,
        decoded: &DecodedRecords,
        chunk: usize,
        payload: usize,
        from: u64,
    ) {
        let (chunk, payload) = (chunk as u32, payload as u32);
        let plain = !decoded.has_payload && !decoded.absent;
        for (to, column) in self.columns.iter_mut().zip(&decoded.columns) {
            to.lengths.extend_from_slice(&column.lengths);
            if plain {
                to.offsets.extend(column.offsets.iter().map(|offset| offset + chunk));
                continue;
            }
            to.offsets.extend(column.offsets.iter().map(|offset| match *offset {
                ABSENT => ABSENT,
                offset if offset & IN_PAYLOAD != 0 => offset - IN_PAYLOAD + payload,
                offset => offset + chunk,
            }));
        }
        self.starts.extend(decoded.starts.iter().map(|start| from + u64::from(*start)));
        self.records += decoded.records;
        self.absent |= decoded.absent;
    }

    /// Adds one record of a call by copying its bytes to the end of the payload.
    pub(super) fn add_copied(
        &mut self,
        memory: &mut [u8],
        decoded: &DecodedRecords,
        record: usize,
        chunk: &[u8],
        from: u64,
    ) {
        for (to, column) in self.columns.iter_mut().zip(&decoded.columns) {
            let (offset, length) = (column.offsets[record], column.lengths[record]);
            to.lengths.push(length);
            if offset == ABSENT {
                to.offsets.push(ABSENT);
                self.absent = true;
                continue;
            }
            let source = if offset & IN_PAYLOAD != 0 { &decoded.payload } else { chunk };
            let (start, length) = ((offset & !IN_PAYLOAD) as usize, length as usize);
            memory[self.payload..self.payload + length]
                .copy_from_slice(&source[start..start + length]);
            to.offsets.push(self.payload as u32);
            self.payload += length;
        }
        if let Some(start) = decoded.starts.get(record) {
            self.starts.push(from + u64::from(*start));
        }
        self.records += 1;
    }
}
