//! S3 as a source: objects by prefix, by name or by manifest, prefetched in parts.
//!
//! The modules in the order in which an object passes them: `list` and `manifest` find objects and
//! make an `entry` of each (`list_progress` says what stands for the list, `pages` that it ends),
//! `plan` orders them and gets what is not known of each `target`, `prefetch` starts requests ahead
//! of the reader as far as the `window` allows, `fetch` reads one part at a `pace` and retries
//! after errors, `body` is where the channel's thread reads, and `objects` is the source. `access`
//! and `http` make the SDK's client, which `runtime` shares among channels. `error` and `retry`
//! classify errors and repeat requests, `checksum` verifies the bytes.
//!
//! Requests run on threads of their own. The channel's thread copies bytes from the responses'
//! bodies into its slot: this is the only copy. Dropping a source aborts its requests.
//!
//! - `address`: addresses of objects in S3, written as `s3://bucket/key`.
//! - `limit`: limits the bodies of responses that the SDK reads into memory as a whole: lists,
//!   errors, and credentials.
//! - `listing`: lists what a channel would read in an epoch, without reading it.
//! - `settings`: settings of a channel's S3 source.
//! - `wait`: how a channel's thread waits for tasks of the runtime.

mod access;
mod address;
mod body;
mod checksum;
mod entry;
mod error;
mod fetch;
mod http;
mod limit;
mod list;
mod list_progress;
mod listing;
mod manifest;
mod objects;
mod pace;
mod pages;
mod plan;
mod prefetch;
mod retry;
mod runtime;
mod settings;
mod target;
mod wait;
mod window;

pub use access::{Access, Addressing, check_endpoint};
pub use address::Address;
pub use listing::{ListedObject, list_objects};
#[doc(hidden)]
pub use manifest::{augmented_manifest, manifest};
pub use objects::Objects;
pub use runtime::{LazyS3Runtime, S3Runtime, budget_within, default_budget};
pub use settings::{
    CONNECTION_RATE, DEFAULT_CONCURRENCY, DEFAULT_PART_SIZE, OnChange, Selection, Settings,
};
