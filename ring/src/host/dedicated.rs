//! The dedicated buffers of a ring: the ones that hold a batch, and the ones that are kept for
//! later batches.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::table::SlotId;
use crate::memory::DedicatedBuffer;

/// A buffer is returned to the kernel after this many batches that did not need it.
const KEPT_FOR_BATCHES: u64 = 64;

/// The dedicated buffers of a ring, whose number, including those being filled, is limited.
pub(super) struct DedicatedBuffers {
    /// The number of slots: larger ids are those of dedicated buffers.
    slot_count: u32,
    /// The buffers that hold a batch, by slot id minus `slot_count`.
    full: Box<[Option<DedicatedBuffer>]>,
    /// The free buffers, with the number of batches that had been pushed when they were freed. The
    /// last one in the list was freed last.
    spare: VecDeque<(u64, DedicatedBuffer)>,
    /// Number of batches that were pushed.
    pushed: u64,
}

impl DedicatedBuffers {
    pub(super) fn new(slot_count: u32, most: u32) -> Self {
        let full = (0..most).map(|_| None).collect();
        Self { slot_count, full, spare: VecDeque::new(), pushed: 0 }
    }

    /// Records a pushed batch, with its buffer if it has one. Returns a buffer that was not needed
    /// for long.
    pub(super) fn pushed(
        &mut self,
        slot: SlotId,
        buffer: Option<DedicatedBuffer>,
    ) -> Option<DedicatedBuffer> {
        self.pushed += 1;
        if let Some(full) = self.at(slot) {
            *full = buffer;
        }
        let pushed = self.pushed;
        let unused = self.spare.pop_front_if(|(freed, _)| *freed + KEPT_FOR_BATCHES < pushed);
        unused.map(|(_, buffer)| buffer)
    }

    /// Frees the buffer of this slot.
    pub(super) fn freed(&mut self, slot: SlotId) {
        if let Some(buffer) = self.at(slot).and_then(Option::take) {
            self.spare.push_back((self.pushed, buffer));
        }
    }

    /// The descriptor of the buffer with this id, if it is a dedicated buffer that holds a batch.
    pub(super) fn fd(&self, slot: SlotId) -> Option<Arc<OwnedFd>> {
        let at = slot.checked_sub(self.slot_count)?;
        self.full.get(at as usize)?.as_ref().map(DedicatedBuffer::fd)
    }

    /// The place of this slot's buffer, if it is a dedicated buffer.
    fn at(&mut self, slot: SlotId) -> Option<&mut Option<DedicatedBuffer>> {
        let at = slot.checked_sub(self.slot_count)?;
        self.full.get_mut(at as usize)
    }

    /// A free buffer, for the caller to drop.
    pub(super) fn drop_spare(&mut self) -> Option<DedicatedBuffer> {
        self.spare.pop_front().map(|(_, buffer)| buffer)
    }

    /// All free buffers, for the caller to drop.
    pub(super) fn drop_spares(&mut self) -> Vec<DedicatedBuffer> {
        self.spare.drain(..).map(|(_, buffer)| buffer).collect()
    }

    /// Bytes of the free buffers.
    pub(super) fn spare_bytes(&self) -> u64 {
        self.spare.iter().map(|(_, buffer)| buffer.len() as u64).sum()
    }

    /// Whether a buffer holds a batch, so that it will be free later.
    pub(super) fn hold_batches(&self) -> bool {
        self.full.iter().any(Option::is_some)
    }

    /// The buffer of at least this many bytes that was freed last. Otherwise returns one that is
    /// too small, for the caller to free.
    pub(super) fn take_spare(
        &mut self,
        bytes: usize,
    ) -> (Option<DedicatedBuffer>, Option<DedicatedBuffer>) {
        match self.spare.iter().rposition(|(_, buffer)| buffer.len() >= bytes) {
            Some(at) => (self.spare.remove(at).map(|(_, buffer)| buffer), None),
            None => (None, self.spare.pop_front().map(|(_, buffer)| buffer)),
        }
    }
}

#[cfg(test)]
mod tests {
    use pipemill_types::MemoryBudget;
    use proptest::prelude::*;

    use super::*;

    const SLOTS: u32 = 4;
    const MOST: usize = 3;

    proptest! {
        /// Their number never exceeds the ring's limit, and none is kept that was not needed for
        /// long.
        #[test]
        fn buffers_are_used_again_and_given_back(
            steps in proptest::collection::vec((0_u8..3, 1_usize..20), 1..300),
        ) {
            let budget = MemoryBudget::unlimited();
            let mut buffers = DedicatedBuffers::new(SLOTS, MOST as u32);
            let mut full: Vec<SlotId> = Vec::new();
            let mut since_dedicated = 0;
            for (step, pages) in steps {
                let free = (SLOTS..SLOTS + MOST as u32).find(|id| !full.contains(id));
                match (step, free) {
                    (0, Some(id)) => {
                        let bytes = pages * 4096;
                        let fits = buffers.spare.iter().any(|(_, spare)| spare.len() >= bytes);
                        let (found, unfit) = buffers.take_spare(bytes);
                        prop_assert_eq!(found.is_some(), fits);
                        prop_assert!(found.is_none() || unfit.is_none());
                        prop_assert!(full.len() + buffers.spare.len() < MOST);
                        let mut buffer = match found {
                            Some(found) => found,
                            None => DedicatedBuffer::create("test", bytes, &budget).unwrap(),
                        };
                        prop_assert!(buffer.bytes().len() >= bytes);
                        buffer.bytes()[bytes - 1] = id as u8;
                        buffer.seal(bytes).unwrap();
                        prop_assert_eq!(buffer.bytes_to_read()[bytes - 1], id as u8);
                        let fd = buffer.fd();
                        buffers.pushed(id, Some(buffer));
                        prop_assert!(Arc::ptr_eq(&fd, &buffers.fd(id).unwrap()));
                        full.push(id);
                        since_dedicated = 0;
                    }
                    (1, _) if !full.is_empty() => {
                        let id = full.swap_remove(pages % full.len());
                        buffers.freed(id);
                        prop_assert!(buffers.fd(id).is_none());
                        since_dedicated = 0;
                    }
                    _ => {
                        for _ in 0..pages {
                            buffers.pushed(pages as u32 % SLOTS, None);
                            since_dedicated += 1;
                        }
                    }
                }
                let kept = KEPT_FOR_BATCHES as usize + MOST;
                prop_assert!(since_dedicated <= kept || buffers.spare.is_empty());
                prop_assert!(full.len() + buffers.spare.len() <= MOST);
            }
        }
    }
}
