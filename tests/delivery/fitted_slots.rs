//! Slots are as large as the channel's batches, where the file does not say how large they are.

use std::thread;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use pipemill_ring::protocol::{BatchAcross, BatchSize, Hello, Rank, Tail};
use pipemill_ring::reader::{Event, Reader};
use pipemill_ring::status_client::StatusClient;
use pipemill_s3_test::proxy::Plan;
use pipemill_tests::bucket::Bucket;
use pipemill_tests::consumer;
use pipemill_tests::host::Host;
use pipemill_tests::pipemill;
use pipemill_tests::test_dir::TestDir;

use super::numbered;

/// Bytes of a record.
const RECORD: usize = 20_000;
/// Records of a batch, and of the file.
const BATCH: usize = 400;
const RECORDS: usize = 2_000;
/// The size of slots if nothing else says it.
const USUAL: u64 = 4 << 20;

/// The records that a consumer gets, as a text of their batches' numbers and first bytes, and the
/// largest number of dedicated buffers while it holds a batch.
fn read(host: &Host, reader: &mut Reader) -> (Vec<(u64, Vec<u8>)>, u64) {
    let mut status = StatusClient::connect(&host.socket).expect("the host answers");
    let (mut batches, mut most) = (Vec::new(), 0);
    loop {
        match reader.next().expect("the host is well") {
            Event::Batch(batch) => {
                let text = status.status().expect("the host answers");
                let status: serde_json::Value = serde_json::from_slice(&text).expect("it is JSON");
                let ring = &status["channels"][0]["ring"];
                most = most.max(ring["dedicated"].as_u64().expect("a number"));
                let field = |record| batch.field(record, 0).expect("a line");
                let bytes = (0..batch.records()).flat_map(|record| &field(record)[..8]);
                batches.push((batch.number(), bytes.copied().collect()));
                assert!((0..batch.records()).all(|record| field(record).len() > RECORD));
            }
            Event::EpochEnd(_) => {}
            Event::StreamEnd => return (batches, most),
        }
    }
}

/// The batches are the same in slots that fit and in dedicated buffers.
#[test]
fn no_batch_needs_a_dedicated_buffer() {
    let place = TestDir::new();
    let file = place.write("train.txt", numbered(RECORDS, RECORD).join(&b'\n'));
    let mut expected = None;
    let usual = "slot_size = '4MiB'\n";
    for (workers, size) in [(1, usual), (2, usual), (1, ""), (2, "")] {
        let config = format!(
            "[[channel]]\nname = 'train'\ndecoder = 'lines'\nbatch = {BATCH}\nworkers = {workers}\n\
             source = {{ file = {file:?}, epochs = 3 }}\n[channel.ring]\ncredits = 2\n{size}"
        );
        let host = Host::start(&pipemill!(), &place, &config);
        let mut reader = host.connect("train");
        let (slots, bytes) = (reader.welcome().slots, reader.welcome().slot_bytes);
        let (batches, dedicated) = read(&host, &mut reader);
        host.wait().with_code(0);
        let is_fitted = size.is_empty();
        assert_eq!(dedicated == 0, is_fitted, "{workers} workers: {dedicated} dedicated buffers");
        assert_eq!(bytes > USUAL, is_fitted, "{workers} workers: slots of {bytes}");
        assert_eq!(slots, 16);
        assert_eq!(batches.len(), 3 * RECORDS / BATCH);
        assert_eq!(&batches, expected.get_or_insert_with(|| batches.clone()));
    }
}

/// Objects in S3 are measured, too.
#[test]
fn slots_fit_the_batches_of_objects_in_s3() {
    let object = [numbered(RECORDS, RECORD).join(&b'\n'), b"\n".to_vec()].concat();
    let bucket = Bucket::with([("data/0", &object), ("data/1", &object)]);
    let proxy = bucket.proxy(Plan::default());
    let endpoint = proxy.endpoint();
    let config = format!(
        "[[channel]]\nname = 'train'\ndecoder = 'lines'\nbatch = {BATCH}\nworkers = 2\n\
         shuffle = {{ seed = 7 }}\nsource = {{ s3 = 's3://bucket/data/', endpoint = '{endpoint}', \
         region = 'us-east-1', anonymous = true }}\n"
    );
    let host = Host::start(&pipemill!(), &bucket.place, &config);
    let mut reader = host.connect("train");
    assert!(reader.welcome().slot_bytes > USUAL);
    let (batches, dedicated) = read(&host, &mut reader);
    host.wait().with_code(0);
    assert_eq!((batches.len(), dedicated), (2 * RECORDS / BATCH, 0));
}

/// There are fewer slots if batches are large, and a consumer can hold as many batches as before.
#[test]
fn a_consumer_can_hold_as_many_batches_as_there_would_be_slots() {
    let place = TestDir::new();
    let file = place.write("train.txt", numbered(RECORDS, RECORD).join(&b'\n'));
    let config = format!(
        "[[channel]]\nname = 'train'\ndecoder = 'lines'\nbatch = 200\nworkers = 2\n\
         source = {{ file = {file:?}, epochs = 3 }}\n[channel.limits]\nbatches = '100MiB'\n"
    );
    let host = Host::start(&pipemill!(), &place, &config);
    let mut reader = consumer::connect(&host.socket, "train", Some(15));
    let slots = reader.welcome().slots;
    assert!((4..16).contains(&slots), "{slots}");
    let mut held = Vec::new();
    while held.len() < 12 {
        match reader.next().expect("the host is well") {
            Event::Batch(batch) => held.push(batch),
            Event::EpochEnd(_) => {}
            Event::StreamEnd => panic!("the stream ends after {} batches", held.len()),
        }
    }
    assert!(held.iter().zip(0..).all(|(batch, number)| batch.number() == number));
    drop(held);
    read(&host, &mut reader);
    host.wait().with_code(0);
}

/// Epochs of a run in which most batches are after the first ones.
const EPOCHS: usize = 8;

/// Reads a run of [`EPOCHS`] epochs to its end. Returns its batches, and the largest number of
/// dedicated buffers after the first two epochs.
fn read_most(host: &Host, reader: &mut Reader) -> (Vec<(u64, Vec<u8>)>, u64) {
    let mut batches = Vec::new();
    while batches.len() < 2 * RECORDS / BATCH {
        match reader.next().expect("the host is well") {
            Event::Batch(batch) => {
                let field = |record| batch.field(record, 0).expect("a line");
                let bytes = (0..batch.records()).flat_map(|record| &field(record)[..8]);
                batches.push((batch.number(), bytes.copied().collect()));
            }
            Event::EpochEnd(_) => {}
            Event::StreamEnd => panic!("the stream ends after {} batches", batches.len()),
        }
    }
    let (others, dedicated) = read(host, reader);
    batches.extend(others);
    (batches, dedicated)
}

/// The first batches that a consumer requests say how large slots must be. The ring's own slots
/// are known to the consumer by then.
#[test]
fn batches_that_a_consumer_requests_get_slots_that_fit() {
    let place = TestDir::new();
    let file = place.write("train.txt", numbered(RECORDS, RECORD).join(&b'\n'));
    let mut expected = None;
    for workers in [1, 2] {
        for batch in ["", "batch = 400\n"] {
            let config = format!(
                "[[channel]]\nname = 'train'\ndecoder = 'lines'\nworkers = {workers}\n{batch}\
                 source = {{ file = {file:?}, epochs = {EPOCHS} }}\n"
            );
            let host = Host::start(&pipemill!(), &place, &config);
            let size = BatchSize { records: BATCH, tail: Tail::Keep, across: BatchAcross::Epoch };
            let hello = Hello { batch: Some(size), ..Hello::new("train", "test") };
            let mut reader = consumer::connect_as(&host.socket, &hello).expect("it may read");
            assert_eq!(reader.welcome().slot_bytes > USUAL, !batch.is_empty());
            let (batches, dedicated) = read_most(&host, &mut reader);
            host.wait().with_code(0);
            assert_eq!((batches.len(), dedicated), (EPOCHS * RECORDS / BATCH, 0));
            assert_eq!(&batches, expected.get_or_insert_with(|| batches.clone()));
        }
    }
}

/// A silent FIFO does not keep a consumer away. When bytes come, the first batches say how large
/// slots must be.
#[test]
fn batches_of_fifos_get_slots_that_fit() {
    let place = TestDir::new();
    let records = [numbered(RECORDS, RECORD).join(&b'\n'), b"\n".to_vec()].concat();
    std::fs::create_dir(place.path("fifos")).expect("a folder");
    let fifos: Vec<_> =
        (0..EPOCHS).map(|epoch| place.path(&format!("fifos/train_{epoch}"))).collect();
    for fifo in &fifos {
        mkfifo(fifo, Mode::S_IRWXU).expect("a FIFO");
    }
    let config = format!(
        "[[channel]]\nname = 'train'\ndecoder = 'lines'\nbatch = {BATCH}\n\
         source = {{ fifo = {:?}, epochs = {EPOCHS} }}\n",
        place.path("fifos")
    );
    let host = Host::start(&pipemill!(), &place, &config);
    let mut reader = host.connect("train");
    assert_eq!(reader.welcome().slot_bytes, USUAL);
    let writer = thread::spawn(move || {
        fifos.iter().for_each(|fifo| std::fs::write(fifo, &records).expect("the host reads"));
    });
    let (batches, dedicated) = read_most(&host, &mut reader);
    host.wait().with_code(0);
    writer.join().expect("it writes");
    assert_eq!((batches.len(), dedicated), (EPOCHS * RECORDS / BATCH, 0));
    let epochs: Vec<_> = batches.chunks(RECORDS / BATCH).collect();
    assert!(
        epochs
            .iter()
            .all(|epoch| epoch.iter().map(|one| &one.1).eq(epochs[0].iter().map(|one| &one.1)))
    );
}

/// Each rank gets as many batches, and all of them together the batches of each whole round.
#[test]
fn ranks_share_slots_that_fit() {
    let place = TestDir::new();
    let file = place.write("train.txt", numbered(RECORDS, RECORD).join(&b'\n'));
    let config = format!(
        "[[channel]]\nname = 'train'\ndecoder = 'lines'\nbatch = 200\ntail = 'drop'\nworkers = 2\n\
         mode = 'rank'\nconsumers = 3\nsource = {{ file = {file:?}, epochs = 3 }}\n\
         [channel.ring]\nslots = 10\ncredits = 2\n"
    );
    let host = Host::start(&pipemill!(), &place, &config);
    let connect = |number| {
        let rank = Some(Rank { number, world: 3 });
        consumer::connect_as(&host.socket, &Hello { rank, ..Hello::new("train", "test") })
    };
    let mut readers: Vec<_> = (0..3).map(|rank| connect(rank).expect("it may read")).collect();
    assert!(readers.iter().all(|reader| reader.welcome().slot_bytes > USUAL));
    let ranks = thread::scope(|scope| {
        let threads = readers.iter_mut().map(|reader| scope.spawn(|| read(&host, reader)));
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().expect("it reads")).collect::<Vec<_>>()
    });
    host.wait().with_code(0);
    assert!(ranks.iter().all(|(batches, dedicated)| batches.len() == 9 && *dedicated == 0));
    let mut all: Vec<_> = ranks.into_iter().flat_map(|(batches, _)| batches).collect();
    all.sort_unstable();
    let epochs: Vec<_> = all.chunks(9).map(|epoch| epoch.iter().map(|(_, bytes)| bytes)).collect();
    assert_eq!(epochs.len(), 3);
    assert!(epochs.iter().all(|epoch| epoch.clone().eq(epochs[0].clone())));
}
