//! Batches of a fixed size: the same cuts whatever the timing.

use std::fs::OpenOptions;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::PathBuf;
use std::thread;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use pipemill_ring::reader::{Batch, Event, Reader};
use pipemill_tests::host::Host;
use pipemill_tests::pipemill;
use pipemill_tests::test_dir::TestDir;

use super::numbered;

/// Number, records and bytes of a batch.
type Cut = (u64, usize, u64);

fn cut(batch: &Batch) -> Cut {
    let mut hasher = DefaultHasher::new();
    for record in 0..batch.records() {
        batch.field(record, 0).hash(&mut hasher);
    }
    (batch.number(), batch.records(), hasher.finish())
}

/// The cuts that a consumer gets.
fn cuts(mut reader: Reader) -> Vec<Cut> {
    let mut cuts = Vec::new();
    loop {
        match reader.next().expect("the host is well") {
            Event::Batch(batch) => cuts.push(cut(&batch)),
            Event::EpochEnd(_) => {}
            Event::StreamEnd => return cuts,
        }
    }
}

/// Numbers that a seed gives.
fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) % below
    }
}

/// Writes in pieces of random sizes. Between two of them, others may run.
fn write_in_pieces(fifo: PathBuf, bytes: Vec<u8>, seed: u64) {
    let mut random = random(seed);
    let mut file = OpenOptions::new().write(true).open(fifo).expect("a FIFO");
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let most = if random(4) == 0 { 100_000 } else { 3_000 };
        let size = 1 + random(most) as usize;
        let (piece, after) = rest.split_at(size.min(rest.len()));
        file.write_all(piece).expect("the host reads it");
        rest = after;
        (0..random(20)).for_each(|_| thread::yield_now());
    }
}

/// The cuts of one run, in which all that depends on timing is chosen by the seed.
fn run(seed: u64, records: &[Vec<u8>], batch: usize) -> Vec<Cut> {
    let mut random = random(seed + 1);
    let place = TestDir::new();
    let (slots, credits) = (4 + random(9), 1 + random(2));
    let slot_size = [64, 128, 1024][random(3) as usize];
    let linger = random(3);
    let config = format!(
        "[[channel]]\nname = 'train'\ndecoder = 'lines'\nbatch = {batch}\n\
         source = {{ fifo = {:?}, epochs = 2 }}\n[channel.ring]\nslots = {slots}\n\
         credits = {credits}\nslot_size = '{slot_size}KiB'\nlinger = '{linger}ms'\n",
        place.path("fifos")
    );
    std::fs::create_dir(place.path("fifos")).expect("a folder");
    let bytes = [records.join(&b'\n'), b"\n".to_vec()].concat();
    for epoch in 0..2_u64 {
        let fifo = place.path(&format!("fifos/train_{epoch}"));
        mkfifo(&fifo, Mode::S_IRWXU).expect("a FIFO");
        let bytes = bytes.clone();
        thread::spawn(move || write_in_pieces(fifo, bytes, seed + epoch));
    }
    let host = Host::start(&pipemill!(), &place, &config);
    let consumers: Vec<_> = (0..1 + random(3)).map(|_| host.connect("train")).collect();
    let threads: Vec<_> =
        consumers.into_iter().map(|reader| thread::spawn(move || cuts(reader))).collect();
    let mut all: Vec<_> =
        threads.into_iter().flat_map(|thread| thread.join().expect("it reads")).collect();
    host.wait().with_code(0);
    all.sort_unstable();
    all
}

#[test]
fn the_same_input_gives_the_same_batches_whatever_the_timing() {
    let records = numbered(3_000, 150);
    let expected = run(0, &records, 512);
    let sizes: Vec<_> = expected.iter().map(|cut| cut.1).collect();
    assert_eq!(sizes, [512, 512, 512, 512, 512, 440, 512, 512, 512, 512, 512, 440]);
    for seed in 1..100 {
        assert_eq!(run(seed, &records, 512), expected, "seed {seed}");
    }
}

/// A batch larger than a slot lies in a dedicated buffer, and no number of them stops the stream.
#[test]
fn batches_larger_than_a_slot_are_whole() {
    let records = numbered(4_000, 1_000);
    let place = TestDir::new();
    let file = place.write("train.txt", records.join(&b'\n'));
    let config = format!(
        "[[channel]]\nname = 'train'\ndecoder = 'lines'\nbatch = 400\ntail = 'drop'\n\
         source = {{ file = {file:?}, epochs = 2 }}\n[channel.ring]\nslots = 4\ncredits = 2\n\
         slot_size = '64KiB'\n",
    );
    let host = Host::start(&pipemill!(), &place, &config);
    let cuts = cuts(host.connect("train"));
    assert!(cuts.iter().map(|cut| cut.1).eq([400; 20]), "{cuts:?}");
    assert!(cuts[..10].iter().map(|cut| cut.2).eq(cuts[10..].iter().map(|cut| cut.2)));
    host.wait().with_code(0);
}
