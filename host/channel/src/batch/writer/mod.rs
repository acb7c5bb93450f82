//! The batch that is being filled: its records, its memory, and the sink that it goes to. It alone
//! decides, by the rule in `cut`, when a batch leaves.
//!
//! **Of a fixed size**: a channel may say how many records a batch has. Then a batch never leaves
//! because its memory is full: its memory grows.
//!
//! - `decoded_before`: takes records that are decoded already: records that were picked from
//!   others, and the records of other batches.
//! - `leave`: lets the batch leave.
//! - `memory`: the memory of the batch: takes it from the sink, and makes room in it.

mod decoded_before;
mod leave;
mod memory;

use std::sync::Arc;
use std::time::Instant;

use pipemill_types::{BatchSize, Column, Fault, Field, TakenMemory, schema_extension};

use crate::batch::BatchStart;
use crate::batch::copy::dense::row_sizes;
use crate::batch::cut::CutPoint;
use crate::batch::field_names::{other_fields_than_in_state, other_schema};
use crate::batch::large_batches::LargeBatches;
use crate::sink::DeliveryCounts;
use crate::{Batch, Sink, StopReason};

/// The index of a batch of a fixed size is counted from this many bytes on, and in steps of them.
const FREE_INDEX: u64 = 1 << 20;

/// The batch of a channel, and the sink that batches go to.
pub(crate) struct BatchWriter<'s, S: Sink> {
    sink: &'s mut S,
    /// The number of records of each batch, where the channel has one.
    size: Option<BatchSize>,
    /// The fields of the records, once a decoder has declared them.
    schema: Option<Arc<[Field]>>,
    /// The fields of the state that the channel resumes from, in the form that decoders get.
    state_fields: Option<String>,
    /// Bytes of each field's values, where they have a fixed size.
    row_sizes: Vec<Option<usize>>,
    /// The batch's memory. It is cloned only for the time of a call of the decoder.
    memory: Option<Arc<S::Memory>>,
    /// Whether the memory is a dedicated buffer, for a record or a batch of a fixed size that fits
    /// into no other memory. A batch without a fixed size leaves such a buffer as soon as it has a
    /// record.
    dedicated: bool,
    large: LargeBatches,
    /// The index of a batch of a fixed size, in the channel's budget.
    index_taken: Option<TakenMemory>,
    /// Bytes of index that a batch may have without being counted again.
    index_bytes: u64,
    pub(super) batch: Batch,
    /// When the batch got its first record.
    began: Instant,
    /// Delivery counts. Not in use if the sink has counts of its own.
    counts: Arc<DeliveryCounts>,
}

impl<'s, S: Sink> BatchWriter<'s, S> {
    /// A writer without a batch.
    pub(crate) fn new(sink: &'s mut S, size: Option<BatchSize>) -> Self {
        Self {
            sink,
            size,
            schema: None,
            state_fields: None,
            row_sizes: Vec::new(),
            memory: None,
            dedicated: false,
            large: LargeBatches::default(),
            index_taken: None,
            index_bytes: FREE_INDEX,
            batch: Batch::default(),
            began: Instant::now(),
            counts: Arc::default(),
        }
    }

    /// The counts of the batches that leave.
    pub(crate) fn counts(&self) -> &Arc<DeliveryCounts> {
        self.sink.counts().unwrap_or(&self.counts)
    }

    /// The number of records of each batch, where the channel has one.
    pub(super) fn size(&self) -> Option<BatchSize> {
        self.size
    }

    /// Sets the fields that earlier objects had.
    pub(crate) fn expect_schema(&mut self, fields: &Arc<[Field]>) {
        self.schema = Some(fields.clone());
        self.row_sizes = row_sizes(fields);
    }

    /// Requires the fields of a state, in the form that decoders get.
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

    /// Begins an object of this epoch. A batch of a fixed size may hold records of the object
    /// before it.
    pub(super) fn begin_object(&mut self, epoch: u32) {
        if self.size.is_none() || self.batch.epoch() != epoch {
            self.batch.restart();
        }
    }

    /// Notes the position of the batch's first record, if the batch has none yet. `first_record` is
    /// its number in the object. `object` has the object's last place to decode again from.
    /// `object_offset` is a byte offset before the record.
    pub(super) fn begin_batch(
        &mut self,
        object: &BatchStart,
        object_offset: u64,
        first_record: u64,
    ) {
        if self.batch.records == 0 {
            self.began = Instant::now();
            let start = &mut self.batch.start;
            start.clone_from(object);
            start.object_offset = object_offset;
            start.position.advance(first_record - object.position.first_record);
        }
    }

    /// Skips the next `records` records: they were delivered already.
    pub(crate) fn skip_records(&mut self, records: u64) {
        self.counts().to_skip.set(records);
    }

    /// Records that the caller has to skip, at most `most`. 0 if the sink skips them.
    pub(crate) fn take_to_skip(&mut self, most: u64) -> u64 {
        self.counts.to_skip.take(most)
    }

    /// Records that are still to be skipped, and have not been decoded.
    pub(crate) fn left_to_skip(&self) -> u64 {
        // Without a window, the batch is empty as long as records are skipped.
        let in_batch = self.batch.records as u64;
        let counts = self.counts();
        counts.to_skip.get().saturating_sub(counts.in_window.get() + in_batch)
    }

    /// Waits until a window has processed everything that it got.
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
    /// got are dropped.
    pub(crate) fn end_epoch(&mut self, epoch: u32, early: bool) -> Result<(), StopReason> {
        if early {
            self.batch.restart();
        } else {
            self.cut_at(CutPoint::EpochEnd)?;
        }
        self.sink.end_epoch(epoch, early)
    }

    /// Records at the end that were dropped because they did not fill a batch. Resets their count.
    pub(crate) fn take_dropped(&self) -> u64 {
        self.counts().dropped.take(u64::MAX)
    }

    /// Batches granted so far, of all objects.
    pub(crate) fn granted(&self) -> u64 {
        self.counts().granted.get()
    }

    /// Whether the batch holds records that no consumer has got yet.
    pub(crate) fn has_records(&self) -> bool {
        self.batch.records > 0
    }

    /// Exchanges the columns of the batch, which has no records, to reuse their memory.
    pub(crate) fn swap_columns(&mut self, columns: &mut Vec<Column>) {
        std::mem::swap(&mut self.batch.columns, columns);
        self.batch.restart();
    }

    /// The sink.
    pub(crate) fn sink(&mut self) -> &mut S {
        self.sink
    }
}
