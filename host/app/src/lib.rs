//! pipemill streams records out of pipes and files, through sandboxed WebAssembly decoders, into
//! shared memory that a training process reads in place.
//!
//! The way of a byte: [`source`] → [`channel`] (which shows it to [`decode`]) → [`ring`].

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
