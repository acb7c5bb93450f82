//! A channel joins a source, a decoder and a sink.
//!
//! `channel` takes the source's objects one by one; `object` begins one, and `decode_loop` reads and
//! decodes it.
//! `batch_builder` owns the memory into which bytes are read, and decides by the rule in `cut` when
//! a batch leaves for the `sink` (the ring, or standard output). `error_policy` says what happens
//! to bytes that can't be decoded, and `quarantine` keeps them. With a `shuffle`, a window between
//! builder and sink changes the order of the records. `workers` decode several objects at the same
//! time. A `mix` draws its records from several channels. `monitor` counts what the channel does in
//! its `stats` and tells the channel's observers.

#![forbid(unsafe_code)]

mod batch;
mod batch_builder;
mod beside;
mod block_memory;
mod channel;
mod copied_run;
mod cut;
mod decode_loop;
mod dense;
mod density;
mod error_policy;
mod failure;
mod field_names;
mod learn;
mod log_fields;
mod mix;
mod monitor;
mod object;
mod observer;
mod parts;
mod picked;
mod quarantine;
mod resume;
mod section_end;
mod shuffle;
mod sink;
mod stage_timer;
mod stats;
mod workers;

pub use batch::{Batch, BatchStart};
pub use channel::{Channel, Outcome, changed_input};
pub use decode_loop::MAX_FRAMING;
pub use error_policy::{ErrorPolicy, OnError, OnPluginError};
pub use failure::Failure;
pub use learn::Learning;
pub use mix::{Comparison, Mix, MixInput, Until, is_same_input};
pub use observer::{DecodeErrorLog, Event, Observer};
pub use resume::Resume;
pub use shuffle::{Shuffle, Window};
pub use sink::{DeliveryCounts, Sink, StopReason};
pub use stage_timer::Stage;
pub use stats::{ChannelStats, DECODE_BUCKETS, EpochStats, StatsSnapshot};
pub use workers::{RecordOrder, Workers};
