//! The application around the decoding: command line, configuration, `pipemill run`, telemetry.
//!
//! The bytes go through the other crates: `pipemill_source` reads them, `pipemill_channel` passes
//! them to a decoder of `pipemill_decode`, and `pipemill_ring` is the shared memory that a training
//! process reads.
//!
//! The feature `unstable` makes [`ring_sink`] public for the benches, `parsers` for the fuzz
//! targets, and [`in_process`] for tests. It promises nothing to others.

pub mod cli;
mod config;
mod detect;
mod doctor;
mod factory;
mod feed;
mod json;
mod memory_sink;
#[cfg(feature = "unstable")]
pub mod parsers;
mod plugin_tools;
#[cfg(not(feature = "unstable"))]
mod ring_sink;
#[cfg(feature = "unstable")]
pub mod ring_sink;
mod rounds;
mod run;
mod sagemaker;
mod telemetry;

#[cfg(feature = "unstable")]
pub use run::in_process;
