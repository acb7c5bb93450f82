//! The whole tree of a job, host and program, is killed at random moments and resumes at the last
//! state that the program saved: nothing after the state is missing, and nothing before it is
//! repeated.
//!
//! Two hundred kills in all. When each comes is random, and no outcome depends on it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pipemill_tests::inputs::gzip;
use pipemill_tests::process::Process;
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{consumer, host, pipemill, until};

use super::numbered;

/// Kills of each kind of channel.
const KILLS: usize = 40;
/// A program is killed after it received at most this many more batches.
const MOST_BATCHES: usize = 300;

#[test]
fn of_shuffled_files() {
    check(false, |source| {
        format!(
            "[[channel]]\nname = 'train'\ndecoder = 'lines'\nbatch = 7\nshuffle = {{ seed = 3 }}\n\
             source = {{ {source}, epochs = 2 }}\n"
        )
    });
}

#[test]
fn of_compressed_files() {
    check(true, |source| {
        format!(
            "[[channel]]\nname = 'train'\ndecoder = 'lines'\nbatch = 7\ntail = 'pad'\n\
             source = {{ {source}, epochs = 2 }}\n"
        )
    });
}

#[test]
fn of_a_window() {
    check(false, |source| {
        format!(
            "[[channel]]\nname = 'train'\ndecoder = 'lines'\nbatch = 7\ntail = 'drop'\n\
             shuffle = {{ seed = 5, window = 300 }}\nsource = {{ {source}, epochs = 2 }}\n"
        )
    });
}

#[test]
fn of_workers_and_a_window() {
    check(true, |source| {
        format!(
            "[[channel]]\nname = 'train'\ndecoder = 'lines'\nbatch = 7\nworkers = 3\n\
             shuffle = {{ seed = 5, window = '1MiB' }}\nsource = {{ {source}, epochs = 2 }}\n"
        )
    });
}

#[test]
fn of_a_mix() {
    check(false, |source| {
        let one = |name| {
            format!("[[channel]]\nname = '{name}'\ndecoder = 'lines'\nsource = {{ {source} }}\n")
        };
        format!(
            "[[channel]]\nname = 'train'\nbatch = 7\n\
             source = {{ mix = {{ a = 0.7, b = 0.3 }}, until = 7000 }}\n{}{}",
            one("a"),
            one("b")
        )
    });
}

/// Kills a job again and again. `config` makes the configuration for a source.
fn check(is_compressed: bool, config: impl FnOnce(&str) -> String) {
    let place = TestDir::new();
    for (number, records) in numbered(4_000, 20).chunks(1_500).enumerate() {
        let bytes = [records.join(&b'\n'), b"\n".to_vec()].concat();
        let bytes = if is_compressed { gzip(&bytes) } else { bytes };
        let ending = if is_compressed { ".gz" } else { "" };
        place.write(&format!("data/{number}.txt{ending}"), bytes);
    }
    let config = config(&format!("folder = '{}'", place.text("data")));
    let job = Job { place, config };
    let (expected, ended) = job.live(&mut Rng::new(), None);
    assert!(ended && expected.len() > 900, "{} batches", expected.len());
    let seed = fastrand::u64(..);
    let mut random = Rng::with_seed(seed);
    let (mut kills, mut first) = (0, 0);
    while kills < KILLS {
        let most = random.usize(..MOST_BATCHES);
        let (given, ended) = job.live(&mut random, Some(most));
        let what = format!("seed {seed}, kill {kills}, from batch {first} on");
        assert!(first + given.len() <= expected.len(), "{what}: {} batches", given.len());
        assert_eq!(given, expected[first..first + given.len()], "{what}");
        if ended {
            assert_eq!(first + given.len(), expected.len(), "{what}");
            fs::remove_file(job.state()).expect("the program kept a state");
            first = 0;
            continue;
        }
        kills += 1;
        let next = job.next_batch();
        assert!((first..=first + given.len()).contains(&next), "{what}: the state is of {next}");
        first = next;
    }
}

/// A host with a program that records each batch, and saves its state.
struct Job {
    place: TestDir,
    config: String,
}

impl Job {
    fn state(&self) -> std::path::PathBuf {
        self.place.path("state.json")
    }

    /// Number of the first batch after the state.
    fn next_batch(&self) -> usize {
        let Ok(text) = fs::read_to_string(self.state()) else { return 0 };
        let state: serde_json::Value = serde_json::from_str(&text).expect("it is written whole");
        state["batch"].as_u64().expect("it was kept after a batch") as usize + 1
    }

    /// One life. With `most` it is killed at a random moment, after about as many batches or
    /// before. Returns a line for each batch that the program received, and whether the job reached
    /// its end.
    fn live(&self, random: &mut Rng, most: Option<usize>) -> (Vec<String>, bool) {
        let (state, ledger) = (self.state(), self.place.path("ledger"));
        fs::write(&ledger, "").expect("a file");
        let mut command = host::command(&pipemill!(), &self.place, &self.config);
        if most.is_some() && state.exists() {
            command.arg("--resume").arg(&state);
        }
        command.arg("--").arg(consumer!()).arg("train").arg("keep").arg(&state).arg(&ledger);
        let mut process = Process::start(&mut command);
        if let Some(most) = most {
            if random.u8(..5) == 0 {
                std::thread::sleep(Duration::from_micros(random.u64(..60_000)));
            } else {
                until("batches", || lines(&ledger).len() > most || !process.runs());
            }
            if process.runs() {
                kill_tree(&process, &ledger, random);
            }
        }
        // The end of their output is the end of both.
        let ended = process.wait();
        let signal = Signal::SIGKILL as i32;
        // The host may have seen that its program was killed.
        let killed = ended.signal == Some(signal) || ended.code == Some(128 + signal);
        assert!(killed || ended.code == Some(0), "{ended:#?}");
        if most.is_none() {
            fs::remove_file(&state).expect("the program kept a state");
        }
        (lines(&ledger).split_off(1.min(lines(&ledger).len())), !killed)
    }
}

/// The lines that were written in full. The first one is the program's process id.
fn lines(ledger: &Path) -> Vec<String> {
    let text = fs::read_to_string(ledger).expect("a file");
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(str::to_owned).collect()
}

/// Kills host and program, in a random order.
fn kill_tree(host: &Process, ledger: &Path, random: &mut Rng) {
    let program = lines(ledger).first().map(|pid| Pid::from_raw(pid.parse().expect("a number")));
    let mut pids: Vec<_> = program.into_iter().chain([host.pid()]).collect();
    random.shuffle(&mut pids);
    for pid in pids {
        // The host's program dies with it.
        let _ = kill(pid, Signal::SIGKILL);
    }
}
