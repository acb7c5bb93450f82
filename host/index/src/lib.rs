//! The index of a channel's objects: which objects there are, in which state, how many records each
//! of them has, and at which places decoding can begin.
//!
//! - `build`: reads all objects of a channel once, and makes their index.
//! - `by_plan`: objects that are counted by their plans.
//! - `columns`: reads and writes the columns of the file.
//! - `error`: errors of index files.
//! - `file`: the file: Parquet, with a seal that shows damage.
//! - `header`: the facts about the whole index.
//! - `list`: the objects as a list that sources read.
//! - `listing`: the objects of sources, as a listing has them.
//! - `merge`: merges the indexes of all parts of a source.
//! - `new_file`: a file that is written as a whole or not at all.
//! - `noting`: a source that notes the objects that it gives.
//! - `objects`: the objects and their places, in memory.
//! - `progress`: what a build has found so far, in a file, for the one that goes on after it.
//! - `places`: looks at the records of all objects, for their numbers and places.
//! - `root`: the folder that the objects lie in.
//! - `saver`: saves what a build has found every so often.
//! - `storage`: reads and writes indexes in files and in S3.

#![forbid(unsafe_code)]

mod build;
mod by_plan;
mod columns;
mod error;
mod file;
mod header;
mod list;
mod listing;
mod merge;
mod new_file;
mod noting;
mod objects;
mod places;
mod progress;
mod root;
mod saver;
mod storage;

pub use build::{BuildSettings, build};
pub use error::IndexError;
pub use header::{Header, Part, ValueLengths};
pub use list::IndexedList;
pub use listing::{find_objects, list_sources};
pub use objects::{IndexedObject, Objects, Place};
pub use progress::{BuildKey, Progress};
pub use storage::{Storage, Version};

/// An index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// The facts about all of it.
    pub header: Header,
    /// Its objects.
    pub objects: Objects,
}
