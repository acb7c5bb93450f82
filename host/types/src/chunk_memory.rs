//! Memory for chunks, and the file from which other processes may map it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Bytes of a huge page. Memory has huge pages only if its address is a multiple of this; in a
/// mapping of a file, the offset in the file must be one, too.
pub const HUGE_PAGE: usize = 2 << 20;

/// Memory for chunks.
pub trait ChunkMemory: AsRef<[u8]> + Send + Sync {
    /// The file whose pages the memory is, if the file can't shrink. `None` for memory that only
    /// this process maps.
    fn shared(&self) -> Option<SharedPart<'_>> {
        None
    }
}

/// The place in a file of the first byte of memory.
#[derive(Clone, Copy, Debug)]
pub struct SharedPart<'a> {
    /// The file.
    pub file: &'a Arc<SharedFile>,
    /// Bytes of the file before the memory.
    pub offset: u64,
}

/// A file of shared memory.
#[derive(Debug)]
pub struct SharedFile {
    /// Its descriptor.
    pub fd: OwnedFd,
    /// Its size in bytes.
    pub bytes: u64,
    /// Bytes up to which its owner will enlarge it, as far as is known.
    pub most: u64,
}

impl ChunkMemory for Vec<u8> {}

impl ChunkMemory for Arc<[u8]> {}
