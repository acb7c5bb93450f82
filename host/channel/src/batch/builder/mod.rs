//! The bytes of an object on their way through its decoder, and the batch that its records go into.
//!
//! **In place**: bytes are read right after the chunk, into the memory of the batch. Records that
//! the decoder only refers to are never copied. **Copying**: a decoder that makes the bytes of its
//! records gets its input in a private buffer, and only the bytes that it made go into the batch.
//! The last call of the decoder selects between the two.
//!
//! **Of a fixed size**: records of a call that belong to the next batch are copied. There are few
//! of them, because reads end close to the end of a batch. Records that were emitted field by field
//! all are copied if they don't fit into one batch: each needs bytes from all over the chunk.
//!
//! - `append`: adds the records of a call of the decoder to the batch.
//! - `memory`: finds memory for the next bytes of input, and makes room for records.

mod append;
mod memory;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use pipemill_decode::{Bytes, InputBuffer};
use pipemill_source::Object;
use pipemill_types::{BatchPosition, ObjectIdentity, with_saved};

use crate::batch::ALIGN;
use crate::batch::BatchStart;
use crate::batch::cut::CutPoint;
use crate::batch::density::Density;
use crate::batch::writer::BatchWriter;
use crate::pump::added_values::AddedValues;
use crate::{Sink, StopReason};

/// A smaller read, in bytes, is not worth a system call: the batch leaves instead.
pub(crate) const MIN_READ: usize = 4 << 10;

/// What a thread keeps from one object to the next: the private buffer, which holds the chunk while
/// copying.
pub(crate) struct KeptInput {
    buffer: Arc<InputBuffer>,
    /// Whether the next bytes are read into the buffer. Otherwise they are read into the batch's
    /// memory. `None` before the first object.
    prefers_copying: Option<bool>,
}

impl KeptInput {
    /// Without memory. A chunk will have at most about `max_chunk` bytes.
    pub(crate) fn new(max_chunk: usize) -> Self {
        Self { buffer: Arc::new(InputBuffer::new(max_chunk as u64)), prefers_copying: None }
    }

    fn prefers_copying(&self) -> bool {
        self.prefers_copying.unwrap_or(false)
    }

    /// The buffer, for writing.
    fn buffer_mut(&mut self) -> &mut InputBuffer {
        // Clones live only as long as a call of the decoder.
        Arc::get_mut(&mut self.buffer).expect("the input buffer is not shared")
    }

    fn bytes(&self, range: Range<usize>) -> &[u8] {
        &(*self.buffer).as_ref()[range]
    }
}

/// The chunk of an object that its decoder sees, and the batch that its records go into.
pub(crate) struct BatchBuilder<'w, 's, S: Sink> {
    writer: &'w mut BatchWriter<'s, S>,
    input: &'w mut KeptInput,
    /// Whether the chunk lies in the batch's memory. Otherwise it lies in the private buffer.
    in_place: bool,
    /// Offset of the chunk in the batch's memory or in the private buffer.
    at: usize,
    /// Bytes of the chunk.
    len: usize,
    /// The last place in the object from which its decoder can decode again, and the record there.
    /// The positions of batches are computed from it.
    object: BatchStart,
    /// The identity of the object, without what its decoder has saved.
    identity: ObjectIdentity,
    /// Whether the decoder can decode again from there only with what it has saved.
    is_saved: bool,
    /// Whether the object is a block, which is always decoded from its start.
    is_block: bool,
    /// Byte offset of the chunk in the object.
    position: u64,
    /// Records of the object so far.
    records: u64,
    /// The number of the object's record at which decoding began.
    first_record: u64,
    /// Numbers of the object's records that are wanted.
    wanted: Range<u64>,
    /// Records that come again: they are counted, and dropped.
    again: u64,
    density: Density,
    /// Bytes of payload that the fields added by the host take: of each record, and of each call of
    /// the decoder.
    added_bytes: (usize, usize),
}

impl<'w, 's, S: Sink> BatchBuilder<'w, 's, S> {
    /// A builder without a chunk.
    pub(crate) fn new(writer: &'w mut BatchWriter<'s, S>, input: &'w mut KeptInput) -> Self {
        Self {
            writer,
            input,
            in_place: true,
            at: 0,
            len: 0,
            object: BatchStart::default(),
            identity: ObjectIdentity::default(),
            is_saved: false,
            is_block: false,
            position: 0,
            records: 0,
            first_record: 0,
            wanted: 0..u64::MAX,
            again: 0,
            density: Density::default(),
            added_bytes: (0, 0),
        }
    }

    /// The writer of the batch.
    pub(crate) fn writer(&self) -> &BatchWriter<'s, S> {
        self.writer
    }

    /// The writer of the batch. The batch must not leave while the chunk has bytes.
    pub(crate) fn writer_mut(&mut self) -> &mut BatchWriter<'s, S> {
        self.writer
    }

    /// Begins an object. A batch of a fixed size may hold records of the object before it.
    pub(crate) fn begin_object(&mut self, object: &Object) {
        self.len = 0;
        self.wanted = 0..u64::MAX;
        self.again = 0;
        self.jump_to(0, 0);
        self.object.position = BatchPosition {
            object_number: object.ordinal,
            object: object.name.clone(),
            identity: object.identity.clone(),
            ..BatchPosition::of_epoch(object.epoch)
        };
        self.identity = object.identity.clone();
        self.is_saved = false;
        self.is_block = object.block.is_some();
        self.object.metadata.clear();
        self.writer.begin_object(object.epoch);
        // Parts of a plan are long, and most decoders make values of them.
        self.input.prefers_copying.get_or_insert(object.facts.is_planned);
        self.place_empty_chunk();
    }

    /// Expects these values in the payload of each call of the decoder.
    pub(crate) fn set_added(&mut self, added: &AddedValues<'_>) {
        self.added_bytes = (added.bytes_of_record(), added.bytes_of_call());
    }

    /// Places the chunk, which must be empty, after the batch's records. Where these end at the end
    /// of the memory, the first read moves the chunk there, once there is room.
    fn place_empty_chunk(&mut self) {
        let after_records = self.writer.batch.payload.next_multiple_of(ALIGN);
        let bytes = self.writer.memory().map_or(0, |memory| (**memory).as_ref().len());
        self.in_place &= after_records <= bytes;
        self.at = if self.in_place { after_records } else { 0 };
    }

    /// Takes the facts about the object. Must be called before the first record that is decoded.
    pub(crate) fn set_metadata(&mut self, facts: &BTreeMap<String, String>) {
        if !facts.is_empty() {
            self.object.metadata = serde_json::json!(facts).to_string();
        }
    }

    /// Notes that the decoder can decode again from the start of the chunk, if it has seen the
    /// object's first `header` bytes.
    pub(crate) fn mark_restart(&mut self, header: u64) {
        // A position holds no larger number. Decoding from an earlier place is slower, but correct.
        let Ok(header) = u32::try_from(header) else { return };
        if std::mem::take(&mut self.is_saved) {
            self.object.position.identity = self.identity.clone();
        }
        self.mark_place(header);
    }

    /// Notes that the decoder can decode again from the start of the chunk, with what it has saved
    /// there.
    pub(crate) fn mark_saved(&mut self, saved: &[u8]) {
        let identity = with_saved(self.identity.text(), saved);
        self.object.position.identity = ObjectIdentity::of(identity);
        self.is_saved = true;
        self.mark_place(0);
    }

    fn mark_place(&mut self, header: u32) {
        let restart = &mut self.object.position;
        restart.header = header;
        restart.offset = self.position;
        restart.first_record = self.records.max(self.wanted.start);
    }

    /// Whether what the decoder saves is of use here: the last place to decode again from is at
    /// least `distance` bytes before the chunk, and somebody may go on inside of the object. A
    /// pipe, which has no identity, can't be read again.
    pub(crate) fn takes_saved(&self, distance: u64) -> bool {
        let behind = self.position.saturating_sub(self.object.position.offset);
        behind >= distance && !self.is_block && !self.identity.text().is_empty()
    }

    /// Number of bytes of the header that the decoder needs to decode again from the start of the
    /// chunk. `None` if it can't, or only with what it has saved.
    pub(crate) fn restart_here(&self) -> Option<u64> {
        let restart = &self.object.position;
        let is_here = (restart.offset, restart.first_record) == (self.position, self.records);
        (is_here && !self.is_saved && self.position > 0).then_some(restart.header.into())
    }

    /// Moves the chunk, which must be empty, to `offset` in the object, where record number
    /// `record` begins.
    pub(crate) fn jump_to(&mut self, offset: u64, record: u64) {
        (self.position, self.records, self.first_record) = (offset, record, record);
        self.density = Density::of_object_from(offset, record);
    }

    /// Of the object's records, only those with these numbers are wanted. All others are dropped,
    /// and don't count in positions.
    pub(crate) fn keep_records(&mut self, wanted: Range<u64>) {
        let first_record = &mut self.object.position.first_record;
        *first_record = wanted.start.max(*first_record);
        self.wanted = wanted;
    }

    /// The next records of the object came before, as many as this: they are counted, and dropped.
    pub(crate) fn drop_again(&mut self, records: u64) {
        self.again = records;
    }

    /// A number that grows with each record that is not dropped because it came before.
    pub(crate) fn counted(&self) -> u64 {
        self.records + self.again
    }

    /// Moves on in the object without a chunk: its records come from the cache.
    pub(crate) fn pass(&mut self, bytes: u64) {
        self.position += bytes;
    }

    /// Estimate of the bytes of input after the chunk that fill the batch. `None` for a batch
    /// without a fixed size, or before the object's first record.
    pub(crate) fn bytes_to_cut(&self) -> Option<usize> {
        let density = self.density.likely();
        let size = self.writer.size().filter(|_| density > 0.0)?;
        let missing = size.records.saturating_sub(self.writer.batch.records);
        // A little more, because the quotient is rounded.
        let bytes = (missing as f64 / density * (1.0 + 1e-9)).ceil();
        Some((bytes as usize).saturating_sub(self.len))
    }

    /// Lets the batch leave if the rule says so at this point. The chunk moves on to other memory.
    pub(crate) fn cut_at(&mut self, point: CutPoint) -> Result<(), StopReason> {
        if !self.writer.leaves_at(point) {
            return Ok(());
        }
        if self.in_place {
            self.leave_batch_memory();
        }
        self.writer.leave()
    }

    /// Whether the batch holds records that no consumer has got yet.
    pub(crate) fn has_records(&self) -> bool {
        self.writer.has_records()
    }

    /// Byte offset of the chunk in the object.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Bytes of the chunk.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether decoding has given no record yet, from where it began in the object.
    pub(crate) fn is_at_first_record(&self) -> bool {
        self.records == self.first_record
    }

    /// Records of the object so far.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// The chunk: the bytes that were read and not consumed. To be held only during a call of the
    /// decoder.
    pub(crate) fn chunk(&self) -> (Bytes, Range<usize>) {
        let range = self.at..self.at + self.len;
        match self.writer.memory() {
            Some(memory) if self.in_place => (memory.clone(), range),
            _ => (self.input.buffer.clone(), range),
        }
    }

    /// The bytes of the chunk from `offset` on, at most `max` of them.
    pub(crate) fn peek(&self, offset: usize, max: usize) -> Vec<u8> {
        let (bytes, range) = self.chunk();
        let chunk = &(*bytes).as_ref()[range];
        let rest = chunk.get(offset..).unwrap_or(&[]);
        rest[..rest.len().min(max)].to_vec()
    }

    /// Adds to the chunk the first `count` bytes of the last [`read_buffer`](Self::read_buffer).
    pub(crate) fn advance(&mut self, count: usize) {
        self.len += count;
    }

    /// Removes the first `count` bytes from the chunk.
    pub(crate) fn consume(&mut self, count: usize) {
        self.at += count;
        self.len -= count;
        self.position += count as u64;
        self.density.measure(self.position, self.records);
    }
}
