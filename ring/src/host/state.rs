//! The state under a ring's lock: the slot table, the consumers' sockets and the dedicated buffers.
//! It converts the table's effects into messages and events.

use std::collections::VecDeque;
use std::time::Instant;

use super::config::RingConfig;
use super::consumer_socket::{AttachedFd, ConsumerSocket};
use super::dedicated::DedicatedBuffers;
use super::delivery::Delivery;
use super::larger::Larger;
use super::missing_consumers::MissingConsumers;
use super::observer::{BatchEvent, Observer};
use super::status::{self, ConsumerStatus};
use super::table::{Batch, ConsumerId, Effect, End, SlotId, Table, Wanted};
use crate::layout::DEDICATED;
use crate::protocol::{self, ErrorReport, Grant};

pub(super) struct RingState {
    pub(super) table: Table,
    pub(super) sockets: Vec<ConsumerSocket>,
    /// Number of connected consumers that want views.
    pub(super) views_wanted: u32,
    /// The slot or buffer that the writer waits for.
    pub(super) writer_waits: Option<Wanted>,
    /// Whether the writer has come to its end or failed, and can't begin again.
    pub(super) writer_ended: bool,
    /// Number of threads that wait until everything is delivered.
    pub(super) drain_waits: u32,
    /// Whether the writer waits for the first consumers.
    pub(super) waits_for_start: bool,
    pub(super) stopped: bool,
    /// The error with which all consumers are being ended, until the channel restarts.
    pub(super) failing: Option<Vec<u8>>,
    /// How often all consumers were ended with an error, and the last such message.
    pub(super) failure: (u64, Vec<u8>),
    /// Whether the writer waits until no consumer is connected.
    pub(super) waits_for_none: bool,
    /// The failure that ends the channel.
    pub(super) error: Option<ErrorReport>,
    pub(super) missing: MissingConsumers,
    pub(super) dedicated: DedicatedBuffers,
    pub(super) larger: Larger,
    /// Number of the ring's slots: the number of the first larger slot, for consumers.
    slots: u32,
    /// The list is empty between two commands; it is kept to reuse its memory.
    effects: Vec<Effect>,
    /// The last consumers that have disconnected, the oldest first.
    left: VecDeque<ConsumerStatus>,
}

/// Consumers that have disconnected and are remembered.
const MAX_LEFT: usize = 256;

impl RingState {
    pub(super) fn new(config: &RingConfig) -> RingState {
        RingState {
            table: Table::new(config.mode, config.consumers, config.slots, config.dedicated),
            sockets: Vec::new(),
            views_wanted: 0,
            writer_waits: None,
            writer_ended: false,
            drain_waits: 0,
            waits_for_start: false,
            stopped: false,
            failing: None,
            failure: (0, Vec::new()),
            waits_for_none: false,
            error: None,
            missing: MissingConsumers::new(Instant::now()),
            dedicated: DedicatedBuffers::new(config.slots, config.dedicated),
            larger: Larger::default(),
            slots: config.slots,
            effects: Vec::new(),
            left: VecDeque::new(),
        }
    }

    /// Records whether consumers are missing now and a thread waits for them. Call it when one of
    /// these has changed.
    pub(super) fn look_for_missing(&mut self, now: Instant) {
        let waits = self.writer_waits.is_some() || self.drain_waits > 0;
        self.missing.set_missed(waits && self.table.lacks_consumers(), now);
    }

    /// Whether the wait of a thread may be over. An unnecessary wake-up costs as much as a
    /// necessary one.
    pub(super) fn ends_a_wait(&self) -> bool {
        let Self { table, writer_waits, drain_waits, .. } = self;
        let ends_both = table.is_restarting();
        let ends_writers = |wanted| table.has(wanted) || table.epoch_end_requested().is_some();
        writer_waits.is_some_and(|wanted| ends_writers(wanted) || ends_both)
            || *drain_waits > 0 && (table.drained() || ends_both)
            || self.waits_for_start && (table.has_started() || ends_both)
            || self.waits_for_none && (table.consumers().is_empty() || ends_both)
    }

    /// Carries out the effects that the table has gathered, and those that follow from them.
    pub(super) fn carry_out(
        &mut self,
        now: Instant,
        observer: Option<&dyn Observer>,
        delivery: &dyn Delivery,
    ) {
        let mut effects = std::mem::take(&mut self.effects);
        loop {
            self.table.swap_effects(&mut effects);
            if effects.is_empty() {
                break;
            }
            for effect in effects.drain(..) {
                match effect {
                    Effect::Done(number) => delivery.done(number),
                    Effect::Found { rank, number } => delivery.found(rank, number),
                    Effect::Freed(slot) => self.freed(slot, observer),
                    Effect::LargerSlots { to } => self.announce_larger(to, now),
                    Effect::Grant { to, grant, slot, batch } => {
                        self.grant(to, grant, slot, batch, now, observer);
                    }
                    Effect::End { to, end } => self.end(to, end, now),
                }
            }
        }
        self.effects = effects;
    }

    fn freed(&mut self, slot: SlotId, observer: Option<&dyn Observer>) {
        if let Some(observer) = observer {
            observer.on_event(BatchEvent::Freed { slot });
        }
        self.dedicated.freed(slot);
    }

    fn grant(
        &mut self,
        to: ConsumerId,
        grant: u64,
        slot: SlotId,
        batch: Batch,
        now: Instant,
        observer: Option<&dyn Observer>,
    ) {
        let Batch { number, epoch, bytes, .. } = batch;
        if let Some(observer) = observer {
            let socket = self.sockets.iter().find(|socket| socket.id == to);
            let pid = socket.map_or(0, |socket| socket.peer.pid);
            observer.on_event(BatchEvent::Granted { slot, batch: number, grant, pid });
        }
        let (slot, attached) = match (self.table.larger_at(slot), self.dedicated.fd(slot)) {
            (Some(at), _) => (self.slots + at, None),
            (None, None) => (slot, None),
            (None, Some(fd)) => (DEDICATED, Some(fd)),
        };
        if let Some(socket) = self.sockets.iter_mut().find(|socket| socket.id == to) {
            socket.waits.granted(now);
        }
        let grant = Grant { grant, batch: number, bytes, slot, epoch };
        self.send_to(to, &protocol::grant(&grant), attached, now);
    }

    fn announce_larger(&mut self, to: ConsumerId, now: Instant) {
        if let Some((slots, fd)) = self.larger.announced(self.slots) {
            self.send_to(to, &protocol::larger_slots(&slots), Some(fd), now);
        }
    }

    fn end(&mut self, to: ConsumerId, end: End, now: Instant) {
        if let Some(socket) = self.sockets.iter_mut().find(|socket| socket.id == to) {
            socket.waits.ended();
        }
        match end {
            End::Epoch(end) => self.send_to(to, &protocol::epoch_end(&end), None, now),
            End::Stream => self.send_to(to, &protocol::stream_end(), None, now),
            End::Error => {
                let message = self.error.as_ref().map(protocol::error).unwrap_or_default();
                self.send_to(to, &message, None, now);
            }
        }
    }

    fn send_to(&mut self, id: ConsumerId, message: &[u8], attached: AttachedFd, now: Instant) {
        if let Some(at) = self.sockets.iter().position(|socket| socket.id == id) {
            self.send(at, message, attached, now);
        }
    }

    /// Notes since when a consumer has nothing to read, if it has nothing.
    pub(super) fn look_for_idle(&mut self, id: ConsumerId, now: Instant) {
        if self.table.unacked(id) == 0
            && let Some(socket) = self.sockets.iter_mut().find(|socket| socket.id == id)
        {
            socket.waits.idle(now);
        }
    }

    /// Removes the socket of a consumer that disconnects, and remembers what the consumer did.
    pub(super) fn leave(&mut self, id: ConsumerId, now: Instant) {
        if self.left.len() == MAX_LEFT {
            self.left.pop_front();
        }
        let consumer = self.table.consumers().iter().find(|consumer| consumer.id == id);
        self.left.extend(consumer.and_then(|consumer| status::consumer(self, consumer, now)));
        if let Some(at) = self.sockets.iter().position(|socket| socket.id == id) {
            self.views_wanted -= u32::from(self.sockets.remove(at).wants_views);
        }
    }

    /// Records that a consumer wants views, however often it says so.
    pub(super) fn want_views(&mut self, id: ConsumerId) {
        let mut new = self.sockets.iter_mut().filter(|one| one.id == id && !one.wants_views);
        if let Some(socket) = new.next() {
            socket.wants_views = true;
            self.views_wanted += 1;
        }
    }

    /// The last consumers that have disconnected, the oldest first.
    pub(super) fn left(&self) -> Vec<ConsumerStatus> {
        self.left.iter().cloned().collect()
    }

    /// Refuses a consumer that is connected.
    pub(super) fn refuse(&mut self, id: ConsumerId, reason: &str) {
        if let Some(socket) = self.sockets.iter_mut().find(|socket| socket.id == id) {
            socket.refuse(reason);
        }
    }

    /// Sends a message to the consumer at this position of `sockets`.
    pub(super) fn send(&mut self, at: usize, message: &[u8], attached: AttachedFd, now: Instant) {
        let socket = &mut self.sockets[at];
        if socket.send(message, attached) {
            self.table.set_blocked(socket.id, true, now);
        }
    }
}
