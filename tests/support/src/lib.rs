//! What the end-to-end tests share: inputs of each format, hosts as processes, consumers.

pub mod consumer;
pub mod gate;
pub mod host;
pub mod inputs;
pub mod nasty;
pub mod process;
pub mod test_dir;
pub mod tiny;

use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Longer than anything takes on a slow and busy machine: who waits so long waits in vain.
pub const PATIENCE: Duration = Duration::from_secs(120);

pub use pipemill_s3_test::skips::skip_test;

/// Waits until something is so.
///
/// # Panics
/// If it is not in [`PATIENCE`].
#[track_caller]
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The decoder that misbehaves, as a file.
pub const BAD_PLUGIN: &str = env!("BAD_PLUGIN");

/// The command under test: what `PIPEMILL` names, or the one that was built with the tests.
#[macro_export]
macro_rules! pipemill {
    () => {
        std::env::var_os("PIPEMILL")
            .unwrap_or_else(|| env!("CARGO_BIN_EXE_pipemill-under-test").into())
    };
}

/// The Python that has the reader, if the tests were told of one; if not, says that a test is left out.
pub fn python(test: &str) -> Option<PathBuf> {
    let python = std::env::var_os("PIPEMILL_PYTHON").map(PathBuf::from);
    if python.is_none() {
        skip_test(test, "PIPEMILL_PYTHON, a Python with the package `pipemill`");
    }
    python
}

/// The consumer that runs as a process of its own, see `src/bin/consumer.rs`.
#[macro_export]
macro_rules! consumer {
    () => {
        env!("CARGO_BIN_EXE_consumer")
    };
}
