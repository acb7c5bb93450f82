//! Memory that is divided into slots of one size.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pipemill_types::{MemoryBudget, SharedPart, TakenMemory};

use super::config::RingError;
use crate::memory::{MemoryError, RingMemory};

/// Each time this many batches have begun, one more slot is reserved, whether it is needed or not.
/// So a long run soon has all of its memory, or learns early that it can't have it.
pub(super) const BATCHES_PER_RESERVED_SLOT: usize = 16;

/// Slots that lie one after the other.
pub(super) struct SlotMemory {
    pub(super) memory: RingMemory,
    slot_bytes: usize,
    slots: u32,
    /// How often a slot's memory was needed.
    taken: AtomicUsize,
    /// The slots' bytes in the budget.
    _of_budget: TakenMemory,
}

impl std::fmt::Debug for SlotMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} slots of {} bytes", self.slots, self.slot_bytes)
    }
}

impl SlotMemory {
    /// Slots that count in `budget`, whose product with the size does not overflow. No memory is
    /// reserved.
    ///
    /// # Errors
    /// The budget does not have enough left, or the kernel refuses the memory.
    pub(super) fn create(
        channel: &str,
        slots: u32,
        slot_bytes: usize,
        budget: &Arc<MemoryBudget>,
    ) -> Result<Self, RingError> {
        let bytes = slots as usize * slot_bytes;
        let of_budget = budget.take(bytes as u64).map_err(MemoryError::from)?;
        let memory = RingMemory::create(&format!("pipemill:{channel}"), bytes)?;
        let taken = AtomicUsize::new(0);
        Ok(Self { memory, slot_bytes, slots, taken, _of_budget: of_budget })
    }

    pub(super) fn slots(&self) -> u32 {
        self.slots
    }

    pub(super) fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Reserves the memory of a slot that was taken, if it was not yet.
    pub(super) fn reserve(&self, slot: u32) -> Result<(), RingError> {
        let taken = self.taken.fetch_add(1, Ordering::Relaxed);
        let in_step = (taken / BATCHES_PER_RESERVED_SLOT).min(self.slots as usize);
        let slots = in_step.max(slot as usize + 1);
        Ok(self.memory.reserve(slots * self.slot_bytes)?)
    }

    /// # Safety
    /// As for [`RingMemory::part`]: the caller has taken this slot from the table.
    #[expect(clippy::mut_from_ref, reason = "slots are lent apart from each other")]
    pub(super) unsafe fn slot(&self, slot: u32) -> &mut [u8] {
        let bytes = self.slot_bytes;
        // SAFETY: slots don't overlap, and the caller vouches that this one is its own.
        unsafe { self.memory.part(slot as usize * bytes, bytes) }
    }

    /// # Safety
    /// As for [`RingMemory::part_to_read`]: the caller has taken this slot from the table.
    pub(super) unsafe fn slot_to_read(&self, slot: u32) -> &[u8] {
        let bytes = self.slot_bytes;
        // SAFETY: slots don't overlap, and the caller vouches that this one is its own.
        unsafe { self.memory.part_to_read(slot as usize * bytes, bytes) }
    }

    /// The first byte of a slot, in the file of the memory.
    pub(super) fn shared_slot(&self, slot: u32) -> SharedPart<'_> {
        let offset = u64::from(slot) * self.slot_bytes as u64;
        SharedPart { file: self.memory.file(), offset }
    }

    /// The descriptor to hand out. It gives read access only.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.memory.fd()
    }
}
