//! Slots that were made as large as the channel's batches. There may be fewer of them than the
//! ring's setting says. A batch gets a dedicated buffer of their size if consumers hold all slots
//! and one of them waits for a batch, so that as many batches as the setting says can be held.

use std::sync::Arc;
use std::time::Instant;

use pipemill_types::{MemoryBudget, OverBudget};

use super::config::{RingConfig, RingError, WriteError};
use super::ring::Ring;
use super::table::{SlotId, Wanted};
use super::writer::Writer;
use super::writing::interrupt;
use crate::layout::HEADER_BYTES;
use crate::memory::MemoryError;

impl Ring {
    /// Makes a ring that has `slots` slots instead of [`RingConfig::slots`]. If consumers hold all
    /// of them and wait for more, batches get dedicated buffers, until there are as many batches as
    /// the setting says. Slots and dedicated buffers count in `budget`.
    ///
    /// # Errors
    /// As for [`within`](Self::within).
    pub fn fitted(
        config: RingConfig,
        slots: u32,
        budget: Arc<MemoryBudget>,
    ) -> Result<Arc<Ring>, RingError> {
        Self::with_slots(config, slots, 0, budget)
    }

    /// The next slot, or a dedicated buffer of the same size where
    /// [`fitted`](Self::fitted) says so.
    pub(super) fn acquire_fitted(self: &Arc<Ring>) -> Result<Writer, WriteError> {
        let bytes = self.config().slot_bytes - HEADER_BYTES;
        let mut slot = self.take(Wanted::SlotOrDedicated)?;
        loop {
            match Writer::of_size(self, slot, bytes) {
                Err(WriteError::Failed(RingError::Memory(MemoryError::OverBudget(missing)))) => {
                    let wanted = (Wanted::Slot, Wanted::SlotOrDedicated);
                    slot = self.take_without_memory(wanted, missing)?;
                }
                other => return other,
            }
        }
    }

    /// Waits for `slot`, or for a dedicated buffer that is free, because the budget does not have
    /// enough left for a new one. It is an error if no batch can free one. `either` stands for
    /// both.
    pub(super) fn take_without_memory(
        &self,
        (slot, either): (Wanted, Wanted),
        missing: OverBudget,
    ) -> Result<SlotId, WriteError> {
        let mut state = self.lock();
        let taken = loop {
            if let Some(interrupt) = interrupt(&state) {
                break Err(interrupt.into());
            }
            if let Some(slot) = state.table.take(slot) {
                break Ok(Some(slot));
            }
            if let Some(spare) = state.dedicated.drop_spare() {
                drop(state);
                // Unmapping a large one takes long.
                drop(spare);
                state = self.lock();
                break Ok(None);
            }
            if !state.table.holds_batches() {
                break Err(WriteError::Failed(MemoryError::from(missing).into()));
            }
            if state.writer_waits.replace(either).is_none() {
                state.look_for_missing(Instant::now());
            }
            state = self.wait(state);
        };
        if state.writer_waits.take().is_some() {
            state.look_for_missing(Instant::now());
        }
        drop(state);
        match taken? {
            Some(slot) => Ok(slot),
            None => self.take(either),
        }
    }
}
