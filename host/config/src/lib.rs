//! The configuration file: [`parse`] reads TOML and finds all faults at once; [`show`] writes TOML,
//! and [`schema`] a JSON Schema for editors.
//!
//! Each file uses only files that come before it in this list: `digits`, `values`, `vars` (texts),
//! `key`, `keys` (the keys with their ranges), `fault`, `skip_list`, `model`, `presets` (plain
//! data), `document`, `read` (the open file), `rank`, `s3_source`, `source`, `channel` (parts of
//! it), `parse`, `named_decoders`, `show`, `schema`.
//!
//! - `indexed`: the facts that an index knows of a channel, and the length of an epoch that follows
//!   from them.
//! - `mix`: a mix: a channel whose source is other channels of the file.
//! - `shards`: the rules for shards, and the channel that reads them.
//! - `sagemaker`: Amazon SageMaker's contract with a training container: the files that describe
//!   the job, and the file that says why the job failed.

#![forbid(unsafe_code)]

mod channel;
mod digits;
mod document;
mod fault;
mod indexed;
mod key;
mod keys;
mod mix;
mod model;
mod named_decoders;
mod parse;
mod presets;
mod rank;
mod read;
mod s3_source;
pub mod sagemaker;
mod schema;
mod shards;
mod show;
mod skip_list;
mod source;
#[cfg(test)]
mod tests;
mod values;
mod vars;

pub use channel::is_channel_name;
pub use fault::{Fault, TextPosition};
pub use indexed::Indexed;
pub use model::{
    Channel, Config, DecoderRef, IndexSource, IndexedData, Listen, Mix, MixInput, Shuffle, Source,
    WorkerCount, fifo_source,
};
pub use named_decoders::named_decoders;
pub use parse::{parse, parse_over, parse_to_feed};
pub use presets::{Preset, Presets, Rank};
pub use schema::schema;
pub use show::{quote, show};
pub use skip_list::{SkipList, record_range};
pub use values::{parse_duration, parse_size, show_duration, show_size};
