//! The command that the host runs: its exit code is the host's, signals reach it, and the host ends
//! with it.

use nix::sys::signal::Signal;
use pipemill_tests::host::{self, Host};
use pipemill_tests::process::Process;
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{consumer, pipemill};

use crate::delivery::{lines, numbered};

fn run(words: &[&str]) -> pipemill_tests::process::Ended {
    let place = TestDir::new();
    let config = lines(&place, "train", &numbered(100, 10), "");
    let ended = Host::run(&pipemill!(), &place, &config, words);
    assert!(!place.path("run/host.sock").exists(), "the socket is left: {ended:?}");
    ended
}

#[test]
fn the_commands_exit_code_is_the_hosts() {
    for code in [0, 1, 3, 66, 255] {
        run(&["sh", "-c", &format!("exit {code}")]).with_code(code);
    }
}

#[test]
fn the_signal_that_ended_the_command_is_128_and_its_number() {
    for (name, number) in [("KILL", 9), ("TERM", 15), ("SEGV", 11)] {
        run(&["sh", "-c", &format!("kill -{name} $$")]).with_code(128 + number);
    }
}

#[test]
fn a_command_that_cant_be_started_is_127_or_126() {
    run(&["/nowhere/train.sh", "x"])
        .with_code(127)
        .says(&["`/nowhere/train.sh` can't be started", "PATH"]);
    run(&["/etc/passwd"]).with_code(126).says(&["`/etc/passwd` can't be started", "executable"]);
}

#[test]
fn the_command_finds_its_channel() {
    let ended = run(&[consumer!(), "train"]).with_code(0);
    let said = ended.text();
    let ends: Vec<_> = said.lines().filter(|line| line.starts_with('e')).collect();
    assert_eq!(ends, ["epoch 0 100", "epoch 1 100", "epoch 2 100", "end"], "{said}");
}

#[test]
fn a_failed_channel_is_the_hosts_failure_if_the_command_ends_well() {
    let place = TestDir::new();
    let file = place.write("bad", "x".repeat(3_000));
    let config = format!(
        "[[channel]]\nname = 'bad'\ndecoder = 'lines'\nsource = {{ file = {file:?} }}\nmax_record = '1KiB'\n"
    );
    let unheeded = format!("{} bad; exit 0", consumer!());
    Host::run(&pipemill!(), &place, &config, &["sh", "-c", &unheeded]).with_code(65);
    // The command's own output comes first.
    Host::run(&pipemill!(), &place, &config, &[consumer!(), "bad"]).with_code(3);
}

#[test]
fn the_command_may_end_before_all_is_read() {
    let place = TestDir::new();
    let config = lines(&place, "train", &numbered(50_000, 200), "");
    Host::run(&pipemill!(), &place, &config, &["true"]).with_code(0);
}

#[test]
fn signals_are_handed_on_to_the_command() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        let place = TestDir::new();
        let config = lines(&place, "train", &numbered(100, 10), "");
        let ready = place.fifo("ready");
        let name = signal.as_str().trim_start_matches("SIG");
        let script = format!(
            "trap 'echo got {name}; exit 7' {name}; echo ready > {}; while :; do sleep 0.02; done",
            ready.display()
        );
        let mut command = host::command(&pipemill!(), &place, &config);
        let process = Process::start(command.args(["--", "sh", "-c", &script]));
        // Blocks until the trap is set.
        std::fs::read(&ready).expect("the command tells");
        process.signal(signal);
        let ended = process.wait().with_code(7);
        assert_eq!(ended.text(), format!("got {name}\n"));
    }
}

/// Most commands do not handle signals, and must not be shielded from them.
#[test]
fn a_command_that_handles_no_signal_is_ended_by_it() {
    let place = TestDir::new();
    let config = lines(&place, "train", &numbered(100, 10), "");
    let ready = place.fifo("ready");
    let script = format!("echo ready > {}; exec sleep 1000", ready.display());
    let mut command = host::command(&pipemill!(), &place, &config);
    let process = Process::start(command.args(["--", "sh", "-c", &script]));
    std::fs::read(&ready).expect("the command tells");
    process.signal(Signal::SIGTERM);
    process.wait().with_code(128 + Signal::SIGTERM as i32);
}

#[test]
fn without_a_command_the_host_ends_when_all_is_consumed() {
    let place = TestDir::new();
    let records = numbered(100, 10);
    let host = Host::start(&pipemill!(), &place, &lines(&place, "train", &records, ""));
    let mut reader = host.connect("train");
    let read = consumer::read(&mut reader);
    assert_eq!(
        read.epochs.iter().map(|end| (end.records, end.early)).collect::<Vec<_>>(),
        [(100, false); 3]
    );
    assert_eq!(read.well().len(), 300);
    host.wait().with_code(0).says(&["channel `train` ended: 300 records"]);
}

#[test]
fn without_a_command_a_signal_stops_the_host() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let place = TestDir::new();
        let host =
            Host::start(&pipemill!(), &place, &lines(&place, "train", &numbered(50_000, 200), ""));
        // It waits for this consumer then, while it still has work.
        let reader = host.connect("train");
        host.process.signal(signal);
        let ended = host.wait().with_code(128 + signal as i32);
        assert!(ended.stderr.contains("stopping"), "{}", ended.stderr);
        drop(reader);
        assert!(place.names("run").is_empty(), "the socket is left");
    }
}
