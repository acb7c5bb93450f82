//! One consumer in the table: its credits, and the grants that it holds.

use std::collections::VecDeque;
use std::time::Instant;

use super::types::{ConsumerId, SlotId};

#[derive(Clone, Copy, Debug)]
#[cfg_attr(any(test, feature = "unstable"), derive(Hash))]
pub(in crate::host) struct HeldGrant {
    pub(in crate::host) grant: u64,
    pub(in crate::host) slot: SlotId,
    pub(in crate::host) batch: u64,
    pub(in crate::host) since: Instant,
    pub(in crate::host) acked: bool,
}

#[derive(Debug)]
#[cfg_attr(any(test, feature = "unstable"), derive(Clone, Hash))]
pub(in crate::host) struct Consumer {
    pub(in crate::host) id: ConsumerId,
    pub(in crate::host) credits: u32,
    /// Which batches it gets in mode `Rank`; 0 in the others.
    pub(in crate::host) rank: u32,
    /// In the order of their numbers.
    pub(in crate::host) grants: Vec<HeldGrant>,
    /// Not in `Share`: batches that are assigned to it and wait for credit.
    pub(super) assigned: VecDeque<SlotId>,
    /// Its socket is full.
    pub(super) blocked: bool,
    /// The epoch whose rest it asked to skip.
    pub(super) skipped: Option<u32>,
    /// The epoch of the first batch or end that it was sent.
    first_epoch: Option<u32>,
    /// Rises with each grant to it. The consumer with the lowest has waited longest.
    pub(super) last_grant: u64,
}

impl Consumer {
    pub(super) fn new(id: ConsumerId, credits: u32, rank: u32) -> Consumer {
        Consumer {
            id,
            credits,
            rank,
            grants: Vec::new(),
            assigned: VecDeque::new(),
            blocked: false,
            skipped: None,
            first_epoch: None,
            last_grant: 0,
        }
    }

    /// Whether a GRANT can be sent to it now.
    pub(super) fn can_take(&self) -> bool {
        !self.blocked && self.grants.len() < self.credits as usize
    }

    /// It is sent a batch or the end of this epoch.
    pub(super) fn begin_in(&mut self, epoch: u32) {
        self.first_epoch.get_or_insert(epoch);
    }

    /// The epoch in which it has begun, if it was granted a batch.
    pub(super) fn begun_epoch(&self) -> Option<u32> {
        self.first_epoch.filter(|_| self.last_grant > 0)
    }

    /// Whether it has ACKed every batch that it was given.
    pub(super) fn all_acked(&self) -> bool {
        self.assigned.is_empty() && self.grants.iter().all(|held| held.acked)
    }
}
