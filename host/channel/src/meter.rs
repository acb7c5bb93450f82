//! What a channel has done so far, and what it is doing: counted by its thread, a chunk at a time, and read by
//! whoever watches it. Nothing here is locked or allocated on the way of a byte.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::clock::{Clock, Stage};
use super::{Act, Failure, Witness};
use pipemill_types::ErrorKind;

/// What a channel did, and where its time went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bytes read, inflated.
    pub bytes: u64,
    /// Records that the decoder emitted.
    pub records: u64,
    /// Batches granted.
    pub batches: u64,
    /// Objects begun.
    pub objects: u64,
    /// Bad places passed over.
    pub bad_places: u64,
    /// Time spent reading the source, waiting for it included.
    pub source: Duration,
    /// Time spent decoding.
    pub decoder: Duration,
    /// Time spent waiting for memory that consumers hold, and handing over.
    pub consumer: Duration,
}

impl Totals {
    /// All of its time.
    pub fn time(&self) -> Duration {
        self.source + self.decoder + self.consumer
    }

    /// The time of a stage.
    pub fn of(&self, stage: Stage) -> Duration {
        match stage {
            Stage::Source => self.source,
            Stage::Decoder => self.decoder,
            Stage::Consumer => self.consumer,
        }
    }

    /// What came after `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            bytes: self.bytes - earlier.bytes,
            records: self.records - earlier.records,
            batches: self.batches - earlier.batches,
            objects: self.objects - earlier.objects,
            bad_places: self.bad_places - earlier.bad_places,
            source: self.source.saturating_sub(earlier.source),
            decoder: self.decoder.saturating_sub(earlier.decoder),
            consumer: self.consumer.saturating_sub(earlier.consumer),
        }
    }
}

/// One epoch that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch {
    /// From 0.
    pub number: u32,
    /// Its consumers wanted no more of it.
    pub early: bool,
    /// What was done in it.
    pub totals: Totals,
}

/// Upper bounds of the buckets in which calls of a decoder are counted, by the time that they took; longer ones are
/// counted behind the last.
pub const DECODE_BUCKETS: [Duration; 9] = {
    let micros = [16, 64, 256, 1_000, 4_000, 16_000, 64_000, 256_000, 1_000_000];
    let mut bounds = [Duration::ZERO; 9];
    let mut at = 0;
    while at < bounds.len() {
        bounds[at] = Duration::from_micros(micros[at]);
        at += 1;
    }
    bounds
};

/// So many epochs are remembered one by one.
const EPOCHS: usize = 1000;

/// A channel's meter. The channel's thread alone counts; orders are relaxed, since each number stands for itself.
pub struct Meter {
    clock: Clock,
    bytes: AtomicU64,
    records: AtomicU64,
    batches: AtomicU64,
    objects: AtomicU64,
    /// By kind of fault.
    bad_places: [AtomicU64; ErrorKind::ALL.len()],
    epoch: AtomicU32,
    calls: [AtomicU64; DECODE_BUCKETS.len() + 1],
    call_nanos: AtomicU64,
    decoder_memory: AtomicU64,
    now: Mutex<Now>,
    on_epoch: Option<OnEpoch>,
    witness: OnceLock<Box<dyn Witness>>,
}

type OnEpoch = Box<dyn Fn(&Epoch) + Send + Sync>;

/// What changes with each object or epoch.
#[derive(Default)]
struct Now {
    object: Option<String>,
    epochs: VecDeque<Epoch>,
    /// All that belongs to epochs that have ended.
    ended: Totals,
}

impl Default for Meter {
    fn default() -> Self {
        Self {
            clock: Clock::new(),
            bytes: AtomicU64::default(),
            records: AtomicU64::default(),
            batches: AtomicU64::default(),
            objects: AtomicU64::default(),
            bad_places: Default::default(),
            epoch: AtomicU32::default(),
            calls: Default::default(),
            call_nanos: AtomicU64::default(),
            decoder_memory: AtomicU64::default(),
            now: Mutex::default(),
            on_epoch: None,
            witness: OnceLock::new(),
        }
    }
}

impl Meter {
    /// A meter that tells of each epoch when it has ended, in the channel's thread.
    pub fn telling(on_epoch: impl Fn(&Epoch) + Send + Sync + 'static) -> Self {
        Self { on_epoch: Some(Box::new(on_epoch)), ..Self::default() }
    }

    /// From now on this one hears of what the channel does. The first that is given stays.
    pub fn show(&self, witness: Box<dyn Witness>) {
        let _ = self.witness.set(witness);
    }

    /// So far.
    pub fn totals(&self) -> Totals {
        let ([source, decoder, consumer], _) = self.clock.read();
        Totals {
            bytes: self.bytes.load(Ordering::Relaxed),
            records: self.records.load(Ordering::Relaxed),
            batches: self.batches.load(Ordering::Relaxed),
            objects: self.objects.load(Ordering::Relaxed),
            bad_places: self.bad_places().iter().map(|(_, count)| count).sum(),
            source,
            decoder,
            consumer,
        }
    }

    /// So far in this epoch.
    pub fn this_epoch(&self) -> Totals {
        // Read under the lock: what belongs to the epochs before can't become more meanwhile.
        let now = self.now();
        self.totals().since(&now.ended)
    }

    /// Bad places that were passed over, by the kind of fault.
    pub fn bad_places(&self) -> [(ErrorKind, u64); ErrorKind::ALL.len()] {
        ErrorKind::ALL.map(|kind| (kind, self.bad_places[kind as usize].load(Ordering::Relaxed)))
    }

    /// What it is doing; none before its start and after its end.
    pub fn stage(&self) -> Option<Stage> {
        self.clock.read().1
    }

    /// The epoch that it is in, from 0.
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// The object that it began last.
    pub fn object(&self) -> Option<String> {
        self.now().object.clone()
    }

    /// The epochs that have ended; of very many the last.
    pub fn epochs(&self) -> Vec<Epoch> {
        self.now().epochs.iter().copied().collect()
    }

    /// Calls of the decoder that took no longer than each bound of [`DECODE_BUCKETS`] and longer than the one
    /// before it, and last those that took longer than all.
    pub fn calls(&self) -> [u64; DECODE_BUCKETS.len() + 1] {
        std::array::from_fn(|bucket| self.calls[bucket].load(Ordering::Relaxed))
    }

    /// The time of all calls of the decoder.
    pub fn call_time(&self) -> Duration {
        Duration::from_nanos(self.call_nanos.load(Ordering::Relaxed))
    }

    /// Bytes of the decoder's linear memory, of the last instance.
    pub fn decoder_memory(&self) -> u64 {
        self.decoder_memory.load(Ordering::Relaxed)
    }

    /// The channel's thread goes over to another stage: how long the one before it took.
    pub(crate) fn enter(&self, stage: Stage) -> Duration {
        let took = self.clock.enter(stage);
        if let Some(witness) = self.witness.get() {
            // The clock's own moment, so that what is seen adds up to what is counted.
            witness.saw(self.clock.since(), Act::Enter(stage));
        }
        took
    }

    /// The channel's thread has ended.
    pub fn stop(&self) {
        self.clock.stop();
        if let Some(witness) = self.witness.get() {
            witness.saw(self.clock.since(), Act::Stop);
        }
    }

    /// The channel failed.
    pub fn failed(&self, failure: &Failure) {
        self.tell(Act::Failed(failure));
    }

    fn tell(&self, act: Act<'_>) {
        if let Some(witness) = self.witness.get() {
            witness.saw(Instant::now(), act);
        }
    }

    pub(super) fn read(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.tell(Act::Read(bytes));
    }

    /// A call of the decoder is over, and what it emitted is handed over.
    pub(super) fn decoded(&self, memory: u64) {
        let took = self.enter(Stage::Consumer);
        let bucket = DECODE_BUCKETS.partition_point(|bound| *bound < took);
        self.calls[bucket].fetch_add(1, Ordering::Relaxed);
        self.call_nanos.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
        self.decoder_memory.store(memory, Ordering::Relaxed);
    }

    pub(super) fn placed(&self, records: usize) {
        self.records.fetch_add(records as u64, Ordering::Relaxed);
        self.tell(Act::Placed(records));
    }

    /// So many batches were granted until now.
    pub(super) fn granted(&self, batches: u64) {
        self.batches.store(batches, Ordering::Relaxed);
    }

    pub(super) fn passed_over(&self, kind: ErrorKind) {
        self.bad_places[kind as usize].fetch_add(1, Ordering::Relaxed);
        self.tell(Act::BadPlace(kind));
    }

    pub(super) fn begin(&self, epoch: u32, object: &str) {
        self.epoch.store(epoch, Ordering::Relaxed);
        self.objects.fetch_add(1, Ordering::Relaxed);
        self.now().object = Some(object.to_owned());
        self.tell(Act::Object { epoch, name: object });
    }

    pub(super) fn end_object(&self) {
        self.tell(Act::ObjectEnd);
    }

    pub(super) fn end_epoch(&self, number: u32, early: bool) {
        let totals = self.totals();
        let epoch = {
            let mut now = self.now();
            let epoch = Epoch { number, early, totals: totals.since(&now.ended) };
            now.ended = totals;
            if now.epochs.len() == EPOCHS {
                now.epochs.pop_front();
            }
            now.epochs.push_back(epoch);
            epoch
        };
        self.epoch.store(number + 1, Ordering::Relaxed);
        self.tell(Act::EpochEnd { number, early });
        if let Some(tell) = &self.on_epoch {
            tell(&epoch);
        }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        // What is in there is whole at any time.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
