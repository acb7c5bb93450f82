//! Restarts a channel elsewhere: at another position of its input, or with other batches. It also
//! makes a consumer continue with later batches than the next ones, because its program has the
//! earlier ones.

use std::collections::BTreeSet;
use std::time::Instant;

use super::{ConsumerId, Entry, EpochCount, SlotState, Table, ranks};
use crate::protocol::{BatchPlace, EpochEnd, Mode};

/// The position at which a channel restarts, and how its batches are divided from there on.
#[derive(Clone, Copy, Debug)]
pub struct Restart {
    /// How batches are divided among consumers.
    pub mode: Mode,
    /// Number of consumers that must be connected before anything is sent: in `Rank`, the number of
    /// ranks.
    pub consumers: u32,
    /// The epoch in which it begins.
    pub epoch: u32,
    /// Largest number of dedicated buffers at once.
    pub dedicated: u32,
}

impl Table {
    /// Requests a restart elsewhere. All waiting batches are dropped, and so are the batches that
    /// the writer pushes before it has restarted. Call it while no consumer holds a batch.
    pub fn restart(&mut self, new: Restart) {
        for entry in std::mem::take(&mut self.queue) {
            if let Entry::Batch { slot, .. } = entry {
                self.free(slot);
            }
        }
        for at in 0..self.consumers.len() {
            for slot in std::mem::take(&mut self.consumers[at].assigned) {
                self.free(slot);
            }
            self.consumers[at].skipped = None;
        }
        let parts = ranks(new.mode, new.consumers);
        (self.mode, self.min_consumers) = (new.mode, new.consumers);
        let nothing = vec![BatchPlace::default(); parts];
        (self.wanted_from, self.acked_below) = (nothing.clone(), nothing);
        (self.epoch, self.writing, self.skipped) = (new.epoch, new.epoch, None);
        self.started = self.consumers.len() >= new.consumers as usize;
        (self.has_granted, self.is_restarting) = (false, true);
        (self.sought, self.granted_epoch) = Default::default();
        self.done_before.clear();
        (self.last_end, self.missed_ends) = Default::default();
        (self.count, self.dedicated_limit) = (EpochCount::default(), new.dedicated);
    }

    /// The writer begins at the new place: what it pushes from now on counts.
    pub(in crate::host) fn restarted(&mut self, now: Instant) {
        self.is_restarting = false;
        self.pump(now);
    }

    /// Whether the writer must begin elsewhere.
    pub fn is_restarting(&self) -> bool {
        self.is_restarting
    }

    /// Batches of this rank before this one are not delivered: waiting ones are dropped, and so are
    /// later ones.
    pub fn set_wanted_from(&mut self, rank: u32, first: BatchPlace) {
        let Some(wanted) = self.wanted_from.get_mut(rank as usize) else { return };
        *wanted = first;
        let is_unwanted = |table: &Table, entry: &Entry| match *entry {
            Entry::Batch { number, epoch, .. } => {
                BatchPlace { epoch, number } < table.wanted_from(number)
            }
            Entry::End(_) => false,
        };
        while let Some(at) = self.queue.iter().position(|entry| is_unwanted(self, entry)) {
            if let Some(Entry::Batch { slot, .. }) = self.queue.remove(at)
                && let SlotState::Full { batch, .. } = self.slots[slot as usize]
            {
                self.uncount(batch, false);
                self.free(slot);
            }
        }
    }

    /// These batches are not delivered: they were done in an earlier run.
    pub fn set_done_before(&mut self, batches: BTreeSet<u64>) {
        self.done_before = batches;
    }

    /// Prepares for consumers of this rank which are about to connect, and continue with this
    /// batch. The end of its epoch is sent to them again, if it was sent before.
    pub fn expect(&mut self, rank: u32, first: BatchPlace) {
        self.set_wanted_from(rank, first);
        self.await_consumers();
        self.missed_ends.remove(&rank);
        if let Some(end) = self.last_end.filter(|end| end.epoch == first.epoch) {
            self.missed_ends.insert(rank, end);
        }
    }

    /// The end that a consumer of this rank gets first. A rank has one consumer. In other modes,
    /// each consumer gets it that connects before anything else is sent.
    pub(super) fn missed_end(&mut self, rank: u32) -> Option<EpochEnd> {
        match self.mode {
            Mode::Rank => self.missed_ends.remove(&rank),
            Mode::Share | Mode::Broadcast => self.missed_ends.get(&rank).copied(),
        }
    }

    /// Records that something new is sent to consumers. Consumers that connect from now on begin
    /// after the missed end.
    pub(super) fn forget_missed_end(&mut self) {
        if self.mode != Mode::Rank {
            self.missed_ends.clear();
        }
    }

    /// The channel does not end before all needed consumers have connected.
    pub fn await_consumers(&mut self) {
        self.awaits_consumers = true;
    }

    /// As [`expect`](Self::expect), and as if the channel began with this batch: the needed number
    /// of consumers must connect before it is granted. Call it while none is connected.
    pub fn go_on_from(&mut self, first: BatchPlace) {
        (self.started, self.has_granted) = (false, false);
        self.expect(0, first);
    }

    /// Whether the end of this epoch was sent, and can't be sent again.
    pub fn is_past(&self, epoch: u32) -> bool {
        epoch < self.epoch && self.last_end.is_none_or(|end| end.epoch != epoch)
    }

    /// The position after the last batch that a consumer of this rank has ACKed since the channel
    /// began.
    pub fn acked_below(&self, rank: u32) -> BatchPlace {
        self.acked_below.get(rank as usize).copied().unwrap_or_default()
    }

    /// Whether a batch was granted since the channel began.
    pub fn has_granted(&self) -> bool {
        self.has_granted
    }

    /// The consumer that has this rank now.
    pub fn consumer_of(&self, rank: u32) -> Option<ConsumerId> {
        self.consumers.iter().find(|consumer| consumer.rank == rank).map(|consumer| consumer.id)
    }

    /// How batches are divided among consumers, and the number of needed consumers.
    pub fn division(&self) -> (Mode, u32) {
        (self.mode, self.min_consumers)
    }

    /// The first batch that is delivered to this rank.
    pub fn wanted_from_of(&self, rank: u32) -> BatchPlace {
        self.wanted_from.get(rank as usize).copied().unwrap_or_default()
    }

    /// The epoch that consumers are in.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The epoch that the writer is in.
    pub fn writing(&self) -> u32 {
        self.writing
    }

    /// The part of the batches that a batch belongs to.
    pub(super) fn rank_of(&self, number: u64) -> usize {
        (number % self.wanted_from.len() as u64) as usize
    }

    /// The first delivered batch of this batch's part.
    pub(super) fn wanted_from(&self, number: u64) -> BatchPlace {
        self.wanted_from[self.rank_of(number)]
    }
}
