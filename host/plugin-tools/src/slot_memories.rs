//! Batches in the slots of a ring, which decoders with a window see without a copy. Nobody is
//! connected to the ring.

use std::fmt;
use std::sync::Arc;

use pipemill_channel::{Failure, StopReason};
use pipemill_ring::host::{Ring, RingConfig, RingError, Writer};
use pipemill_types::{ErrorKind, Fault, Mode, Position};

use pipemill_channel::memory_sink::Memories;

/// Number of slots of the ring. One is filled at a time.
const SLOTS: u32 = 2;

/// The slots of a ring. A slot is free again after its batch was examined.
pub(super) struct SlotMemories(Arc<Ring>);

impl SlotMemories {
    /// Creates slots of this many bytes, a multiple of 4096.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(super) fn new(slot_bytes: usize) -> Result<Self, RingError> {
        let ring = Ring::new(RingConfig {
            channel: "test".to_owned(),
            slots: SLOTS,
            slot_bytes,
            dedicated: RingConfig::FEW_DEDICATED,
            credits: 1,
            mode: Mode::Rank,
            consumers: 1,
        });
        ring.map(Self)
    }
}

fn no_memory(error: impl fmt::Display) -> StopReason {
    let fault = Fault::new(ErrorKind::Host, error.to_string(), "give the process more memory");
    Failure::new("test", "", Position::epoch(0), fault).into()
}

impl Memories for SlotMemories {
    type Memory = Writer;

    fn take(&mut self) -> Result<Writer, StopReason> {
        self.0.acquire().map_err(no_memory)
    }

    fn dedicated(&mut self, payload: usize) -> Result<Writer, StopReason> {
        self.0.acquire_dedicated(payload).map_err(no_memory)
    }

    fn grow(&mut self, memory: &mut Writer, payload: usize) -> Result<(), StopReason> {
        memory.ensure(payload).map_err(no_memory)
    }
}
