//! Shared memory: sealed memfds, which the host may write ([`writable`]) and a consumer can only
//! read ([`readable`]). No other folder maps memory; the others see slices of it.
//!
//! No slice ever spans more than one slot: the host writes to one slot while others are read, and
//! memory that a `&[u8]` covers must not change.

pub(crate) mod column;
mod fork;
mod readable;
mod writable;

use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use nix::errno::Errno;
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap, munmap};

pub(crate) use readable::ReadMemory;
pub(crate) use writable::{DedicatedBuffer, RingMemory};

/// Why shared memory can't be used.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The kernel refused. Most often the machine's or the container's memory limit is reached.
    #[error("{bytes} bytes of shared memory: {what} failed: {errno}")]
    System {
        /// The step that failed.
        what: &'static str,
        /// Size of the memory, in bytes; 0 where it is not known yet.
        bytes: usize,
        /// The kernel's error.
        errno: Errno,
    },
    /// A received descriptor is smaller than its message says, or may still shrink, so that reading
    /// it could kill this process.
    #[error("the shared memory received is {0}")]
    Unfit(String),
}

fn failed(what: &'static str, bytes: usize) -> impl FnOnce(Errno) -> MemoryError {
    move |errno| MemoryError::System { what, bytes, errno }
}

/// A shared mapping of a whole memfd; unmapped when dropped.
#[derive(Debug)]
struct Mapping {
    start: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: a mapping is plain memory that belongs to the process, not to a thread. The types below
// decide which code may write which part of it.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` alone gives no access.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(fd: impl AsFd, bytes: usize, prot: ProtFlags) -> Result<Mapping, MemoryError> {
        let length = NonZeroUsize::new(bytes)
            .ok_or_else(|| MemoryError::Unfit("empty: at least one byte is needed".into()))?;
        // SAFETY: no address is asked for, so no existing mapping is replaced.
        let start = unsafe { mmap(None, length, prot, MapFlags::MAP_SHARED, fd, 0) }
            .map_err(failed("mapping it", bytes))?;
        Ok(Mapping { start, bytes })
    }

    /// Makes the pages of this range present, so that writing to them causes no page faults. Linux
    /// before 5.14 can't do this.
    fn populate(&self, from: usize, bytes: usize) -> Result<(), Errno> {
        assert!(from <= self.bytes && bytes <= self.bytes - from);
        // SAFETY: the range lies within the mapping, and its contents do not change.
        unsafe { madvise(self.start.byte_add(from), bytes, MmapAdvise::MADV_POPULATE_WRITE) }
    }

    /// The address of the byte at `from`. None where the part is not within the mapping.
    fn part(&self, from: usize, bytes: usize) -> Option<*mut u8> {
        let fits = from <= self.bytes && bytes <= self.bytes - from;
        // SAFETY: the address is within the mapping, or right after it.
        fits.then(|| unsafe { self.start.cast::<u8>().add(from).as_ptr() })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the one that was mapped, and no borrow of it lives any more.
        // A failure would leak address space; there is no remedy.
        let _ = unsafe { munmap(self.start, self.bytes) };
    }
}
