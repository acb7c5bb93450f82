//! The ring as a sink: what the mill fills is a slot, what it hands over is a grant.

use std::sync::Arc;

use pipemill_ring::host::{AcquireError, BatchInfo, Ring, RingError, Writer};
use pipemill_ring::layout::index_room;
use pipemill_ring::protocol::ErrorReport;

use pipemill_channel::{Batch, Failure, Sink, StopReason};
use pipemill_types::{ErrorKind, Fault, Field, Position};

/// Bytes of an object's name that batches leave room for; a longer one is cut.
const NAME: usize = 1024;

/// The writing end of a channel's ring.
pub struct RingSink {
    ring: Arc<Ring>,
    decoder: String,
    schema: Result<(), RingError>,
    epoch: u32,
    /// Something of the epoch was granted.
    begun: bool,
}

impl RingSink {
    /// The sink of a channel whose decoder has this name.
    pub fn new(ring: Arc<Ring>, decoder: &str) -> Self {
        Self { ring, decoder: decoder.to_owned(), schema: Ok(()), epoch: 0, begun: false }
    }

    /// Nothing more comes, though there is more: the epoch ends early, and with it the stream.
    pub fn end_early(self) {
        if self.begun {
            self.ring.end_epoch(self.epoch, true);
        }
        self.ring.end_stream();
    }

    fn halt(&self, error: AcquireError) -> StopReason {
        match error {
            AcquireError::Stopped => StopReason::Stopped,
            AcquireError::EpochEnd(_) => StopReason::EpochEnded,
            AcquireError::Memory(error) => {
                self.failure(&error, "give the host more memory, or lower `max_record`")
            }
        }
    }

    fn failure(&self, error: &RingError, remedy: &str) -> StopReason {
        let failure = Failure {
            fault: Fault::new(ErrorKind::Host, error.to_string(), remedy),
            channel: self.ring.config().channel.clone(),
            position: Position::epoch(self.epoch),
            decoder: self.decoder.clone(),
            bytes: Vec::new(),
            missing: false,
        };
        failure.into()
    }
}

impl Sink for RingSink {
    type Memory = Writer;

    fn memory(&mut self) -> Result<Writer, StopReason> {
        self.ring.acquire().map_err(|error| self.halt(error))
    }

    fn large_memory(&mut self, payload: usize, fields: usize) -> Result<Writer, StopReason> {
        // The index of one record; should there be more, the writer makes room when it grants.
        let size = payload + index_room(payload, NAME, fields, 1);
        self.ring.acquire_dedicated(size).map_err(|error| self.halt(error))
    }

    fn room(&self, memory: &Writer, records: usize, fields: usize) -> usize {
        let size = memory.as_ref().len();
        if memory.is_dedicated() {
            // Grows for its index; only the payload counts.
            return size;
        }
        // What the index takes depends on where it starts only by its alignment.
        size.saturating_sub(index_room(0, NAME, fields, records) + 64)
    }

    fn schema(&mut self, fields: &Arc<[Field]>) {
        self.schema = self.ring.set_schema(fields.to_vec());
    }

    fn grant(&mut self, memory: Writer, batch: &Batch) -> Result<(), StopReason> {
        if let Err(error) = std::mem::replace(&mut self.schema, Ok(())) {
            return Err(self.failure(&error, "ask for fewer fields"));
        }
        (self.epoch, self.begun) = (batch.epoch, true);
        let info = BatchInfo {
            epoch: batch.epoch,
            object: short(&batch.object),
            first_record: batch.first_record,
            object_offset: batch.object_offset,
            payload_bytes: batch.payload,
            has_absent: batch.absent,
        };
        match memory.grant(&info, &batch.columns) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.failure(&error, "this is a bug in pipemill; please report it")),
        }
    }

    fn has_demand(&self) -> bool {
        self.ring.has_demand()
    }

    fn wants_epoch_end(&self, epoch: u32) -> bool {
        self.ring.epoch_end_requested() == Some(epoch)
    }

    fn end_epoch(&mut self, epoch: u32, early: bool) -> Result<(), StopReason> {
        self.ring.end_epoch(epoch, early);
        self.begun = false;
        Ok(())
    }
}

fn short(name: &str) -> &str {
    let mut end = name.len().min(NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// A failure as consumers are told of it.
pub fn report(failure: &Failure) -> ErrorReport {
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
