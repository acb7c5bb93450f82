//! One channel's ring: its memory, and its state under a lock. See the parent module for the locks.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use pipemill_types::{MemoryBudget, schema_extension};

use super::config::{RingConfig, RingError};
use super::delivery::{AsConfigured, Delivery};
use super::larger::LargerLimit;
use super::observer::Observer;
use super::slot_memory::SlotMemory;
use super::state::RingState;
use super::status::{self, ConsumerStatus, Status};
use super::sync::{Condvar, Mutex, MutexGuard};
use super::table::{SlotId, Table};
use crate::protocol::{self, Field, MAX_SCHEMA, Mode};

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
    pub(super) extra_slots: u32,
    /// Upper bound of the number of extra slots that are being filled.
    pub(super) extra_filled: AtomicU32,
    /// The fields, and the encoded SCHEMA message. They are set once.
    pub(super) schema: OnceLock<(Vec<Field>, Vec<u8>)>,
    /// Number of fields whose values are strings. It is set before the fields are.
    pub(super) strings: AtomicUsize,
    /// The delivery, which decides about consumers. It is set at most once.
    delivery: OnceLock<Arc<dyn Delivery>>,
    pub(super) next_batch: AtomicU64,
    observer: OnceLock<Box<dyn Observer>>,
    state: Mutex<RingState>,
    /// Facts that the writer reads after each read of the source, without the lock.
    pub(super) wishes: Wishes,
    /// Signalled after each change that a writer or `wait_drained` may wait for.
    pub(super) changed: Condvar,
}

/// The consumers' requests, as of the last change of the state.
#[derive(Default)]
pub(super) struct Wishes {
    pub(super) demand: AtomicBool,
    /// The epoch whose rest is skipped, plus 1; 0 if there is none.
    pub(super) epoch_end: AtomicU64,
    /// Whether a consumer makes Arrow's arrays.
    pub(super) views: AtomicBool,
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

    /// Wakes all threads that wait in [`acquire`](Ring::acquire),
    /// [`acquire_dedicated`](Ring::acquire_dedicated) or [`wait_drained`](Ring::wait_drained). From
    /// now on these functions don't wait. Consumers get no message.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
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

    /// The fields that every record has. `None` before they are set.
    pub fn fields(&self) -> Option<&[Field]> {
        self.schema.get().map(|(fields, _)| fields.as_slice())
    }

    /// Number of batches so far, including those of earlier runs.
    pub fn batches(&self) -> u64 {
        self.next_batch.load(Ordering::Relaxed)
    }

    pub(super) fn delivery(&self) -> &dyn Delivery {
        self.delivery.get().map_or(&AsConfigured, |delivery| &**delivery)
    }

    pub(super) fn observer(&self) -> Option<&dyn Observer> {
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
