//! Linear memory of decoders. The host reserves it itself, so that it can map the pages of a file
//! into it.
//!
//! **Why this is safe.** The pages are mapped privately, with copy on write, over memory that the
//! decoder has already. So whatever reads or writes them, the decoder or the host for it, finds
//! memory that can be read and written:
//!
//! - A decoder reads what the file has: the memory of its own channel, and of no other.
//! - A decoder that writes gets a copy of the page, of its own. The file never changes.
//! - The kernel kills a process that reads pages beyond the end of a file. So only a file that is
//!   sealed against shrinking is mapped, and no more of it than it has.
//! - The mapping lies inside of the decoder's memory, whose size never shrinks, and goes with it.
//!   Nothing of Wasmtime depends on what is in a decoder's memory.
//! - The host maps while no code of the decoder runs, and while it holds no reference into its
//!   memory: this takes the store for itself.

use std::cell::RefCell;
use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};
use nix::sys::stat::fstat;
use pipemill_types::{HUGE_PAGE, SharedFile};
use wasmtime::{LinearMemory, MemoryCreator, MemoryType};

/// Bytes of a page of the machine.
const PAGE: usize = 4096;
/// Bytes of a page of WebAssembly.
pub(super) const WASM_PAGE: usize = 64 << 10;

/// The address space of a linear memory. It never moves.
pub(super) struct GuestMemory {
    /// It begins at a multiple of [`HUGE_PAGE`].
    start: NonNull<c_void>,
    /// All of the address space, with what lies before the start, and the guard at the end.
    reserved: (NonNull<c_void>, NonZeroUsize),
    /// Bytes to which the memory can grow.
    capacity: usize,
    /// Bytes that the decoder has.
    size: AtomicUsize,
}

// SAFETY: it is address space of the process, and belongs to no thread. Only Wasmtime and `show`
// change what is in it, and both have the store for themselves.
unsafe impl Send for GuestMemory {}
// SAFETY: as above.
unsafe impl Sync for GuestMemory {}

impl GuestMemory {
    fn reserve(capacity: usize, guard: usize) -> Result<Self, Errno> {
        let bytes = capacity.checked_add(guard).and_then(|bytes| bytes.checked_add(HUGE_PAGE));
        let bytes = bytes.and_then(NonZeroUsize::new).ok_or(Errno::EINVAL)?;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
        // SAFETY: no address is asked for, so no mapping is replaced.
        let area = unsafe { mmap_anonymous(None, bytes, ProtFlags::PROT_NONE, flags) }?;
        let at = area.addr().get();
        // SAFETY: this is less than a huge page away, and the area has one more than is needed.
        let start = unsafe { area.byte_add(at.next_multiple_of(HUGE_PAGE) - at) };
        let reserved = (area, bytes);
        Ok(Self { start, reserved, capacity, size: AtomicUsize::new(0) })
    }

    fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// Whether the decoder has these bytes, and they begin at a page of WebAssembly.
    pub(super) fn has(&self, at: u32, bytes: u64) -> bool {
        (at as usize).is_multiple_of(WASM_PAGE) && u64::from(at) + bytes <= self.size() as u64
    }

    fn grow_to(&self, size: usize) -> Result<(), Errno> {
        let pages = |bytes: usize| bytes.next_multiple_of(PAGE);
        let old = pages(self.size());
        if size > self.capacity {
            return Err(Errno::ENOMEM);
        }
        if pages(size) > old {
            // SAFETY: the range is within the reservation, which starts at a page.
            unsafe {
                let start = self.start.byte_add(old);
                mprotect(start, pages(size) - old, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)?;
            }
        }
        self.size.store(size.max(self.size()), Ordering::Relaxed);
        Ok(())
    }

    /// Maps all of a file at the address `at` of the memory.
    ///
    /// # Errors
    /// The file may shrink, the memory has no room for it, or the kernel refuses.
    ///
    /// # Safety
    /// No code of the decoder runs, and nobody has a reference into its memory.
    pub(super) unsafe fn show(&self, at: u32, file: &SharedFile) -> Result<(), Errno> {
        let seals = fcntl(&file.fd, FcntlArg::F_GET_SEALS)?;
        let stays = SealFlag::from_bits_retain(seals).contains(SealFlag::F_SEAL_SHRINK);
        let has = u64::try_from(fstat(&file.fd)?.st_size).unwrap_or(0);
        let (at, bytes) = (at as usize, usize::try_from(file.bytes).unwrap_or(usize::MAX));
        let end = at.checked_add(bytes).map(|end| end.next_multiple_of(PAGE));
        let fits = at % PAGE == 0 && end.is_some_and(|end| end <= self.size());
        let Some(length) = NonZeroUsize::new(bytes) else { return Err(Errno::EINVAL) };
        if !stays || has < file.bytes || !fits {
            return Err(Errno::EINVAL);
        }
        let prot = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_FIXED | MapFlags::MAP_NORESERVE;
        // SAFETY: the range is within memory that the decoder has, and the caller vouches that
        // nobody uses it now.
        unsafe {
            let start = self.start.byte_add(at).addr();
            mmap(Some(start), length, prot, flags, file.fd.as_fd(), 0)?;
        }
        Ok(())
    }
}

impl Drop for GuestMemory {
    fn drop(&mut self) {
        // SAFETY: this is the whole reservation. The instance that used it is gone, because its
        // memory has an `Arc` of this. A failure would leak address space; there is no remedy.
        let _ = unsafe { munmap(self.reserved.0, self.reserved.1.get()) };
    }
}

/// The memory of an instance, as Wasmtime uses it.
struct InstanceMemory(Arc<GuestMemory>);

// SAFETY: the memory has as many bytes as it says, followed by the guard that was asked for, and
// never moves.
unsafe impl LinearMemory for InstanceMemory {
    fn byte_size(&self) -> usize {
        self.0.size()
    }

    fn byte_capacity(&self) -> usize {
        self.0.capacity
    }

    fn grow_to(&mut self, size: usize) -> wasmtime::Result<()> {
        Ok(self.0.grow_to(size).map_err(std::io::Error::from)?)
    }

    fn as_ptr(&self) -> *mut u8 {
        self.0.start.as_ptr().cast()
    }
}

thread_local! {
    /// The memory that this thread has made last.
    static MADE: RefCell<Option<Arc<GuestMemory>>> = const { RefCell::new(None) };
}

/// Takes the memory that this thread has made last: that of the instance that it has made last, if
/// it was taken after each one before. An instance has one memory or none.
pub(super) fn take_made() -> Option<Arc<GuestMemory>> {
    MADE.take()
}

/// Makes the memories of instances.
pub(super) struct GuestMemories;

// SAFETY: the memories are zeroed, as large as asked for, and have their guard.
unsafe impl MemoryCreator for GuestMemories {
    fn new_memory(
        &self,
        _: MemoryType,
        minimum: usize,
        maximum: Option<usize>,
        reserved: Option<usize>,
        guard: usize,
    ) -> Result<Box<dyn LinearMemory>, String> {
        let capacity = reserved.unwrap_or(maximum.unwrap_or(minimum)).max(minimum);
        let make = || {
            let memory = GuestMemory::reserve(capacity.next_multiple_of(PAGE), guard)?;
            memory.grow_to(minimum).map(|()| Arc::new(memory))
        };
        let memory = make().map_err(|error| format!("no memory for an instance: {error}"))?;
        MADE.set(Some(memory.clone()));
        Ok(Box::new(InstanceMemory(memory)))
    }
}
