//! One consumer in the table: its credits and its grants.

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
    /// The rank whose batches it gets in mode `Rank`; 0 in other modes.
    pub(in crate::host) rank: u32,
    /// Its grants in the order of their numbers.
    pub(in crate::host) grants: Vec<HeldGrant>,
    /// Whether it understands LARGER_SLOTS.
    pub(super) understands_larger: bool,
    /// Whether it was told of the larger slots.
    pub(super) knows_larger: bool,
    /// Batches that are assigned to it and wait for credit; not used in `Share`.
    pub(super) assigned: VecDeque<SlotId>,
    /// Whether its socket is full.
    pub(super) blocked: bool,
    /// The epoch whose rest it requested to skip.
    pub(super) skipped: Option<u32>,
    /// The epoch of the first batch or end that was sent to it.
    first_epoch: Option<u32>,
    /// This increases with each grant to it. The consumer with the lowest value has waited longest.
    pub(super) last_grant: u64,
}

impl Consumer {
    pub(super) fn new(id: ConsumerId, credits: u32, rank: u32, larger: bool) -> Consumer {
        Consumer {
            id,
            credits,
            rank,
            grants: Vec::new(),
            understands_larger: larger,
            knows_larger: false,
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

    /// Records that a batch or the end of this epoch is sent to it.
    pub(super) fn begin_in(&mut self, epoch: u32) {
        self.first_epoch.get_or_insert(epoch);
    }

    /// The epoch in which it began, if a batch was granted to it.
    pub(super) fn begun_epoch(&self) -> Option<u32> {
        self.first_epoch.filter(|_| self.last_grant > 0)
    }

    /// Whether it has ACKed every batch that was granted to it.
    pub(super) fn all_acked(&self) -> bool {
        self.assigned.is_empty() && self.grants.iter().all(|held| held.acked)
    }
}
