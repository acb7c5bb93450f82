//! A gibibyte through a ring of 64 MiB: the host's own memory stays the same from the first part to
//! the last, and a machine with a small /dev/shm suffices.

mod account;
mod taken;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use nix::unistd::Pid;
use pipemill_ring::reader::{Event, Reader};
use pipemill_tests::host::{self, Host};
use pipemill_tests::process::{Process, finish};
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{consumer, inputs, pipemill, skip_test};

use taken::Taken;

const MIB: u64 = 1 << 20;
/// The host's own memory, without the ring: code, plugins, a decoder's sandbox.
const MAX_SETTLED: u64 = 100 * MIB;
/// From here on it may not grow.
const SETTLED: u64 = 128 * MIB;
/// The growth that malloc may still cause.
const PLAY: u64 = 8 * MIB;

/// Bytes to stream.
fn size() -> u64 {
    let gib =
        std::env::var("PIPEMILL_TEST_GIB").map_or(1, |gib| gib.parse().expect("a number of GiB"));
    gib << 30
}

const RING: &str = "[channel.ring]\nslots = 16\nslot_size = '4MiB'\n";

fn config(place: &TestDir) -> String {
    format!("{}{RING}", channel(place, "train", ", epochs = 1"))
}

/// A channel without a ring, which reads a FIFO of its name.
fn channel(place: &TestDir, name: &str, more: &str) -> String {
    let folder = place.folder();
    format!(
        "[[channel]]\nname = '{name}'\ndecoder = 'tfrecord'\nsource = {{ fifo = {folder:?}{more} }}\n\
         max_record = '8MiB'\n"
    )
}

/// Writes `size` bytes or a little more: small records of all sizes, then one of `largest` bytes,
/// and so on. Returns their number.
fn write(fifo: &Path, size: u64, largest: usize) -> JoinHandle<u64> {
    let fifo = fifo.to_owned();
    let mut sizes: Vec<usize> = (0..3_000).map(|n| n * 37 % 20_000).collect();
    sizes.extend([300_000, 1 << 20, largest]);
    let payloads: Vec<_> = sizes.iter().map(|size| vec![b'r'; *size]).collect();
    let block = inputs::tfrecord(&payloads);
    thread::spawn(move || {
        let mut pipe = File::options().write(true).open(fifo).expect("a FIFO");
        let blocks = size.div_ceil(block.len() as u64);
        (0..blocks).for_each(|_| pipe.write_all(&block).expect("the host reads it"));
        blocks * payloads.len() as u64
    })
}

/// A process's bytes that are its own and not shared memory.
fn own_memory(pid: Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).expect("Linux says it");
    let kib = line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok());
    kib.expect("a number of kB") << 10
}

/// Reads everything, and compares the host's memory with its account. Returns the records, the
/// host's own memory after the start, when it should be stable, and the most after that.
fn read(reader: &mut Reader, host: &Host, place: &TestDir) -> (u64, u64, u64) {
    let (mut records, mut bytes, mut settled, mut most) = (0, 0, 0, 0);
    let (pid, mut taken) = (host.process.pid(), Taken::by(host, place));
    loop {
        match reader.next().expect("the host is well") {
            Event::Batch(batch) => {
                records += batch.records() as u64;
                bytes += batch.payload().len() as u64;
                if bytes < SETTLED {
                    settled = own_memory(pid).max(settled);
                } else if batch.number() % 8 == 0 {
                    most = own_memory(pid).max(most);
                }
                taken.measure();
            }
            Event::EpochEnd(_) => {}
            Event::StreamEnd => {
                taken.check();
                return (records, settled, most);
            }
        }
    }
}

#[test]
fn the_hosts_own_memory_stays_flat() {
    let place = TestDir::new();
    // The largest records need memory of their own, in addition to the ring.
    let writer = write(&place.fifo("train_0"), size(), 5 << 20);
    let host = Host::start(&pipemill!(), &place, &config(&place));
    let mut reader = host.connect("train");
    let started = Instant::now();
    let (records, settled, most) = read(&mut reader, &host, &place);
    println!(
        "{} MiB in {:?}; own memory of the host: {} MiB, then {} MiB",
        size() / MIB,
        started.elapsed(),
        settled / MIB,
        most / MIB
    );
    assert_eq!(records, writer.join().expect("writing does not panic"));
    host.wait().with_code(0);
    assert!(settled < MAX_SETTLED, "{settled} bytes");
    assert!(most < settled + PLAY, "grew from {settled} to {most} bytes");
}

/// The bytes of records that wait are bounded, for all sizes of records.
#[test]
fn a_window_and_a_mix_stay_within_their_bytes() {
    const WINDOW: u64 = 64 * MIB;
    // A seventh more, because blocks are not quite full; and blocks that are filled and emptied.
    const WITH_BLOCKS: u64 = WINDOW * 8 / 7 + 8 * (2 * MIB);
    // The bytes of a batch of the largest records on average.
    const BATCH: u64 = 256 * 20_000;
    let place = TestDir::new();
    let mut config = String::from(
        "[[channel]]\nname = 'train'\nsource = { mix = { a = 2, b = 1 }, until = 'all' }\nbatch = 256\n\
         shuffle = { seed = 7, window = '64MiB' }\n",
    ) + RING;
    let mut writers = Vec::new();
    for (name, largest) in [("a", 5 << 20), ("b", 3 << 20)] {
        config += &channel(&place, name, "");
        writers.push(write(&place.fifo(&format!("{name}_0")), 192 * MIB, largest));
    }
    let host = Host::start(&pipemill!(), &place, &config);
    let mut reader = host.connect("train");
    let (records, settled, most) = read(&mut reader, &host, &place);
    println!("own memory of the host: {} MiB, then {} MiB", settled / MIB, most / MIB);
    let written: u64 = writers.into_iter().map(|one| one.join().expect("it writes")).sum();
    assert_eq!(records, written);
    host.wait().with_code(0);
    let bound = MAX_SETTLED + WITH_BLOCKS + BATCH + 2 * 6 * MIB;
    assert!(settled.max(most) < bound, "{settled}, then {most} bytes, of {bound}");
}

/// The ring's memory is no file in /dev/shm: not even a small /dev/shm is needed.
#[test]
fn a_ring_larger_than_dev_shm_works() {
    let small = "mount -t tmpfs -o size=64m none /dev/shm && exec \"$@\"";
    let mut probe = Command::new("unshare");
    if finish(probe.args(["-m", "sh", "-c", small, "sh", "true"])).code != Some(0) {
        skip_test("a_ring_larger_than_dev_shm_works", "to be allowed to unshare and mount");
        return;
    }
    let place = TestDir::new();
    let writer = write(&place.fifo("train_0"), 160 * MIB, 2 << 20);
    // More than would fit there.
    let config = config(&place).replace("slots = 16", "slots = 32");
    let host = host::command(&pipemill!(), &place, &config);
    let mut inside = Command::new("unshare");
    inside.args(["-m", "sh", "-c", small, "sh"]).arg(host.get_program()).args(host.get_args());
    let process = Process::start(&mut inside);
    let mut reader = consumer::connect(&place.path("run/host.sock"), "train", Some(30));
    // As many batches as the ring has at once, so that all of it is in use.
    let mut held = Vec::new();
    let (mut records, mut taken) = (0, Taken::by_process(process.pid(), &place));
    loop {
        match reader.next().expect("the host is well") {
            Event::Batch(batch) => {
                records += batch.records() as u64;
                held.push(batch);
                if held.len() == 24 {
                    held.clear();
                    taken.measure();
                }
            }
            Event::EpochEnd(_) => {}
            Event::StreamEnd => break,
        }
    }
    taken.check();
    assert_eq!(records, writer.join().expect("writing does not panic"));
    process.wait().with_code(0);
}
