//! A channel that fails ends the run: consumers are told, the command has its time, the exit code says so.

use nix::sys::signal::Signal;
use pipemill_tests::consumer;
use pipemill_tests::host::{self, Host};
use pipemill_tests::pipemill;
use pipemill_tests::process::{Process, finish};
use pipemill_tests::test_dir::TestDir;

use super::{line, nothing_is_left, start};

/// Two records, and one that is too large.
fn failing(place: &TestDir, top: &str) -> String {
    place.write("bad.txt", format!("one\ntwo\n{}", "x".repeat(3_000)));
    reading(place, "bad.txt", top)
}

/// The same, but it does not fail before a process runs [`FAIL`].
fn failing_later(place: &TestDir, top: &str) -> String {
    let config = failing(place, top);
    place.fifo("bad.fifo");
    config.replace("bad.txt", "bad.fifo")
}

/// Shell commands that make the channel fail.
const FAIL: &str = "cat bad.txt > bad.fifo";

fn reading(place: &TestDir, name: &str, top: &str) -> String {
    let file = place.path(name);
    format!(
        "{top}\n[[channel]]\nname = 'bad'\ndecoder = 'lines'\nsource = {{ file = {file:?} }}\n\
         max_record = '1KiB'\n"
    )
}

fn missing(place: &TestDir, top: &str) -> String {
    let file = place.path("nowhere.txt");
    format!(
        "{top}\n[[channel]]\nname = 'missing'\ndecoder = 'lines'\nsource = {{ file = {file:?} }}\n"
    )
}

const SHORT: &str = "fail_grace = '50ms'\nstop_timeout = '100ms'";
/// The command is told to end soon after the failure, and has all the time to do so.
const TOLD: &str = "fail_grace = '50ms'\nstop_timeout = '24h'";
const LONG: &str = "fail_grace = '24h'\nstop_timeout = '24h'";

/// What the command does, and the exit code that follows.
#[test]
fn the_exit_code_after_a_failure_says_what_happened() {
    let handles = |how: &str| format!("trap '{how}' TERM; {FAIL}; while :; do sleep 0.02; done");
    let cases = [
        (TOLD, format!("{FAIL}; exec sleep 1000"), 65),
        (SHORT, handles(""), 65),
        (TOLD, handles("exit 0"), 65),
        (TOLD, handles("exit 143"), 65),
        (TOLD, handles("exit 9"), 9),
        (LONG, format!("{FAIL}; {} bad", consumer!()), 3),
        (LONG, format!("{FAIL}; {} bad; exit 0", consumer!()), 65),
        (LONG, format!("{FAIL}; exit 5"), 5),
        (LONG, format!("{FAIL}; kill -SEGV $$"), 139),
    ];
    for (top, script, code) in cases {
        let place = TestDir::new();
        let ended = start(&place, &failing_later(&place, top), &script).wait();
        assert_eq!(ended.code, Some(code), "{script}: {ended:#?}");
        nothing_is_left(&place);
    }
}

#[test]
fn an_input_that_is_missing_has_a_code_of_its_own() {
    let place = TestDir::new();
    start(&place, &missing(&place, SHORT), "exec sleep 1000").wait().with_code(66);
    finish(&mut host::command(&pipemill!(), &place, &missing(&place, SHORT))).with_code(66);
    // This does not hold if something else has failed too.
    let both = [failing(&place, SHORT), missing(&place, "")].concat();
    finish(&mut host::command(&pipemill!(), &place, &both)).with_code(65);
}

/// After an operator's signal, the exit code of the command counts again.
#[test]
fn a_signal_after_a_failure_makes_the_exit_code_the_commands() {
    let place = TestDir::new();
    let process = start(&place, &failing(&place, LONG), "echo > ready; exec sleep 1000");
    line(&place.path("ready"));
    process.signal(Signal::SIGTERM);
    process.wait().with_code(143);
    nothing_is_left(&place);
}

#[test]
fn without_a_command_a_late_consumer_is_told_of_the_failure() {
    for connected_before in [false, true] {
        let place = TestDir::new();
        let mut process =
            Process::start(&mut host::command(&pipemill!(), &place, &failing(&place, LONG)));
        let socket = place.path("run/host.sock");
        let mut reader = consumer::connect(&socket, "bad", None);
        if connected_before {
            let second = consumer::connect(&socket, "bad", None);
            drop(second);
        }
        let read = consumer::read(&mut reader);
        assert_eq!(read.records, [b"one", b"two"]);
        assert!(read.report().message.contains("max_record"), "{:?}", read.report());
        assert!(process.runs(), "it is there as long as a consumer is");
        drop(reader);
        process.wait().with_code(65);
        nothing_is_left(&place);
    }
}

#[test]
fn without_a_command_no_consumer_is_waited_for_after_fail_grace() {
    let place = TestDir::new();
    let host = Host::start(&pipemill!(), &place, &failing(&place, SHORT));
    host.wait().with_code(65);
    // Nor for one that reads nothing, and that existed before.
    let host = Host::start(&pipemill!(), &place, &failing_later(&place, SHORT));
    let reader = host.connect("bad");
    std::fs::copy(place.path("bad.txt"), place.path("bad.fifo")).expect("it is read");
    host.wait().with_code(65);
    drop(reader);
    nothing_is_left(&place);
}

#[test]
fn a_failed_channel_ends_the_others() {
    let place = TestDir::new();
    let config = [failing(&place, SHORT), super::numbered(&place, 50_000, "")].concat();
    finish(&mut host::command(&pipemill!(), &place, &config)).with_code(65);
    nothing_is_left(&place);
}
