//! Consumers that are killed, a hundred times, in the middle of what they do: nothing is lost, and
//! nothing that was ACKed comes again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use pipemill_tests::host::Host;
use pipemill_tests::place::Place;
use pipemill_tests::{consumer, pipemill};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

const KILLS: usize = 100;
const EPOCHS: usize = 3;

/// A consumer as a process, and what it says, gathered as long as it lives.
struct Consumer {
    child: Child,
    said: JoinHandle<Vec<String>>,
}

impl Consumer {
    /// Started and connected.
    fn start(socket: &Path) -> Self {
        let mut command = Command::new(consumer!());
        command.args(["train", "1"]).env("PIPEMILL_SOCKET", socket).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the consumer can be started");
        let stdout = child.stdout.take().expect("it is piped");
        let (connected, wait) = std::sync::mpsc::channel();
        let said = thread::spawn(move || {
            let mut said = Vec::new();
            for line in BufReader::new(stdout).lines() {
                said.push(line.expect("what it says is text"));
                // Nobody waits any more behind the first.
                let _ = connected.send(());
            }
            said
        });
        wait.recv().expect("it says that it is connected");
        Self { child, said }
    }

    fn kill(mut self) -> Vec<String> {
        self.child.kill().expect("it is our own child");
        self.wait()
    }

    fn wait(mut self) -> Vec<String> {
        self.child.wait().expect("it is our own child");
        self.said.join().expect("gathering does not panic")
    }
}

/// How often a batch was begun and how often ACKed.
#[derive(Default)]
struct Batch {
    epoch: u64,
    first: u64,
    records: u64,
    about: usize,
    acked: usize,
}

/// Writes epochs for as long as there are kills to come, and tells how many records each has.
fn write(place: &Place, killed: Arc<AtomicUsize>) -> JoinHandle<Vec<u64>> {
    let fifos: Vec<_> = (0..EPOCHS).map(|epoch| place.path(&format!("train_{epoch}"))).collect();
    place.fifo("train_0");
    thread::spawn(move || {
        let write = |(epoch, fifo): (usize, &PathBuf)| {
            if epoch > 0 {
                mkfifo(fifo, Mode::S_IRUSR | Mode::S_IWUSR).expect("its folder is there");
            }
            let mut fifo = BufWriter::new(File::options().write(true).open(fifo).expect("a FIFO"));
            let mut records = 0;
            while killed.load(Ordering::Acquire) < KILLS * (epoch + 1) / EPOCHS {
                let size = records % 7 * 800;
                writeln!(fifo, "{records:08}{}", "x".repeat(size)).expect("the host reads");
                records += 1;
            }
            records as u64
        };
        fifos.iter().enumerate().map(write).collect()
    })
}

#[test]
fn a_hundred_deaths_lose_nothing() {
    let place = Place::new();
    let folder = place.folder();
    let config = format!(
        "[[channel]]\nname = 'train'\ndecoder = 'lines'\n\
         source = {{ fifo = {folder:?}, epochs = {EPOCHS} }}\n\
         [channel.ring]\nslots = 8\nslot = '64KiB'\n"
    );
    let host = Host::start(&pipemill!(), &place, &config);
    // Only to see that it is up.
    drop(host.connect("train"));
    let killed = Arc::new(AtomicUsize::new(0));
    let writer = write(&place, killed.clone());
    let mut random = TestRunner::deterministic();
    let mut draw = |range: std::ops::Range<u64>| {
        range.new_tree(&mut random).expect("a range has values").current()
    };
    let mut consumers: Vec<_> = (0..3).map(|_| Consumer::start(&host.socket)).collect();
    let mut lives = Vec::new();
    for _ in 0..KILLS {
        thread::sleep(Duration::from_micros(draw(0..12_000)));
        // The new one first, so that there is always somebody to end an epoch.
        consumers.push(Consumer::start(&host.socket));
        lives.push(consumers.swap_remove(draw(0..3) as usize).kill());
        killed.fetch_add(1, Ordering::Release);
    }
    let survivors: Vec<_> = consumers.into_iter().map(Consumer::wait).collect();
    for said in &survivors {
        assert_eq!(said.last().map(String::as_str), Some("end"), "{said:?}");
    }
    host.wait().with_code(0);
    lives.extend(survivors);
    check(&lives, &writer.join().expect("writing does not panic"));
}

/// Each batch was ACKed, and once; together they are all records of all epochs.
fn check(lives: &[Vec<String>], epochs: &[u64]) {
    let mut batches = BTreeMap::<u64, Batch>::new();
    for line in lives.iter().flatten() {
        let words: Vec<_> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        match words[0] {
            "about" => {
                let batch = batches.entry(number(1)).or_default();
                (batch.epoch, batch.first, batch.records) = (number(2), number(3), number(4));
                batch.about += 1;
            }
            "acked" => batches.entry(number(1)).or_default().acked += 1,
            "connected" | "epoch" | "end" => {}
            _ => panic!("a consumer says {line:?}"),
        }
    }
    let again = batches.values().filter(|batch| batch.about > 1).count();
    println!("{} batches, {again} of them again after a death", batches.len());
    assert!(again > KILLS / 10, "only {again} batches came again: the kills hit nobody at work");
    let mut expected = (0, 0);
    for (number, batch) in &batches {
        // Whoever dies between ACK and word did it, but could not say so.
        assert!(
            batch.about >= 1 && batch.acked <= 1,
            "batch {number}: {} {}",
            batch.about,
            batch.acked
        );
        assert_eq!(
            (batch.epoch, batch.first),
            expected,
            "batch {number} is not where the last one ends"
        );
        let next = batch.first + batch.records;
        let ended = next == epochs[batch.epoch as usize];
        expected = if ended { (batch.epoch + 1, 0) } else { (batch.epoch, next) };
    }
    assert_eq!(expected, (EPOCHS as u64, 0), "records are missing at the end");
}
