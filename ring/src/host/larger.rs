//! Larger slots: memory for batches of a fixed number of records that turn out not to fit a slot.
//! Consumers may know the ring's slots by then, so the larger ones are memory of their own. Their
//! descriptor is sent to each consumer once. From then on, such a batch costs as much as one in a
//! slot: no memory is made, cleared or mapped for it.
//!
//! The first such batches have dedicated buffers. They say how large the slots must be.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nix::errno::Errno;
use pipemill_types::{HUGE_PAGE, MemoryBudget};

use super::config::{RingConfig, RingError, WriteError};
use super::delivery::slots_of_ranks;
use super::ring::Ring;
use super::slot_memory::SlotMemory;
use super::table::{Table, Wanted};
use super::writer::{Writer, check_size};
use crate::layout::HEADER_BYTES;
use crate::memory::MemoryError;
use crate::protocol::{LargerSlots, Mode, Tail};

/// Batches in dedicated buffers that say how large batches are.
const LEARNED_FROM: u32 = 2;
/// As many batches in a row that do not fit the larger slots end their use.
const TOO_LARGE: u32 = 4;
/// Bytes of all larger slots, if there are more of them than necessary.
const USUAL_BYTES: usize = 256 << 20;
/// The fewest larger slots.
const FEWEST: u32 = 4;
/// The size of the largest ones.
const LARGEST: usize = 1 << 30;
/// Bytes of a larger slot in addition to the batches from which its size was learned; a sixteenth
/// of them is added, too.
const SPARE: usize = 1 << 20;

/// What batches that fit no slot have shown.
#[derive(Debug, Default)]
struct Learned {
    /// Bytes of the largest one.
    bytes: usize,
    /// How many there were.
    batches: u32,
    /// How many in a row did not fit the larger slots.
    too_large: u32,
}

/// The larger slots of a ring, if there are any, and the sizes of its batches.
#[derive(Debug, Default)]
pub(super) struct Larger {
    memory: Option<Arc<SlotMemory>>,
    /// Their descriptor, to be sent.
    fd: Option<Arc<OwnedFd>>,
    learned: Learned,
    /// Whether there was no memory for them.
    gave_up: bool,
}

/// The limit of all slots of a ring with larger ones.
#[derive(Debug, Default)]
pub(super) struct LargerLimit {
    /// In bytes; 0 if the ring makes no larger slots.
    most: AtomicU64,
    /// Whether decoders may be shown them.
    are_shown: AtomicBool,
}

impl LargerLimit {
    /// Whether decoders may be shown larger slots.
    pub(super) fn are_shown(&self) -> bool {
        self.are_shown.load(Ordering::Relaxed)
    }
}

impl Larger {
    /// Whether there are larger slots.
    pub(super) fn exist(&self) -> bool {
        self.memory.is_some()
    }

    /// The message that describes them, and their descriptor. `first` is the number of the first
    /// one, for consumers.
    pub(super) fn announced(&self, first: u32) -> Option<(LargerSlots, Arc<OwnedFd>)> {
        let (memory, fd) = (self.memory.as_ref()?, self.fd.clone()?);
        let (slot_bytes, slots) = (memory.slot_bytes() as u64, memory.slots());
        Some((LargerSlots { slot_bytes, first, slots }, fd))
    }

    /// Records the size of a batch in a dedicated buffer, or in a larger slot.
    pub(super) fn pushed(&mut self, bytes: u64, is_dedicated: bool) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let learned = &mut self.learned;
        if is_dedicated {
            learned.bytes = learned.bytes.max(bytes);
            learned.batches = learned.batches.saturating_add(1);
        }
        match &self.memory {
            Some(memory) if bytes > memory.slot_bytes() => {
                learned.too_large = learned.too_large.saturating_add(1);
            }
            _ => learned.too_large = 0,
        }
    }

    /// Batches may have another size from now on.
    pub(super) fn restarted(&mut self) {
        (self.learned, self.gave_up) = (Learned::default(), false);
    }

    /// Whether the size of batches is still to be learned.
    fn is_learning(&self) -> bool {
        !self.exist() && !self.gave_up && self.learned.batches < LEARNED_FROM
    }

    /// The slots for a batch of about this size. The last batches count more than the wish: it may
    /// be that of a single large one.
    fn about(&self, bytes: usize) -> Option<&Arc<SlotMemory>> {
        let fit = |slots: &&Arc<SlotMemory>| {
            bytes <= slots.slot_bytes() || self.learned.too_large < TOO_LARGE
        };
        self.memory.as_ref().filter(fit)
    }

    /// Bytes of the larger slots that should be made now.
    fn wanted(&self) -> Option<usize> {
        let Learned { bytes, batches, too_large } = self.learned;
        let is_due = match self.memory {
            None => batches >= LEARNED_FROM,
            Some(_) => too_large >= TOO_LARGE,
        };
        let slot = bytes.saturating_add(bytes / 16).saturating_add(SPARE);
        let slot = slot.next_multiple_of(HUGE_PAGE);
        (is_due && !self.gave_up && slot <= LARGEST).then_some(slot)
    }
}

/// The number of larger slots of this size. `None` if `most` bytes do not hold as many as consumers
/// need.
fn count(config: &RingConfig, table: &Table, bytes: usize, most: u64) -> Option<u32> {
    let needed = match table.division() {
        (Mode::Rank, ranks) => slots_of_ranks(ranks, config.credits.min(2), Some(Tail::Drop)),
        // One is filled and one is ready while consumers hold the others.
        (_, consumers) => config.credits.max(consumers.saturating_mul(2)).saturating_add(2),
    };
    let needed = needed.max(FEWEST).min(config.slots.max(FEWEST));
    let usual = (USUAL_BYTES / bytes) as u32;
    let affordable = u32::try_from(most / bytes as u64).unwrap_or(u32::MAX);
    let count = usual.max(needed).min(config.slots.max(needed)).min(affordable);
    (count >= needed).then_some(count)
}

impl Ring {
    /// Lets the ring make larger slots, if batches of a fixed number of records do not fit its
    /// slots. All slots together take at most `most` bytes. `are_shown`: decoders may be shown the
    /// larger ones, as they are shown slots.
    pub fn let_slots_grow(&self, most: u64, are_shown: bool) {
        self.larger_limit.most.store(most, Ordering::Relaxed);
        self.larger_limit.are_shown.store(are_shown, Ordering::Relaxed);
    }

    /// Memory for a batch of a fixed number of records that does not fit a slot: a larger slot,
    /// where there are some, or a dedicated buffer. Its payload area has at least `payload_bytes`
    /// bytes, and can grow.
    ///
    /// # Errors
    /// As for [`acquire_dedicated`](Ring::acquire_dedicated).
    pub fn acquire_larger(self: &Arc<Ring>, payload_bytes: usize) -> Result<Writer, WriteError> {
        check_size(payload_bytes)?;
        let bytes = HEADER_BYTES + payload_bytes;
        match self.larger_slots(bytes).filter(|slots| bytes <= slots.slot_bytes()) {
            Some(slots) => self.acquire_in(&slots),
            None => self.acquire_dedicated(payload_bytes),
        }
    }

    /// As [`acquire_larger`](Ring::acquire_larger), for a batch of which only the size of earlier
    /// ones is known: the payload area may be smaller, if most batches fit it.
    ///
    /// # Errors
    /// As for [`acquire_dedicated`](Ring::acquire_dedicated).
    pub fn acquire_about(self: &Arc<Ring>, payload_bytes: usize) -> Result<Writer, WriteError> {
        check_size(payload_bytes)?;
        match self.larger_slots(HEADER_BYTES + payload_bytes) {
            Some(slots) => self.acquire_in(&slots),
            None => self.acquire_dedicated(payload_bytes),
        }
    }

    /// As [`acquire_about`](Ring::acquire_about), without waiting, as
    /// [`try_acquire_dedicated`](Ring::try_acquire_dedicated). As long as the size of batches is to
    /// be learned, there are few: larger slots will take their place.
    pub fn try_acquire_about(self: &Arc<Ring>, payload_bytes: usize) -> Option<Writer> {
        check_size(payload_bytes).ok()?;
        match self.larger_slots(HEADER_BYTES + payload_bytes) {
            Some(slots) => {
                let slot = self.try_take(Wanted::Larger)?;
                Writer::in_larger(self, slot, &slots).ok()
            }
            None if self.waits_to_learn() => None,
            None => self.try_acquire_dedicated(payload_bytes),
        }
    }

    /// Whether as many batches as say how large batches are have a dedicated buffer, or had one.
    fn waits_to_learn(&self) -> bool {
        let state = self.lock();
        let larger = &state.larger;
        let makes_some = self.larger_limit.most.load(Ordering::Relaxed) > 0;
        let begun = || state.table.slot_counts().dedicated + larger.learned.batches;
        makes_some
            && larger.is_learning()
            && state.table.may_make_larger()
            && begun() >= LEARNED_FROM
    }

    /// Waits for a slot of the larger ones. If consumers hold all of them and one waits for a
    /// batch, gives a dedicated buffer of their size.
    fn acquire_in(self: &Arc<Ring>, slots: &Arc<SlotMemory>) -> Result<Writer, WriteError> {
        let mut slot = self.take(Wanted::LargerOrDedicated)?;
        loop {
            match Writer::in_larger(self, slot, slots) {
                Err(WriteError::Failed(RingError::Memory(MemoryError::OverBudget(missing)))) => {
                    let wanted = (Wanted::Larger, Wanted::LargerOrDedicated);
                    slot = self.take_without_memory(wanted, missing)?;
                }
                other => return other,
            }
        }
    }

    /// The larger slots for a batch of about this size. Makes them if it is time for that.
    fn larger_slots(&self, bytes: usize) -> Option<Arc<SlotMemory>> {
        let most = self.larger_limit.most.load(Ordering::Relaxed);
        if most == 0 {
            return None;
        }
        let mut state = self.lock();
        if let Some(found) = state.larger.about(bytes) {
            return Some(found.clone());
        }
        let slot = state.larger.wanted().filter(|_| state.table.may_make_larger())?;
        // The larger slots take their place.
        let spares = state.dedicated.drop_spares();
        drop(state);
        // Unmapping large ones takes long.
        drop(spares);
        self.make_larger(slot, most).filter(|made| bytes <= made.slot_bytes())
    }

    /// Makes larger slots of this size. `None` if there is no memory for them: then batches have
    /// dedicated buffers until the channel restarts.
    fn make_larger(&self, slot_bytes: usize, most: u64) -> Option<Arc<SlotMemory>> {
        let mut state = self.lock();
        if !state.table.may_make_larger() {
            return None;
        }
        (state.larger.learned, state.larger.gave_up) = (Learned::default(), true);
        let config = self.config();
        let left = most.saturating_sub(u64::from(self.slots()) * config.slot_bytes as u64);
        let count = count(config, &state.table, slot_bytes, left)?;
        // Older ones are not in use, and no consumer knows them.
        state.table.set_larger(0);
        state.larger.memory = None;
        // No memory is reserved here, so it is quick.
        let made = create(&config.channel, count, slot_bytes, &self.budget);
        if let Ok((memory, fd)) = &made {
            state.table.set_larger(count);
            state.larger.gave_up = false;
            (state.larger.memory, state.larger.fd) = (Some(memory.clone()), Some(fd.clone()));
        }
        drop(state);
        let channel = &config.channel;
        match made {
            Ok((memory, _)) => {
                log::debug!("channel `{channel}`: its batches get {memory:?}");
                Some(memory)
            }
            Err(error) => {
                log::debug!("channel `{channel}`: no larger slots for its batches: {error}");
                None
            }
        }
    }
}

/// Larger slots, and a descriptor of their memory to be sent.
fn create(
    channel: &str,
    count: u32,
    slot_bytes: usize,
    budget: &Arc<MemoryBudget>,
) -> Result<(Arc<SlotMemory>, Arc<OwnedFd>), RingError> {
    let memory = SlotMemory::create(channel, count, slot_bytes, budget)?;
    let fd = memory.fd().try_clone_to_owned().map_err(|error| MemoryError::System {
        what: "copying its descriptor",
        bytes: slot_bytes,
        errno: Errno::from_raw(error.raw_os_error().unwrap_or(0)),
    })?;
    Ok((Arc::new(memory), Arc::new(fd)))
}
