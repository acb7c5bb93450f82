//! Sources that begin in the middle: the bytes from there on are those of the whole run, and what
//! is before is not requested.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use pipemill_s3_test::proxy::{Entry, Plan};
use pipemill_s3_test::servers::S3Server;
use pipemill_source::s3::Objects;
use pipemill_source::{
    Balance, Compression, FifoSettings, Fifos, Files, ListPart, Order, Pattern, ReadOutcome,
    ReadSettings, Source, SourceEvent, Start, Stop,
};
use pipemill_testing::PATIENCE;
use pipemill_testing::bucket::{BUCKET, Bucket};
use pipemill_testing::inputs::{gzip, zstd};
use pipemill_testing::test_dir::TestDir;

use crate::reading::{bytes, s3, settings};

/// What a source delivers, event by event.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Received {
    Object { epoch: u32, ordinal: u64, name: String, identity: String, bytes: Vec<u8> },
    EpochEnd(u32),
}

/// Reads up to the end, or up to an error, which is given as text.
fn receive(source: &mut dyn Source) -> Result<Vec<Received>, String> {
    let (mut received, mut buffer) = (Vec::new(), vec![0; 10_007]);
    loop {
        let mut object = match source.next().map_err(|error| error.in_full())? {
            SourceEvent::Object(object) => object,
            SourceEvent::EpochEnd(epoch) => {
                received.push(Received::EpochEnd(epoch));
                continue;
            }
            SourceEvent::End => return Ok(received),
        };
        let mut bytes = Vec::new();
        loop {
            let read = object.input.read(&mut buffer, Some(PATIENCE));
            match read.map_err(|error| error.in_full())? {
                ReadOutcome::Bytes(count) => bytes.extend_from_slice(&buffer[..count]),
                ReadOutcome::End => break,
                other => panic!("{other:?} at byte {} of {}", bytes.len(), object.name),
            }
        }
        let (epoch, ordinal) = (object.epoch, object.ordinal);
        let (name, identity) = (object.name, object.identity.text().to_owned());
        received.push(Received::Object { epoch, ordinal, name, identity, bytes });
    }
}

/// The events from a place on.
fn tail(whole: &[Received], start: Start) -> Vec<Received> {
    let mut rest = whole.iter().skip_while(|event| match event {
        Received::Object { epoch, ordinal, .. } => {
            (*epoch, *ordinal) < (start.epoch, start.ordinal)
        }
        Received::EpochEnd(epoch) => *epoch < start.epoch,
    });
    let mut tail: Vec<_> = rest.by_ref().cloned().collect();
    if let Some(Received::Object { bytes, .. }) = tail.first_mut()
        && start.offset > 0
    {
        bytes.drain(..start.offset as usize);
    }
    tail
}

/// A random place of a whole run: any epoch, any object or the end of the list, any byte.
fn place(whole: &[Received], random: &mut Rng) -> Start {
    match &whole[random.usize(..whole.len())] {
        Received::EpochEnd(epoch) => {
            let is_of = |event: &&Received| {
                let Received::Object { epoch: of, .. } = event else { return false };
                of == epoch
            };
            let ordinal = whole.iter().filter(is_of).count() as u64;
            Start { epoch: *epoch, ordinal, offset: 0 }
        }
        Received::Object { epoch, ordinal, bytes, .. } => {
            // The first, the last and the one after the last are as likely as all others.
            let last = bytes.len() as u64;
            let offset = *random.choice(&[0, 1, last / 2, last.saturating_sub(1), last]).unwrap();
            let offset = if random.bool() { offset } else { random.u64(..=last) };
            Start { epoch: *epoch, ordinal: *ordinal, offset: offset.min(last) }
        }
    }
}

/// Objects of random sizes and compressions. Their names say how they are compressed.
fn objects(random: &mut Rng) -> Vec<(String, Vec<u8>)> {
    let object = |number| {
        let size = *random.choice(&[0, 1, 900, 16 << 10, 70_000]).unwrap();
        let plain = bytes(random.u64(..), random.usize(..=size));
        match random.u8(..4) {
            0 => (format!("k/{number}.gz"), gzip(&plain)),
            1 => (format!("k/{number}.zst"), zstd(&plain)),
            _ => (format!("k/{number}"), plain),
        }
    };
    (0..7).map(object).collect()
}

fn reading(random: &mut Rng) -> ReadSettings {
    let balance = if random.bool() { Balance::Count } else { Balance::Size };
    let order = Order {
        shuffle: random.bool().then(|| random.u64(..)),
        part: random.bool().then(|| ListPart { index: random.u32(..2), count: 2, balance }),
        blocks: None,
    };
    let (epochs, wrap) = (random.u32(1..=3), random.u8(..4) == 0);
    ReadSettings { epochs, order, wrap, ..ReadSettings::default() }
}

fn stop() -> Stop {
    Stop::new().expect("there are descriptors")
}

#[test]
fn files_from_any_place_give_the_rest_of_the_whole_run() {
    for seed in 0..100 {
        let mut random = Rng::with_seed(seed);
        let folder = TestDir::new();
        for (key, bytes) in objects(&mut random) {
            folder.write(&key, bytes);
        }
        let reading = reading(&mut random);
        let source = || Files::new(Pattern::Folder(folder.path("k")), reading.clone(), 0, stop());
        let whole = receive(&mut source()).unwrap();
        for _ in 0..10 {
            let start = place(&whole, &mut random);
            let mut source = source();
            source.start_at(start).unwrap();
            let received = receive(&mut source).unwrap();
            assert!(received == tail(&whole, start), "seed {seed}, {start:?}, {reading:?}");
        }
    }
}

#[test]
fn objects_in_s3_from_any_place_give_the_rest_of_the_whole_run() {
    for seed in 0..20 {
        let mut random = Rng::with_seed(seed);
        let bucket = Bucket::with(objects(&mut random));
        let mut settings = settings(&bucket.server.endpoint(), "k/");
        settings.reading = reading(&mut random);
        let source = |start| Objects::new(s3(), settings.clone(), start, stop());
        let whole = receive(&mut source(Start::default())).unwrap();
        for later in [false, true].repeat(4) {
            let start = place(&whole, &mut random);
            let mut source = source(if later { Start::default() } else { start });
            if later {
                source.start_at(start).unwrap();
            }
            let received = receive(&mut source).unwrap();
            assert!(received == tail(&whole, start), "seed {seed}, {start:?}, {settings:?}");
        }
    }
}

/// Writes an epoch's FIFO and removes it.
fn write_fifo(path: &Path, bytes: &[u8]) {
    mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    std::fs::File::options().write(true).open(path).unwrap().write_all(bytes).unwrap();
}

#[test]
fn fifos_from_any_place_give_the_rest_of_the_whole_run() {
    for seed in 0..30 {
        let mut random = Rng::with_seed(seed);
        let first_epoch = random.u32(..3);
        let plain: Vec<_> =
            (0..3u64).map(|n| bytes(seed * 3 + n, random.usize(..90_000))).collect();
        let compression = if random.bool() { Compression::Gzip } else { Compression::None };
        let start = Start {
            epoch: first_epoch + random.u32(..3),
            ordinal: u64::from(random.u8(..4) == 0),
            offset: 0,
        };
        let bytes_of = |epoch: u32| &plain[(epoch - first_epoch) as usize];
        let offset = random.u64(..=bytes_of(start.epoch).len() as u64);
        let start = if start.ordinal == 0 { Start { offset, ..start } } else { start };
        let folder = TestDir::new();
        let name = |epoch: u32| folder.path(&format!("train_{epoch}"));
        let object = |epoch: u32| Received::Object {
            epoch,
            ordinal: 0,
            name: name(epoch).to_str().unwrap().to_owned(),
            identity: String::new(),
            bytes: bytes_of(epoch).clone(),
        };
        let events = |epoch| [object(epoch), Received::EpochEnd(epoch)];
        let whole: Vec<_> = (first_epoch..first_epoch + 3).flat_map(events).collect();
        let settings = FifoSettings {
            dir: folder.folder().into(),
            channel: "train".to_owned(),
            first_epoch,
            end_epoch: Some(first_epoch + 3),
            open_timeout: None,
            idle_timeout: None,
            pipe_size: 1 << 20,
            compression,
            epoch_file: None,
        };
        let mut source = Fifos::new(settings, stop());
        source.start_at(start).unwrap();
        let received = std::thread::scope(|scope| {
            scope.spawn(|| {
                for epoch in start.epoch + u32::from(start.ordinal == 1)..first_epoch + 3 {
                    let bytes = bytes_of(epoch);
                    let is_gzip = compression == Compression::Gzip;
                    write_fifo(&name(epoch), &if is_gzip { gzip(bytes) } else { bytes.clone() });
                }
            });
            receive(&mut source).unwrap()
        });
        assert!(received == tail(&whole, start), "seed {seed}, {start:?}, {compression:?}");
    }
}

/// GETs of objects: key and first byte.
pub fn gets(log: &[Entry]) -> Vec<(String, u64)> {
    let get = |entry: &Entry| {
        let request = &entry.request;
        let key = request.target.split('?').next().unwrap_or_default();
        let key = key.strip_prefix(&format!("/{BUCKET}/")).filter(|key| !key.is_empty())?;
        let range = request.range.as_deref().and_then(|range| range.strip_prefix("bytes="));
        let first = range.and_then(|range| range.split('-').next()?.parse().ok()).unwrap_or(0);
        (request.method == "GET").then(|| (key.to_owned(), first))
    };
    log.iter().filter_map(get).collect()
}

#[test]
fn nothing_before_the_place_is_requested_and_no_round_trip_is_added() {
    let object = bytes(1, 100_000);
    let keys = ["a", "b", "c"];
    let bucket = Bucket::with(keys.map(|key| (key, &object)));
    for compression in [Compression::Auto, Compression::None] {
        for offset in [0, 50_000, 100_000] {
            let delay = Plan { latency: Duration::from_millis(30), ..Plan::default() };
            let proxy = bucket.proxy(delay);
            let mut settings = settings(&proxy.endpoint(), "");
            settings.reading.compression = compression;
            let start = Start { epoch: 0, ordinal: 1, offset };
            let mut source = Objects::new(s3(), settings, start, stop());
            let received = receive(&mut source).unwrap();
            let [Received::Object { ordinal: 1, bytes, .. }, Received::Object { .. }, _] =
                &received[..]
            else {
                panic!("{} events", received.len())
            };
            assert!(*bytes == object[offset as usize..]);
            let gets = gets(&proxy.log());
            // `Auto` learns from the last byte that the object is not compressed.
            let first = if compression == Compression::Auto { offset.min(99_999) } else { offset };
            let before = |(key, byte): &&(String, u64)| key == "a" || (key == "b" && *byte < first);
            assert_eq!(gets.iter().find(before), None, "{compression} {offset}: {gets:?}");
            let others = proxy.requests() - gets.len();
            assert_eq!(others, 1, "one list and no HEAD: {:#?}", proxy.log());
        }
    }
}

#[test]
fn an_epoch_can_be_ended_after_a_start() {
    let bucket = Bucket::with([("a", b"1"), ("b", b"2")]);
    let folder = TestDir::new();
    folder.write("k/a", "1");
    folder.write("k/b", "2");
    let mut settings = settings(&bucket.server.endpoint(), "");
    settings.reading.epochs = 3;
    let files = Files::new(Pattern::Folder(folder.path("k")), settings.reading.clone(), 0, stop());
    let objects = Objects::new(s3(), settings, Start::default(), stop());
    for mut source in [Box::new(files) as Box<dyn Source>, Box::new(objects)] {
        for read_one in [false, true] {
            source.start_at(Start { epoch: 1, ordinal: 1, offset: 1 }).unwrap();
            if read_one {
                assert!(matches!(source.next(), Ok(SourceEvent::Object(_))));
            }
            source.end_epoch();
            assert!(matches!(source.next(), Ok(SourceEvent::EpochEnd(1))));
            let received = receive(&mut *source).unwrap();
            let [Received::Object { epoch: 2, ordinal: 0, bytes, .. }, _, Received::EpochEnd(2)] =
                &received[..]
            else {
                panic!("{received:?}")
            };
            assert_eq!(bytes, b"1");
        }
    }
}

#[test]
fn a_place_that_is_not_there_is_an_error() {
    let bucket = Bucket::with([("a", b"12345"), ("b", b"12345")]);
    let folder = TestDir::new();
    folder.write("k/a", "12345");
    folder.write("k/b", "12345");
    let settings = settings(&bucket.server.endpoint(), "");
    let source = |is_file: bool| -> Box<dyn Source> {
        if is_file {
            let pattern = Pattern::Folder(folder.path("k"));
            Box::new(Files::new(pattern, settings.reading.clone(), 0, stop()))
        } else {
            Box::new(Objects::new(s3(), settings.clone(), Start::default(), stop()))
        }
    };
    for is_file in [false, true] {
        let error = |epoch, ordinal, offset| {
            let mut source = source(is_file);
            let start = Start { epoch, ordinal, offset };
            let started = source.start_at(start).map_err(|error| error.in_full());
            started.and_then(|()| receive(&mut *source)).unwrap_err()
        };
        let short = error(0, 1, 6);
        assert!(short.contains("was to be read from byte 6, but it ends at byte 5"), "{short}");
        let list =
            "was to begin at object 3 of epoch 0, counted from 0, but its list has 2 objects";
        assert!(error(0, 3, 0).contains(list), "{}", error(0, 3, 0));
        assert!(error(0, 2, 1).contains("object 2 of epoch 0"), "{}", error(0, 2, 1));
        assert!(error(2, 0, 0).contains("was to begin in epoch 2"), "{}", error(2, 0, 0));
        assert!(error(1, 1, 0).contains("was to begin in epoch 1"), "{}", error(1, 1, 0));
    }
    // The end of the last epoch, and what comes after it.
    for (start, events) in [((0, 2), 1), ((1, 0), 0)] {
        let mut source = source(true);
        source.start_at(Start { epoch: start.0, ordinal: start.1, offset: 0 }).unwrap();
        assert_eq!(receive(&mut *source).unwrap().len(), events);
    }
}
