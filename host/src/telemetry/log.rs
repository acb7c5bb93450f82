//! The log: lines on standard error.

use std::io::Write;

use env_logger::{Builder, Env};

/// Starts logging to standard error. `PIPEMILL_LOG` sets how much: `error`, `warn`, `info` (default),
/// `debug`, `trace`, or `off`.
pub fn start_log() {
    let env = Env::new().filter_or("PIPEMILL_LOG", "info");
    let mut builder = Builder::from_env(env);
    builder.format(|out, record| {
        let level = record.level().as_str().to_ascii_lowercase();
        writeln!(out, "pipemill: {level}: {}", record.args())
    });
    // Fails only if a program that uses this library has its own logger; then that one counts.
    let _ = builder.try_init();
}
