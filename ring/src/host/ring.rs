//! One channel's ring: the memory, the table behind its lock, and the consumers' links.
//! Turns the table's effects into messages. See the parent module for the locks.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use nix::sys::epoll::Epoll;

use super::config::{AcquireError, RingConfig, RingError};
use super::consumers::{Beside, Link, Peer};
use super::status::{self, Status};
use super::table::{Batch, ConsumerId, Effect, End, Place, Table};
use super::witness::{self, Seen, Witness};
use super::writer::Writer;
use crate::layout::OWN_MEMORY;
use crate::memory::RingMemory;
use crate::protocol::{
    self, ErrorReport, FieldSpec, Grant, Hello, MAX_MESSAGE, PROTOCOL, ToHost, Welcome,
};
use crate::socket::send;

/// Batches with memory of their own that may live at once.
const EXTENTS: u32 = 2;
/// A writer of empty epochs waits when so many ends are untold.
const MAX_ENDS: usize = 64;
/// A consumer's name for itself is cut to this.
const MAX_CLIENT: usize = 200;

/// A channel's ring. One thread writes; any thread may ask.
pub struct Ring {
    config: RingConfig,
    memory: RingMemory,
    /// The fields, and SCHEMA as it is sent. Set once.
    schema: OnceLock<(Vec<FieldSpec>, Vec<u8>)>,
    next_batch: AtomicU64,
    witness: OnceLock<Box<dyn Witness>>,
    inner: Mutex<Inner>,
    /// Something changed that a writer or a drain waits for.
    changed: Condvar,
}

pub(super) struct Inner {
    pub(super) table: Table,
    pub(super) links: Vec<Link>,
    /// The writer waits for memory.
    pub(super) writer_waits: bool,
    extents: [Option<Arc<OwnedFd>>; EXTENTS as usize],
    error: Option<ErrorReport>,
    stopped: bool,
    effects: Vec<Effect>,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Ring {
    /// Makes the ring and all of its memory.
    pub fn new(config: RingConfig) -> Result<Arc<Ring>, RingError> {
        let bytes = config.check()?;
        let memory = RingMemory::create(&format!("pipemill:{}", config.channel), bytes)?;
        let inner = Inner {
            table: Table::new(config.mode, config.consumers, config.slots, EXTENTS),
            links: Vec::new(),
            writer_waits: false,
            extents: [const { None }; EXTENTS as usize],
            error: None,
            stopped: false,
            effects: Vec::new(),
        };
        Ok(Arc::new(Ring {
            config,
            memory,
            schema: OnceLock::new(),
            next_batch: AtomicU64::new(0),
            witness: OnceLock::new(),
            inner: Mutex::new(inner),
            changed: Condvar::new(),
        }))
    }

    /// What it was made with.
    pub fn config(&self) -> &RingConfig {
        &self.config
    }

    /// Waits for a free slot. Wakes at once for [`stop`](Ring::stop) and when consumers ask for
    /// the epoch's end: they may be holding every slot while they wait for it.
    pub fn acquire(self: &Arc<Ring>) -> Result<Writer, AcquireError> {
        let place = self.wait_for(Table::take_slot)?;
        Ok(Writer::slot(self.clone(), place))
    }

    /// Memory of its own for a batch that does not fit a slot, with a payload area of at least
    /// `payload_bytes`; it can grow. At most two live at once, the ones that consumers hold
    /// counted, so this waits as [`acquire`](Ring::acquire) does.
    pub fn extent(self: &Arc<Ring>, payload_bytes: usize) -> Result<Writer, AcquireError> {
        let place = self.wait_for(Table::take_extent)?;
        Writer::extent(self.clone(), place, payload_bytes).map_err(AcquireError::Memory)
    }

    fn wait_for(&self, take: impl Fn(&mut Table) -> Option<Place>) -> Result<Place, AcquireError> {
        let mut inner = self.lock();
        let result = loop {
            if inner.stopped {
                break Err(AcquireError::Stopped);
            }
            if let Some(epoch) = inner.table.asked() {
                break Err(AcquireError::EpochEnd(epoch));
            }
            if inner.table.ends_waiting() < MAX_ENDS
                && let Some(place) = take(&mut inner.table)
            {
                break Ok(place);
            }
            inner.writer_waits = true;
            inner = self.changed.wait(inner).expect("no code under this lock panics");
        };
        inner.writer_waits = false;
        result
    }

    /// Sets the fields that every record has; consumers are told before their first grant. The
    /// same fields may be set again, other ones may not.
    pub fn set_schema(&self, fields: Vec<FieldSpec>) -> Result<(), RingError> {
        let message = protocol::schema(&fields);
        if message.len() > MAX_MESSAGE {
            let (fields, bytes) = (fields.len(), message.len());
            return Err(RingError::SchemaTooLong { fields, bytes });
        }
        // Under the lock, so that a consumer that connects now is told once.
        self.change(|inner, now| {
            if let Some((expected, _)) = self.schema.get() {
                if *expected == fields {
                    return Ok(());
                }
                let (channel, expected) = (self.config.channel.clone(), expected.clone());
                return Err(RingError::SchemaChanged { channel, expected, found: fields });
            }
            for at in 0..inner.links.len() {
                inner.send(at, &message, None, now);
            }
            self.schema.get_or_init(|| (fields, message));
            Ok(())
        })
    }

    /// No more batches come in this epoch. `early`: not all of it was read. Consumers are told
    /// when all of its batches are ACKed, with the count of those that were delivered.
    pub fn end_epoch(&self, epoch: u32, early: bool) {
        self.change(|inner, now| inner.table.end_epoch(epoch, early, now));
    }

    /// No more comes at all. What is granted after this is not delivered.
    pub fn end_stream(&self) {
        self.change(|inner, now| inner.table.finish(End::Stream, now));
    }

    /// No more comes, because of this. Consumers are told when they have ACKed all before it.
    pub fn fail(&self, report: ErrorReport) {
        self.change(|inner, now| {
            inner.error.get_or_insert(report);
            inner.table.finish(End::Error, now);
        });
    }

    /// Wakes whoever waits in [`acquire`](Ring::acquire), [`extent`](Ring::extent) or
    /// [`wait_drained`](Ring::wait_drained), now and from now on. Consumers are told nothing.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    /// A consumer has credit and nothing waits for it: better a small batch now than a full one
    /// later.
    pub fn hungry(&self) -> bool {
        self.lock().table.hungry()
    }

    /// The writer's epoch, where consumers asked for the rest of it to be left out. Batches of it
    /// are not delivered any more. None again after [`end_epoch`](Ring::end_epoch).
    pub fn epoch_end_asked(&self) -> Option<u32> {
        self.lock().table.asked()
    }

    /// Waits until every batch is ACKed and every end is told to the consumers that are
    /// connected; false where the time ran out or [`stop`](Ring::stop) was called.
    pub fn wait_drained(&self, at_most: Option<Duration>) -> bool {
        let deadline = at_most.map(|time| Instant::now() + time);
        let mut inner = self.lock();
        while !inner.table.drained() {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if inner.stopped || left == Some(Duration::ZERO) {
                return false;
            }
            let woken = self.changed.wait_timeout(inner, left.unwrap_or(Duration::MAX));
            inner = woken.expect("no code under this lock panics").0;
        }
        true
    }

    /// From now on this one hears of what happens to batches. The first that is given stays.
    pub fn show(&self, witness: Box<dyn Witness>) {
        let _ = self.witness.set(witness);
    }

    /// How things stand, for reports.
    pub fn status(&self) -> Status {
        let batches = self.next_batch.load(Ordering::Relaxed);
        status::snapshot(&self.config.channel, batches, &self.lock(), Instant::now())
    }

    // ---- for the writer

    /// # Safety
    /// As for [`RingMemory::part`]: the caller has taken this slot from the table.
    #[expect(clippy::mut_from_ref, reason = "slots are lent apart from each other")]
    pub(super) unsafe fn slot(&self, place: Place) -> &mut [u8] {
        let bytes = self.config.slot_bytes;
        // SAFETY: slots don't overlap, and the caller vouches that this one is its own.
        unsafe { self.memory.part(place as usize * bytes, bytes) }
    }

    /// # Safety
    /// As for [`RingMemory::part_to_read`]: the caller has taken this slot from the table.
    pub(super) unsafe fn slot_to_read(&self, place: Place) -> &[u8] {
        let bytes = self.config.slot_bytes;
        // SAFETY: slots don't overlap, and the caller vouches that this one is its own.
        unsafe { self.memory.part_to_read(place as usize * bytes, bytes) }
    }

    pub(super) fn fields(&self) -> Option<usize> {
        self.schema.get().map(|(fields, _)| fields.len())
    }

    pub(super) fn next_batch(&self) -> u64 {
        self.next_batch.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn push(&self, place: Place, batch: Batch, sealed: Option<Arc<OwnedFd>>) {
        self.change(|inner, now| {
            if let Some(at) = place.checked_sub(self.config.slots) {
                inner.extents[at as usize] = sealed;
            }
            if let Some(witness) = self.witness.get() {
                let Batch { number: batch, epoch, records, bytes } = batch;
                witness.saw(Seen::Filled { slot: place, batch, epoch, records, bytes });
            }
            inner.table.push(place, batch, now);
        });
    }

    pub(super) fn put_back(&self, place: Place) {
        self.change(|inner, _| inner.table.put_back(place));
    }

    // ---- for the server

    /// Welcomes a consumer. An error means that it is gone already.
    pub(super) fn connect(
        &self,
        id: ConsumerId,
        peer: Peer,
        hello: &Hello,
        socket: Arc<OwnedFd>,
        poller: Arc<Epoll>,
    ) -> nix::Result<()> {
        // One slot is left for the writer.
        let credits = hello.credits.unwrap_or(self.config.credits).min(self.config.slots - 1);
        let welcome = protocol::welcome(&Welcome {
            protocol: PROTOCOL,
            host: concat!("pipemill ", env!("CARGO_PKG_VERSION")).into(),
            channel: self.config.channel.clone(),
            mode: self.config.mode,
            slots: self.config.slots,
            slot_bytes: self.config.slot_bytes as u64,
            credits,
        });
        send(&socket, &welcome, Some(self.memory.fd()), false)?;
        let client = hello.client.chars().take(MAX_CLIENT).collect();
        self.change(|inner, now| {
            inner.links.push(Link::new(id, peer, client, socket, poller));
            inner.table.connect(id, credits, now);
            if let Some((_, schema)) = self.schema.get() {
                inner.send(inner.links.len() - 1, schema, None, now);
            }
        });
        Ok(())
    }

    /// A consumer is gone, or is to be: what it held goes back.
    pub(super) fn disconnect(&self, id: ConsumerId) {
        self.change(|inner, now| {
            inner.links.retain(|link| link.id != id);
            if let Some(witness) = self.witness.get() {
                witness::tell_of_end(&**witness, &inner.table, id);
            }
            inner.table.disconnect(id, now);
        });
    }

    /// Obeys a consumer's message, or says why it can't.
    pub(super) fn obey(&self, id: ConsumerId, message: &ToHost<'_>) -> Result<(), String> {
        let witness = self.witness.get();
        let tell = |inner: &Inner| {
            if let Some(witness) = witness {
                witness::tell_of_message(&**witness, &inner.table, id, message);
            }
        };
        let done = self.change(|inner, now| match message {
            ToHost::Ack(grants) => {
                tell(inner);
                inner.table.ack(id, grants.iter(), now)
            }
            ToHost::Release(grants) => {
                tell(inner);
                inner.table.release(id, grants.iter(), now)
            }
            ToHost::EndEpoch(epoch) => {
                inner.table.leave_epoch(id, *epoch, now);
                Ok(())
            }
            ToHost::Hello(_) | ToHost::AskStatus => Ok(()),
        });
        match (message, done) {
            (ToHost::Hello(_), _) => Err("a second HELLO on one connection".into()),
            (ToHost::AskStatus, _) => Err("ASK_STATUS on the connection of a consumer".into()),
            (_, done) => done.map_err(|not_held| not_held.to_string()),
        }
    }

    /// A consumer's socket has room again.
    pub(super) fn flush(&self, id: ConsumerId) {
        self.change(|inner, now| {
            let link = inner.links.iter_mut().find(|link| link.id == id);
            if link.is_some_and(Link::flush) {
                inner.table.set_blocked(id, false, now);
            }
        });
    }

    /// A line for the log for each consumer that holds others up, once per 30 s.
    pub(super) fn stuck(&self, now: Instant) -> Vec<String> {
        status::stuck(&self.config.channel, &mut self.lock(), now)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no code under this lock panics")
    }

    /// Changes the table and sends what follows from it.
    fn change<T>(&self, change: impl FnOnce(&mut Inner, Instant) -> T) -> T {
        let now = Instant::now();
        let mut inner = self.lock();
        let result = change(&mut inner, now);
        inner.deliver(self.config.slots, now, self.witness.get().map(|witness| &**witness));
        drop(inner);
        self.changed.notify_all();
        result
    }
}

impl Inner {
    fn deliver(&mut self, slots: u32, now: Instant, witness: Option<&dyn Witness>) {
        let mut effects = std::mem::take(&mut self.effects);
        loop {
            self.table.swap_effects(&mut effects);
            if effects.is_empty() {
                break;
            }
            for effect in effects.drain(..) {
                match effect {
                    Effect::Freed(place) => {
                        if let Some(witness) = witness {
                            witness.saw(Seen::Freed { slot: place });
                        }
                        if let Some(at) = place.checked_sub(slots) {
                            self.extents[at as usize] = None;
                        }
                    }
                    Effect::Grant { to, grant, place, batch } => {
                        let Batch { number, epoch, bytes, .. } = batch;
                        if let Some(witness) = witness {
                            let link = self.links.iter().find(|link| link.id == to);
                            let pid = link.map_or(0, |link| link.peer.pid);
                            witness.saw(Seen::Granted { slot: place, batch: number, grant, pid });
                        }
                        let (slot, beside) = match place.checked_sub(slots) {
                            None => (place, None),
                            Some(at) => (OWN_MEMORY, self.extents[at as usize].clone()),
                        };
                        let grant = Grant { grant, batch: number, bytes, slot, epoch };
                        self.send_to(to, &protocol::grant(&grant), beside, now);
                    }
                    Effect::End { to, end: End::Epoch(end) } => {
                        self.send_to(to, &protocol::epoch_end(&end), None, now);
                    }
                    Effect::End { to, end: End::Stream } => {
                        self.send_to(to, &protocol::stream_end(), None, now);
                    }
                    Effect::End { to, end: End::Error } => {
                        let message = self.error.as_ref().map(protocol::error).unwrap_or_default();
                        self.send_to(to, &message, None, now);
                    }
                }
            }
        }
        self.effects = effects;
    }

    fn send_to(&mut self, id: ConsumerId, message: &[u8], beside: Beside, now: Instant) {
        if let Some(at) = self.links.iter().position(|link| link.id == id) {
            self.send(at, message, beside, now);
        }
    }

    fn send(&mut self, at: usize, message: &[u8], beside: Beside, now: Instant) {
        let link = &mut self.links[at];
        if link.send(message, beside) {
            self.table.set_blocked(link.id, true, now);
        }
    }
}
