//! What the end-to-end tests share: hosts as processes, consumers, and what [`pipemill_testing`] has.

pub mod consumer;
pub mod host;

use std::path::PathBuf;

pub use pipemill_testing::{
    BAD_PLUGIN, PATIENCE, bucket, gate, inputs, nasty, process, skip_test, test_dir, tiny, until,
};

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
