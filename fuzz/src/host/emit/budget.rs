//! A channel's memory budget under a decoder that emits arbitrary records, into a real ring with a
//! consumer: the kernel never counts more than was taken from the budget, all of it is returned,
//! and the records are those of the model, or the error names `limits.batches`.

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, thread};

use pipemill_channel::{ChannelStats, Outcome};
use pipemill_delivery::{RingSink, error_report};
use pipemill_ring::host::{BatchEvent, Observer, Ring, RingConfig, Server, ServerConfig};
use pipemill_ring::protocol::{Hello, Mode};
use pipemill_ring::reader::{Event, Reader, ReaderError};
use pipemill_testing::test_dir::TestDir;
use pipemill_types::{BatchAcross, BatchSize, MemoryBudget, Tail};

use super::model::Record;
use super::sink::Objects;
use super::{calls, channel, decoder, model};

/// The channel's name: no other target of this process has a ring of it.
const NAME: &str = "budget";
/// Size of a page in bytes.
const PAGE: u64 = 4096;
/// The key that the error of a budget names.
const KEY: &str = "limits.batches";

/// The choices of an input's first bytes.
struct Setup {
    fields: u8,
    slots: u32,
    slot_pages: u64,
    /// Pages of the budget beyond the slots. The last value is a budget without a limit.
    more: u8,
    batch: Option<BatchSize>,
    credits: u32,
    objects: usize,
}

impl Setup {
    fn new([fields, slots, more, batch, reading]: [u8; 5]) -> Self {
        let tail = [Tail::Keep, Tail::Pad][usize::from(batch >> 7)];
        let records = usize::from(batch & 127);
        let size = BatchSize { records, tail, across: BatchAcross::default() };
        Self {
            fields,
            slots: 2 + u32::from(slots % 4),
            slot_pages: 1 + u64::from(slots >> 2) % 4,
            more,
            batch: (records > 0).then_some(size),
            credits: 1 + u32::from(reading % 4),
            objects: 1 + usize::from(reading >> 2) % 8,
        }
    }

    fn ring(&self) -> (Arc<Ring>, Arc<MemoryBudget>) {
        let config = RingConfig {
            channel: NAME.to_owned(),
            slots: self.slots,
            slot_bytes: (self.slot_pages * PAGE) as usize,
            dedicated: self.slots,
            credits: 1,
            mode: Mode::Share,
            consumers: 1,
        };
        let slots = u64::from(self.slots) * self.slot_pages * PAGE;
        let budget = match self.more {
            u8::MAX => MemoryBudget::unlimited(),
            pages => MemoryBudget::new(slots + u64::from(pages) * PAGE),
        };
        (Ring::within(config, 0, budget.clone()).expect("the slots fit"), budget)
    }
}

/// Five bytes choose the fields, the ring, its budget, the batches and how they are read; the calls
/// of `emit` follow.
pub(crate) fn budget(bytes: &[u8]) {
    let Some((choice, script)) = bytes.split_first_chunk() else { return };
    let setup = Setup::new(*choice);
    let (fields, plugin) = decoder(setup.fields);
    let calls = calls::read(script, fields.len());
    let object = calls::chunk(&calls);
    let expected = model::records(&calls, fields, &object);
    let (ring, budget) = setup.ring();
    let excess = Arc::new(AtomicU64::new(0));
    ring.set_observer(Box::new(KernelsSum { budget: budget.clone(), excess: excess.clone() }));
    let mut channel = channel(plugin, Objects::new(&object, setup.objects));
    (channel.name, channel.batch) = (NAME.to_owned(), setup.batch);
    let (records, error) = run(channel, ring, setup.credits);
    assert_eq!(excess.load(Ordering::Relaxed), 0, "bytes that the budget does not know");
    assert_eq!(budget.taken(), 0, "bytes that were not given back");
    check(&setup, &expected, &records, error.as_deref());
}

/// Runs the channel, and reads its records and its error.
fn run(
    mut channel: pipemill_channel::Channel,
    ring: Arc<Ring>,
    credits: u32,
) -> (Vec<Record>, Option<String>) {
    let place = TestDir::new();
    let socket = place.path("run/host.sock");
    let server = Server::start(&socket, &ServerConfig::default(), vec![ring.clone()], None);
    let server = server.expect("a socket");
    let hello = Hello { credits: Some(credits), ..Hello::new(NAME, "fuzz") };
    let reader = Reader::connect_as(&socket, &hello, false).expect("the channel is there");
    let reading = thread::spawn(move || read(reader));
    let mut sink = RingSink::new(ring.clone(), "fuzzed", channel.batch);
    match channel.run(&mut sink, &ChannelStats::default()) {
        Outcome::Ended => ring.end_stream(),
        Outcome::Failed(failure) => ring.fail(error_report(&failure)),
        outcome => panic!("{outcome:?}"),
    }
    let read = reading.join().expect("the consumer reads on");
    drop((channel, sink, server));
    read
}

/// The records up to the end of the stream or its error. Each batch is released before the next
/// one.
fn read(mut reader: Reader) -> (Vec<Record>, Option<String>) {
    let mut records = Vec::new();
    loop {
        match reader.next() {
            Ok(Event::Batch(batch)) => {
                let fields = 0..batch.fields().len();
                let value = |record, field| batch.field(record, field).map(<[u8]>::to_vec);
                let record = |record| fields.clone().map(|field| value(record, field)).collect();
                records.extend((0..batch.valid()).map(record));
            }
            Ok(Event::EpochEnd(_)) => {}
            Ok(Event::StreamEnd) => return (records, None),
            Err(ReaderError::Failed(report)) => return (records, Some(report.message)),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Compares the received records with the model.
fn check(
    setup: &Setup,
    expected: &Result<Vec<Record>, usize>,
    records: &[Record],
    error: Option<&str>,
) {
    let is_over_budget = error.is_some_and(|error| error.contains(KEY));
    assert!(!is_over_budget || setup.more < u8::MAX, "there is no limit: {error:?}");
    let Ok(of_object) = expected else {
        assert!(error.is_some(), "the object is wrong");
        return;
    };
    let whole = of_object.len() * setup.objects;
    let before = of_object.iter().cycle().take(whole.min(records.len()));
    assert!(records.iter().eq(before), "{} of {whole} records, and {error:?}", records.len());
    match error {
        None => assert_eq!(records.len(), whole),
        Some(error) => {
            assert!(is_over_budget, "the object is right: {error}");
            // If all batches are equal, and one was possible, all are.
            let size = setup.batch.map_or(of_object.len(), |batch| batch.records);
            let are_equal = size > 0 && of_object.len() % size == 0;
            assert!(!are_equal || records.is_empty(), "after {} records: {error}", records.len());
        }
    }
}

/// Compares the kernel's count with the budget whenever a batch is filled: the thread that fills it
/// is the only one that allocates and frees the ring's memory.
struct KernelsSum {
    budget: Arc<MemoryBudget>,
    /// The largest number of bytes that were not in the budget.
    excess: Arc<AtomicU64>,
}

impl Observer for KernelsSum {
    fn on_event(&self, event: BatchEvent) {
        if let BatchEvent::Filled { .. } = event {
            let bytes = ring_files().iter().map(|(_, bytes)| bytes).sum::<u64>();
            // The ring's lock is held, so nothing may panic here.
            self.excess.fetch_max(bytes.saturating_sub(self.budget.taken()), Ordering::Relaxed);
        }
    }
}

/// The ring's files that this process has open, each once: number and bytes.
fn ring_files() -> Vec<(u64, u64)> {
    let prefix = format!("/memfd:pipemill:{NAME}");
    let descriptors = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let is_ring = |path: &std::path::Path| {
        fs::read_link(path).is_ok_and(|name| name.to_string_lossy().starts_with(&prefix))
    };
    let paths = descriptors.map(|entry| entry.path()).filter(|path| is_ring(path));
    let mut files: Vec<_> = paths
        .filter_map(|path| fs::metadata(path).ok())
        .map(|file| (file.ino(), file.len()))
        .collect();
    files.sort_unstable();
    files.dedup();
    files
}
