//! pipemill streams records out of pipes and files, through sandboxed WebAssembly decoders, into
//! shared memory that a training process reads in place.
//!
//! The way of a byte: [`source`] → [`channel`] (which shows it to [`decode`]) → [`ring`].

pub mod channel;
pub mod cli;
pub mod config;
pub mod container;
pub mod decode;
pub mod feed;
mod hex;
pub mod json;
pub mod kit;
pub mod ring;
pub mod run;
pub mod sagemaker;
pub mod source;
pub mod stop;
mod suggest;
pub mod telemetry;
