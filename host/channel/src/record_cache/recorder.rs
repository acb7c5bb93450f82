//! Stores the calls of a decoder.

use std::collections::BTreeMap;
use std::ops::Range;

use pipemill_decode::{DecodedRecords, IN_PAYLOAD, Stream};
use pipemill_source::cache::{NewRecords, StoredCall};

use super::index::{CallEnd, Mark, Moved, write_end, write_records};
use crate::batch::ALIGN;

/// Stores the calls of one stream.
pub(crate) struct Recorder {
    /// `None` once they can't be stored.
    new: Option<NewRecords>,
    /// The call that has not ended.
    call: StoredCall,
    /// Its records, as they are stored in its index.
    records: Vec<u8>,
    has_records: bool,
    /// What is stored with its end.
    end: CallEnd,
    has_fields: bool,
    metadata: BTreeMap<String, String>,
}

impl Recorder {
    pub(crate) fn new(new: NewRecords) -> Self {
        Self {
            new: Some(new),
            call: StoredCall::default(),
            records: Vec::new(),
            has_records: false,
            end: CallEnd::default(),
            has_fields: false,
            metadata: BTreeMap::new(),
        }
    }

    /// Takes what the last call of the stream has made of this chunk, before anything is added to
    /// its records or removed from them.
    pub(crate) fn call(&mut self, stream: &Stream, chunk: &[u8]) {
        if self.new.is_none() {
            return;
        }
        self.learn(stream);
        let decoded = stream.decoded();
        self.has_records = decoded.records > 0;
        self.records.clear();
        match move_values(decoded, chunk, &mut self.call.payload) {
            Some(moved) => {
                let fields = stream.schema().map_or(0, |fields| fields.len());
                write_records(&mut self.records, decoded, fields, moved);
            }
            None => self.new = None,
        }
    }

    /// Takes the fields and the facts that the stream has declared by now.
    fn learn(&mut self, stream: &Stream) {
        if let Some(fields) = stream.schema().filter(|_| !self.has_fields) {
            (self.end.fields, self.has_fields) = (Some(fields.clone()), true);
        }
        if *stream.metadata() != self.metadata {
            self.metadata.clone_from(stream.metadata());
            self.end.metadata = Some(self.metadata.clone());
        }
    }

    /// Stores the call, which has used this many bytes.
    pub(crate) fn end_call(&mut self, consumed: u64, mark: Mark) {
        if consumed > 0 || self.has_records {
            (self.end.consumed, self.end.mark) = (consumed, mark);
            self.store();
        }
    }

    fn store(&mut self) {
        self.has_records = false;
        self.call.index.clear();
        write_end(&mut self.call.index, &std::mem::take(&mut self.end));
        self.call.index.extend_from_slice(&self.records);
        if self.new.as_mut().is_some_and(|new| !new.add(&self.call)) {
            self.new = None;
        }
    }

    /// The stream has come to its end without an error.
    pub(crate) fn finish(mut self, stream: &Stream) {
        self.learn(stream);
        if self.end.fields.is_some() || self.end.metadata.is_some() {
            self.call.payload.clear();
            self.records.clear();
            let (none, moved) = (DecodedRecords::default(), Moved { from: 0, to: 0 });
            write_records(&mut self.records, &none, 0, moved);
            self.store();
        }
        if let Some(new) = self.new.take() {
            new.finish();
        }
    }
}

/// Makes the payload of a stored call: that of the decoder, and then the part of the chunk that has
/// values. `None` if it is too large.
fn move_values(decoded: &DecodedRecords, chunk: &[u8], payload: &mut Vec<u8>) -> Option<Moved> {
    payload.clear();
    payload.extend_from_slice(&decoded.payload);
    let Some(Range { start, end }) = values_in_chunk(decoded) else {
        return Some(Moved { from: 0, to: 0 });
    };
    // Values stay aligned as they were.
    let start = start - start % ALIGN;
    let to = payload.len().next_multiple_of(ALIGN);
    payload.resize(to, 0);
    payload.extend_from_slice(chunk.get(start..end)?);
    let fits = payload.len() < IN_PAYLOAD as usize;
    fits.then_some(Moved { from: start as u32, to: to as u32 })
}

/// The part of the chunk that has values.
fn values_in_chunk(decoded: &DecodedRecords) -> Option<Range<usize>> {
    let mut found: Option<Range<usize>> = None;
    let mut add = |offset: u32, bytes: u64| {
        if offset & IN_PAYLOAD == 0 {
            let (from, to) = (offset as usize, offset as usize + bytes as usize);
            let before = found.take().unwrap_or(from..to);
            found = Some(before.start.min(from)..before.end.max(to));
        }
    };
    for column in &decoded.columns {
        match column.even() {
            Some(even) => add(even.first, even.bytes()),
            None => {
                let pairs = column.offsets().iter().zip(column.lengths());
                pairs.for_each(|(offset, length)| add(*offset, u64::from(*length)));
            }
        }
    }
    found
}
