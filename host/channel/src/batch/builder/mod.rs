//! Owns the memory into which an object's bytes are read, the batch of its records, and the sink.
//! It alone decides, by the rule in `cut`, when a batch leaves.
//!
//! **In place**: bytes are read right after the chunk, into the memory of the batch. Records that
//! the decoder only refers to are never copied. **Copying**: a decoder that makes the bytes of its
//! records gets its input in a private buffer, and only what it made goes into the batch. The last
//! call of the decoder selects between the two.
//!
//! **Of a fixed size**: a channel may say how many records a batch has. Then a batch never leaves
//! for want of memory: its memory grows. The records of one call of the decoder that belong to the
//! next batch are copied; reads that end close to the end of a batch make that few.
//!
//! - `append`: adds the records of a call of the decoder to the batch.
//! - `decoded_before`: takes records that were decoded before: those that were picked out of
//!   others, and those of other batches.
//! - `leave`: lets the batch leave.
//! - `memory`: the memory of the chunk and of the batch: where the next bytes are read to, and how
//!   room is made.

mod append;
mod decoded_before;
mod leave;
mod memory;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use pipemill_decode::Bytes;
use pipemill_source::Object;
use pipemill_types::{BatchSize, Column, Fault, Field, TakenMemory, schema_extension};

use crate::batch::ALIGN;
use crate::batch::BatchStart;
use crate::batch::copy::dense::row_sizes;
use crate::batch::cut::CutPoint;
use crate::batch::density::Density;
use crate::batch::field_names::{other_fields_than_in_state, other_schema};
use crate::sink::DeliveryCounts;
use crate::{Batch, Sink, StopReason};

/// A smaller read, in bytes, is not worth a system call: the batch leaves instead.
pub(crate) const MIN_READ: usize = 4 << 10;

/// The index of a batch of a fixed size is counted from this many bytes on, and in steps of them.
const FREE_INDEX: u64 = 1 << 20;

/// The chunk and the batch of a channel, and the sink that batches go to.
pub(crate) struct BatchBuilder<'s, S: Sink> {
    sink: &'s mut S,
    /// The number of records of each batch, where the channel has one.
    size: Option<BatchSize>,
    /// The fields of the records, once a decoder has declared them.
    schema: Option<Arc<[Field]>>,
    /// Those of the state that the channel goes on from, as decoders get them.
    state_fields: Option<String>,
    /// Bytes of each field's values, where they have a fixed size.
    row_sizes: Vec<Option<usize>>,
    /// The batch's memory. It is cloned only for the time of a call of the decoder.
    memory: Option<Arc<S::Memory>>,
    /// The memory is a dedicated buffer, for a record or a batch of a fixed size that fits into no
    /// other memory. Without a size, the batch leaves as soon as it holds a record.
    dedicated: bool,
    /// The bytes that the largest batch of a fixed size needed so far that did not fit a slot; 0
    /// without one. The next batches begin in a dedicated buffer of this size.
    grown: usize,
    /// The index of a batch of a fixed size, in the channel's budget.
    index_taken: Option<TakenMemory>,
    /// Bytes of index that a batch may have without being counted again.
    index_bytes: u64,
    /// The private buffer. It holds the chunk while copying.
    input: Arc<Vec<u8>>,
    /// Where the chunk lies: in the batch's memory, or else in `input`.
    in_place: bool,
    /// Where the next bytes are to be read: into `input`, or else into the batch's memory.
    prefers_copying: bool,
    /// Where the chunk starts, in the batch's memory or in `input`.
    at: usize,
    /// Bytes of the chunk.
    len: usize,
    batch: Batch,
    /// When the batch got its first record.
    began: Instant,
    /// The object, and the last place in it from which its decoder can decode again:
    /// `restart_offset`, with the record of number `first_record`. Batches take this over.
    object: BatchStart,
    /// Byte offset of the chunk in the object.
    position: u64,
    /// Records of the object so far.
    records: u64,
    density: Density,
    /// What has become of the records. Not in use if the sink has counts of its own.
    counts: Arc<DeliveryCounts>,
}

impl<'s, S: Sink> BatchBuilder<'s, S> {
    /// A builder without a batch.
    pub(crate) fn new(sink: &'s mut S, size: Option<BatchSize>) -> Self {
        Self {
            sink,
            size,
            schema: None,
            state_fields: None,
            row_sizes: Vec::new(),
            memory: None,
            dedicated: false,
            grown: 0,
            index_taken: None,
            index_bytes: FREE_INDEX,
            input: Arc::default(),
            in_place: true,
            prefers_copying: false,
            at: 0,
            len: 0,
            batch: Batch::default(),
            began: Instant::now(),
            object: BatchStart::default(),
            position: 0,
            records: 0,
            density: Density::default(),
            counts: Arc::default(),
        }
    }

    /// A builder that gets no input, only records that were picked out of others: see
    /// [`fill`](Self::fill).
    pub(crate) fn of_picked(sink: &'s mut S, size: Option<BatchSize>) -> Self {
        Self { in_place: false, ..Self::new(sink, size) }
    }

    /// The counts of the batches that leave.
    pub(crate) fn counts(&self) -> &Arc<DeliveryCounts> {
        self.sink.counts().unwrap_or(&self.counts)
    }

    /// Begins an object. A batch of a fixed size may hold records of the object before it.
    pub(crate) fn begin_object(&mut self, object: &Object) {
        let epoch = object.epoch;
        self.len = 0;
        self.jump_to(0, 0);
        self.object.object.clone_from(&object.name);
        self.object.identity.clone_from(&object.identity);
        self.object.object_number = object.ordinal;
        self.object.metadata.clear();
        (self.object.restart_header, self.object.restart_offset) = (0, 0);
        self.object.first_record = 0;
        if self.size.is_none() || self.batch.epoch != epoch {
            self.batch.restart();
        }
        self.batch.epoch = epoch;
        self.at = if self.in_place { self.batch.payload.next_multiple_of(ALIGN) } else { 0 };
    }

    /// Objects before had these fields.
    pub(crate) fn expect_schema(&mut self, fields: &Arc<[Field]>) {
        self.schema = Some(fields.clone());
        self.row_sizes = row_sizes(fields);
    }

    /// The records must have the fields of a state: those that its decoder gets.
    pub(crate) fn expect_state_fields(&mut self, text: Option<String>) {
        self.state_fields = text.filter(|text| !text.is_empty());
    }

    /// The fields of the objects so far, once one was declared.
    pub(crate) fn schema(&self) -> Option<&[Field]> {
        self.schema.as_deref()
    }

    /// Takes the fields of the object's records. The sink gets them once, before the first batch.
    ///
    /// # Errors
    /// An earlier object had other fields.
    pub(crate) fn set_schema(&mut self, fields: &Arc<[Field]>) -> Result<(), Fault> {
        match &self.schema {
            Some(known) if known != fields => return Err(other_schema(known, fields)),
            Some(_) => {}
            None => {
                let text = schema_extension(fields).map(|(_, text)| text);
                if let Some((then, now)) = self.state_fields.take().zip(text)
                    && then != now
                {
                    return Err(other_fields_than_in_state(&then, &now));
                }
                self.sink.schema(fields);
                self.schema = Some(fields.clone());
                self.row_sizes = row_sizes(fields);
            }
        }
        self.batch.columns.resize_with(fields.len(), Default::default);
        Ok(())
    }

    /// Takes facts about the object. It must be called before the object's first record.
    pub(crate) fn set_metadata(&mut self, facts: &BTreeMap<String, String>) {
        if !facts.is_empty() {
            self.object.metadata = serde_json::json!(facts).to_string();
        }
    }

    /// The decoder can decode again from the start of the chunk, after the object's first `header`
    /// bytes.
    pub(crate) fn mark_restart(&mut self, header: u64) {
        // A position can't say more. Decoding from an earlier place is slower, but right.
        let Ok(header) = u32::try_from(header) else { return };
        self.object.restart_header = header;
        (self.object.restart_offset, self.object.first_record) = (self.position, self.records);
    }

    /// Whether the decoder can decode again from the start of the chunk: the bytes of the header
    /// that it needs for that.
    pub(crate) fn restart_here(&self) -> Option<u64> {
        let is_here =
            self.object.restart_offset == self.position && self.object.first_record == self.records;
        (is_here && self.position > 0).then_some(self.object.restart_header.into())
    }

    /// The chunk begins at `offset` in the object from now on, with the record of number `record`.
    /// Must not be called while there are bytes in the chunk.
    pub(crate) fn jump_to(&mut self, offset: u64, record: u64) {
        (self.position, self.records) = (offset, record);
        self.density = Density::of_object_from(offset, record);
    }

    /// Leaves out this many records from here on: they were given already.
    pub(crate) fn skip_records(&mut self, records: u64) {
        self.counts().to_skip.set(records);
    }

    /// Records that the caller has to leave out: none if the sink does.
    pub(crate) fn take_to_skip(&mut self) -> u64 {
        self.counts.to_skip.take(u64::MAX)
    }

    /// Records that are still to be left out, and have not been decoded.
    pub(crate) fn left_to_skip(&self) -> u64 {
        // Without a window, the batch is empty as long as records are left out.
        let in_batch = self.batch.records as u64;
        let counts = self.counts();
        counts.to_skip.get().saturating_sub(counts.in_window.get() + in_batch)
    }

    /// Waits until a window has done with what it was given.
    pub(crate) fn finish(&mut self) -> Result<(), StopReason> {
        self.sink.finish()
    }

    /// Whether a consumer waits for a batch.
    pub(crate) fn has_demand(&self) -> bool {
        self.sink.has_demand()
    }

    /// Whether the consumers asked to end this epoch.
    pub(crate) fn wants_epoch_end(&self, epoch: u32) -> bool {
        self.sink.wants_epoch_end(epoch)
    }

    /// Tells the sink that the epoch is at its end. If it ends early, records that no consumer has
    /// got are left out.
    pub(crate) fn end_epoch(&mut self, epoch: u32, early: bool) -> Result<(), StopReason> {
        if early {
            self.batch.restart();
        } else {
            self.cut_at(CutPoint::EpochEnd)?;
        }
        self.sink.end_epoch(epoch, early)
    }

    /// Bytes of input that fill the batch, counted from the end of the chunk: an estimate. `None`
    /// without a size, or before the object's first record.
    pub(crate) fn bytes_to_cut(&self) -> Option<usize> {
        let density = self.density.likely();
        let size = self.size.filter(|_| density > 0.0)?;
        let missing = size.records.saturating_sub(self.batch.records);
        // A little more, because the quotient is rounded.
        let bytes = (missing as f64 / density * (1.0 + 1e-9)).ceil();
        Some((bytes as usize).saturating_sub(self.len))
    }

    /// Records of the last batches that were left out, because they did not fill a batch.
    pub(crate) fn take_dropped(&self) -> u64 {
        self.counts().dropped.take(u64::MAX)
    }

    /// Byte offset of the chunk in the object.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Bytes of the chunk.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Records of the object so far.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// Batches granted so far, of all objects.
    pub(crate) fn granted(&self) -> u64 {
        self.counts().granted.get()
    }

    /// Whether the batch holds records that no consumer has got yet.
    pub(crate) fn has_records(&self) -> bool {
        self.batch.records > 0
    }

    /// The chunk: the bytes that were read and not consumed. For the time of a call of the decoder.
    pub(crate) fn chunk(&self) -> (Bytes, Range<usize>) {
        let range = self.at..self.at + self.len;
        match &self.memory {
            Some(memory) if self.in_place => (memory.clone(), range),
            _ => (self.input.clone(), range),
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

    /// Exchanges the columns of the batch, which has no records, for the sake of their memory.
    pub(crate) fn swap_columns(&mut self, columns: &mut Vec<Column>) {
        std::mem::swap(&mut self.batch.columns, columns);
        self.batch.restart();
    }

    /// The sink.
    pub(crate) fn sink(&mut self) -> &mut S {
        self.sink
    }
}
