//! SIGTERM and SIGINT at each moment of a run: consumers can finish the batches that they hold, the
//! exit code says what happened, and nothing is left.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::libc;
use nix::sys::signal::Signal::{self, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use pipemill_tests::process::Process;
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{consumer, pipemill, until};

use super::{has_no_zombie, line, nothing_is_left, numbered, start};

const BOTH: [Signal; 2] = [SIGTERM, SIGINT];

/// A script that reads the channel despite any signal, and sleeps this many milliseconds in each
/// batch.
fn reads(pause: u32) -> String {
    format!("trap '' TERM INT; exec {} train {pause} > said", consumer!())
}

fn said(place: &TestDir) -> String {
    std::fs::read_to_string(place.path("said")).unwrap_or_default()
}

/// The writing end of a FIFO, once a process reads it.
fn writer_once_read(fifo: &Path) -> File {
    let mut writer = None;
    until("somebody reads the FIFO", || {
        writer = File::options().write(true).custom_flags(libc::O_NONBLOCK).open(fifo).ok();
        writer.is_some()
    });
    writer.expect("it is open")
}

/// The configuration, or the file of states, is a FIFO: the host is up, and not ready, for as long
/// as nothing is written.
#[test]
fn a_signal_before_the_host_is_ready_starts_no_command() {
    const FILES: [&[&str]; 2] = [&["fifo"], &["c.toml", "--resume", "fifo"]];
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT] {
        let command = ["--", "touch", "started"].as_slice();
        for (files, command) in FILES.iter().flat_map(|files| [(files, command), (files, &[])]) {
            let place = TestDir::new();
            place.make_folder("run");
            place.write("c.toml", numbered(&place, 100, ""));
            let fifo = place.fifo("fifo");
            let mut host = Command::new(pipemill!());
            host.args(["run", "--config"]).args(*files).args(command).stdin(Stdio::null());
            let process = Process::start(host.current_dir(place.folder()));
            // The host takes the signals before it reads. Nothing is ever written.
            let _fifo = writer_once_read(&fifo);
            process.signal(signal);
            process.wait().with_code(128 + signal as i32).says(&["before anything was started"]);
            assert!(!place.path("started").exists());
            nothing_is_left(&place);
        }
    }
}

/// Each batch that was begun was ACKed, the batches follow each other, and each epoch has the
/// batches that were ACKed of it.
fn check(said: &str) -> u64 {
    let (mut expected, mut of_epoch, mut all) = ((0, 0), 0, 0);
    let mut about = None;
    for line in said.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        match words[0] {
            "about" => {
                assert_eq!((number(2), number(3)), expected, "records are missing: {said}");
                about = Some((number(1), number(4)));
            }
            "acked" => {
                let (batch, records) = about.take().expect("it was begun");
                assert_eq!(batch, number(1));
                expected.1 += records;
                of_epoch += records;
                all += records;
            }
            "epoch" => {
                assert_eq!(number(2), of_epoch, "{said}");
                expected = (expected.0 + 1, 0);
                of_epoch = 0;
            }
            "connected" | "end" => {}
            _ => panic!("the consumer says {line:?}"),
        }
    }
    assert!(about.is_none(), "{said}");
    assert_eq!(said.lines().last(), Some("end"));
    all
}

#[test]
fn a_signal_while_it_streams_lets_what_was_granted_be_read() {
    for signal in BOTH {
        let place = TestDir::new();
        // More than the ring has room for, and more than is read in half a minute.
        let records = 50_000;
        let process = start(&place, &numbered(&place, records, ""), &reads(100));
        until("a batch is ACKed", || said(&place).contains("acked"));
        process.signal(signal);
        process.wait().with_code(0).says(&["channel `train` stopped"]);
        let read = check(&said(&place));
        assert!(read > 0 && read < 3 * records as u64, "{read} records");
        nothing_is_left(&place);
    }
}

#[test]
fn a_signal_after_all_was_granted_takes_nothing_away() {
    for signal in BOTH {
        let place = TestDir::new();
        let process = start(&place, &numbered(&place, 100, ""), &reads(50));
        // The last one: all has been read.
        until("the third epoch begins", || said(&place).contains("about 2 "));
        process.signal(signal);
        process.wait().with_code(0);
        assert_eq!(check(&said(&place)), 300);
        nothing_is_left(&place);
    }
}

#[test]
fn a_command_without_a_handler_is_ended_by_the_signal() {
    for signal in BOTH {
        let place = TestDir::new();
        let script = format!("exec {} train 100 > said", consumer!());
        let process = start(&place, &numbered(&place, 50_000, ""), &script);
        until("a batch is ACKed", || said(&place).contains("acked"));
        process.signal(signal);
        process.wait().with_code(128 + signal as i32);
        nothing_is_left(&place);
    }
}

/// Ignores all signals that ask it to end.
const STUBBORN: &str = "trap '' TERM INT; echo > ready; while :; do sleep 0.02; done";

#[test]
fn a_command_that_ignores_the_signal_is_killed_after_stop_timeout() {
    for signal in BOTH {
        let place = TestDir::new();
        let config = numbered(&place, 100, "stop_timeout = '100ms'");
        let process = start(&place, &config, STUBBORN);
        line(&place.path("ready"));
        has_no_zombie(process.pid());
        process.signal(signal);
        process.wait().with_code(137).says(&["the command has 100ms to end", "killing it"]);
        nothing_is_left(&place);
    }
}

#[test]
fn a_second_signal_kills_the_command_at_once() {
    for (first, second) in [(SIGTERM, SIGTERM), (SIGINT, SIGTERM), (SIGTERM, SIGINT)] {
        let place = TestDir::new();
        let config = numbered(&place, 50_000, "stop_timeout = '24h'");
        let mut process = start(&place, &config, STUBBORN);
        line(&place.path("ready"));
        process.signal(first);
        // Signals that come within a moment count once: some platforms send each signal twice.
        until("it ends", || {
            process.signal(second);
            !process.runs()
        });
        process.wait().with_code(137).says(&["killing it"]);
        nothing_is_left(&place);
    }
}

/// The command is dead, and a child of it is not.
#[test]
fn a_signal_after_the_commands_end_leaves_its_exit_code() {
    for signal in BOTH {
        let place = TestDir::new();
        let child = "trap '' TERM INT; echo $PPID > ready; while :; do sleep 0.02; done";
        let script = format!("sh -c '{child}' & while [ ! -s ready ]; do sleep 0.02; done; exit 4");
        let mut process = start(&place, &numbered(&place, 100, "stop_timeout = '24h'"), &script);
        let command = super::pid(Path::new(&place.text("ready")));
        until("the command is waited for", || super::state(command).is_none());
        until("it ends", || {
            process.signal(signal);
            !process.runs()
        });
        process.wait().with_code(4);
        nothing_is_left(&place);
    }
}
