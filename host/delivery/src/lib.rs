//! Delivers the batches of a channel into its ring.

#![forbid(unsafe_code)]

mod ring_sink;
mod rounds;

pub use ring_sink::{RingSink, error_report};
