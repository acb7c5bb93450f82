//! The command line, as a person types it.

mod cat;
mod compressed;
mod config;
mod detect;
mod doctor;
mod golden;
mod names;
mod on_error;
mod other_formats;
mod tables;

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;

use pipemill_tests::pipemill;
use pipemill_tests::process::{Ended, Process, finish};
use pipemill_tests::test_dir::TestDir;
use serde_json::Value;

/// The command in a folder, as if it had been found by its own name.
fn command(place: &TestDir, args: &[&str]) -> Command {
    let mut command = Command::new(pipemill!());
    command.arg0("pipemill").args(args).current_dir(place.folder()).stdin(Stdio::null());
    command.env_remove("PIPEMILL_LOG").env("COLUMNS", "100");
    command
}

fn run(place: &TestDir, args: &[&str]) -> Ended {
    finish(&mut command(place, args))
}

/// The same, with this on its standard input.
fn run_with(place: &TestDir, args: &[&str], input: &[u8]) -> Ended {
    let (reader, mut writer) = std::io::pipe().expect("a pipe can be made");
    let input = input.to_owned();
    // The command may exit before it has read all of it.
    thread::spawn(move || drop(writer.write_all(&input)));
    Process::start(command(place, args).stdin(reader)).wait()
}

/// The fields of the printed records.
fn fields(text: &str) -> Vec<Value> {
    let object = |line| serde_json::from_str::<Value>(line).expect("a JSON object a line");
    text.lines().map(|line| object(line)["fields"].clone()).collect()
}
