//! The table's own actions after each command: it grants, assigns and sends everything that it can.

use std::time::Instant;

use super::Table;
use super::consumer::{Consumer, HeldGrant};
use super::types::{Effect, End, Entry, SlotId, SlotState};
use crate::protocol::Mode;

impl Table {
    /// Does everything that can be done now.
    pub(super) fn pump(&mut self, now: Instant) {
        if self.closed {
            return;
        }
        self.started |= self.consumers.len() >= self.min_consumers as usize;
        self.awaits_consumers &= !self.started || self.consumers.is_empty();
        if self.is_restarting {
            return;
        }
        loop {
            if self.mode == Mode::Rank && self.started {
                self.assign_to_ranks();
            }
            self.grant_assigned(now);
            let moved = match self.queue.front() {
                None => false,
                Some(Entry::End(end)) => self.send_end(*end),
                Some(Entry::Batch { slot, epoch, .. }) => {
                    let (slot, epoch) = (*slot, *epoch);
                    self.started
                        && match self.mode {
                            Mode::Share => self.grant_to_one(slot, epoch, now),
                            Mode::Broadcast => self.assign_to_all(slot, epoch),
                            // The batch waits for its rank to connect again.
                            Mode::Rank => false,
                        }
                }
            };
            if !moved {
                return;
            }
        }
    }

    /// Sends an end once all batches before it are ACKed and nobody's socket is full. The second
    /// condition is needed because an end costs no credit: without it, ends would pile up for a
    /// consumer that does not read. The end of an epoch also waits until enough consumers are
    /// connected, and so does the end of the stream, if one of them has requested a position:
    /// others may resume before it. A consumer that resumes in a later epoch has received the end
    /// of the epoch already.
    fn send_end(&mut self, end: End) -> bool {
        let open = match end {
            End::Epoch(_) => self.started,
            End::Stream => self.started || !self.awaits_consumers,
            End::Error => true,
        };
        let ready = |consumer: &Consumer| consumer.all_acked() && !consumer.blocked;
        if !open || self.consumers.is_empty() || !self.consumers.iter().all(ready) {
            return false;
        }
        self.queue.pop_front();
        let wanted_from = &self.wanted_from;
        for consumer in &mut self.consumers {
            if let End::Epoch(end) = end {
                if wanted_from[consumer.rank as usize].epoch > end.epoch {
                    continue;
                }
                consumer.begin_in(end.epoch);
            }
            self.effects.push(Effect::End { to: consumer.id, end });
        }
        match end {
            End::Epoch(end) => {
                self.epoch = end.epoch.saturating_add(1);
                self.last_end = Some(end);
                self.forget_missed_end();
            }
            End::Stream | End::Error => {
                self.finished = Some(end);
                self.abandon_queue();
            }
        }
        true
    }

    /// Batches that the writer pushed after the end of the stream are never sent. Their slots are
    /// freed.
    fn abandon_queue(&mut self) {
        for entry in std::mem::take(&mut self.queue) {
            if let Entry::Batch { slot, .. } = entry {
                self.free(slot);
            }
        }
    }

    /// Grants a batch to the consumer that holds the fewest; among equals, to the one that has
    /// waited longest.
    fn grant_to_one(&mut self, slot: SlotId, epoch: u32, now: Instant) -> bool {
        let takers = (0..).zip(&self.consumers).filter(|(_, consumer)| consumer.can_take());
        let taker = takers.min_by_key(|(_, consumer)| (consumer.grants.len(), consumer.last_grant));
        let Some((at, _)) = taker else { return false };
        self.queue.pop_front();
        self.epoch = epoch;
        self.set_claims(slot, 1);
        self.grant(at, slot, now);
        true
    }

    /// Assigns a batch to all connected consumers as soon as one of them can take it.
    fn assign_to_all(&mut self, slot: SlotId, epoch: u32) -> bool {
        let wants = |consumer: &Consumer| consumer.skipped != Some(epoch);
        let idle = |consumer: &Consumer| consumer.assigned.is_empty() && consumer.can_take();
        if !self.consumers.iter().any(|consumer| wants(consumer) && idle(consumer)) {
            return false;
        }
        self.queue.pop_front();
        self.epoch = epoch;
        let mut claims = 0;
        for consumer in self.consumers.iter_mut().filter(|consumer| wants(consumer)) {
            consumer.assigned.push_back(slot);
            claims += 1;
        }
        self.set_claims(slot, claims);
        true
    }

    /// Assigns each batch before the next end to the consumer with its rank, if it is connected.
    /// One rank does not wait for another.
    fn assign_to_ranks(&mut self) {
        let mut at = 0;
        while let Some(Entry::Batch { slot, number, epoch }) = self.queue.get(at).copied() {
            let rank = self.rank_of(number) as u32;
            let Some(consumer) = self.consumers.iter_mut().find(|one| one.rank == rank) else {
                at += 1;
                continue;
            };
            consumer.assigned.push_back(slot);
            self.queue.remove(at);
            self.epoch = epoch;
            self.set_claims(slot, 1);
        }
    }

    fn set_claims(&mut self, slot: SlotId, count: u32) {
        if let SlotState::Full { claims, .. } = &mut self.slots[slot as usize] {
            *claims = count;
        }
    }

    fn grant_assigned(&mut self, now: Instant) {
        for at in 0..self.consumers.len() {
            while self.consumers[at].can_take()
                && let Some(slot) = self.consumers[at].assigned.pop_front()
            {
                self.grant(at, slot, now);
            }
        }
    }

    fn grant(&mut self, at: usize, slot: SlotId, now: Instant) {
        let SlotState::Full { batch, .. } = self.slots[slot as usize] else { return };
        let grant = self.next_grant;
        self.next_grant += 1;
        if !self.has_granted {
            self.forget_missed_end();
        }
        (self.has_granted, self.granted_epoch) = (true, Some(batch.epoch));
        let is_larger = self.larger_at(slot).is_some();
        let consumer = &mut self.consumers[at];
        if is_larger && !std::mem::replace(&mut consumer.knows_larger, true) {
            self.effects.push(Effect::LargerSlots { to: consumer.id });
        }
        consumer.last_grant = self.next_grant;
        consumer.begin_in(batch.epoch);
        let held = HeldGrant { grant, slot, batch: batch.number, since: now, acked: false };
        consumer.grants.push(held);
        self.effects.push(Effect::Grant { to: consumer.id, grant, slot, batch });
    }
}
