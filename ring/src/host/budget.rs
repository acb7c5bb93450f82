//! The memory budget of a ring's channel: missing memory is waited for while consumers hold it, and
//! is an error if nobody does.

use std::sync::Arc;
use std::time::Instant;

use pipemill_types::{MemoryBudget, OverBudget, TakenMemory};

use super::config::WriteError;
use super::ring::Ring;
use super::table::Wanted;
use super::writing::interrupt;
use crate::memory::MemoryError;

impl Ring {
    /// The budget in which the ring's memory counts.
    pub fn budget(&self) -> &Arc<MemoryBudget> {
        &self.budget
    }

    /// Makes `taken` count `bytes` bytes in the budget, for memory of the writer that does not
    /// belong to the ring. Waits for consumers if their batches hold the missing memory.
    ///
    /// # Errors
    /// As for [`acquire`](Ring::acquire), and [`WriteError::Failed`] if nobody else holds the
    /// missing memory.
    pub fn take_memory(
        &self,
        taken: &mut Option<TakenMemory>,
        bytes: u64,
    ) -> Result<(), WriteError> {
        self.allocate(|budget| {
            match taken {
                Some(taken) => taken.resize(bytes)?,
                None => *taken = Some(budget.take(bytes)?),
            }
            Ok(())
        })
    }

    /// Allocates memory that counts in the budget. If the budget does not have enough left, it
    /// tries again after each dedicated buffer that is freed.
    pub(super) fn allocate<T>(
        &self,
        mut allocation: impl FnMut(&Arc<MemoryBudget>) -> Result<T, MemoryError>,
    ) -> Result<T, WriteError> {
        loop {
            match allocation(&self.budget) {
                Err(MemoryError::OverBudget(missing)) => self.free_memory(missing)?,
                other => return other.map_err(|error| WriteError::Failed(error.into())),
            }
        }
    }

    /// Returns a spare buffer to the kernel. Waits for one while consumers hold batches in buffers.
    fn free_memory(&self, missing: OverBudget) -> Result<(), WriteError> {
        let mut state = self.lock();
        let freed = loop {
            if let Some(spare) = state.dedicated.drop_spare() {
                break Ok(spare);
            }
            if let Some(interrupt) = interrupt(&state) {
                break Err(interrupt.into());
            }
            if !state.dedicated.hold_batches() {
                break Err(WriteError::Failed(MemoryError::from(missing).into()));
            }
            if state.writer_waits.replace(Wanted::Dedicated).is_none() {
                state.look_for_missing(Instant::now());
            }
            state = self.wait(state);
        };
        if state.writer_waits.take().is_some() {
            state.look_for_missing(Instant::now());
        }
        // Unmapping a large one takes long.
        drop(state);
        freed.map(drop)
    }
}
