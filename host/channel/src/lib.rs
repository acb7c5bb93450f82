//! A channel joins a source, a decoder and a sink.
//!
//! `channel` takes the source's objects one by one, and `pump` decodes them. `batch` holds the
//! records until they leave for the `sink`: the ring, standard output, or a `memory_sink`. With a
//! `shuffle`, a window between batch and sink changes the order of the records. `workers` decode
//! several objects at the same time. A `mix` draws its records from several channels. `errors`
//! decides about bytes that can't be decoded. `stats` counts what the channel does and notifies its
//! observers. `record_cache` keeps what the decoder makes. `resume` is the place to resume at,
//! `run_context` has the parts of a channel that runs, and `epoch_end` ends an epoch.
//! `record_bytes` measures a channel's first records.

#![forbid(unsafe_code)]

mod batch;
mod channel;
mod epoch_end;
mod errors;
pub mod memory_sink;
mod mix;
mod pump;
mod record_bytes;
mod record_cache;
mod resume;
mod run_context;
mod shuffle;
mod sink;
mod stats;
mod workers;

pub use batch::copy::dense::row_sizes;
pub use batch::copy::picked::PickedRecords;
pub use batch::{Batch, BatchStart};
pub use channel::{Channel, Outcome};
pub use epoch_end::changed_input;
pub use errors::failure::Failure;
pub use errors::policy::{ErrorPolicy, OnError, OnPluginError};
pub use mix::{Comparison, Mix, MixInput, Shards, Until, is_same_input};
pub use pump::background_inflate::BACKGROUND_INFLATE_BYTES;
pub use pump::decode_loop::MAX_FRAMING;
pub use pump::learn::Learning;
pub use record_bytes::RecordBytes;
pub use resume::Resume;
pub use shuffle::{Shuffle, Window};
pub use sink::{DeliveryCounts, Sink, SinkDelivery, SinkMemory, StopReason};
pub use stats::observer::{DecodeErrorLog, Event, Observer};
pub use stats::stages::{Stage, StageTimes};
pub use stats::{ChannelStats, DECODE_BUCKETS, EpochStats, StatsSnapshot};
pub use workers::{CopiedBytes, RecordOrder, Workers};
