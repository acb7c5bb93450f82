//! Keeps stored bytes of objects in S3 on a local disk, or the records of objects, for all channels
//! and processes of one user.
//!
//! The bytes of an object are divided into blocks of 1 MiB, and each block into pages of
//! 64 KiB. A block is a file, which holds some or all of its pages. Its name is the digest
//! of the object's address, state and block number, so an object that was written again has other
//! blocks. A file is complete when it gets its name, and it is never changed afterwards: to add
//! pages, a new file replaces it. Its header has a checksum of itself and one of each page, so what
//! a crash, a full disk or anything else has left is recognized when it is read.
//!
//! Readers take no lock. Everything that changes which files there are happens under the lock of
//! `usage`, where the sizes are counted: so the cache never exceeds its size, also with several
//! processes. Blocks that are being written have no name, and come on top.
//!
//! A block that is missing is claimed while it is fetched, so that others who need it wait
//! for it instead of fetching it, too.
//!
//! - `block_file`: the format of a block's file.
//! - `cached_bytes`: bytes of a block, which their reader reads into its own memory.
//! - `claims`: who fetches which block, in this process and in others.
//! - `counters`: what a channel's cache has done.
//! - `eviction`: which blocks are removed when the cache is full.
//! - `folder`: the cache's folder, which no other user may write to.
//! - `identity`: the identity of an object's state and of its blocks.
//! - `needs`: in which of its next epochs a channel needs blocks.
//! - `page_sums`: the checksum of bytes, made of those of their pages.
//! - `pending`: blocks that are still being stored when a source ends.
//! - `records`: the records of objects, as their decoder made them.
//! - `room`: room for a new block.
//! - `store`: reads and stores blocks.
//! - `usage`: the bytes that the blocks take, and the lock of the cache.

mod block_file;
mod cached_bytes;
mod claims;
mod counters;
mod eviction;
mod folder;
mod identity;
mod needs;
mod page_sums;
mod pending;
mod records;
mod room;
mod store;
mod usage;

use std::path::{Path, PathBuf};

use pipemill_types::trust::OpenFolder;

pub(crate) use block_file::{BLOCK, Facts, PAGE};
pub(crate) use cached_bytes::{CachedBytes, NotInCache};
pub(crate) use claims::Claim;
pub use counters::{CacheCounters, CacheCounts};
pub(crate) use folder::OpenError;
pub(crate) use identity::{CachedObject, NameKey, ObjectState};
pub(crate) use needs::{AHEAD, PAST, memory_of_needs};
pub(crate) use page_sums::with_page;
pub(crate) use pending::Pending;
pub use records::{NewRecords, RecordCache, RecordCaches, RecordsId, StoredCall, StoredRecords};
pub(crate) use store::{Cache, ChannelCache, not_written};

use crate::SourceError;

/// Bytes of memory that one request of a channel with a cache may take for it: a block that is
/// collected, and the pages that are added to it.
pub(crate) const CACHE_BYTES_OF_REQUEST: u64 = 2 * BLOCK;

/// The error of a folder that others may write to.
pub(crate) fn open_to_others(path: &Path, folder: OpenFolder) -> SourceError {
    let message = format!(
        "the folder of a cache must be one that only this user may write to (owner {}, mode \
         0755 or stricter); found {folder}",
        folder.euid
    );
    let remedy = if folder.uid == folder.euid {
        "take the others' permission to write away: chmod go-w; or name another `path`"
    } else {
        "another user has made it: name another `path` in `cache`"
    };
    SourceError::new(path.display().to_string(), message, remedy)
}

/// Where a cache is, and how large it may be.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CacheSettings {
    /// The folder. It is made if it is missing.
    pub path: PathBuf,
    /// Largest number of bytes of all blocks.
    pub size: u64,
}
