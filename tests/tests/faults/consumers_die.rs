//! Consumers that are killed, a hundred times, in the middle of what they do: nothing is lost, and
//! nothing that was ACKed comes again.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pipemill_tests::host::Host;
use pipemill_tests::place::Place;
use pipemill_tests::{consumer, pipemill};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::{lines, numbered};

const KILLS: usize = 100;
const RECORDS: usize = 12_000;
const EPOCHS: u64 = 3;

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

#[test]
fn a_hundred_deaths_lose_nothing() {
    let place = Place::new();
    let host = Host::start(&pipemill!(), &place, &lines(&place, "train", &numbered(RECORDS, 2_500), ""));
    // Only to see that it is up.
    drop(host.connect("train"));
    let mut random = TestRunner::deterministic();
    let mut draw = |range: std::ops::Range<u64>| {
        range.new_tree(&mut random).expect("a range has values").current()
    };
    let mut consumers: Vec<_> = (0..3).map(|_| Consumer::start(&host.socket)).collect();
    let mut lives = Vec::new();
    for _ in 0..KILLS {
        thread::sleep(Duration::from_micros(draw(0..12_000)));
        let victim = consumers.swap_remove(draw(0..3) as usize);
        lives.push(victim.kill());
        consumers.push(Consumer::start(&host.socket));
    }
    let survivors: Vec<_> = consumers.into_iter().map(Consumer::wait).collect();
    for said in &survivors {
        assert_eq!(said.last().map(String::as_str), Some("end"), "{said:?}");
    }
    host.wait().with_code(0);
    lives.extend(survivors);
    check(&lives);
}

fn check(lives: &[Vec<String>]) {
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
    assert!(batches.values().any(|batch| batch.about > 1), "no batch came again: kills hit nobody at work");
    let mut expected = (0, 0);
    for (number, batch) in &batches {
        // Whoever dies between ACK and word did it, but could not say so.
        assert!(batch.about >= 1 && batch.acked <= 1, "batch {number}: {} {}", batch.about, batch.acked);
        assert_eq!((batch.epoch, batch.first), expected, "batch {number} is not where the last one ends");
        let next = batch.first + batch.records;
        expected = if next == RECORDS as u64 { (batch.epoch + 1, 0) } else { (batch.epoch, next) };
    }
    assert_eq!(expected, (EPOCHS, 0), "records are missing at the end");
}
