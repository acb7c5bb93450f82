//! A hundred consumers are killed in the middle of their work: nothing is lost, and nothing that
//! was ACKed comes again. Most stop themselves inside a batch or after its ACK, so that they are
//! killed just there; the others are killed wherever they are.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use pipemill_tests::host::Host;
use pipemill_tests::process::state;
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{consumer, pipemill, until};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

const KILLS: usize = 100;
const EPOCHS: usize = 3;

/// A consumer as a process, and its output, gathered as long as it lives.
struct Consumer {
    child: Child,
    said: JoinHandle<Vec<String>>,
}

impl Consumer {
    /// Started and connected. It will stop itself after this word, when it has said it `count` times before.
    fn start(socket: &Path, word: &str, count: u64) -> Self {
        let mut command = Command::new(consumer!());
        command.args(["train", "1", word, &count.to_string()]);
        command.env("PIPEMILL_SOCKET", socket).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the consumer can be started");
        let stdout = child.stdout.take().expect("it is piped");
        let (connected, wait) = std::sync::mpsc::channel();
        let said = thread::spawn(move || {
            let mut said = Vec::new();
            for line in BufReader::new(stdout).lines() {
                said.push(line.expect("what it says is text"));
                // After the first one, nobody waits any more.
                let _ = connected.send(());
            }
            said
        });
        wait.recv().expect("it says that it is connected");
        Self { child, said }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    fn is_stopped(&self) -> bool {
        state(self.pid()).is_some_and(|(state, _)| state == 'T')
    }

    fn kill(mut self) -> Vec<String> {
        self.child.kill().expect("it is our own child");
        self.child.wait().expect("it is our own child");
        self.said()
    }

    /// Lets it continue where it stopped itself. Returns whether it has ended.
    fn goes_on_to_its_end(&mut self) -> bool {
        let has_ended = self.child.try_wait().expect("it is our own child").is_some();
        if !has_ended {
            kill(self.pid(), Signal::SIGCONT).expect("it is our own child, and was not waited for");
        }
        has_ended
    }

    /// Its output, after its end.
    fn said(self) -> Vec<String> {
        self.said.join().expect("gathering does not panic")
    }
}

/// How often a batch was begun, and how often it was ACKed.
#[derive(Default)]
struct Batch {
    epoch: u64,
    first: u64,
    records: u64,
    about: usize,
    acked: usize,
}

/// Writes epochs for as long as there are kills to come, and reports how many records each has.
fn write(place: &TestDir, killed: Arc<AtomicUsize>) -> JoinHandle<Vec<u64>> {
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
fn a_hundred_killed_consumers_lose_no_record_and_repeat_no_acked_batch() {
    let place = TestDir::new();
    let folder = place.folder();
    let config = format!(
        "[[channel]]\nname = 'train'\ndecoder = 'lines'\n\
         source = {{ fifo = {folder:?}, epochs = {EPOCHS} }}\n\
         [channel.ring]\nslots = 8\nslot_size = '64KiB'\n"
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
    let mut next = {
        let mut words = ["about", "acked"].into_iter().cycle();
        let socket = host.socket.clone();
        move |count| Consumer::start(&socket, words.next().expect("they go round"), count)
    };
    let mut consumers: Vec<_> = (0..3).map(|_| next(draw(0..4))).collect();
    let (mut lives, mut in_a_batch) = (Vec::new(), 0);
    for number in 0..KILLS {
        // The new one is first, so that there is always a consumer to end an epoch.
        consumers.push(next(draw(0..4)));
        let mut victim = Some(draw(0..3) as usize);
        if number % 4 != 0 {
            until("one of them stops itself", || {
                victim = consumers.iter().position(Consumer::is_stopped);
                victim.is_some()
            });
        }
        let victim = consumers.swap_remove(victim.expect("there is one"));
        let was_stopped = victim.is_stopped();
        let said = victim.kill();
        let is_in_a_batch = said.last().is_some_and(|line| line.starts_with("about "));
        in_a_batch += usize::from(was_stopped && is_in_a_batch);
        lives.push(said);
        killed.fetch_add(1, Ordering::Release);
    }
    until("the last three end", || {
        // All of them are woken, including those after one that has not ended.
        let running =
            consumers.iter_mut().filter_map(|it| (!it.goes_on_to_its_end()).then_some(()));
        running.count() == 0
    });
    let survivors: Vec<_> = consumers.into_iter().map(Consumer::said).collect();
    for said in &survivors {
        assert_eq!(said.last().map(String::as_str), Some("end"), "{said:?}");
    }
    host.wait().with_code(0);
    lives.extend(survivors);
    // Three quarters of the kills hit one that had stopped itself, and only every second one does so after an ACK.
    assert!(in_a_batch > KILLS / 10, "only {in_a_batch} were killed inside a batch");
    check(&lives, &writer.join().expect("writing does not panic"), in_a_batch);
}

/// Each batch was ACKed, and once; together they are all records of all epochs. The batches of the
/// consumers that were killed inside a batch came again.
fn check(lives: &[Vec<String>], epochs: &[u64], in_a_batch: usize) {
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
    let again: usize = batches.values().map(|batch| batch.about.saturating_sub(1)).sum();
    println!("{} batches, {again} times one again after a death", batches.len());
    assert!(
        again >= in_a_batch,
        "{again} batches came again, after {in_a_batch} deaths inside of one"
    );
    let mut expected = (0, 0);
    for (number, batch) in &batches {
        // A consumer that died between the ACK and its word has ACKed, but could not say so.
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
