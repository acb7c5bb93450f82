//! Signals are handed on to all of the command's group, and only some of them end the run.

use nix::sys::signal::Signal::{self, *};
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::until;

use super::{has_no_zombie, line, nothing_is_left, numbered, start};

/// Prints each signal that comes, and ends at the last one.
fn script(signals: &[Signal], last: Signal) -> String {
    let name = |signal: &Signal| signal.as_str().trim_start_matches("SIG").to_owned();
    let traps: Vec<_> =
        signals.iter().map(|one| format!("trap 'echo {0} >> got' {0}; ", name(one))).collect();
    format!(
        "{}trap 'exit 7' {}; echo > ready; while :; do sleep 0.02; done",
        traps.concat(),
        name(&last)
    )
}

#[test]
fn signals_that_do_not_end_the_run_are_handed_on() {
    let place = TestDir::new();
    let handed_on = [SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT];
    let process = start(&place, &numbered(&place, 100, ""), &script(&handed_on, SIGTERM));
    line(&place.path("ready"));
    let mut expected = String::new();
    for signal in handed_on {
        process.signal(signal);
        expected.push_str(&format!("{}\n", signal.as_str().trim_start_matches("SIG")));
        let got = || std::fs::read_to_string(place.path("got")).unwrap_or_default();
        until(&format!("{signal} comes to the command"), || got() == expected);
    }
    has_no_zombie(process.pid());
    process.signal(SIGTERM);
    process.wait().with_code(7).says(&["stopping: SIGTERM; the command has 110s to end"]);
    nothing_is_left(&place);
}

#[test]
fn the_signal_that_ends_the_run_reaches_the_command() {
    for signal in [SIGTERM, SIGINT] {
        let place = TestDir::new();
        let process = start(&place, &numbered(&place, 100, ""), &script(&[], signal));
        line(&place.path("ready"));
        process.signal(signal);
        process.wait().with_code(7);
        nothing_is_left(&place);
    }
}

/// A shell that has started the trainer and waits for it does not hand on what it gets.
#[test]
fn the_commands_children_get_the_signal_too() {
    let place = TestDir::new();
    let child =
        "trap 'echo saved > saved; exit 0' TERM; echo > ready; while :; do sleep 0.02; done";
    let script = format!("sh -c \"{child}\"; exit 9");
    let process = start(&place, &numbered(&place, 100, ""), &script);
    line(&place.path("ready"));
    process.signal(SIGTERM);
    // The signal ends the shell itself, and the child has the time to save its work.
    process.wait().with_code(128 + SIGTERM as i32);
    assert_eq!(line(&place.path("saved")), "saved");
    nothing_is_left(&place);
}

/// Suspended with the host, as Ctrl-Z does, and woken with it.
#[test]
fn the_command_is_suspended_and_resumed_with_the_host() {
    let place = TestDir::new();
    let config = numbered(&place, 100, "");
    // No loop of short children: a shell whose child is stopped between vfork and exec waits for
    // that, and is never stopped itself. It also receives no signal before `sleep` runs: the
    // shell's child handles a signal between fork and exec with the shell's handler, and forgets
    // it; then the host waits for a `sleep` that nobody ended.
    let script = "trap 'exit 7' TERM; sleep 1000 & \
                  until read -r name < /proc/$!/comm && [ $name = sleep ]; do :; done; \
                  echo $$ > pid; wait";
    let process = start(&place, &config, script);
    let command = super::pid(&place.path("pid"));
    let state = |pid| super::state(pid).map(|(state, _)| state);
    process.signal(SIGTSTP);
    until("both stop", || state(command) == Some('T') && state(process.pid()) == Some('T'));
    process.signal(SIGCONT);
    until("the command goes on", || state(command) != Some('T'));
    process.signal(SIGTERM);
    process.wait().with_code(7);
}
