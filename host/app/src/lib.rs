//! The application around the decoding: command line, configuration, `pipemill run`, telemetry.
//!
//! The bytes go through the other crates: `pipemill_source` reads them, `pipemill_channel` passes
//! them to a decoder of `pipemill_decode`, and `pipemill_ring` is the shared memory that a training
//! process reads.

pub mod cli;
pub mod config;
pub mod factory;
pub mod feed;
pub mod json;
pub mod plugin_tools;
pub mod ring_sink;
pub mod run;
pub mod sagemaker;
pub mod telemetry;
