//! The state of all batches and consumers: the slot table, the queue and the credits, as a pure
//! state machine. Commands go in, effects come out in the order in which they must be sent; no I/O,
//! no clock.
//!
//! A batch is either in `queue`, where nobody has it, or claimed: by one consumer (`Share`) or by
//! several (`Broadcast`). In `Broadcast` a claim begins in the consumer's `assigned` list, where
//! the batch waits for credit. Then, and in `Share` from the start, it is one of the consumer's
//! `grants`, until RELEASE. When the last claim ends, the batch's slot is free; but a batch that
//! nobody has ACKed goes back to the queue, unless the rest of its epoch is skipped.
//!
//! In `Rank` the number of a batch determines the rank of its consumer, which claims it in its
//! `assigned` list as in `Broadcast`. Nothing is granted before each rank is connected for the
//! first time.
//!
//! The queue is in the order of batch numbers, with the ends of epochs and of the stream between
//! them. A batch that is after an end in the queue is granted only after that end was sent.

mod consumer;
mod delivery;
mod departure;
#[cfg(test)]
mod exhaustive;
#[cfg(any(test, feature = "unstable"))]
mod model;
mod restart;
#[cfg(any(test, feature = "unstable"))]
mod run;
mod seek;
#[cfg(test)]
mod tests;
mod types;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

#[cfg(feature = "unstable")]
pub use run::check_table;

pub(super) use consumer::{Consumer, HeldGrant};
pub use restart::Restart;
pub use seek::Sought;
pub(super) use types::{Batch, Effect, End, NotHeld, SlotCounts, SlotId, Wanted};
pub use types::{ConsumerId, RecordPlace};
use types::{Entry, EpochCount, SlotState};

use crate::protocol::{BatchPlace, EpochEnd, Mode};

/// The slot table of a ring.
#[derive(Debug)]
#[cfg_attr(any(test, feature = "unstable"), derive(Clone, Hash))]
pub struct Table {
    mode: Mode,
    /// Number of consumers that must be connected before anything is sent for the first time.
    min_consumers: u32,
    /// Whether `min_consumers` were connected at once.
    started: bool,
    slot_count: u32,
    /// Number of the ids of dedicated buffers.
    dedicated_count: u32,
    /// The ring's slots, then the dedicated buffers, then the larger slots.
    slots: Vec<SlotState>,
    /// The free slots; the one that was freed last is on top and is used next.
    free_slots: Vec<SlotId>,
    free_dedicated: Vec<SlotId>,
    /// The free larger slots, as `free_slots`.
    free_larger: Vec<SlotId>,
    /// Largest number of dedicated buffers at once.
    dedicated_limit: u32,
    queue: VecDeque<Entry>,
    /// The consumers in the order in which they connected.
    consumers: Vec<Consumer>,
    /// Consumers that have departed and not hung up, with the slots that they may still read.
    departed: BTreeMap<ConsumerId, Vec<SlotId>>,
    next_grant: u64,
    /// The epoch that consumers are in: the one after the last EPOCH_END that was sent.
    epoch: u32,
    /// The epoch that the writer is in: the one after the last `end_epoch`.
    writing: u32,
    /// The epoch whose rest the whole channel skips.
    skipped: Option<u32>,
    /// The counts of the epoch that the writer is in.
    count: EpochCount,
    /// The end of the stream, once it was sent.
    finished: Option<End>,
    /// For each rank, or for all consumers together: earlier batches are not delivered, because the
    /// program has them from an earlier run.
    wanted_from: Vec<BatchPlace>,
    /// For each rank, or for all consumers together: the position after the last batch that was
    /// ACKed since the channel began.
    acked_below: Vec<BatchPlace>,
    /// Batches that were done in an earlier run, out of order.
    done_before: BTreeSet<u64>,
    /// The last EPOCH_END that was sent since the channel began.
    last_end: Option<EpochEnd>,
    /// By rank: an EPOCH_END that was sent before the rank's consumers were restarted, and that
    /// their programs had not received.
    missed_ends: BTreeMap<u32, EpochEnd>,
    /// Whether a consumer has requested a position, and not all needed consumers have connected
    /// since.
    awaits_consumers: bool,
    /// By rank: batches that must come again before anything is granted to the rank.
    sought: BTreeMap<u32, Sought>,
    /// Whether a batch was granted since the channel began.
    has_granted: bool,
    /// The epoch of the last batch that was granted since the channel began.
    granted_epoch: Option<u32>,
    /// Whether the channel must restart elsewhere. Batches that the writer pushes before it does so
    /// are dropped.
    is_restarting: bool,
    /// Whether granting and sending has stopped.
    closed: bool,
    effects: Vec<Effect>,
}

impl Table {
    pub(super) fn new(mode: Mode, min_consumers: u32, slot_count: u32, dedicated: u32) -> Table {
        let all = slot_count + dedicated;
        let ranks = ranks(mode, min_consumers);
        Table {
            mode,
            min_consumers,
            wanted_from: vec![BatchPlace::default(); ranks],
            acked_below: vec![BatchPlace::default(); ranks],
            done_before: BTreeSet::new(),
            last_end: None,
            missed_ends: BTreeMap::new(),
            awaits_consumers: false,
            sought: BTreeMap::new(),
            has_granted: false,
            granted_epoch: None,
            is_restarting: false,
            started: false,
            slot_count,
            dedicated_count: dedicated,
            slots: vec![SlotState::Free; all as usize],
            free_slots: (0..slot_count).rev().collect(),
            free_dedicated: (slot_count..all).collect(),
            free_larger: Vec::new(),
            dedicated_limit: dedicated,
            queue: VecDeque::new(),
            consumers: Vec::new(),
            departed: BTreeMap::new(),
            next_grant: 0,
            epoch: 0,
            writing: 0,
            skipped: None,
            count: EpochCount::default(),
            finished: None,
            closed: false,
            effects: Vec::new(),
        }
    }

    /// Exchanges the effects gathered so far for an empty list.
    pub(super) fn swap_effects(&mut self, empty: &mut Vec<Effect>) {
        std::mem::swap(&mut self.effects, empty);
    }

    // ---- the writer's commands

    /// Whether the writer can take such a slot.
    pub(super) fn has(&self, wanted: Wanted) -> bool {
        match wanted {
            Wanted::Slot => !self.free_slots.is_empty(),
            Wanted::Dedicated => self.has_dedicated(self.dedicated_limit),
            Wanted::Larger => !self.free_larger.is_empty(),
            Wanted::SlotOrDedicated => {
                self.has(Wanted::Slot) || self.has_dedicated_beside(self.slot_count)
            }
            Wanted::LargerOrDedicated => {
                self.has(Wanted::Larger) || self.has_dedicated_beside(self.larger_count())
            }
        }
    }

    /// Whether a consumer waits for a batch and a dedicated buffer is free, as long as there are
    /// fewer batches in buffers and in these slots than there may be dedicated buffers.
    fn has_dedicated_beside(&self, slots: u32) -> bool {
        self.has_demand() && self.has_dedicated(self.dedicated_limit.saturating_sub(slots))
    }

    /// Whether fewer than `most` dedicated buffers are in use, and one is free.
    fn has_dedicated(&self, most: u32) -> bool {
        let used = self.dedicated_count as usize - self.free_dedicated.len();
        used < most as usize && !self.free_dedicated.is_empty()
    }

    /// Whether a slot or a dedicated buffer holds a batch, so that it will be free later.
    pub(super) fn holds_batches(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot, SlotState::Full { .. } | SlotState::Departed))
    }

    /// Takes a slot or buffer for the writer to fill. The writer creates the memory of a dedicated
    /// buffer itself.
    pub(super) fn take(&mut self, wanted: Wanted) -> Option<SlotId> {
        if !self.has(wanted) {
            return None;
        }
        let slot = match wanted {
            Wanted::Slot => self.free_slots.pop(),
            Wanted::Dedicated => self.free_dedicated.pop(),
            Wanted::Larger => self.free_larger.pop(),
            Wanted::SlotOrDedicated => self.free_slots.pop().or_else(|| self.free_dedicated.pop()),
            Wanted::LargerOrDedicated => {
                self.free_larger.pop().or_else(|| self.free_dedicated.pop())
            }
        }?;
        self.slots[slot as usize] = SlotState::Filling;
        Some(slot)
    }

    /// Number of the larger slots.
    pub(super) fn larger_count(&self) -> u32 {
        self.slots.len() as u32 - self.slot_count - self.dedicated_count
    }

    /// The number of this slot among the larger slots, if it is one of them.
    pub(super) fn larger_at(&self, slot: SlotId) -> Option<u32> {
        slot.checked_sub(self.slot_count + self.dedicated_count)
    }

    /// Whether larger slots can be made now, in place of others that exist: none of these is in
    /// use, no consumer knows them, and all will understand the new ones.
    pub(super) fn may_make_larger(&self) -> bool {
        let may_learn = |one: &Consumer| one.understands_larger && !one.knows_larger;
        let are_free = self.free_larger.len() == self.larger_count() as usize;
        are_free && self.consumers.iter().all(may_learn)
    }

    /// Makes this the number of larger slots, if they [may be made](Self::may_make_larger).
    pub(super) fn set_larger(&mut self, count: u32) {
        debug_assert!(self.may_make_larger(), "larger slots are in use");
        let first = self.slot_count + self.dedicated_count;
        self.slots.resize(first as usize, SlotState::Free);
        self.slots.resize((first + count) as usize, SlotState::Free);
        self.free_larger = (first..first + count).rev().collect();
    }

    /// Returns a slot that the writer took and does not need.
    pub(super) fn put_back(&mut self, slot: SlotId) {
        self.free(slot);
    }

    /// Records the batch in a slot that was taken.
    pub(super) fn push(&mut self, slot: SlotId, batch: Batch, now: Instant) {
        self.find_sought(&batch);
        // Only a writer with a bug pushes after the end of the stream. Its slots are freed too.
        let is_unwanted = self.is_restarting
            || batch.place() < self.wanted_from(batch.number)
            || self.done_before.remove(&batch.number);
        if is_unwanted || self.skipped == Some(batch.epoch) || self.finished.is_some() {
            self.effects.push(Effect::Done(batch.number));
            self.free(slot);
            return;
        }
        self.slots[slot as usize] = SlotState::Full { batch, claims: 0, acked: false };
        self.count.batches += 1;
        self.count.records += u64::from(batch.records);
        self.queue.push_back(Entry::Batch { slot, number: batch.number, epoch: batch.epoch });
        self.pump(now);
    }

    /// Ends the epoch: no more batches come in it. `early` says that the writer did not read all of
    /// its input.
    pub(super) fn end_epoch(&mut self, epoch: u32, early: bool, now: Instant) {
        if self.is_restarting {
            return;
        }
        let EpochCount { batches, records, skipped } = std::mem::take(&mut self.count);
        self.sought.retain(|_, sought| sought.epoch > epoch);
        let early = early || skipped || self.skipped == Some(epoch);
        self.writing = epoch.saturating_add(1);
        self.push_end(End::Epoch(EpochEnd { batches, records, epoch, early }), now);
    }

    /// `End::Stream` or `End::Error`. Nothing is sent after it.
    pub(super) fn finish(&mut self, end: End, now: Instant) {
        self.push_end(end, now);
    }

    // ---- the consumers' commands

    /// `rank` is the consumer's rank in mode `Rank`, which no other consumer has now; 0 in other
    /// modes. `larger`: it understands LARGER_SLOTS; as long as there are larger slots, every
    /// consumer does.
    pub(super) fn connect(
        &mut self,
        id: ConsumerId,
        credits: u32,
        rank: u32,
        larger: bool,
        now: Instant,
    ) {
        let mut consumer = Consumer::new(id, credits, rank, larger);
        if let Some(missed) = self.missed_end(rank) {
            consumer.begin_in(missed.epoch);
            self.effects.push(Effect::End { to: id, end: End::Epoch(missed) });
        }
        if let Some(end) = self.finished {
            self.effects.push(Effect::End { to: id, end });
        }
        self.consumers.push(consumer);
        self.pump(now);
    }

    /// Number of batches that were granted to the consumer and not ACKed.
    pub(super) fn unacked(&self, id: ConsumerId) -> usize {
        let consumer = self.consumers.iter().find(|consumer| consumer.id == id);
        let is_open = |held: &&HeldGrant| !held.acked;
        consumer.map_or(0, |consumer| consumer.grants.iter().filter(is_open).count())
    }

    /// Ends the consumer's grants. Batches that it had not ACKed go back to the queue, or are
    /// dropped with the rest of their epoch.
    pub(super) fn disconnect(&mut self, id: ConsumerId, now: Instant) {
        let Some(at) = self.consumers.iter().position(|consumer| consumer.id == id) else {
            return;
        };
        let gone = self.consumers.remove(at);
        for held in &gone.grants {
            self.unclaim(held.slot);
        }
        for &slot in &gone.assigned {
            self.unclaim(slot);
        }
        self.skip_if_all_consumers_skip();
        self.pump(now);
    }

    /// ACKs these grants. On an error, the grants before the wrong number are ACKed.
    pub(super) fn ack(
        &mut self,
        id: ConsumerId,
        grants: impl Iterator<Item = u64>,
        now: Instant,
    ) -> Result<(), NotHeld> {
        let result = self.each_grant(id, grants, |table, consumer, at| {
            table.mark_acked(consumer, at);
        });
        self.pump(now);
        result
    }

    /// ACKs and ends these grants. On an error, the grants before the wrong number are ended.
    pub(super) fn release(
        &mut self,
        id: ConsumerId,
        grants: impl Iterator<Item = u64>,
        now: Instant,
    ) -> Result<(), NotHeld> {
        let result = self.each_grant(id, grants, |table, consumer, at| {
            table.mark_acked(consumer, at);
            let held = table.consumers[consumer].grants.remove(at);
            table.unclaim(held.slot);
        });
        self.pump(now);
        result
    }

    /// Handles a consumer's request to skip the rest of `epoch`: the batches of it that nobody
    /// holds now. In `Broadcast` this applies to that consumer alone, until all consumers have
    /// requested it. Batches that are held are skipped, too, if their consumers hang up without an
    /// ACK. It has no effect if consumers are not in that epoch.
    pub(super) fn skip_epoch(&mut self, id: ConsumerId, epoch: u32, now: Instant) {
        if epoch != self.epoch || self.finished.is_some() {
            return;
        }
        match self.mode {
            Mode::Share | Mode::Rank => {
                let consumers = self.consumers.iter_mut();
                let assigned: Vec<_> = consumers.flat_map(|one| one.assigned.drain(..)).collect();
                assigned.into_iter().for_each(|slot| self.unclaim_or_skip(slot));
                self.skip_rest_of(epoch);
            }
            Mode::Broadcast => {
                let Some(at) = self.consumers.iter().position(|consumer| consumer.id == id) else {
                    return;
                };
                self.consumers[at].skipped = Some(epoch);
                for slot in std::mem::take(&mut self.consumers[at].assigned) {
                    self.unclaim_or_skip(slot);
                }
                self.skip_if_all_consumers_skip();
            }
        }
        self.pump(now);
    }

    /// Records that the consumer's socket is full, or has room again.
    pub(super) fn set_blocked(&mut self, id: ConsumerId, blocked: bool, now: Instant) {
        if let Some(consumer) = self.consumers.iter_mut().find(|consumer| consumer.id == id) {
            consumer.blocked = blocked;
        }
        self.pump(now);
    }

    /// Stops granting and sending.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    // ---- questions

    /// Whether the consumers ended this epoch early. This is known for the current epoch and the
    /// one before.
    pub fn is_skipped(&self, epoch: u32) -> bool {
        let was_ended = self.last_end.is_some_and(|end| end.epoch == epoch && end.early);
        was_ended || self.skipped == Some(epoch)
    }

    /// The epoch that the writer is in, if its rest must be skipped.
    pub(super) fn epoch_end_requested(&self) -> Option<u32> {
        self.skipped.filter(|epoch| *epoch >= self.writing)
    }

    /// Number of unsent ends.
    pub(super) fn unsent_ends(&self) -> usize {
        self.queue.iter().filter(|entry| matches!(entry, Entry::End(_))).count()
    }

    /// Whether a batch that is pushed now would be granted at once.
    pub(super) fn has_demand(&self) -> bool {
        self.started && self.queue.is_empty() && self.consumers.iter().any(Consumer::can_take)
    }

    /// Whether every batch is ACKed, and every end was sent to the connected consumers.
    pub(super) fn drained(&self) -> bool {
        let batch_waits = self.queue.iter().any(|entry| matches!(entry, Entry::Batch { .. }));
        let ends_sent = self.queue.is_empty() || self.consumers.is_empty();
        let ready = |consumer: &Consumer| consumer.all_acked() && !consumer.blocked;
        let is_over = ends_sent && !batch_waits && self.consumers.iter().all(ready);
        is_over && !self.is_restarting && !self.awaits_consumers
    }

    /// Whether nothing can be granted for lack of consumers: none is connected, or the needed
    /// number was never connected at once.
    pub(super) fn lacks_consumers(&self) -> bool {
        !self.started || self.consumers.is_empty()
    }

    /// Whether the needed number of consumers was connected at once.
    pub(super) fn has_started(&self) -> bool {
        self.started
    }

    /// Number of grants so far.
    pub(super) fn grants(&self) -> u64 {
        self.next_grant
    }

    /// Whether the end of the stream was sent.
    pub fn end_sent(&self) -> bool {
        self.finished.is_some()
    }

    /// Whether an end is next in the queue. The end waits for ACKs.
    pub(super) fn end_is_next(&self) -> bool {
        matches!(self.queue.front(), Some(Entry::End(_)))
    }

    /// The consumers that are connected, with their ranks, in the order in which they connected.
    pub fn connected(&self) -> impl ExactSizeIterator<Item = (ConsumerId, u32)> {
        self.consumers.iter().map(|consumer| (consumer.id, consumer.rank))
    }

    pub(super) fn consumers(&self) -> &[Consumer] {
        &self.consumers
    }

    pub(super) fn slot_counts(&self) -> SlotCounts {
        let mut counts = SlotCounts::default();
        let dedicated = self.slot_count..self.slot_count + self.dedicated_count;
        for (slot, state) in (0..).zip(&self.slots) {
            let holds = |consumer: &Consumer| consumer.grants.iter().any(|held| held.slot == slot);
            let count = match state {
                SlotState::Free if dedicated.contains(&slot) => continue,
                _ if dedicated.contains(&slot) => &mut counts.dedicated,
                SlotState::Free => &mut counts.free,
                SlotState::Departed => &mut counts.granted,
                SlotState::Filling => &mut counts.filling,
                SlotState::Full { .. } if self.consumers.iter().any(holds) => &mut counts.granted,
                SlotState::Full { .. } => &mut counts.ready,
            };
            *count += 1;
        }
        counts
    }

    // ---- helpers

    fn push_end(&mut self, end: End, now: Instant) {
        if self.finished.is_none() && !self.is_restarting {
            self.queue.push_back(Entry::End(end));
            self.pump(now);
        }
    }

    fn free(&mut self, slot: SlotId) {
        if let SlotState::Full { batch, .. } = self.slots[slot as usize] {
            self.effects.push(Effect::Done(batch.number));
        }
        if self.is_read_by_departed(slot) {
            self.slots[slot as usize] = SlotState::Departed;
            return;
        }
        self.slots[slot as usize] = SlotState::Free;
        if slot < self.slot_count {
            self.free_slots.push(slot);
        } else if self.larger_at(slot).is_some() {
            self.free_larger.push(slot);
        } else {
            self.free_dedicated.push(slot);
        }
        self.effects.push(Effect::Freed(slot));
    }

    /// Calls `act` with the positions of the consumer and of each of these grants.
    fn each_grant(
        &mut self,
        id: ConsumerId,
        grants: impl Iterator<Item = u64>,
        mut act: impl FnMut(&mut Table, usize, usize),
    ) -> Result<(), NotHeld> {
        let consumer = self.consumers.iter().position(|consumer| consumer.id == id);
        for grant in grants {
            let consumer = consumer.ok_or(NotHeld(grant))?;
            let grants = &self.consumers[consumer].grants;
            let at = grants.binary_search_by_key(&grant, |held| held.grant);
            act(self, consumer, at.map_err(|_| NotHeld(grant))?);
        }
        Ok(())
    }

    fn mark_acked(&mut self, consumer: usize, at: usize) {
        let held = &mut self.consumers[consumer].grants[at];
        held.acked = true;
        let slot = held.slot as usize;
        if let SlotState::Full { batch, acked, .. } = &mut self.slots[slot] {
            *acked = true;
            let BatchPlace { epoch, number } = batch.place();
            let (rank, after) = (self.rank_of(number), number.saturating_add(1));
            let after = BatchPlace { epoch, number: after };
            self.acked_below[rank] = self.acked_below[rank].max(after);
            if self.mode != Mode::Broadcast {
                self.effects.push(Effect::Done(number));
            }
        }
    }

    /// Ends one claim on a batch. The last one frees the slot; but a batch that nobody has ACKed
    /// goes back to the queue, unless the rest of its epoch is skipped.
    fn unclaim(&mut self, slot: SlotId) {
        match self.end_claim(slot) {
            Some((_, true)) => self.free(slot),
            Some((batch, false)) if self.skipped == Some(batch.epoch) => self.drop_unread(slot),
            Some((batch, false)) => self.requeue(slot, batch),
            None => {}
        }
    }

    /// Ends the claim of a consumer that skips the batch. The last one frees the slot.
    fn unclaim_or_skip(&mut self, slot: SlotId) {
        match self.end_claim(slot) {
            Some((_, true)) => self.free(slot),
            Some((_, false)) => self.drop_unread(slot),
            None => {}
        }
    }

    /// Frees the slot of a batch that is not delivered, because its epoch is ended early.
    fn drop_unread(&mut self, slot: SlotId) {
        if let SlotState::Full { batch, .. } = self.slots[slot as usize] {
            self.uncount(batch, true);
            self.free(slot);
        }
    }

    /// The batch, and whether it was ACKed, if this was its last claim.
    fn end_claim(&mut self, slot: SlotId) -> Option<(Batch, bool)> {
        match &mut self.slots[slot as usize] {
            SlotState::Full { batch, claims, acked } => {
                *claims -= 1;
                (*claims == 0).then_some((*batch, *acked))
            }
            SlotState::Free | SlotState::Filling | SlotState::Departed => None,
        }
    }

    fn requeue(&mut self, slot: SlotId, batch: Batch) {
        let before = |entry: &&Entry| match entry {
            Entry::Batch { number, .. } => *number < batch.number,
            Entry::End(_) => false,
        };
        let at = self.queue.iter().take_while(before).count();
        self.queue.insert(at, Entry::Batch { slot, number: batch.number, epoch: batch.epoch });
    }

    fn skip_if_all_consumers_skip(&mut self) {
        let skips = |consumer: &Consumer| consumer.skipped == Some(self.epoch);
        let already = self.skipped == Some(self.epoch);
        if !already && !self.consumers.is_empty() && self.consumers.iter().all(skips) {
            self.skip_rest_of(self.epoch);
        }
    }

    fn skip_rest_of(&mut self, epoch: u32) {
        self.skipped = Some(epoch);
        let of_epoch =
            |entry: &Entry| matches!(entry, Entry::Batch { epoch: other, .. } if *other == epoch);
        while let Some(at) = self.queue.iter().position(of_epoch) {
            if let Some(Entry::Batch { slot, .. }) = self.queue.remove(at) {
                self.drop_unread(slot);
            }
        }
    }

    /// Subtracts a batch from its epoch's counts, because it is not delivered. `early` says that
    /// the epoch ends early because of it.
    fn uncount(&mut self, batch: Batch, early: bool) {
        let records = u64::from(batch.records);
        if batch.epoch >= self.writing {
            self.count.batches = self.count.batches.saturating_sub(1);
            self.count.records = self.count.records.saturating_sub(records);
            self.count.skipped |= early;
            return;
        }
        for entry in &mut self.queue {
            if let Entry::End(End::Epoch(end)) = entry
                && end.epoch == batch.epoch
            {
                end.batches = end.batches.saturating_sub(1);
                end.records = end.records.saturating_sub(records);
                end.early |= early;
            }
        }
    }
}

/// Number of parts that the batches are divided into.
fn ranks(mode: Mode, consumers: u32) -> usize {
    if mode == Mode::Rank { consumers as usize } else { 1 }
}
