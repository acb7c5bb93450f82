//! Who holds which batch: the slot table, the queue and the credits, as a pure state machine.
//! Commands go in, effects come out in the order in which they must be sent; no I/O, no clock.
//!
//! A batch is in exactly one of these places: in `queue` (nobody has it), or claimed by one
//! consumer (`share`) or several (`broadcast`). A consumer's claim begins in its `due` list
//! (broadcast only: assigned, but no credit for it yet) and goes on as one of its `grants`, until
//! RELEASE. When the last claim ends, the batch's place is free, or, where nobody had ACKed it, it
//! goes back to the queue. The queue is in the order of batch numbers, with the ends of epochs and
//! stream between them; nothing is granted from behind such an end before it was sent.

mod consumer;
mod delivery;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Instant;

pub(super) use consumer::{Consumer, Granted};

use crate::protocol::{EpochEnd, Mode};

/// Where a batch lies: slots first, then extents.
pub(super) type Place = u32;
pub(super) type ConsumerId = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) number: u64,
    pub(super) epoch: u32,
    pub(super) records: u32,
    pub(super) bytes: u64,
}

/// An end that is told to every consumer, once all batches before it are ACKed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Epoch(EpochEnd),
    Stream,
    Error,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Grant { to: ConsumerId, grant: u64, place: Place, batch: Batch },
    End { to: ConsumerId, end: End },
    Freed(Place),
}

/// A message that names a grant which its sender does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("grant {0} is not held by this consumer: never granted to it, or RELEASEd already")]
pub(super) struct NotHeld(pub(super) u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Free,
    Filling,
    Full { batch: Batch, claims: u32, acked: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Batch { place: Place, number: u64, epoch: u32 },
    End(End),
}

/// What an epoch has delivered so far; batches that are left out again are taken off.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    batches: u64,
    records: u64,
    left_out: bool,
}

#[derive(Debug)]
pub(super) struct Table {
    mode: Mode,
    /// Consumers that must be connected before anything is sent for the first time.
    minimum: u32,
    started: bool,
    slots: u32,
    places: Vec<Content>,
    /// Last freed on top: its memory is the likeliest to be in the processor's cache.
    free_slots: Vec<Place>,
    free_extents: Vec<Place>,
    queue: VecDeque<Entry>,
    consumers: Vec<Consumer>,
    next_grant: u64,
    /// The epoch that consumers are in: after the last EPOCH_END sent.
    epoch: u32,
    /// The epoch that the writer is in: after the last `end`.
    writing: u32,
    /// The epoch whose rest is left out.
    left_out: Option<u32>,
    count: Count,
    finished: Option<End>,
    effects: Vec<Effect>,
}

impl Table {
    pub(super) fn new(mode: Mode, minimum: u32, slots: u32, extents: u32) -> Table {
        Table {
            mode,
            minimum,
            started: false,
            slots,
            places: vec![Content::Free; (slots + extents) as usize],
            free_slots: (0..slots).rev().collect(),
            free_extents: (slots..slots + extents).collect(),
            queue: VecDeque::new(),
            consumers: Vec::new(),
            next_grant: 0,
            epoch: 0,
            writing: 0,
            left_out: None,
            count: Count::default(),
            finished: None,
            effects: Vec::new(),
        }
    }

    /// Exchanges the effects gathered so far for an empty list.
    pub(super) fn swap_effects(&mut self, empty: &mut Vec<Effect>) {
        std::mem::swap(&mut self.effects, empty);
    }

    // ---- the writer's commands

    pub(super) fn take_slot(&mut self) -> Option<Place> {
        let place = self.free_slots.pop()?;
        self.places[place as usize] = Content::Filling;
        Some(place)
    }

    pub(super) fn take_extent(&mut self) -> Option<Place> {
        let place = self.free_extents.pop()?;
        self.places[place as usize] = Content::Filling;
        Some(place)
    }

    /// A place that was taken is not needed after all.
    pub(super) fn put_back(&mut self, place: Place) {
        self.free(place);
    }

    /// A place that was taken holds this batch now.
    pub(super) fn push(&mut self, place: Place, batch: Batch, now: Instant) {
        // After the end only a mistaken writer gets here; its slots must not be lost.
        if self.left_out == Some(batch.epoch) || self.finished.is_some() {
            self.free(place);
            return;
        }
        self.places[place as usize] = Content::Full { batch, claims: 0, acked: false };
        self.count.batches += 1;
        self.count.records += u64::from(batch.records);
        self.queue.push_back(Entry::Batch { place, number: batch.number, epoch: batch.epoch });
        self.pump(now);
    }

    pub(super) fn end_epoch(&mut self, epoch: u32, early: bool, now: Instant) {
        let Count { batches, records, left_out } = std::mem::take(&mut self.count);
        let early = early || left_out || self.left_out == Some(epoch);
        self.writing = epoch.saturating_add(1);
        self.push_end(End::Epoch(EpochEnd { batches, records, epoch, early }), now);
    }

    /// `End::Stream` or `End::Error`. Nothing is sent behind it.
    pub(super) fn finish(&mut self, end: End, now: Instant) {
        self.push_end(end, now);
    }

    // ---- the consumers' commands

    pub(super) fn connect(&mut self, id: ConsumerId, credits: u32, now: Instant) {
        self.consumers.push(Consumer::new(id, credits));
        if let Some(end) = self.finished {
            self.effects.push(Effect::End { to: id, end });
        }
        self.pump(now);
    }

    pub(super) fn disconnect(&mut self, id: ConsumerId, now: Instant) {
        let Some(at) = self.consumers.iter().position(|consumer| consumer.id == id) else {
            return;
        };
        let gone = self.consumers.remove(at);
        for granted in &gone.grants {
            self.unclaim(granted.place);
        }
        for &place in &gone.due {
            self.unclaim(place);
        }
        self.leave_out_if_all_left();
        self.pump(now);
    }

    /// What was named before the first wrong number counts.
    pub(super) fn ack(
        &mut self,
        id: ConsumerId,
        grants: impl Iterator<Item = u64>,
        now: Instant,
    ) -> Result<(), NotHeld> {
        let result = self.each(id, grants, |table, consumer, at| {
            table.mark_acked(consumer, at);
        });
        self.pump(now);
        result
    }

    /// What was named before the first wrong number counts.
    pub(super) fn release(
        &mut self,
        id: ConsumerId,
        grants: impl Iterator<Item = u64>,
        now: Instant,
    ) -> Result<(), NotHeld> {
        let result = self.each(id, grants, |table, consumer, at| {
            table.mark_acked(consumer, at);
            let granted = table.consumers[consumer].grants.remove(at);
            table.unclaim(granted.place);
        });
        self.pump(now);
        result
    }

    /// A consumer asks for the rest of `epoch` to be left out: what nobody holds of it now. In
    /// `broadcast` this holds for that consumer, and for the channel when all have asked.
    pub(super) fn leave_epoch(&mut self, id: ConsumerId, epoch: u32, now: Instant) {
        if epoch != self.epoch || self.finished.is_some() {
            return;
        }
        match self.mode {
            Mode::Share => self.leave_out(epoch),
            Mode::Broadcast => {
                let Some(at) = self.consumers.iter().position(|consumer| consumer.id == id) else {
                    return;
                };
                self.consumers[at].left = Some(epoch);
                for place in std::mem::take(&mut self.consumers[at].due) {
                    self.unclaim_or_drop(place);
                }
                self.leave_out_if_all_left();
            }
        }
        self.pump(now);
    }

    pub(super) fn set_blocked(&mut self, id: ConsumerId, blocked: bool, now: Instant) {
        if let Some(consumer) = self.consumers.iter_mut().find(|consumer| consumer.id == id) {
            consumer.blocked = blocked;
        }
        self.pump(now);
    }

    // ---- questions

    /// The epoch that the writer is in, where its rest is to be left out.
    pub(super) fn asked(&self) -> Option<u32> {
        self.left_out.filter(|epoch| *epoch >= self.writing)
    }

    pub(super) fn ends_waiting(&self) -> usize {
        self.queue.iter().filter(|entry| matches!(entry, Entry::End(_))).count()
    }

    fn batches_waiting(&self) -> bool {
        self.queue.iter().any(|entry| matches!(entry, Entry::Batch { .. }))
    }

    /// A consumer would be granted a batch at once, if there was one.
    pub(super) fn hungry(&self) -> bool {
        self.started && self.queue.is_empty() && self.consumers.iter().any(Consumer::takes)
    }

    /// Every batch is ACKed and every end is told to those who are there.
    pub(super) fn drained(&self) -> bool {
        let told = self.queue.is_empty() || self.consumers.is_empty();
        let heard = self.consumers.iter().all(|consumer| consumer.all_acked() && !consumer.blocked);
        told && heard && !self.batches_waiting()
    }

    /// The end of all was told.
    pub(super) fn is_told(&self) -> bool {
        self.finished.is_some()
    }

    /// The end of an epoch or of all is next, and waits for ACKs.
    pub(super) fn end_waits(&self) -> bool {
        matches!(self.queue.front(), Some(Entry::End(_)))
    }

    pub(super) fn consumers(&self) -> &[Consumer] {
        &self.consumers
    }

    /// Slots that are free, being filled, waiting for a consumer, and with one or more consumers;
    /// then the extents that are in use.
    pub(super) fn census(&self) -> [u32; 5] {
        let mut census = [0; 5];
        for (place, content) in (0..).zip(&self.places) {
            let granted = |granted: &Granted| granted.place == place;
            let kind = match content {
                Content::Free if place >= self.slots => continue,
                _ if place >= self.slots => 4,
                Content::Free => 0,
                Content::Filling => 1,
                Content::Full { .. } => {
                    let held = self.consumers.iter().any(|c| c.grants.iter().any(granted));
                    if held { 3 } else { 2 }
                }
            };
            census[kind] += 1;
        }
        census
    }

    // ---- the inside

    fn push_end(&mut self, end: End, now: Instant) {
        if self.finished.is_none() {
            self.queue.push_back(Entry::End(end));
            self.pump(now);
        }
    }

    fn free(&mut self, place: Place) {
        self.places[place as usize] = Content::Free;
        if place < self.slots {
            self.free_slots.push(place);
        } else {
            self.free_extents.push(place);
        }
        self.effects.push(Effect::Freed(place));
    }

    fn each(
        &mut self,
        id: ConsumerId,
        grants: impl Iterator<Item = u64>,
        mut act: impl FnMut(&mut Table, usize, usize),
    ) -> Result<(), NotHeld> {
        let consumer = self.consumers.iter().position(|consumer| consumer.id == id);
        for grant in grants {
            let consumer = consumer.ok_or(NotHeld(grant))?;
            let held = &self.consumers[consumer].grants;
            let at = held.binary_search_by_key(&grant, |granted| granted.grant);
            act(self, consumer, at.map_err(|_| NotHeld(grant))?);
        }
        Ok(())
    }

    fn mark_acked(&mut self, consumer: usize, at: usize) {
        let granted = &mut self.consumers[consumer].grants[at];
        granted.acked = true;
        if let Content::Full { acked, .. } = &mut self.places[granted.place as usize] {
            *acked = true;
        }
    }

    /// One claim on a batch ends. The last one frees its place, or, where nobody had ACKed it,
    /// gives it back to the queue.
    fn unclaim(&mut self, place: Place) {
        let Some((batch, acked)) = self.end_claim(place) else { return };
        if acked {
            self.free(place);
        } else {
            self.requeue(place, batch);
        }
    }

    /// The same for a batch that its consumer doesn't want.
    fn unclaim_or_drop(&mut self, place: Place) {
        let Some((batch, acked)) = self.end_claim(place) else { return };
        if !acked {
            self.uncount(batch);
        }
        self.free(place);
    }

    fn end_claim(&mut self, place: Place) -> Option<(Batch, bool)> {
        match &mut self.places[place as usize] {
            Content::Full { batch, claims, acked } => {
                *claims -= 1;
                (*claims == 0).then_some((*batch, *acked))
            }
            Content::Free | Content::Filling => None,
        }
    }

    fn requeue(&mut self, place: Place, batch: Batch) {
        let before = |entry: &&Entry| match entry {
            Entry::Batch { number, .. } => *number < batch.number,
            Entry::End(_) => false,
        };
        let at = self.queue.iter().take_while(before).count();
        self.queue.insert(at, Entry::Batch { place, number: batch.number, epoch: batch.epoch });
    }

    fn leave_out_if_all_left(&mut self) {
        let left = |consumer: &Consumer| consumer.left == Some(self.epoch);
        let already = self.left_out == Some(self.epoch);
        if !already && !self.consumers.is_empty() && self.consumers.iter().all(left) {
            self.leave_out(self.epoch);
        }
    }

    fn leave_out(&mut self, epoch: u32) {
        self.left_out = Some(epoch);
        let of_it =
            |entry: &Entry| matches!(entry, Entry::Batch { epoch: other, .. } if *other == epoch);
        while let Some(at) = self.queue.iter().position(of_it) {
            if let Some(Entry::Batch { place, .. }) = self.queue.remove(at)
                && let Content::Full { batch, .. } = self.places[place as usize]
            {
                self.uncount(batch);
                self.free(place);
            }
        }
    }

    /// A batch that was counted is not delivered after all.
    fn uncount(&mut self, batch: Batch) {
        let records = u64::from(batch.records);
        if batch.epoch >= self.writing {
            self.count.batches = self.count.batches.saturating_sub(1);
            self.count.records = self.count.records.saturating_sub(records);
            self.count.left_out = true;
            return;
        }
        for entry in &mut self.queue {
            if let Entry::End(End::Epoch(end)) = entry
                && end.epoch == batch.epoch
            {
                end.batches = end.batches.saturating_sub(1);
                end.records = end.records.saturating_sub(records);
                end.early = true;
            }
        }
    }
}
