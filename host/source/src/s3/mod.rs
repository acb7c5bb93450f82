//! S3 as a source: objects by prefix, by name or by manifest, prefetched in parts.
//!
//! The modules in the order in which an object passes them: `list` and `manifest` find objects and
//! make an `entry` of each (`list_progress` identifies the list, `pages` makes sure that it ends),
//! `plan` orders them and completes what is known of each `target`, `prefetch` starts requests
//! ahead of the reader within the limits of the `window`, `fetch` reads one part, checks its `pace`
//! and retries after errors, each `frame` of it goes to `body`, which delivers bytes to the
//! channel's thread, and `objects` is the source. `access` and `http` make the SDK's client, which
//! `runtime` shares among channels. `error` and `retry` classify errors and repeat requests,
//! `checksum` verifies the bytes.
//!
//! Requests run on separate threads. The channel's thread copies bytes from the responses' bodies
//! into its slot, and reads the files of the cache there: this is the only copy. Dropping a source
//! aborts its requests.
//!
//! - `address`: addresses of objects in S3, written as `s3://bucket/key`.
//! - `cached`: reads ranges of objects through the cache on a local disk.
//! - `foresight`: tells the cache in which epochs a channel needs which blocks.
//! - `inventory`: lists objects by an S3 Inventory.
//! - `kept_list`: the list of a channel's prefixes, kept for its later epochs.
//! - `limit`: limits the bodies of responses that the SDK reads into memory as a whole: lists,
//!   errors, and credentials.
//! - `listing`: lists the objects that a channel would read in an epoch, without reading them.
//! - `node_list`: a list that the hosts of one job on a machine share.
//! - `settings`: settings of a channel's S3 source.
//! - `upload`: writes an object as a whole or not at all.
//! - `wait`: how a channel's thread waits for tasks of the runtime.
//! - `whole`: reads an object as a whole into memory.

mod access;
mod address;
mod body;
mod cached;
mod checksum;
mod entry;
mod error;
mod fetch;
mod foresight;
mod frame;
mod http;
mod inventory;
mod kept_list;
mod limit;
mod list;
mod list_progress;
mod listing;
mod manifest;
mod node_list;
mod objects;
mod pace;
mod pages;
mod plan;
mod prefetch;
mod retry;
mod runtime;
mod settings;
mod target;
mod upload;
mod wait;
mod whole;
mod window;

pub use access::{Access, Addressing, check_endpoint};
pub use address::Address;
pub(crate) use error::causes;
pub(crate) use http::connector;
pub use inventory::SharedInventories;
pub use listing::{ListedObject, list_objects};
#[doc(hidden)]
pub use manifest::{augmented_manifest, manifest};
pub use objects::Objects;
pub use runtime::{LazyS3Runtime, S3Runtime, budget_within, default_budget};
pub use settings::{
    CONNECTION_RATE, DEFAULT_CONCURRENCY, DEFAULT_PART_SIZE, OnChange, Selection, Settings,
};
pub use upload::write_object;
pub use whole::{WholeObject, read_object, read_object_within};
