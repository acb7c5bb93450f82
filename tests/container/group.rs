//! Processes that the command starts: its group ends with it, the host waits for orphans, and they
//! end when the host dies.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::until;

use super::{has_no_zombie, line, nothing_is_left, numbered, pid, start, state};

#[test]
fn what_is_left_of_the_commands_group_is_ended() {
    let place = TestDir::new();
    let child = "echo $PPID > ready; exec sleep 1000";
    let script = format!("sh -c '{child}' & while [ ! -s ready ]; do sleep 0.02; done; exit 3");
    start(&place, &numbered(&place, 100, ""), &script).wait().with_code(3);
    nothing_is_left(&place);
}

#[test]
fn a_process_of_the_commands_group_that_ignores_sigterm_is_killed() {
    let place = TestDir::new();
    let child = "trap \"\" TERM; echo > ready; while :; do sleep 0.02; done";
    let script = format!("sh -c '{child}' & while [ ! -s ready ]; do sleep 0.02; done; exit 0");
    let config = numbered(&place, 100, "stop_timeout = '50ms'");
    start(&place, &config, &script).wait().with_code(0).says(&["killing it"]);
    nothing_is_left(&place);
}

/// Signals are sent to the group's number. It is the command's own, so the command stays a zombie
/// until the others have ended: otherwise the kernel could give the number to another process,
/// which would get the signals.
#[test]
fn the_commands_number_is_its_groups_until_the_last_has_ended() {
    let place = TestDir::new();
    let child = r#"trap "" TERM; leader=$PPID; echo $PPID > ready
        while [ "$(cut -d " " -f 4 /proc/$$/stat)" = $leader ]; do sleep 0.02; done
        (sh -c "echo \$\$ > orphan" &)
        while [ ! -s orphan ] || [ -e /proc/$(cat orphan) ]; do sleep 0.02; done
        if [ -e /proc/$leader ]; then echo kept > number; else echo gone > number; fi"#;
    let script = format!("trap 'exit 3' TERM; sh -c '{child}' & while :; do sleep 0.02; done");
    let process = start(&place, &numbered(&place, 100, "stop_timeout = '24h'"), &script);
    line(&place.path("ready"));
    process.signal(Signal::SIGTERM);
    process.wait().with_code(3);
    assert_eq!(line(&place.path("number")), "kept");
    nothing_is_left(&place);
}

/// In a group of its own, it is nobody's child but the host's.
#[test]
fn an_orphan_is_waited_for() {
    let place = TestDir::new();
    let script = "(setsid sh -c 'echo $$ > orphan; exec sleep 1000' &); \
                  while [ ! -e done ]; do sleep 0.02; done; exit 6";
    let process = start(&place, &numbered(&place, 100, ""), script);
    let orphan = pid(&place.path("orphan"));
    until("the host has it", || state(orphan).is_some_and(|(_, parent)| parent == process.pid()));
    kill(orphan, Signal::SIGKILL).expect("it is there, and ours");
    until("it is waited for", || state(orphan).is_none());
    has_no_zombie(process.pid());
    place.write("done", "");
    process.wait().with_code(6);
}

#[test]
fn many_orphans_are_waited_for() {
    let place = TestDir::new();
    let script = "for i in 1 2 3 4 5 6 7 8 9 10; do (true &); (setsid true &); done; echo > ready; \
                  while [ ! -e done ]; do sleep 0.02; done";
    let process = start(&place, &numbered(&place, 100, ""), script);
    line(&place.path("ready"));
    has_no_zombie(process.pid());
    place.write("done", "");
    process.wait().with_code(0);
    nothing_is_left(&place);
}

#[test]
fn a_host_that_is_killed_takes_the_command_with_it() {
    let place = TestDir::new();
    let script = "echo $$ > command; exec sleep 1000";
    let process = start(&place, &numbered(&place, 100, ""), script);
    let command = pid(&place.path("command"));
    process.signal(Signal::SIGKILL);
    assert_eq!(process.wait().signal, Some(Signal::SIGKILL as i32));
    // Its new parent waits for it, at a time of its own choice.
    let is_dead = |pid: Pid| state(pid).is_none_or(|(state, _)| state == 'Z');
    until("the command ends", || is_dead(command));
}
