//! Compressed objects that an index knows are divided among workers at its places: records, their
//! order and positions are those of one worker, and a run goes on anywhere.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pipemill_channel::memory_sink::{LookAtRecords, MemorySink};
use pipemill_channel::{
    Batch, Channel, ChannelStats, Learning, Outcome, Resume, StopReason, Workers,
};
use pipemill_index::{Index, IndexedList};
use pipemill_source::{
    Block, KnownFiles, KnownList, KnownObject, KnownObjects, ReadSettings, SeekPoint, Stop,
};
use pipemill_types::{
    Accepted, BatchAcross, BatchPosition, BatchSize, Field, ListIdentity, Tail, schema_extension,
};
use proptest::prelude::*;

use crate::file::config;
use crate::places::{DECODERS, compressed, file};
use crate::reading::{Decoder, Record, Records, channel, index};

/// A list that counts how often a seek point was looked up.
#[derive(Debug)]
struct Counted {
    list: IndexedList,
    seeks: AtomicU64,
}

impl KnownObjects for Counted {
    fn count(&self) -> u64 {
        self.list.count()
    }
    fn get(&self, number: u64) -> Option<KnownObject> {
        self.list.get(number)
    }
    fn short_name(&self, number: u64) -> Option<&str> {
        self.list.short_name(number)
    }
    fn size(&self, number: u64) -> u64 {
        self.list.size(number)
    }
    fn blocks(&self, number: u64, bytes: u64) -> Vec<Block> {
        self.list.blocks(number, bytes)
    }
    fn seek_point(&self, number: u64, offset: u64) -> Result<Option<SeekPoint>, String> {
        let found = self.list.seek_point(number, offset)?;
        if found.is_some() {
            self.seeks.fetch_add(1, Ordering::Relaxed);
        }
        Ok(found)
    }
    fn seek_point_after(&self, number: u64, offset: u64) -> Result<Option<SeekPoint>, String> {
        self.list.seek_point_after(number, offset)
    }
    fn records(&self, number: u64) -> Option<u64> {
        self.list.records(number)
    }
    fn first_record(&self, number: u64) -> u64 {
        self.list.first_record(number)
    }
    fn identity(&self) -> ListIdentity {
        self.list.identity()
    }
    fn memory(&self) -> u64 {
        self.list.memory()
    }
}

/// The batches of a channel: the position of each, and its records.
#[derive(Default)]
struct Batches {
    records: Records,
    all: Vec<(BatchPosition, Vec<Record>)>,
}

impl LookAtRecords for Batches {
    fn schema(&mut self, fields: &Arc<[Field]>) {
        self.records.schema(fields);
    }

    fn batch(&mut self, memory: &[u8], batch: &Batch) -> Result<(), StopReason> {
        self.records.batch(memory, batch)?;
        let records = self.records.records.drain(..).map(|(_, record)| record).collect();
        self.all.push((batch.start.position.clone(), records));
        Ok(())
    }
}

/// An index, and the channel with which it was made.
struct Case<'a> {
    folder: &'a Path,
    decoder: Decoder,
    index: Arc<Index>,
}

impl Case<'_> {
    /// The batches with this many workers, from a place on; and how often a seek point was used.
    fn batches(
        &self,
        workers: usize,
        resume: Option<Resume>,
    ) -> (Vec<(BatchPosition, Vec<Record>)>, u64) {
        let list = IndexedList::new(self.index.clone(), None);
        let list = Arc::new(Counted { list, seeks: AtomicU64::new(0) });
        let reading = ReadSettings {
            divided_from: (workers > 1).then_some(2_000),
            ..ReadSettings::default()
        };
        let stop = Stop::new().expect("a stop");
        let known = KnownList::new(list.clone());
        let made = channel(self.folder, self.decoder, workers);
        let mut channel = Channel {
            source: Box::new(KnownFiles::new(known, "x.index".to_owned(), reading, stop)),
            workers: Workers::new(workers).with_section_bytes(3_000),
            learning: Learning::Known(self.index.header.fields.as_slice().into()),
            batch: Some(BatchSize { records: 17, tail: Tail::Keep, across: BatchAcross::Epoch }),
            resume,
            ..made
        };
        let looker = Batches {
            records: Records { most: usize::MAX, ..Records::default() },
            ..Batches::default()
        };
        let mut sink = MemorySink::new(looker, 1 << 20);
        if let Outcome::Failed(failure) = channel.run(&mut sink, &ChannelStats::default()) {
            panic!("{workers} workers: {failure}");
        }
        (sink.looker.all, list.seeks.load(Ordering::Relaxed))
    }

    /// The state after the first `delivered` records of this batch.
    fn resume(&self, position: &BatchPosition, delivered: u64) -> Resume {
        let schema = schema_extension(&self.index.header.fields).map(|(_, text)| text);
        let accepted = Accepted::default();
        Resume { position: position.clone(), delivered, schema, accepted }
    }
}

/// The place of a batch's first record, whatever place before it decoding can go on from.
fn place(position: &BatchPosition) -> (u32, u64, &str, u64) {
    let BatchPosition { epoch, object_number, object, first_record, .. } = position;
    (*epoch, *object_number, object, *first_record)
}

fn records(batches: &[(BatchPosition, Vec<Record>)]) -> Vec<&Record> {
    batches.iter().flat_map(|(_, records)| records).collect()
}

/// Files of these records, compressed as their kinds say, and their index.
fn indexed(
    folder: &Path,
    decoder: Decoder,
    files: &[(Vec<u8>, u8)],
    distance: u64,
) -> Option<Arc<Index>> {
    for (number, (bytes, kind)) in files.iter().enumerate() {
        let (ending, bytes) = compressed(*kind, bytes);
        fs::write(folder.join(format!("{number}{ending}")), bytes).expect("written");
    }
    index(channel(folder, decoder, 1), distance).map(Arc::new)
}

proptest! {
    #![proptest_config(config(24))]

    #[test]
    fn any_number_of_workers_gives_the_same_batches(
        decoder in 0..DECODERS.len(),
        files in prop::collection::vec(
            (prop::collection::vec(0u32..100_000, 0..4000), 0u8..6), 1..4
        ),
        damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..2),
        distance in 1u64..40_000,
        stops in prop::collection::vec((any::<prop::sample::Index>(), 2usize..5), 2),
    ) {
        let mut files: Vec<_> =
            files.iter().map(|(records, kind)| (file(decoder, records), *kind)).collect();
        for (at, byte) in &damages {
            for (bytes, _) in files.iter_mut().skip(1).filter(|(bytes, _)| bytes.len() > 64) {
                let at = 40 + at.index(bytes.len() - 40);
                bytes[at] = *byte;
            }
        }
        let (folder, decoder) = (tempfile::tempdir().unwrap(), DECODERS[decoder]);
        let Some(index) = indexed(folder.path(), decoder, &files, distance) else { return Ok(()) };
        let case = Case { folder: folder.path(), decoder, index };
        let (one, _) = case.batches(1, None);
        for workers in 2..5 {
            let (several, _) = case.batches(workers, None);
            prop_assert_eq!(several.len(), one.len());
            for ((position, records), (other, expected)) in several.iter().zip(&one) {
                prop_assert_eq!(place(position), place(other), "{} workers", workers);
                prop_assert_eq!(records, expected, "{} workers", workers);
            }
            // States of one number of workers are good for every other one.
            for (at, others) in stops.iter().filter(|_| !several.is_empty()) {
                let at = at.index(several.len());
                let (position, of_batch) = &several[at];
                for delivered in [0, of_batch.len() as u64 / 2, of_batch.len() as u64] {
                    let resume = case.resume(position, delivered);
                    for workers in [1, *others] {
                        let (rest, _) = case.batches(workers, Some(resume.clone()));
                        let expected = &records(&one[at..])[delivered as usize..];
                        prop_assert_eq!(records(&rest), expected, "from batch {}", at);
                    }
                }
            }
        }
    }
}

/// gzip of one member and of several, zstd of one frame and of several.
#[test]
fn compressed_objects_are_divided_at_seek_points() {
    let numbers: Vec<u32> = (0..20_000).map(|number| number * 7919 % 100_000).collect();
    for kind in 2..6 {
        let folder = tempfile::tempdir().unwrap();
        let files = [(file(5, &numbers), kind)];
        let index = indexed(folder.path(), DECODERS[5], &files, 20_000).expect("an index");
        let case = Case { folder: folder.path(), decoder: DECODERS[5], index };
        let (one, seeks) = case.batches(1, None);
        assert_eq!((records(&one).len(), seeks), (numbers.len(), 0), "one worker reads in order");
        // A thread that comes late finds nothing left to do, so it is tried again.
        let is_divided = (0..100).any(|_| {
            let (three, seeks) = case.batches(3, None);
            assert_eq!(records(&three), records(&one));
            seeks > 0
        });
        // A frame of zstd can be inflated from its start only.
        assert_eq!(is_divided, kind != 4, "kind {kind}");
    }
}
