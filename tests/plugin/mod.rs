//! Commands for authors of plugins: make, build, inspect, test, time and compile.

mod cache;
mod conformance;
mod frozen;
mod guide;
mod inspect;
mod new;
mod shelf;

use std::process::Command;
use std::time::Duration;

use pipemill_tests::pipemill;
use pipemill_tests::process::{Ended, Process};
use pipemill_tests::test_dir::TestDir;

/// Runs `pipemill plugin …` in the test's folder, with a cache of its own.
fn plugin(place: &TestDir, args: &[&str]) -> Ended {
    run(place, &[&["plugin"], args].concat())
}

/// Compiling an interpreter takes minutes on a slow machine.
const COMPILING: Duration = Duration::from_secs(900);

fn run(place: &TestDir, args: &[&str]) -> Ended {
    let mut command = Command::new(pipemill!());
    command.current_dir(place.folder()).args(args).stdin(std::process::Stdio::null());
    command.env("PIPEMILL_CACHE", place.path("cache")).env("PIPEMILL_LOG", "debug");
    // The builds of these tests have a folder of their own.
    command.env("CARGO_TARGET_DIR", place.path("target"));
    Process::start(&mut command).wait_for(COMPILING)
}
