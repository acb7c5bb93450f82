//! The departure of a consumer: another one replaces it before it has hung up. Its batches go where
//! they go when a consumer hangs up, but it may still read its granted batches, so their memory is
//! not written before it is gone.

use std::time::Instant;

use super::{Consumer, ConsumerId, SlotId, SlotState, Table};

impl Table {
    /// Handles a consumer whose program has left the epoch in which the consumer began: skips the
    /// rest of that epoch. It has no effect if nothing was granted to it, or if consumers are in a
    /// later epoch.
    pub(in crate::host) fn leave_epoch(&mut self, id: ConsumerId, now: Instant) {
        let consumer = self.consumers.iter().find(|consumer| consumer.id == id);
        if let Some(epoch) = consumer.and_then(Consumer::begun_epoch) {
            self.skip_epoch(id, epoch, now);
        }
    }

    /// As [`disconnect`](Self::disconnect), but the consumer's slots are not reused before it is
    /// [`gone`](Self::gone).
    pub(in crate::host) fn depart(&mut self, id: ConsumerId, now: Instant) {
        let consumer = self.consumers.iter().find(|consumer| consumer.id == id);
        let held = consumer.map(|consumer| consumer.grants.iter().map(|held| held.slot).collect());
        self.departed.insert(id, held.unwrap_or_default());
        self.disconnect(id, now);
    }

    /// Handles the hang-up of a consumer that has departed.
    pub(in crate::host) fn gone(&mut self, id: ConsumerId) {
        for slot in self.departed.remove(&id).unwrap_or_default() {
            if self.slots[slot as usize] == SlotState::Departed {
                self.free(slot);
            }
        }
    }

    pub(super) fn is_read_by_departed(&self, slot: SlotId) -> bool {
        self.departed.values().any(|slots| slots.contains(&slot))
    }
}
