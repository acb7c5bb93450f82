//! The host's reports about itself, while it runs and at its end.

mod bottleneck;
mod log;
mod progress;
mod slow_clients;
mod unread;
mod waits;

use std::process::Command;

use pipemill_tests::pipemill;
use pipemill_tests::test_dir::TestDir;

/// The command in this folder, which also has its sockets.
fn command(place: &TestDir, args: &[&str]) -> Command {
    let mut command = Command::new(pipemill!());
    command.args(args).current_dir(place.folder()).env("XDG_RUNTIME_DIR", place.folder());
    command
}
