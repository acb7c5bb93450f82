//! A channel: joins a source, a decoder and a sink, in the order of the way of a byte.
//!
//! `objects` takes the source's objects one by one, `mill` grinds one object, `space` is where its bytes lie and
//! `batch` what it fills, `sink` is where filled batches go (the ring, or standard output), `bad` is what happens to
//! bytes that can't be decoded. `meter` counts what is done, and `clock` where the time goes;
//! a `witness` hears of it.

mod bad;
mod batch;
mod clock;
mod failure;
mod log_fields;
mod meter;
mod mill;
mod objects;
mod sink;
mod space;
mod witness;

pub use bad::{OnError, Policy};
pub use batch::Batch;
pub use clock::Stage;
pub use failure::Failure;
pub use meter::{DECODE_BUCKETS, Epoch, Meter, Totals};
pub use objects::{Channel, Outcome};
pub use sink::{Halt, Sink};
pub use witness::{Act, Witness};
