//! What a ring does for those who write to it: they take memory to fill, queue filled batches, end
//! epochs and the stream, and wait until all is delivered.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::config::{Interrupt, PlaceMissing, WriteError};
use super::observer::BatchEvent;
use super::ring::Ring;
use super::state::RingState;
use super::table::{Batch, End, SlotId, Wanted};
use crate::memory::DedicatedBuffer;
use crate::protocol::{BatchPlace, ErrorReport, Mode, Resumed};

/// A writer waits while this many ends are unsent: without a limit, empty epochs would pile up.
const MAX_UNSENT_ENDS: usize = 64;

impl Ring {
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
