//! A rank resumes after a batch whose number is not known: an earlier run ended an epoch early, so
//! its numbers were different. The batch is identified by the position of its first record.

use super::{Batch, Effect, Entry, RecordPlace, SlotState, Table};
use crate::protocol::{BatchPlace, Rank};

/// The batch after which a rank resumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "unstable"), derive(Hash))]
pub struct Sought {
    /// Number of its epoch.
    pub epoch: u32,
    /// Its first record.
    pub first: RecordPlace,
    /// The rank that seeks it.
    pub rank: Rank,
}

impl Sought {
    fn is(&self, batch: &Batch) -> bool {
        (batch.epoch, batch.first) == (self.epoch, self.first)
    }

    fn after(&self, number: u64) -> BatchPlace {
        BatchPlace { epoch: self.epoch, number: self.rank.next_after(number) }
    }
}

impl Table {
    /// The first batch that may be granted to the rank, and the number of the sought one, if it has
    /// come already. Otherwise nothing of its epoch is granted to the rank before it comes. `None`
    /// if it can't come any more.
    pub fn seek(&mut self, sought: Sought) -> Option<(BatchPlace, Option<u64>)> {
        let found = self.queue.iter().find_map(|entry| {
            let Entry::Batch { slot, number, .. } = entry else { return None };
            let state = &self.slots[*slot as usize];
            let is_it = matches!(state, SlotState::Full { batch, .. } if sought.is(batch));
            is_it.then_some(*number)
        });
        if let Some(number) = found {
            return Some((sought.after(number), found));
        }
        if sought.epoch < self.writing {
            return None;
        }
        self.sought.insert(sought.rank.number, sought);
        Some((BatchPlace { epoch: sought.epoch, number: u64::MAX }, None))
    }

    /// Handles a batch that may be sought.
    pub(super) fn find_sought(&mut self, batch: &Batch) {
        let found: Vec<_> = self.sought.values().filter(|one| one.is(batch)).copied().collect();
        for sought in found {
            let rank = sought.rank.number;
            self.sought.remove(&rank);
            if let Some(wanted) = self.wanted_from.get_mut(rank as usize) {
                *wanted = sought.after(batch.number);
            }
            self.effects.push(Effect::Found { rank, number: batch.number });
        }
    }

    /// Whether a batch that must come in this epoch has not come.
    pub fn lacks_sought(&self, epoch: u32) -> bool {
        let is_skipped = self.skipped == Some(epoch);
        !is_skipped && self.sought.values().any(|sought| sought.epoch == epoch)
    }

    /// Whether a batch of this epoch, or of a later one, was granted since the channel began.
    pub fn has_granted_in(&self, epoch: u32) -> bool {
        self.granted_epoch >= Some(epoch)
    }
}
