//! The index of a channel's objects: which objects there are, in which state, how many records each
//! of them has, and at which places decoding can begin.
//!
//! - `build`: reads all objects of a channel once, and makes their index.
//! - `columns`: reads and writes the columns of the file.
//! - `error`: errors of index files.
//! - `file`: the file: Parquet, with a seal that shows damage.
//! - `header`: the facts about the whole index.
//! - `list`: the objects as a list that sources read.
//! - `objects`: the objects and their places, in memory.

#![forbid(unsafe_code)]

mod build;
mod columns;
mod error;
mod file;
mod header;
mod list;
mod objects;

pub use build::{BuildSettings, build};
pub use error::IndexError;
pub use header::{Header, ValueLengths};
pub use list::IndexedList;
pub use objects::{IndexedObject, Objects, Place};

/// An index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// The facts about all of it.
    pub header: Header,
    /// Its objects.
    pub objects: Objects,
}
