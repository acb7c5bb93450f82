//! What the table does by itself after each command: grants, assigns and tells all that it can.

use std::time::Instant;

use super::{Consumer, Content, Effect, End, Entry, Granted, Place, Table};
use crate::protocol::Mode;

impl Table {
    /// Does all that can be done now.
    pub(super) fn pump(&mut self, now: Instant) {
        self.started |= self.consumers.len() >= self.minimum as usize;
        loop {
            self.grant_due(now);
            let moved = match self.queue.front() {
                None => false,
                Some(Entry::End(end)) => self.tell(*end),
                Some(Entry::Batch { place, epoch, .. }) => {
                    let (place, epoch) = (*place, *epoch);
                    self.started
                        && match self.mode {
                            Mode::Share => self.share(place, epoch, now),
                            Mode::Broadcast => self.assign(place, epoch),
                        }
                }
            };
            if !moved {
                return;
            }
        }
    }

    /// An end is told when all batches before it are ACKed, and nobody's socket is full: an end
    /// costs no credit, so this is all that keeps ends from piling up before a consumer that does
    /// not listen. The end of an epoch waits until somebody is there to hear it.
    fn tell(&mut self, end: End) -> bool {
        let open = self.started || !matches!(end, End::Epoch(_));
        let heard = |consumer: &Consumer| consumer.all_acked() && !consumer.blocked;
        if !open || self.consumers.is_empty() || !self.consumers.iter().all(heard) {
            return false;
        }
        self.queue.pop_front();
        let all = self.consumers.iter();
        self.effects.extend(all.map(|consumer| Effect::End { to: consumer.id, end }));
        match end {
            End::Epoch(end) => self.epoch = end.epoch.saturating_add(1),
            End::Stream | End::Error => {
                self.finished = Some(end);
                self.abandon_queue();
            }
        }
        true
    }

    /// What a writer put behind its end is never sent; its slots must not be lost.
    fn abandon_queue(&mut self) {
        for entry in std::mem::take(&mut self.queue) {
            if let Entry::Batch { place, .. } = entry {
                self.free(place);
            }
        }
    }

    /// To the consumer that holds least; among equals, to the one that has waited longest.
    fn share(&mut self, place: Place, epoch: u32, now: Instant) -> bool {
        let takers = (0..).zip(&self.consumers).filter(|(_, consumer)| consumer.takes());
        let taker = takers.min_by_key(|(_, consumer)| (consumer.grants.len(), consumer.turn));
        let Some((at, _)) = taker else { return false };
        self.queue.pop_front();
        self.epoch = epoch;
        self.claim(place, 1);
        self.grant(at, place, now);
        true
    }

    /// To all who are connected, as soon as one of them can take it.
    fn assign(&mut self, place: Place, epoch: u32) -> bool {
        // Once the whole channel leaves the epoch out, only batches come here that a consumer had
        // held and died with; they are delivered as in `share`.
        let left_out = self.left_out == Some(epoch);
        let wants = |consumer: &Consumer| left_out || consumer.left != Some(epoch);
        let idle = |consumer: &Consumer| consumer.due.is_empty() && consumer.takes();
        if !self.consumers.iter().any(|consumer| wants(consumer) && idle(consumer)) {
            return false;
        }
        self.queue.pop_front();
        self.epoch = epoch;
        let mut claims = 0;
        for consumer in self.consumers.iter_mut().filter(|consumer| wants(consumer)) {
            consumer.due.push_back(place);
            claims += 1;
        }
        self.claim(place, claims);
        true
    }

    fn claim(&mut self, place: Place, by: u32) {
        if let Content::Full { claims, .. } = &mut self.places[place as usize] {
            *claims = by;
        }
    }

    fn grant_due(&mut self, now: Instant) {
        for at in 0..self.consumers.len() {
            while self.consumers[at].takes()
                && let Some(place) = self.consumers[at].due.pop_front()
            {
                self.grant(at, place, now);
            }
        }
    }

    fn grant(&mut self, at: usize, place: Place, now: Instant) {
        let Content::Full { batch, .. } = self.places[place as usize] else { return };
        let grant = self.next_grant;
        self.next_grant += 1;
        let consumer = &mut self.consumers[at];
        consumer.turn = self.next_grant;
        consumer.grants.push(Granted {
            grant,
            place,
            batch: batch.number,
            since: now,
            acked: false,
        });
        self.effects.push(Effect::Grant { to: consumer.id, grant, place, batch });
    }
}
