//! The sink of a channel that writes into a ring. The memory of a batch is a slot of the ring or a
//! dedicated buffer.

use std::cell::Cell;
use std::sync::Arc;

use pipemill_channel::{Batch, Failure, SinkDelivery, SinkMemory, StopReason, changed_input};
use pipemill_ring::host::{BatchInfo, Interrupt, MemoryError, Ring, RingError, WriteError, Writer};
use pipemill_ring::layout::{index_room, views_room};
use pipemill_ring::protocol::ErrorReport;
use pipemill_types::{BatchMemory, BatchSize, ErrorKind, Fault, Field, Position, TakenMemory};

use crate::rounds::Rounds;

/// Bytes that a batch reserves for the name of its object. A longer name is truncated.
const MAX_NAME_BYTES: usize = 1024;

/// The writing end of a channel's ring.
pub struct RingSink {
    ring: Arc<Ring>,
    decoder: String,
    /// Whether the channel's batches have a fixed number of records.
    has_batch_size: bool,
    /// The result of setting the ring's schema. The next grant returns its error.
    schema: Result<(), RingError>,
    /// The batches that wait until the round of all ranks is full, if batches are divided among
    /// ranks.
    rounds: Option<Rounds>,
    /// The epoch of the last batch.
    epoch: u32,
    /// Whether a batch was granted in this epoch.
    has_batches: bool,
    /// Whether a batch was larger than the channel's memory.
    is_over_budget: Cell<bool>,
}

impl RingSink {
    /// A sink that writes into `ring`. `decoder` is the name of the channel's decoder, for errors;
    /// `batch` is the number of records of each batch, if the channel has a fixed number.
    pub fn new(ring: Arc<Ring>, decoder: &str, batch: Option<BatchSize>) -> Self {
        Self {
            rounds: Rounds::of(&ring, batch),
            ring,
            decoder: decoder.to_owned(),
            has_batch_size: batch.is_some(),
            schema: Ok(()),
            epoch: 0,
            has_batches: false,
            is_over_budget: Cell::new(false),
        }
    }

    /// Whether the channel failed because a batch was larger than the channel's memory.
    pub fn is_over_budget(&self) -> bool {
        self.is_over_budget.get()
    }

    /// Delivers the waiting batches that may leave after a failure of the channel.
    pub fn flush(&mut self) {
        if let Some(rounds) = self.rounds.take() {
            for (memory, batch) in rounds.into_whole() {
                // The channel has failed already, and its own error is reported.
                let _ = self.grant_now(memory, &batch);
            }
        }
    }

    /// Ends the stream before the end of its source, and the current epoch early.
    pub fn end_early(self) {
        if self.has_batches {
            // An epoch that ends early does not lack anything.
            let _ = self.ring.end_epoch(self.epoch, true);
        }
        self.ring.end_stream();
    }

    fn stop_reason(&self, error: WriteError) -> StopReason {
        match error {
            WriteError::Interrupted(Interrupt::Stop) => StopReason::Stopped,
            WriteError::Interrupted(Interrupt::EndEpoch(_)) => StopReason::EpochEnded,
            WriteError::Interrupted(Interrupt::Restart) => StopReason::Restart,
            WriteError::Failed(error) => {
                if matches!(error, RingError::Memory(MemoryError::OverBudget(_))) {
                    self.is_over_budget.set(true);
                }
                self.failure(&error, self.remedy(&error))
            }
        }
    }

    fn remedy(&self, error: &RingError) -> &'static str {
        match (error, self.has_batch_size) {
            (RingError::Memory(MemoryError::OverBudget(_)), true) => {
                "raise `limits.batches`, or lower `batch`, the `window` of `shuffle` or \
                 `max_record`"
            }
            (RingError::Memory(MemoryError::OverBudget(_)), false) => {
                "raise `limits.batches`, or lower `max_record`"
            }
            (RingError::Memory(_) | RingError::TooLarge { .. }, true) => {
                "give the host more memory, or lower `batch` or `max_record`"
            }
            (RingError::Memory(_) | RingError::TooLarge { .. }, false) => {
                "give the host more memory, or lower `max_record`"
            }
            _ => "this is a bug in pipemill; please report it",
        }
    }

    fn failure(&self, error: &RingError, remedy: &str) -> StopReason {
        self.failure_in(self.epoch, Fault::new(ErrorKind::Host, error.to_string(), remedy))
    }

    fn failure_in(&self, epoch: u32, fault: Fault) -> StopReason {
        let channel = &self.ring.config().channel;
        Failure::new(channel, &self.decoder, Position::epoch(epoch), fault).into()
    }

    fn grant_now(&mut self, memory: Writer, batch: &Batch) -> Result<(), StopReason> {
        let mut position = batch.start.position.clone();
        position.object.truncate(position.object.floor_char_boundary(MAX_NAME_BYTES));
        let info = BatchInfo {
            position,
            object_offset: batch.start.object_offset,
            metadata: &batch.start.metadata,
            padding: batch.padding as u32,
            payload_bytes: batch.payload,
            has_absent: batch.absent,
        };
        memory.grant(&info, &batch.columns).map(drop).map_err(|error| self.stop_reason(error))
    }

    /// Fills the last round of an epoch, or drops it.
    fn end_rounds(&mut self, epoch: u32) -> Result<(), StopReason> {
        let Some(rounds) = &mut self.rounds else { return Ok(()) };
        let Some((mut memory, mut batch)) = rounds.take_last() else {
            let dropped = rounds.drop_held();
            if dropped > 0 {
                let (channel, world) = (&self.ring.config().channel, rounds.world());
                log::info!(
                    channel = channel.as_str(), epoch, batches = dropped;
                    "channel `{channel}`, epoch {epoch}: {dropped} batches at the end were left \
                    out, because they are fewer than the {world} ranks (tail = \"drop\")"
                );
            }
            return Ok(());
        };
        // Each copy has an index of its own.
        if let Some(columns) = memory.take_index() {
            batch.columns = columns;
        }
        for _ in 0..rounds.missing(self.ring.batches() + 1) {
            let mut copy = if memory.can_grow() {
                self.dedicated_memory(batch.payload, batch.columns.len())?
            } else {
                self.memory()?
            };
            copy.as_mut()[..batch.payload].copy_from_slice(&memory.as_ref()[..batch.payload]);
            self.grant_now(std::mem::replace(&mut memory, copy), &batch)?;
            batch.padding = batch.records;
        }
        self.grant_now(memory, &batch)
    }
}

impl SinkMemory for RingSink {
    type Memory = Writer;

    fn memory(&mut self) -> Result<Writer, StopReason> {
        self.ring.acquire().map_err(|error| self.stop_reason(error))
    }

    fn free_memory(&mut self) -> Option<Writer> {
        self.ring.try_acquire()
    }

    fn extra_memory(&mut self) -> Option<Writer> {
        self.ring.acquire_extra()
    }

    fn dedicated_memory(&mut self, payload: usize, fields: usize) -> Result<Writer, StopReason> {
        let size = dedicated_bytes(payload, fields);
        let memory = match self.has_batch_size {
            true => self.ring.acquire_larger(size),
            false => self.ring.acquire_dedicated(size),
        };
        memory.map_err(|error| self.stop_reason(error))
    }

    fn memory_about(&mut self, payload: usize, fields: usize) -> Result<Writer, StopReason> {
        let memory = self.ring.acquire_about(dedicated_bytes(payload, fields));
        memory.map_err(|error| self.stop_reason(error))
    }

    fn free_dedicated_memory(&mut self, payload: usize, fields: usize) -> Option<Writer> {
        self.ring.try_acquire_about(dedicated_bytes(payload, fields))
    }

    fn grow(&mut self, memory: &mut Writer, payload: usize) -> Result<(), StopReason> {
        memory.ensure(payload).map_err(|error| self.stop_reason(error))
    }

    fn take_memory(
        &mut self,
        taken: &mut Option<TakenMemory>,
        bytes: u64,
    ) -> Result<(), StopReason> {
        self.ring.take_memory(taken, bytes).map_err(|error| self.stop_reason(error))
    }

    fn room(&self, memory: &Writer, records: usize, fields: usize, texts: usize) -> Option<usize> {
        let size = memory.as_ref().len();
        if memory.can_grow() {
            // It grows for its index, so all of it is room for payload.
            return Some(size);
        }
        // The size of the index depends on its start only through its alignment, which is at most
        // 64 bytes.
        let names = MAX_NAME_BYTES + texts;
        let room = size.checked_sub(index_room(0, names, fields, records).saturating_add(64))?;
        if self.has_batch_size {
            // Views are written if they fit. The batch does not leave its slot for them.
            return Some(room);
        }
        room.checked_sub(views_room(memory.wanted_views(), records))
    }
}

impl SinkDelivery for RingSink {
    fn schema(&mut self, fields: &Arc<[Field]>) {
        self.schema = self.ring.set_schema(fields.to_vec());
    }

    fn grant(&mut self, memory: Writer, batch: &mut Batch) -> Result<(), StopReason> {
        if let Err(error) = std::mem::replace(&mut self.schema, Ok(())) {
            return Err(self.failure(&error, "ask for fewer fields"));
        }
        (self.epoch, self.has_batches) = (batch.epoch(), true);
        let Some(rounds) = &mut self.rounds else { return self.grant_now(memory, batch) };
        rounds.hold(memory, batch.clone());
        while let Some((memory, batch)) = self.rounds.as_mut().and_then(Rounds::next_ready) {
            self.grant_now(memory, &batch)?;
        }
        Ok(())
    }

    fn has_demand(&self) -> bool {
        self.ring.has_demand()
    }

    fn wants_epoch_end(&self, epoch: u32) -> bool {
        self.ring.epoch_end_requested() == Some(epoch)
    }

    fn end_epoch(&mut self, epoch: u32, early: bool) -> Result<(), StopReason> {
        if early {
            if let Some(rounds) = &mut self.rounds {
                rounds.drop_held();
            }
        } else {
            self.end_rounds(epoch)?;
        }
        let ended = self.ring.end_epoch(epoch, early);
        ended.map_err(|missing| self.failure_in(epoch, changed_input(missing.to_string())))?;
        self.has_batches = false;
        Ok(())
    }
}

/// Bytes of a dedicated buffer for this payload and the index of one record. If there are more
/// records, the writer allocates room at the grant.
fn dedicated_bytes(payload: usize, fields: usize) -> usize {
    payload + index_room(payload, MAX_NAME_BYTES, fields, 1)
}

/// Converts a failure to the error that the ring sends to its consumers.
pub fn error_report(failure: &Failure) -> ErrorReport {
    ErrorReport {
        kind: failure.fault.kind,
        message: failure.to_string(),
        channel: failure.channel.clone(),
        epoch: Some(failure.position.epoch),
        object: failure.position.object.clone(),
        offset: failure.position.offset,
        record: failure.position.record,
        decoder: Some(failure.decoder.clone()),
    }
}
