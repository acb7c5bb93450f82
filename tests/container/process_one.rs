//! pipemill as process 1 of a namespace, as in a container: it handles the signals that the kernel
//! keeps from process 1 by default, and all orphans become its children.

use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pipemill_tests::process::Process;
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{consumer, until};

use super::{line, may, nothing_is_left, numbered, processes, shell, state};

/// A host in a namespace of its own. `unshare` stays outside of it, and returns its exit code.
fn start(place: &TestDir, config: &str, script: &str) -> Process {
    let host = shell(place, config, script);
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "--kill-child"]).arg(host.get_program());
    command.args(host.get_args()).current_dir(place.folder()).env_remove("PIPEMILL_SOCKET");
    Process::start(&mut command)
}

fn permitted(test: &str) -> bool {
    may(test, &["unshare", "--pid", "--fork", "--mount-proc", "true"])
}

/// The id of process 1, seen from outside.
fn process_one(unshare: &Process) -> Pid {
    let mut found = None;
    until("there is a process 1", || {
        let child = |pid: &Pid| state(*pid).is_some_and(|(_, parent)| parent == unshare.pid());
        found = processes().find(child);
        found.is_some()
    });
    found.expect("it was found")
}

#[test]
fn as_process_1_signals_and_exit_codes_are_handed_on() {
    if !permitted("as_process_1_signals_and_exit_codes_are_handed_on") {
        return;
    }
    let ready = "echo > ready; while :; do sleep 0.02; done";
    let (long, short) = ("stop_timeout = '24h'", "stop_timeout = '100ms'");
    let cases = [
        (Signal::SIGTERM, format!("trap 'exit 7' TERM; {ready}"), long, 7),
        (Signal::SIGINT, format!("trap 'exit 8' INT; {ready}"), long, 8),
        (Signal::SIGTERM, ready.to_owned(), long, 143),
        (Signal::SIGTERM, format!("trap '' TERM; {ready}"), short, 137),
        (Signal::SIGHUP, format!("trap 'exit 9' HUP; {ready}"), long, 9),
        (Signal::SIGUSR1, format!("trap 'exit 10' USR1; {ready}"), long, 10),
    ];
    for (signal, script, top, code) in cases {
        let place = TestDir::new();
        let config = numbered(&place, 100, top);
        let process = start(&place, &config, &script);
        line(&place.path("ready"));
        kill(process_one(&process), signal).expect("it is there");
        process.wait().with_code(code);
        nothing_is_left(&place);
    }
}

#[test]
fn as_process_1_the_channels_reach_the_command() {
    if !permitted("as_process_1_the_channels_reach_the_command") {
        return;
    }
    let place = TestDir::new();
    let script = format!("exec {} train", consumer!());
    let ended = start(&place, &numbered(&place, 100, ""), &script).wait().with_code(0);
    assert_eq!(ended.text().lines().last(), Some("end"));
}

#[test]
fn as_process_1_orphans_are_waited_for() {
    if !permitted("as_process_1_orphans_are_waited_for") {
        return;
    }
    let place = TestDir::new();
    // Processes in the command's own group, and in others.
    let script = "for how in '' setsid; do \
                    ($how sh -c 'echo $$ > orphan' &); \
                    while [ ! -s orphan ]; do sleep 0.02; done; \
                    while [ -e /proc/$(cat orphan) ]; do sleep 0.02; done; rm orphan; \
                  done; setsid sleep 1000 & exit 5";
    start(&place, &numbered(&place, 100, ""), script).wait().with_code(5);
    nothing_is_left(&place);
}
