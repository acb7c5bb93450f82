//! Shared memory: sealed memfds, which the host may write ([`writable`]) and a consumer can only
//! read ([`readable`]). No other folder maps memory; the others see slices of it.
//!
//! No slice ever spans more than one slot: the host writes to one slot while others are read, and
//! memory that a `&[u8]` covers must not change.

pub(crate) mod column;
mod fork;
mod pages;
mod readable;
mod writable;

use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use pipemill_types::{HUGE_PAGE, OverBudget};

pub(crate) use readable::ReadMemory;
pub(crate) use writable::{DedicatedBuffer, RingMemory};

/// Bytes of a page.
const PAGE: usize = 4096;

/// The reason why shared memory can't be used.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The kernel refused. Most often the machine's or the container's memory limit is reached.
    #[error("{bytes} bytes of shared memory: {what} failed: {errno}")]
    System {
        /// The step that failed.
        what: &'static str,
        /// Size of the memory, in bytes; 0 if it is not known yet.
        bytes: usize,
        /// The kernel's error.
        errno: Errno,
    },
    /// A received descriptor is smaller than its message says, or may still shrink, so that reading
    /// it could kill this process.
    #[error("the shared memory received is {0}")]
    Unfit(String),
    /// The host may not take more memory for the channel.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
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
        let map = |at, flags| {
            // SAFETY: if an address is asked for, it is that of addresses which nobody else uses.
            unsafe { mmap(at, length, prot, MapFlags::MAP_SHARED | flags, &fd, 0) }
                .map_err(failed("mapping it", bytes))
        };
        if bytes < HUGE_PAGE {
            return Ok(Mapping { start: map(None, MapFlags::empty())?, bytes });
        }
        let area = Mapping::addresses(bytes.next_multiple_of(PAGE) + HUGE_PAGE)?;
        let at = NonZeroUsize::new(area.start.addr().get().next_multiple_of(HUGE_PAGE));
        let start = map(at, MapFlags::MAP_FIXED)?;
        Ok(area.cut_to(start, bytes))
    }

    /// Reserves addresses without memory.
    fn addresses(bytes: usize) -> Result<Mapping, MemoryError> {
        let length = NonZeroUsize::new(bytes).ok_or(Errno::EINVAL);
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
        // SAFETY: no address is asked for, so no existing mapping is replaced.
        let start = length
            .and_then(|length| unsafe { mmap_anonymous(None, length, ProtFlags::PROT_NONE, flags) })
            .map_err(failed("reserving addresses for it", bytes))?;
        Ok(Mapping { start, bytes })
    }

    /// The `bytes` bytes from `start` on, which are in this mapping. The rest is unmapped.
    fn cut_to(self, start: NonNull<c_void>, bytes: usize) -> Mapping {
        let before = start.addr().get() - self.start.addr().get();
        let used = bytes.next_multiple_of(PAGE);
        let after = self.bytes - before - used;
        // SAFETY: the range ends within the mapping.
        let rests = [(self.start, before), (unsafe { start.byte_add(used) }, after)];
        std::mem::forget(self);
        for (start, bytes) in rests.into_iter().filter(|(_, bytes)| *bytes > 0) {
            drop(Mapping { start, bytes });
        }
        Mapping { start, bytes }
    }

    /// Unmaps everything from `bytes` on, a multiple of [`PAGE`].
    fn cut(&mut self, bytes: usize) {
        let end = self.bytes.next_multiple_of(PAGE);
        if bytes < end {
            // SAFETY: the rest begins and ends within the mapping, at pages, and nobody has a
            // reference to it: this takes the mapping for itself.
            let start = unsafe { self.start.byte_add(bytes) };
            self.bytes = bytes;
            drop(Mapping { start, bytes: end - bytes });
        }
    }

    /// The address of the byte at `from`. `None` if the part is not within the mapping.
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
