//! A channel: joins a source, a decoder and a sink, in the order of the way of a byte.
//!
//! `objects` takes the source's objects one by one, `mill` grinds one object, `space` is where its bytes lie and
//! `batch` what it fills, `sink` is where filled batches go (the ring, or standard output), `bad` is what happens to
//! bytes that can't be decoded.

mod bad;
mod batch;
mod failure;
mod mill;
mod objects;
mod sink;
mod space;

pub use bad::{OnError, Policy};
pub use batch::Batch;
pub use failure::Failure;
pub use objects::{Channel, Outcome};
pub use sink::{Halt, Sink};

use std::time::Duration;

/// What a channel did, and where its time went.
#[derive(Debug, Clone, Copy, Default)]
pub struct Totals {
    /// Bytes read, inflated.
    pub bytes: u64,
    /// Records granted.
    pub records: u64,
    /// Batches granted.
    pub batches: u64,
    /// Bad places passed over.
    pub bad_places: u64,
    /// Time spent reading the source, waiting for it included.
    pub source: Duration,
    /// Time spent decoding.
    pub decoder: Duration,
    /// Time spent waiting for memory that consumers hold, and handing over.
    pub consumer: Duration,
}
