//! Memory that chunks lie in, and the file that others may map it from.

use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Bytes of a huge page. Memory has huge pages only where its address is a multiple of this, and in
/// a mapping of a file, only where the place in the file is one, too.
pub const HUGE_PAGE: usize = 2 << 20;

/// Memory that chunks lie in.
pub trait ChunkMemory: AsRef<[u8]> + Send + Sync {
    /// The file whose pages the memory is, if the file can't shrink. `None` for memory that only
    /// this process has.
    fn shared(&self) -> Option<SharedPart<'_>> {
        None
    }
}

/// Where in a file the first byte of memory lies.
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
}

impl ChunkMemory for Vec<u8> {}

impl ChunkMemory for Arc<[u8]> {}
