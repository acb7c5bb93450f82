//! A sink in the slots of a ring, which decoders with a window see without a copy. Nobody is connected
//! to the ring.

use std::fmt;
use std::sync::Arc;

use pipemill_channel::{Batch, Failure, Sink, StopReason};
use pipemill_ring::host::{Ring, RingConfig, Writer};
use pipemill_types::{ErrorKind, Fault, Field, Mode, Position};

use crate::memory_sink::LookAtRecords;

/// Slots of the ring. One is filled at a time.
const SLOTS: u32 = 2;

/// A sink that shows each batch to `L`, and then uses its slot again.
pub(crate) struct SlotSink<L> {
    /// Looks at the records.
    pub(crate) looker: L,
    ring: Arc<Ring>,
}

impl<L> SlotSink<L> {
    /// A sink whose slots have this many bytes, a multiple of 4096.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(crate) fn new(looker: L, slot_bytes: usize) -> Result<Self, String> {
        let ring = Ring::new(RingConfig {
            channel: "test".to_owned(),
            slots: SLOTS,
            slot_bytes,
            dedicated: RingConfig::FEW_DEDICATED,
            credits: 1,
            mode: Mode::Shard,
            consumers: 1,
        });
        let ring = ring.map_err(|error| format!("can't test the window: {error}"))?;
        Ok(Self { looker, ring })
    }
}

fn no_memory(error: impl fmt::Display) -> StopReason {
    let fault = Fault::new(ErrorKind::Host, error.to_string(), "give the process more memory");
    Failure::new("test", "", Position::epoch(0), fault).into()
}

impl<L: LookAtRecords> Sink for SlotSink<L> {
    type Memory = Writer;

    fn memory(&mut self) -> Result<Writer, StopReason> {
        self.ring.acquire().map_err(no_memory)
    }

    fn dedicated_memory(&mut self, payload: usize, _: usize) -> Result<Writer, StopReason> {
        self.ring.acquire_dedicated(payload).map_err(no_memory)
    }

    fn grow(&mut self, memory: &mut Writer, payload: usize) -> Result<(), StopReason> {
        memory.ensure(payload).map_err(no_memory)
    }

    fn room(&self, memory: &Writer, _: usize, _: usize, _: usize) -> Option<usize> {
        Some(memory.as_ref().len())
    }

    fn schema(&mut self, fields: &Arc<[Field]>) {
        self.looker.schema(fields);
    }

    fn grant(&mut self, memory: Writer, batch: &mut Batch) -> Result<(), StopReason> {
        self.looker.batch(memory.as_ref(), batch)
    }

    fn has_demand(&self) -> bool {
        true
    }

    fn wants_epoch_end(&self, _: u32) -> bool {
        false
    }

    fn end_epoch(&mut self, _: u32, _: bool) -> Result<(), StopReason> {
        self.looker.end_epoch()
    }
}
