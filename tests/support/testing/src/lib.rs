//! What tests share that use the host as a library, and those that start it: inputs of each format,
//! folders, child processes, decoders that misbehave. It depends on no crate of the host.

pub mod bucket;
pub mod gate;
pub mod inputs;
pub mod nasty;
pub mod process;
pub mod test_dir;
pub mod tiny;

use std::time::{Duration, Instant};

/// Longer than anything takes on a slow and busy machine. A test that waits longer fails.
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
