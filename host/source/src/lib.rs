//! Sources of bytes: FIFOs, files, S3, standard input. Each source delivers objects in order, and
//! of each object its bytes and its end.
//!
//! The feature `unstable` makes the parsers of manifests public for the fuzz targets. It promises
//! nothing to others.

#![forbid(unsafe_code)]

mod awaited;
mod chain;
pub mod container;
mod epoch_file;
mod error;
mod fifo;
mod file_identity;
mod file_system;
mod file_version;
mod files;
mod hidden;
mod inflate;
mod list_digest;
mod open;
mod order;
mod paths;
mod reading;
mod regular_file;
pub mod s3;
mod scheme;
mod selected;
mod sharding;
mod skip;
mod source;
pub mod split_mix;
mod start;
mod stop;
mod total_size;
mod wait;
mod walk;
mod wrap;

pub use awaited::{Awaited, AwaitedObject};
pub use error::SourceError;
pub use fifo::{FifoSettings, Fifos};
pub use files::{Files, Pattern};
pub use hidden::LeftOut;
pub use inflate::Compression;
pub use order::Order;
pub use paths::{Paths, stdin};
pub use reading::{ReadSettings, file_size};
pub use scheme::{OtherAddress, other_address};
pub use sharding::{Balance, Shard};
pub use skip::skip;
pub use source::{Input, Object, ReadOutcome, Source, SourceEvent};
pub use start::Start;
pub use stop::Stop;
pub use total_size::TotalSize;
