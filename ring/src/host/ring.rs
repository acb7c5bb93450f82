//! One channel's ring: its memory, and its state under a lock. See the parent module for the locks.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::Epoll;
use pipemill_types::{MemoryBudget, schema_extension};

use super::config::{Interrupt, PlaceMissing, RingConfig, RingError, WriteError};
use super::consumer_socket::ConsumerSocket;
use super::delivery::{Admitted, AsConfigured, Delivery, Denied, LockedRing};
use super::larger::LargerLimit;
use super::observer::{self, BatchEvent, Observer};
use super::slot_memory::SlotMemory;
use super::state::RingState;
use super::status::{self, ConsumerStatus, Status};
use super::sync::{Condvar, Mutex, MutexGuard};
use super::table::{Batch, ConsumerId, End, SlotId, Table, Wanted};
use crate::memory::DedicatedBuffer;
use crate::protocol::{
    self, BatchPlace, ErrorReport, Field, Hello, MAX_SCHEMA, Mode, PROTOCOL, Resumed, ToHost,
    Welcome,
};
use crate::socket::{Peer, send};

/// A writer waits while this many ends are unsent: without a limit, empty epochs would pile up.
const MAX_UNSENT_ENDS: usize = 64;
/// The refusal of a consumer that does not understand LARGER_SLOTS.
const NO_LARGER_SLOTS: &str = "this channel has slots that were made later, and the reader can't \
                               read these; use a reader of the host's release";
/// The name that a consumer sends is cut to this many characters.
const MAX_CLIENT_CHARS: usize = 200;

/// A channel's ring. One thread takes memory and grants it, other threads may fill what it took,
/// and any thread may ask.
///
/// Its slots are reused last-freed-first: the slot that was freed last is the next one to be
/// filled, because its memory is most likely still in the processor's cache.
pub struct Ring {
    config: RingConfig,
    pub(super) memory: SlotMemory,
    /// The limit of its larger slots.
    pub(super) larger_limit: LargerLimit,
    /// The budget for all memory of the channel, including the ring's.
    pub(super) budget: Arc<MemoryBudget>,
    /// Extra slots, for batches after the next one.
    extra_slots: u32,
    /// Upper bound of the number of extra slots that are being filled.
    pub(super) extra_filled: AtomicU32,
    /// The fields, and the encoded SCHEMA message. They are set once.
    schema: OnceLock<(Vec<Field>, Vec<u8>)>,
    /// Number of fields whose values are strings. It is set before the fields are.
    strings: AtomicUsize,
    /// The delivery, which decides about consumers. It is set at most once.
    delivery: OnceLock<Arc<dyn Delivery>>,
    next_batch: AtomicU64,
    observer: OnceLock<Box<dyn Observer>>,
    state: Mutex<RingState>,
    /// Facts that the writer reads after each read of the source, without the lock.
    wishes: Wishes,
    /// Signalled after each change that a writer or `wait_drained` may wait for.
    changed: Condvar,
}

/// The consumers' requests, as of the last change of the state.
#[derive(Default)]
struct Wishes {
    demand: AtomicBool,
    /// The epoch whose rest is skipped, plus 1; 0 if there is none.
    epoch_end: AtomicU64,
    /// Whether a consumer makes Arrow's arrays.
    views: AtomicBool,
}

impl Wishes {
    fn update(&self, state: &RingState) {
        let table = &state.table;
        self.views.store(state.views_wanted > 0, Ordering::Relaxed);
        self.demand.store(table.has_demand(), Ordering::Relaxed);
        let epoch = table.epoch_end_requested().map_or(0, |epoch| u64::from(epoch) + 1);
        self.epoch_end.store(epoch, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Ring {
    /// Makes the ring and reserves the memory of its first slot. That of others is reserved when
    /// they are first filled.
    ///
    /// # Errors
    /// [`RingError::Config`] if a setting is outside of its range, [`RingError::Memory`] if the
    /// kernel does not grant the memory.
    pub fn new(config: RingConfig) -> Result<Arc<Ring>, RingError> {
        Self::within(config, 0, MemoryBudget::unlimited())
    }

    /// Makes a ring with `extra_slots` additional slots, for
    /// [`acquire_extra`](Ring::acquire_extra). Slots and dedicated buffers count in `budget`.
    ///
    /// # Errors
    /// As for [`new`](Self::new), and
    /// [`MemoryError::OverBudget`](crate::host::MemoryError::OverBudget) if the slots exceed the
    /// rest of the budget.
    pub fn within(
        config: RingConfig,
        extra_slots: u32,
        budget: Arc<MemoryBudget>,
    ) -> Result<Arc<Ring>, RingError> {
        let slots = config.slots.saturating_add(extra_slots);
        Self::with_slots(config, slots, extra_slots, budget)
    }

    /// Makes a ring with this number of slots, including the extra ones.
    pub(super) fn with_slots(
        config: RingConfig,
        slots: u32,
        extra_slots: u32,
        budget: Arc<MemoryBudget>,
    ) -> Result<Arc<Ring>, RingError> {
        let all = RingConfig { slots, ..config.clone() };
        all.check()?;
        let memory = SlotMemory::create(&config.channel, slots, config.slot_bytes, &budget)?;
        memory.memory.reserve(config.slot_bytes)?;
        Ok(Arc::new(Ring {
            state: Mutex::new(RingState::new(&all)),
            config,
            memory,
            budget,
            larger_limit: LargerLimit::default(),
            extra_slots,
            extra_filled: AtomicU32::new(0),
            schema: OnceLock::new(),
            strings: AtomicUsize::new(0),
            delivery: OnceLock::new(),
            next_batch: AtomicU64::new(0),
            wishes: Wishes::default(),
            observer: OnceLock::new(),
            changed: Condvar::new(),
        }))
    }

    /// The settings that the ring was made with.
    pub fn config(&self) -> &RingConfig {
        &self.config
    }

    /// Number of slots, including the extra ones.
    pub fn slots(&self) -> u32 {
        self.memory.slots()
    }

    /// Whether it has fewer slots than its setting says.
    pub(super) fn has_fewer_slots(&self) -> bool {
        self.slots() < self.config.slots
    }

    /// Whether this is the id of a dedicated buffer.
    pub(super) fn is_dedicated(&self, slot: SlotId) -> bool {
        slot >= self.slots() && self.larger_at(slot).is_none()
    }

    /// The number of this slot among the larger slots, if it is one of them.
    pub(super) fn larger_at(&self, slot: SlotId) -> Option<u32> {
        slot.checked_sub(self.slots() + self.config.dedicated)
    }

    /// Makes `delivery` decide about consumers. `start` sets the start of the channel in the table,
    /// with the batch number `first_batch`. Call it once, before any batch is granted and before a
    /// consumer connects.
    pub fn set_delivery(
        &self,
        delivery: Arc<dyn Delivery>,
        first_batch: u64,
        start: impl FnOnce(&mut Table),
    ) {
        self.next_batch.store(first_batch, Ordering::Relaxed);
        self.change(|state, now| {
            start(&mut state.table);
            state.table.restarted(now);
        });
        let _ = self.delivery.set(delivery);
    }

    /// Whether the channel must restart elsewhere. Until [`restarted`](Ring::restarted) is called,
    /// granted batches and ended epochs don't count.
    pub fn is_restarting(&self) -> bool {
        self.lock().table.is_restarting()
    }

    /// Starts the writer at the new position. `place` returns the number of its first batch, and
    /// the value that this returns; it is called under the lock. This must not be called while
    /// there is a [`Writer`](super::Writer).
    pub fn restarted<T>(&self, place: impl FnOnce() -> (u64, T)) -> T {
        self.change(|state, now| {
            state.larger.restarted();
            let (first_batch, place) = place();
            self.next_batch.store(first_batch, Ordering::Relaxed);
            state.table.restarted(now);
            place
        })
    }

    /// If `is_at_fault` returns true for the table: ends all consumers with an error, waits until
    /// none is connected, and [restarts](Delivery::restart_as_configured) the channel. Returns
    /// false if it returns false, or the ring was stopped. If a consumer has made the channel
    /// restart meanwhile, it restarts there.
    pub fn end_consumers(
        &self,
        report: &ErrorReport,
        is_at_fault: impl FnOnce(&Table) -> bool,
    ) -> bool {
        let message = protocol::error(report);
        let begins = self.change(|state, _| {
            let begins = is_at_fault(&state.table);
            state.failing = begins.then(|| message.clone());
            begins
        });
        if !begins {
            return false;
        }
        loop {
            self.send_last(&message);
            let ended = self.change(|state, _| {
                if state.stopped {
                    return Some(false);
                }
                // A consumer has requested something since.
                let restarts = state.table.is_restarting();
                (restarts || self.restart_after_failure(state).is_ok()).then_some(true)
            });
            if let Some(restarts) = ended {
                return restarts;
            }
        }
    }

    /// Restarts the channel as it is configured, if a consumer's request has failed. The connected
    /// consumers get the error: while they are connected, the channel can't restart.
    fn restart_after_failure(&self, state: &mut RingState) -> Result<(), Vec<ConsumerId>> {
        if state.failing.is_none() || state.table.is_restarting() {
            state.failing = None;
            return Ok(());
        }
        if state.table.connected().len() > 0 {
            return Err(state.table.connected().map(|(id, _)| id).collect());
        }
        let message = state.failing.take().unwrap_or_default();
        self.delivery().restart_as_configured(&mut state.table);
        // This is for a consumer that was admitted and is not connected yet.
        state.failure = (state.failure.0 + 1, message);
        Ok(())
    }

    /// Sends all consumers this message as their last one, and waits until none is connected.
    fn send_last(&self, message: &[u8]) {
        let mut state = self.lock();
        state.waits_for_none = true;
        // A consumer that has connected since the restart did not make the request that failed.
        while !(state.stopped || state.table.is_restarting()) {
            state.sockets.iter_mut().for_each(|socket| socket.end_with(message));
            if state.table.consumers().is_empty() {
                break;
            }
            state = self.wait(state);
        }
        state.waits_for_none = false;
    }

    /// Records that the writer has come to its end, and will not restart. Returns false if it must
    /// restart now.
    pub fn end_writing(&self) -> bool {
        let mut state = self.lock();
        state.writer_ended = !state.table.is_restarting();
        state.writer_ended
    }

    /// How batches are divided among consumers, and the number of consumers that must be connected
    /// before the first grant.
    pub fn division(&self) -> (Mode, u32) {
        self.lock().table.division()
    }

    /// Number of ranks among which batches are divided; `None` if they are not divided.
    pub fn ranks(&self) -> Option<u32> {
        let (mode, consumers) = self.lock().table.division();
        (mode == Mode::Rank).then_some(consumers)
    }

    /// Sets the fields that every record has. Consumers get them before their first grant. The same
    /// fields may be set again.
    ///
    /// # Errors
    /// [`RingError::SchemaChanged`] if other fields were set before, [`RingError::SchemaTooLong`]
    /// if the fields don't fit a message.
    pub fn set_schema(&self, fields: Vec<Field>) -> Result<(), RingError> {
        let message = protocol::schema(&fields);
        let bytes = message.len().max(bytes_in_state(&fields) / 2);
        if bytes > MAX_SCHEMA {
            return Err(RingError::SchemaTooLong { fields: fields.len(), bytes });
        }
        // This is done under the lock, so that a consumer that connects now gets SCHEMA once.
        self.change(|state, now| {
            if let Some((expected, _)) = self.schema.get() {
                if *expected == fields {
                    return Ok(());
                }
                let (channel, expected) = (self.config.channel.clone(), expected.clone());
                return Err(RingError::SchemaChanged { channel, expected, found: fields });
            }
            for at in 0..state.sockets.len() {
                state.send(at, &message, None, now);
            }
            let strings = fields.iter().filter(|field| field.is_text()).count();
            self.strings.store(strings, Ordering::Relaxed);
            self.schema.get_or_init(|| (fields, message));
            Ok(())
        })
    }

    /// Ends an epoch: no more batches come in it. `early` says that not all of its input was read.
    /// Consumers get EPOCH_END when all of its batches are ACKed, with the numbers of batches and
    /// records that were delivered.
    ///
    /// # Errors
    /// A consumer resumes after a batch of this epoch that has not come. The epoch is not ended in
    /// this case.
    pub fn end_epoch(&self, epoch: u32, early: bool) -> Result<(), PlaceMissing> {
        self.change(|state, now| {
            if !early && state.table.lacks_sought(epoch) {
                return Err(PlaceMissing(epoch));
            }
            // An epoch's first batch belongs to rank 0.
            if let (Mode::Rank, ranks) = state.table.division() {
                let next = self.batches().next_multiple_of(u64::from(ranks));
                self.next_batch.store(next, Ordering::Relaxed);
            }
            if !state.table.is_restarting() {
                let (epoch, number) = (epoch.saturating_add(1), self.batches());
                self.delivery().epoch_ended(BatchPlace { epoch, number });
            }
            state.table.end_epoch(epoch, early, now);
            Ok(())
        })
    }

    /// Ends the stream. Batches that are granted after this are not delivered.
    pub fn end_stream(&self) {
        self.change(|state, now| state.table.finish(End::Stream, now));
    }

    /// Ends the stream with an error. Consumers get it when they have ACKed all batches before it.
    pub fn fail(&self, report: ErrorReport) {
        self.change(|state, now| {
            state.error.get_or_insert(report);
            state.table.finish(End::Error, now);
        });
    }

    /// Wakes all threads that wait in [`acquire`](Ring::acquire),
    /// [`acquire_dedicated`](Ring::acquire_dedicated) or [`wait_drained`](Ring::wait_drained). From
    /// now on these functions don't wait. Consumers get no message.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    /// Whether a batch that is granted now goes to a consumer at once: a consumer has credit, and
    /// no other batch waits for it. If so, a small batch now is better than a full one later.
    pub fn has_demand(&self) -> bool {
        self.wishes.demand.load(Ordering::Relaxed)
    }

    /// Number of fields whose views a consumer wants: all whose values are strings, or none.
    pub fn wanted_views(&self) -> usize {
        match self.wishes.views.load(Ordering::Relaxed) {
            true => self.strings.load(Ordering::Relaxed),
            false => 0,
        }
    }

    /// The writer's epoch, if consumers have requested to skip the rest of it. Batches of it are
    /// not delivered any more. It is `None` again after [`end_epoch`](Ring::end_epoch).
    pub fn epoch_end_requested(&self) -> Option<u32> {
        let epoch = self.wishes.epoch_end.load(Ordering::Relaxed).checked_sub(1);
        epoch.and_then(|epoch| u32::try_from(epoch).ok())
    }

    /// Waits until the consumers that the first grant needs are connected, or one of them has
    /// requested another beginning. Returns early after [`stop`](Ring::stop).
    pub fn wait_for_consumers(&self) {
        let mut state = self.lock();
        state.waits_for_start = true;
        while !(state.stopped || state.table.has_started() || state.table.is_restarting()) {
            state = self.wait(state);
        }
        state.waits_for_start = false;
    }

    /// Waits until every batch is ACKed and every end is sent to the connected consumers. If no
    /// consumer is connected, it does not wait for ends. Returns false if the time is over,
    /// [`stop`](Ring::stop) was called, or the channel [restarts](Ring::is_restarting). A timeout
    /// of `None` is unlimited.
    pub fn wait_drained(&self, timeout: Option<Duration>) -> bool {
        let deadline = timeout.map(|time| Instant::now() + time);
        let mut state = self.lock();
        state.drain_waits += 1;
        state.look_for_missing(Instant::now());
        let drained = loop {
            if state.table.drained() {
                break true;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if state.stopped || state.table.is_restarting() || left == Some(Duration::ZERO) {
                break false;
            }
            let woken = self.changed.wait_timeout(state, left.unwrap_or(Duration::MAX));
            state = woken.expect("no code under this lock panics").0;
        };
        state.drain_waits -= 1;
        state.look_for_missing(Instant::now());
        drained
    }

    /// Reports every batch to this observer from now on. Only the first observer counts.
    pub fn set_observer(&self, observer: Box<dyn Observer>) {
        let _ = self.observer.set(observer);
    }

    /// A snapshot for reports.
    pub fn status(&self) -> Status {
        status::snapshot(&self.config.channel, self.batches(), &self.lock(), Instant::now())
    }

    /// The last 256 consumers that have disconnected, the oldest first.
    pub fn left_consumers(&self) -> Vec<ConsumerStatus> {
        self.lock().left()
    }

    // ---- for the writer

    /// Takes the requested slot; waits while none is available.
    pub(super) fn take(&self, wanted: Wanted) -> Result<SlotId, WriteError> {
        let mut state = self.lock();
        let result = loop {
            if let Some(interrupt) = interrupt(&state) {
                break Err(interrupt.into());
            }
            if state.table.unsent_ends() < MAX_UNSENT_ENDS
                && let Some(slot) = state.table.take(wanted)
            {
                break Ok(slot);
            }
            if state.writer_waits.replace(wanted).is_none() {
                state.look_for_missing(Instant::now());
            }
            state = self.wait(state);
        };
        if state.writer_waits.take().is_some() {
            state.look_for_missing(Instant::now());
        }
        result
    }

    /// Takes the requested slot, if [`take`](Ring::take) would not wait.
    pub(super) fn try_take(&self, wanted: Wanted) -> Option<SlotId> {
        let mut state = self.lock();
        let waits = interrupt(&state).is_some() || state.table.unsent_ends() >= MAX_UNSENT_ENDS;
        if waits { None } else { state.table.take(wanted) }
    }

    /// Takes a dedicated buffer of `bytes` bytes, if [`take`](Ring::take) would not wait, and half
    /// of the budget for batches is left after that: for a batch that comes before and grows. Also
    /// returns a spare buffer, if one is large enough.
    pub(super) fn try_take_dedicated(
        &self,
        bytes: usize,
    ) -> Option<(SlotId, Option<DedicatedBuffer>)> {
        let mut state = self.lock();
        let waits = interrupt(&state).is_some() || state.table.unsent_ends() >= MAX_UNSENT_ENDS;
        let left = self.budget.left().saturating_add(state.dedicated.spare_bytes());
        let has_room = left.saturating_sub(bytes as u64) >= self.budget.batches() / 2;
        if waits || !has_room {
            return None;
        }
        let slot = state.table.take(Wanted::Dedicated)?;
        let (found, unfit) = state.dedicated.take_spare(bytes);
        // Unmapping a large one takes long.
        drop(state);
        drop(unfit);
        Some((slot, found))
    }

    /// Takes a slot, if there is one and the writer would not wait for anything else.
    /// Counts it in `extra_filled`, which may not be more than `extra_slots`.
    pub(super) fn take_extra(&self) -> Option<SlotId> {
        let mut state = self.lock();
        let ends = state.stopped
            || state.table.is_restarting()
            || state.table.epoch_end_requested().is_some();
        // Only this function increases the number, under the lock.
        if ends || self.extra_filled.load(Ordering::Relaxed) >= self.extra_slots {
            return None;
        }
        let slot = state.table.take(Wanted::Slot)?;
        self.extra_filled.fetch_add(1, Ordering::Relaxed);
        Some(slot)
    }

    /// The fields that every record has. `None` before they are set.
    pub fn fields(&self) -> Option<&[Field]> {
        self.schema.get().map(|(fields, _)| fields.as_slice())
    }

    /// Number of batches so far, including those of earlier runs.
    pub fn batches(&self) -> u64 {
        self.next_batch.load(Ordering::Relaxed)
    }

    /// The number of the next batch.
    pub(super) fn next_batch(&self) -> u64 {
        self.next_batch.fetch_add(1, Ordering::Relaxed)
    }

    /// A free dedicated buffer of at least this many bytes.
    pub(super) fn take_spare(&self, bytes: usize) -> Option<DedicatedBuffer> {
        let mut state = self.lock();
        let (found, unfit) = state.dedicated.take_spare(bytes);
        // Unmapping a large one takes long.
        drop(state);
        drop(unfit);
        found
    }

    /// Queues a filled batch. `dedicated` is its memory, if that is a dedicated buffer. `place` is
    /// its position.
    pub(super) fn push(
        &self,
        slot: SlotId,
        batch: Batch,
        dedicated: Option<DedicatedBuffer>,
        place: Resumed,
    ) {
        let unused = self.change(|state, now| {
            let unused = state.dedicated.pushed(slot, dedicated);
            if slot >= self.slots() {
                state.larger.pushed(batch.bytes, self.is_dedicated(slot));
            }
            if !state.table.is_restarting() {
                let refused = self.delivery().filled(&state.table, place);
                refused.iter().for_each(|(id, reason)| state.refuse(*id, reason));
            }
            if let Some(observer) = self.observer() {
                let Batch { number: batch, epoch, records, bytes, .. } = batch;
                observer.on_event(BatchEvent::Filled { slot, batch, epoch, records, bytes });
            }
            state.table.push(slot, batch, now);
            unused
        });
        // This happens without the lock, because unmapping a large one takes long.
        drop(unused);
    }

    /// Frees a slot that was taken and not filled.
    pub(super) fn put_back(&self, slot: SlotId) {
        self.change(|state, _| state.table.put_back(slot));
    }

    // ---- for the server

    /// Welcomes a consumer that was [admitted](Ring::admit).
    ///
    /// # Errors
    /// The kernel's error: the consumer has hung up already, or the kernel can't pass a descriptor.
    /// `ECONNRESET` if its request has failed since, or it does not understand the channel's larger
    /// slots; it has been sent the reason then.
    pub(super) fn connect(
        &self,
        id: ConsumerId,
        peer: Peer,
        hello: &Hello,
        admitted: (Admitted, u64),
        socket: Arc<OwnedFd>,
        poller: Arc<Epoll>,
    ) -> nix::Result<()> {
        let (Admitted { rank, credits, mode, resumed, settings, length }, failures) = admitted;
        let welcome = protocol::welcome(&Welcome {
            protocol: PROTOCOL,
            host: concat!("pipemill ", env!("CARGO_PKG_VERSION")).into(),
            channel: self.config.channel.clone(),
            mode,
            slots: self.slots(),
            slot_bytes: self.config.slot_bytes as u64,
            credits,
            resumed,
            settings,
            views: true,
            length,
        });
        send(&socket, &welcome, Some(self.memory.fd()), false)?;
        let client = hello.client.chars().take(MAX_CLIENT_CHARS).collect();
        self.change(|state, now| {
            let (failed, message) = &state.failure;
            if *failed != failures {
                // It fails only if the consumer has hung up.
                let _ = send(&socket, message, None, false);
                return Err(Errno::ECONNRESET);
            }
            if state.larger.exist() && !hello.larger_slots {
                let _ = send(&socket, &protocol::refused(NO_LARGER_SLOTS), None, false);
                return Err(Errno::ECONNRESET);
            }
            state.sockets.push(ConsumerSocket::new(id, peer, client, socket, poller));
            state.table.connect(id, credits, rank, hello.larger_slots, now);
            state.missing.come(rank, now);
            state.look_for_missing(now);
            state.look_for_idle(id, now);
            if let Some((_, schema)) = self.schema.get() {
                state.send(state.sockets.len() - 1, schema, None, now);
            }
            if let Some(reason) = self.delivery().connected(rank) {
                state.refuse(id, &reason);
            }
            Ok(())
        })
    }

    /// Removes a consumer that has hung up, or on which the server is about to hang up. The batches
    /// that it had not ACKed go back to the queue.
    pub(super) fn disconnect(&self, id: ConsumerId) {
        self.forget(id, Table::disconnect);
    }

    fn forget(&self, id: ConsumerId, how: fn(&mut Table, ConsumerId, Instant)) {
        self.change(|state, now| {
            let rank = state.table.consumers().iter().find(|consumer| consumer.id == id);
            let rank = rank.map_or(0, |consumer| consumer.rank);
            let socket = state.sockets.iter().find(|socket| socket.id == id);
            let pid = socket.map_or(0, |socket| socket.peer.pid);
            state.leave(id, now);
            if let Some(observer) = self.observer() {
                observer::report_disconnect(observer, &state.table, id);
            }
            how(&mut state.table, id, now);
            state.missing.leave(rank, pid, now);
            state.look_for_missing(now);
        });
    }

    /// Handles a consumer whose program has left the epoch in which the consumer began.
    pub(super) fn leave_epoch(&self, id: ConsumerId) {
        self.change(|state, now| state.table.leave_epoch(id, now));
    }

    /// As [`disconnect`](Ring::disconnect), but the consumer may read what it holds until it is
    /// [`gone`](Ring::gone).
    pub(super) fn depart(&self, id: ConsumerId) {
        self.forget(id, Table::depart);
    }

    /// Handles the hang-up of a consumer that has departed.
    pub(super) fn gone(&self, id: ConsumerId) {
        self.change(|state, _| state.table.gone(id));
    }

    /// Number of batches that were granted to the consumer and not ACKed.
    pub(super) fn unacked(&self, id: ConsumerId) -> usize {
        self.change(|state, _| state.table.unacked(id))
    }

    /// Grants and sends nothing from now on: the server is about to hang up on all consumers.
    pub(super) fn close(&self) {
        self.change(|state, _| state.table.close());
    }

    /// Handles a consumer's message. An error is the reason to refuse the consumer.
    pub(super) fn obey(&self, id: ConsumerId, message: &ToHost<'_>) -> Result<(), String> {
        let report = |state: &RingState| {
            if let Some(observer) = self.observer() {
                observer::report_message(observer, &state.table, id, message);
            }
        };
        let done = self.change(|state, now| match message {
            ToHost::Ack(grants) => {
                report(state);
                let done = state.table.ack(id, grants.iter(), now);
                state.look_for_idle(id, now);
                done
            }
            ToHost::Release(grants) => {
                report(state);
                let done = state.table.release(id, grants.iter(), now);
                state.look_for_idle(id, now);
                done
            }
            ToHost::EndEpoch(epoch) => {
                state.table.skip_epoch(id, *epoch, now);
                Ok(())
            }
            ToHost::Views => {
                state.want_views(id);
                Ok(())
            }
            ToHost::Hello(_) | ToHost::GetStatus => Ok(()),
        });
        match (message, done) {
            (ToHost::Hello(_), _) => Err("a second HELLO on one connection".into()),
            (ToHost::GetStatus, _) => Err("GET_STATUS on the connection of a consumer".into()),
            (_, done) => done.map_err(|not_held| not_held.to_string()),
        }
    }

    /// Sends the kept messages of a consumer whose socket has room again.
    pub(super) fn flush(&self, id: ConsumerId) {
        self.change(|state, now| {
            let socket = state.sockets.iter_mut().find(|socket| socket.id == id);
            if socket.is_some_and(ConsumerSocket::flush) {
                state.table.set_blocked(id, false, now);
            }
        });
    }

    /// Log lines for the consumers that hold others up, at most one for each per 30 s.
    pub(super) fn stuck(&self, now: Instant) -> Vec<String> {
        status::stuck(&self.config.channel, &mut self.lock(), now)
    }

    /// Admits a consumer, or refuses it. Also returns how often all consumers had been ended before
    /// that.
    pub(super) fn admit(&self, hello: &Hello) -> Result<(Admitted, u64), Denied> {
        // The consumers whose request failed get its error, and this one does not.
        self.change(|state, _| self.restart_after_failure(state)).map_err(|others| {
            let why = "what another consumer asked for has failed, and it is still connected; \
                       connect again";
            Denied::WhileConnected(others, why.into())
        })?;
        let request = self.delivery().request(hello)?;
        self.change(|state, _| {
            let admitted = request.admit(LockedRing {
                writer_ended: state.writer_ended,
                batches: self.batches(),
                config: &self.config,
                table: &mut state.table,
            })?;
            Ok((admitted, state.failure.0))
        })
    }

    fn delivery(&self) -> &dyn Delivery {
        self.delivery.get().map_or(&AsConfigured, |delivery| &**delivery)
    }

    fn observer(&self) -> Option<&dyn Observer> {
        self.observer.get().map(|observer| &**observer)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, RingState> {
        self.state.lock().expect("no code under this lock panics")
    }

    /// Waits for the next change of the state.
    pub(super) fn wait<'a>(&self, state: MutexGuard<'a, RingState>) -> MutexGuard<'a, RingState> {
        self.changed.wait(state).expect("no code under this lock panics")
    }

    /// Runs a command on the state, carries out its effects and wakes the waiting threads.
    pub(super) fn change<T>(&self, command: impl FnOnce(&mut RingState, Instant) -> T) -> T {
        let now = Instant::now();
        let mut state = self.lock();
        let result = command(&mut state, now);
        state.carry_out(now, self.observer(), self.delivery());
        self.wishes.update(&state);
        let ends_a_wait = state.ends_a_wait();
        drop(state);
        if ends_a_wait {
            self.changed.notify_all();
        }
        result
    }
}

/// The writer's next action, instead of waiting or continuing.
pub(super) fn interrupt(state: &RingState) -> Option<Interrupt> {
    if state.stopped {
        return Some(Interrupt::Stop);
    }
    if state.table.is_restarting() {
        return Some(Interrupt::Restart);
    }
    state.table.epoch_end_requested().map(Interrupt::EndEpoch)
}

/// Number of bytes that the fields take in a HELLO with a state: as JSON text inside JSON.
fn bytes_in_state(fields: &[Field]) -> usize {
    let text = schema_extension(fields).map(|(_, text)| text).unwrap_or_default();
    serde_json::to_string(&text).map_or(0, |text| text.len())
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use pipemill_types::HUGE_PAGE;
    use proptest::prelude::*;

    use super::*;
    use crate::host::BatchInfo;
    use crate::host::slot_memory::BATCHES_PER_RESERVED_SLOT;

    const SLOTS: u32 = 6;

    fn ring(slot_bytes: usize) -> Ring {
        let ring = Ring::new(RingConfig {
            channel: "test".into(),
            slots: SLOTS,
            slot_bytes,
            dedicated: 1,
            credits: 1,
            mode: Mode::Share,
            consumers: 1,
        });
        let ring = Arc::into_inner(ring.expect("there is memory")).expect("nobody else has it");
        ring.set_schema(Vec::new()).expect("no field");
        ring
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        /// No slot is written before its memory is there, and no memory is taken long before.
        #[test]
        fn memory_is_reserved_as_far_as_slots_were_filled(
            pages in prop_oneof![Just(1_usize), Just(3), Just(600)],
            holds in proptest::collection::vec(0_usize..SLOTS as usize, 1..40),
        ) {
            let slot_bytes = pages * 4096;
            let ring = Arc::new(ring(slot_bytes));
            let mut held = Vec::new();
            let mut most = 1;
            for (taken, hold) in holds.into_iter().enumerate() {
                held.truncate(hold);
                let mut writer = ring.acquire().unwrap();
                writer.payload().fill(taken as u8);
                held.push(writer);
                most = most.max(held.len()).max(taken / BATCHES_PER_RESERVED_SLOT);
                let (least, allocated) = (most * slot_bytes, ring.memory.memory.allocated());
                let limit = least.next_multiple_of(HUGE_PAGE).min(SLOTS as usize * slot_bytes);
                prop_assert!((least..=limit).contains(&allocated), "{allocated} for {most} slots");
            }
        }
    }

    #[test]
    fn a_long_run_has_all_of_its_memory() {
        let ring = Arc::new(ring(HUGE_PAGE));
        for _ in 0..=SLOTS as usize * BATCHES_PER_RESERVED_SLOT {
            drop(ring.acquire().unwrap());
        }
        assert_eq!(ring.memory.memory.allocated(), SLOTS as usize * HUGE_PAGE);
    }

    #[test]
    fn a_slot_without_memory_is_an_error_and_stays_free() {
        let mut ring = ring(HUGE_PAGE);
        ring.memory.memory.grant_nothing();
        let ring = Arc::new(ring);
        let first = ring.acquire().expect("it was reserved at the start");
        for _ in 0..2 {
            let error = ring.acquire().map(drop).unwrap_err();
            assert!(error.to_string().contains("shared memory: reserving it failed"), "{error}");
            assert!(ring.try_acquire().is_none());
        }
        first.grant(&BatchInfo::default(), &[]).expect("the ring still works");
        let free = ring.lock().table.slot_counts().free;
        assert_eq!(free, SLOTS - 1);
    }
}
