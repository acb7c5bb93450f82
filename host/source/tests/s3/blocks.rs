//! Blocks of compressed objects in S3: their bytes are those of the whole object, and little more
//! than they have is requested.

use std::sync::Arc;

use fastrand::Rng;
use pipemill_s3_test::proxy::{Entry, Plan};
use pipemill_s3_test::servers::S3Server;
use pipemill_source::s3::{Objects, Selection, Settings};
use pipemill_source::{
    Block, Compression, Input, KnownList, KnownObject, KnownObjects, Object, Order, ReadOutcome,
    SeekPoint, SeekPoints, Source, SourceEvent, Start, Stop,
};
use pipemill_testing::PATIENCE;
use pipemill_testing::bucket::{BUCKET, Bucket};
use pipemill_testing::inputs::{gzip, zlib, zstd};
use pipemill_types::{ListIdentity, split_identity};

use crate::reading::{objects, s3, settings};

/// An object of an index: its seek points, and the blocks that are read.
#[derive(Debug, Clone)]
struct Indexed {
    object: KnownObject,
    points: Vec<Arc<SeekPoint>>,
    blocks: Vec<Block>,
}

impl KnownObjects for Indexed {
    fn count(&self) -> u64 {
        1
    }

    fn get(&self, number: u64) -> Option<KnownObject> {
        (number == 0).then(|| self.object.clone())
    }

    fn short_name(&self, number: u64) -> Option<&str> {
        (number == 0).then_some(&self.object.name)
    }

    fn size(&self, _: u64) -> u64 {
        self.object.size
    }

    fn blocks(&self, _: u64, _: u64) -> Vec<Block> {
        self.blocks.clone()
    }

    fn seek_point(&self, _: u64, offset: u64) -> Result<Option<SeekPoint>, String> {
        let mut before = self.points.iter().rev();
        let point = before.find(|point| point.inflated() <= offset);
        Ok(point.map(|point| (**point).clone()))
    }

    fn seek_point_after(&self, _: u64, offset: u64) -> Result<Option<SeekPoint>, String> {
        let point = self.points.iter().find(|point| point.inflated() >= offset);
        Ok(point.map(|point| (**point).clone()))
    }

    fn records(&self, _: u64) -> Option<u64> {
        Some(self.blocks.iter().map(|block| block.records).sum())
    }

    fn first_record(&self, _: u64) -> u64 {
        0
    }

    fn identity(&self) -> ListIdentity {
        ListIdentity { objects: 1, is_whole: true, contents: 0, times: 0, unordered: 0 }
    }

    fn memory(&self) -> u64 {
        0
    }
}

/// A compressed object, and what it holds: several members, streams or frames, of letters. With
/// `is_uneven`, some parts can't be compressed.
fn content(random: &mut Rng, kind: Compression, is_uneven: bool) -> (Vec<u8>, Vec<u8>) {
    let write = match kind {
        Compression::Gzip => gzip,
        Compression::Zlib => zlib,
        _ => zstd,
    };
    let (mut stored, mut plain) = (Vec::new(), Vec::new());
    for part in 0..8 {
        let range = if is_uneven && part % 2 == 1 { 0..=255 } else { b'a'..=b'f' };
        let part: Vec<u8> = (0..250_000).map(|_| random.u8(range.clone())).collect();
        stored.extend(write(&part));
        plain.extend(part);
    }
    (stored, plain)
}

const KINDS: [(Compression, &str); 3] =
    [(Compression::Gzip, "gz"), (Compression::Zlib, "zz"), (Compression::Zstd, "zst")];

/// An object in a bucket, as an index knows it.
struct Indexing {
    bucket: Bucket,
    stored: Vec<u8>,
    plain: Vec<u8>,
    indexed: Indexed,
}

impl Indexing {
    fn of(random: &mut Rng, kind: Compression, key: &str, is_uneven: bool) -> Self {
        let (stored, plain) = content(random, kind, is_uneven);
        let bucket = Bucket::with([(key, &stored)]);
        let mut settings = objects(&bucket.server.endpoint(), &[key]);
        settings.reading.compression = kind;
        let mut source = Objects::new(s3(), settings, Start::default(), stop());
        let mut object = next(&mut source).expect("it has an object");
        let points = SeekPoints::every(0, 1 << 20);
        object.input.set_seek_points(&points);
        assert!(read(&mut *object.input, usize::MAX) == plain);
        let (_, identity) = split_identity(object.identity.text());
        let (name, size) = (object.name.clone(), stored.len() as u64);
        let object = KnownObject { name, identity: identity.to_owned(), size };
        let points = points.all();
        let blocks = blocks(random, &points, plain.len() as u64);
        Self { bucket, stored, plain, indexed: Indexed { object, points, blocks } }
    }

    /// The settings that read these blocks.
    fn settings(&self, endpoint: &str, blocks: Vec<Block>, compression: Compression) -> Settings {
        let list = KnownList::new(Arc::new(Indexed { blocks, ..self.indexed.clone() }));
        let mut settings = settings(endpoint, "");
        settings.selection = Selection::Known { list, index: "x.index".to_owned() };
        settings.reading.order = Order { blocks: Some(1), shuffle: Some(7), part: None };
        settings.reading.compression = compression;
        settings.part_size = 1 << 20;
        settings
    }

    /// The bytes of a block that its decoder is shown.
    fn shown(&self, block: &Block) -> Vec<u8> {
        let end = block.end.map_or(self.plain.len(), |end| end as usize);
        let own = &self.plain[block.offset as usize..end];
        [&self.plain[..block.header as usize], own].concat()
    }
}

fn stop() -> Stop {
    Stop::new().expect("there are descriptors")
}

fn next(source: &mut dyn Source) -> Option<Object> {
    match source.next() {
        Ok(SourceEvent::Object(object)) => Some(object),
        Ok(SourceEvent::EpochEnd(_) | SourceEvent::End) => None,
        Err(error) => panic!("{}", error.in_full()),
    }
}

/// Reads `most` bytes, or to the end.
fn read(input: &mut dyn Input, most: usize) -> Vec<u8> {
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; 10_007]);
    while bytes.len() < most {
        let size = buffer.len().min(most - bytes.len());
        match input.read(&mut buffer[..size], Some(PATIENCE)) {
            Ok(ReadOutcome::Bytes(count)) => bytes.extend_from_slice(&buffer[..count]),
            Ok(ReadOutcome::End) => break,
            Ok(other) => panic!("{other:?} at byte {}", bytes.len()),
            Err(error) => panic!("{} at byte {}", error.in_full(), bytes.len()),
        }
    }
    bytes
}

/// Blocks that begin some bytes after some of the points; the first one is at the object's start.
fn blocks(random: &mut Rng, points: &[Arc<SeekPoint>], size: u64) -> Vec<Block> {
    let mut blocks = vec![Block::rest(0, 0, 0, size)];
    for (point, next) in points.iter().zip(points.iter().skip(1)) {
        if random.u8(..3) == 0 {
            continue;
        }
        let offset = random.u64(point.inflated()..next.inflated());
        let header = if random.bool() { random.u32(1..900) } else { 0 };
        if let Some(last) = blocks.last_mut().filter(|last| last.offset < offset) {
            *last = last.up_to(offset, offset);
            blocks.push(Block::rest(offset, header, offset, size));
        }
    }
    blocks
}

/// The ranges of all requests for bytes of objects.
fn ranges(log: &[Entry]) -> Vec<(u64, u64)> {
    let range = |entry: &Entry| {
        let range = entry.request.range.as_deref()?.strip_prefix("bytes=")?;
        let (first, last) = range.split_once('-')?;
        Some((first.parse().ok()?, last.parse::<u64>().ok()? + 1))
    };
    log.iter().filter_map(range).collect()
}

#[test]
fn blocks_of_compressed_objects_are_their_bytes_in_any_order() {
    for seed in 0..6 {
        let mut random = Rng::with_seed(seed);
        let (kind, ending) = KINDS[seed as usize % 3];
        // The name says how it is compressed, or the settings do.
        let (key, compression) = match random.bool() {
            true => (format!("a.{ending}"), Compression::Auto),
            false => ("plain".to_owned(), kind),
        };
        let one = Indexing::of(&mut random, kind, &key, seed > 2);
        let all = one.indexed.blocks.clone();
        assert!(all.len() > 3, "seed {seed}: {} points", one.indexed.points.len());
        let settings = one.settings(&one.bucket.server.endpoint(), all.clone(), compression);
        let mut source = Objects::new(s3(), settings, Start::default(), stop());
        let mut seen = Vec::new();
        while let Some(mut object) = next(&mut source) {
            let block = object.block.expect("it is one");
            let shown = one.shown(&block);
            let found = read(&mut *object.input, shown.len());
            assert!(found == shown, "seed {seed}: {block:?}");
            if random.bool() {
                // The decoder may want any number of bytes after the block.
                let rest = read(&mut *object.input, random.usize(..300_000));
                let after = &one.plain[block.end.map_or(one.plain.len(), |end| end as usize)..];
                assert!(after.starts_with(&rest), "seed {seed}: {block:?}");
                assert!(!rest.is_empty() || after.is_empty() || block.end.is_none());
            }
            seen.push(block.offset);
        }
        seen.sort_unstable();
        assert_eq!(seen, all.iter().map(|block| block.offset).collect::<Vec<_>>());
    }
}

#[test]
fn a_block_costs_one_request_of_little_more_than_it_has() {
    for (kind, ending) in KINDS {
        let mut random = Rng::with_seed(3);
        let one = Indexing::of(&mut random, kind, &format!("a.{ending}"), false);
        for block in one.indexed.blocks.clone() {
            let proxy = one.bucket.proxy(Plan::default());
            let settings = one.settings(&proxy.endpoint(), vec![block], Compression::Auto);
            let mut source = Objects::new(s3(), settings, Start::default(), stop());
            let mut object = next(&mut source).expect("it has a block");
            let shown = one.shown(&block);
            assert!(read(&mut *object.input, shown.len()) == shown, "{block:?}");
            drop((object, source));
            let mut ranges = ranges(&proxy.log());
            ranges.sort_unstable();
            assert_eq!(
                ranges.len(),
                1 + usize::from(block.header > 0),
                "{ending}: {block:?}: {ranges:?}"
            );
            let (begin, end) = ranges[ranges.len() - 1];
            let before = one.indexed.seek_point(0, block.offset).expect("a point");
            assert_eq!(begin, before.map_or(0, |point| point.compressed()), "{block:?}");
            let own = one.stored.len() * shown.len() / one.plain.len();
            let most = own as u64 + own as u64 / 8 + (300 << 10);
            assert!(end - begin <= most, "{block:?}: {begin} to {end}, of {most}");
            assert!(end <= one.stored.len() as u64);
        }
    }
}

#[test]
fn an_object_that_goes_on_in_the_middle_is_inflated_from_the_point_of_its_index() {
    for (kind, ending) in KINDS {
        let mut random = Rng::with_seed(5);
        let one = Indexing::of(&mut random, kind, &format!("a.{ending}"), false);
        for _ in 0..5 {
            let offset = random.u64(..one.plain.len() as u64);
            let proxy = one.bucket.proxy(Plan::default());
            let mut settings = one.settings(&proxy.endpoint(), Vec::new(), Compression::Auto);
            settings.reading.order = Order::default();
            let start = Start { offset, ..Start::default() };
            let mut source = Objects::new(s3(), settings, start, stop());
            let mut object = next(&mut source).expect("it has an object");
            let rest = read(&mut *object.input, usize::MAX);
            assert!(rest == one.plain[offset as usize..], "{offset}");
            let first = ranges(&proxy.log()).into_iter().map(|(first, _)| first).min();
            let point = one.indexed.seek_point(0, offset).expect("it has points");
            assert_eq!(first, Some(point.map_or(0, |point| point.compressed())), "{offset}");
        }
    }
}

#[test]
fn a_plain_block_goes_on_as_far_as_its_decoder_wants() {
    let mut random = Rng::with_seed(7);
    let plain: Vec<u8> = (0..700_000).map(|_| random.u8(..)).collect();
    let bucket = Bucket::with([("plain", &plain)]);
    let name = format!("s3://{BUCKET}/plain");
    let object = KnownObject { name, identity: String::new(), size: plain.len() as u64 };
    let block = Block::rest(1000, 10, 1000, 700_000).up_to(50_000, 50_000);
    let indexed = Indexed { object, points: Vec::new(), blocks: vec![block] };
    let one = Indexing { bucket, stored: plain.clone(), plain, indexed };
    for size in [49_010, 200_000, usize::MAX] {
        let proxy = one.bucket.proxy(Plan::default());
        let settings = one.settings(&proxy.endpoint(), vec![block], Compression::Auto);
        let mut source = Objects::new(s3(), settings, Start::default(), stop());
        let mut object = next(&mut source).expect("it has a block");
        let expected = [&one.plain[..10], &one.plain[1000..]].concat();
        let found = read(&mut *object.input, size);
        assert!(found == expected[..size.min(expected.len())], "{size}");
        drop((object, source));
        let last = ranges(&proxy.log()).into_iter().map(|(_, end)| end).max();
        if size == 49_010 {
            assert_eq!(last, Some(50_000 + (64 << 10)), "more than the block was requested");
        }
    }
}

/// Workers read a compressed object at its places, and each requests little more than its own
/// bytes.
#[test]
fn an_object_is_read_at_several_places_at_once() {
    for (kind, ending) in KINDS {
        let mut random = Rng::with_seed(11);
        let one = Indexing::of(&mut random, kind, &format!("a.{ending}"), false);
        let all = one.indexed.blocks.clone();
        let open = |endpoint: &str| {
            let mut settings = one.settings(endpoint, all.clone(), Compression::Auto);
            settings.reading.order = Order::default();
            settings.reading.divided_from = Some(one.stored.len() as u64 - 1);
            let mut source = Objects::new(s3(), settings, Start::default(), stop());
            (next(&mut source).expect("it has an object"), source)
        };
        for (block, after) in all.iter().zip(&all[1..]) {
            let proxy = one.bucket.proxy(Plan::default());
            let (object, source) = open(&proxy.endpoint());
            assert_eq!(object.input.next_start(block.offset + 1), Some(after.offset));
            let part = object.input.at(block.offset).expect("it has places");
            let mut part = part.unwrap_or_else(|error| panic!("{}", error.in_full()));
            assert_eq!(ranges(&proxy.log()), [], "nothing is requested before it is read");
            part.read_ahead_to(after.offset);
            let (from, to) = (block.offset as usize, after.offset as usize);
            assert!(read(&mut *part, to - from) == one.plain[from..to], "{ending}: {block:?}");
            let asked: u64 = ranges(&proxy.log()).iter().map(|(from, to)| to - from).sum();
            let own = (one.stored.len() * (to - from) / one.plain.len()) as u64;
            assert!(asked <= own + own / 8 + (300 << 10), "{ending}: {asked} bytes for {own}");
            // Nobody else begins at the next place.
            part.read_ahead_to(u64::MAX);
            assert!(read(&mut *part, usize::MAX) == one.plain[to..], "{ending}: {block:?}");
            drop((part, object, source));
        }
        let last = all[all.len() - 1].offset;
        let (mut object, _source) = open(&one.bucket.server.endpoint());
        assert_eq!(object.input.next_start(last + 1), Some(u64::MAX));
        assert!(read(&mut *object.input, usize::MAX) == one.plain);
    }
}
