//! `pipemill run` as a container's entrypoint. Whatever receives a signal, dies or fails, the
//! command is told and has time to end. The exit code says what happened, and nothing is left
//! behind.

mod command;
mod failures;
mod group;
mod moments;
mod process_one;
mod read_only_root;
mod sagemaker;
mod signals;
mod terminal;

use std::path::Path;
use std::process::Command;

use nix::unistd::Pid;
use pipemill_tests::host;
use pipemill_tests::process::{Process, state};
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{pipemill, skip_test, until};

/// The content of a file, once it has a whole line.
fn line(file: &Path) -> String {
    let mut line = String::new();
    until(&format!("{} has a line", file.display()), || {
        line = std::fs::read_to_string(file).unwrap_or_default();
        line.ends_with('\n')
    });
    line.trim_end().to_owned()
}

fn pid(file: &Path) -> Pid {
    Pid::from_raw(line(file).parse().expect("a number"))
}

/// A channel of numbered records of eight digits each, in three epochs; `top`: keys at the top of
/// the file.
fn numbered(place: &TestDir, records: usize, top: &str) -> String {
    let lines: Vec<_> =
        (0..records).map(|number| format!("{number:08}{}", "x".repeat(192))).collect();
    let file = place.write("train.txt", lines.join("\n"));
    format!(
        "{top}\n[[channel]]\nname = 'train'\ndecoder = 'lines'\n\
         source = {{ file = {file:?}, epochs = 3 }}\n[channel.ring]\nslots = 8\nslot_size = '64KiB'\n"
    )
}

/// The host with a script as its command, in the test's folder.
fn shell(place: &TestDir, config: &str, script: &str) -> Command {
    let mut command = host::command(&pipemill!(), place, config);
    command.args(["--", "sh", "-c", script]).current_dir(place.folder());
    command
}

fn start(place: &TestDir, config: &str, script: &str) -> Process {
    Process::start(&mut shell(place, config, script))
}

fn processes() -> impl Iterator<Item = Pid> {
    let entries = std::fs::read_dir("/proc").expect("Linux has it");
    entries.filter_map(|entry| Some(Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?)))
}

/// Nothing is left: no socket, and no process whose environment has its path.
#[track_caller]
fn nothing_is_left(place: &TestDir) {
    assert!(place.names("run").is_empty(), "left: {:?}", place.names("run"));
    let socket = format!("PIPEMILL_SOCKET={}", place.text("run/host.sock"));
    let knows = |pid: &Pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == socket.as_bytes())
    };
    let left: Vec<_> = processes().filter(knows).collect();
    assert!(left.is_empty(), "left: {left:?}");
}

/// The process has no child that it has not waited for.
#[track_caller]
fn has_no_zombie(parent: Pid) {
    let zombie = |pid: &Pid| state(*pid) == Some(('Z', parent));
    until("it waits for its children", || !processes().any(|pid| zombie(&pid)));
}

/// Whether a command succeeds here: some users lack the rights.
fn may(test: &str, words: &[&str]) -> bool {
    let done = Command::new(words[0]).args(&words[1..]).output();
    let may = done.is_ok_and(|done| done.status.success());
    if !may {
        skip_test(test, &format!("`{}` to work", words.join(" ")));
    }
    may
}
