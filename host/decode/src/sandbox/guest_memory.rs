//! Linear memory of decoders. The host reserves it itself, so that it can map the pages of a file
//! into it.
//!
//! **Why this is safe.** The pages are mapped privately, with copy on write, over memory that the
//! decoder already has. So all code that accesses them, in the decoder or in the host, finds memory
//! that can be read and written:
//!
//! - A decoder reads the content of the file: the memory of its own channel, and of no other.
//! - A decoder that writes gets a private copy of the page. The file never changes.
//! - The kernel kills a process that reads pages beyond the end of a file. So the host maps only a
//!   file that is sealed against shrinking, and not beyond its end.
//! - The mapping is inside the decoder's memory, whose size never shrinks, and is removed with it.
//!   Nothing in Wasmtime depends on the content of a decoder's memory.
//! - The host maps only while no code of the decoder runs and while it holds no reference into the
//!   memory: the function has exclusive access to the store.
//!
//! **Reuse.** Each object that a plugin decodes has a new instance, whose memory no other object
//! has seen. Making such memory costs some 20 page faults, and returning it interrupts other cores:
//! for a small object that takes longer than decoding it. So a thread keeps the memory of its last
//! instance. It clears the pages that were touched, which the kernel reports, and unmaps the rest.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::fs::File;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};
use nix::sys::stat::fstat;
use pipemill_types::{HUGE_PAGE, SharedFile};
use wasmtime::{LinearMemory, MemoryCreator, MemoryType};

/// Size of a page of the machine, in bytes.
const PAGE: usize = 4096;
/// Size of a page of WebAssembly, in bytes.
pub(crate) const WASM_PAGE: usize = 64 << 10;

/// Largest part of a memory that is kept for the next instance, in bytes.
const MAX_KEPT: usize = 2 << 20;

/// Reserved addresses. Addresses from `start` on have memory where it was requested.
struct Reservation {
    /// It begins at a multiple of [`HUGE_PAGE`].
    start: NonNull<c_void>,
    /// The whole address range, with the part before the start, and the guard at the end.
    all: (NonNull<c_void>, NonZeroUsize),
    layout: Layout,
}

/// Wasmtime's requirements for a memory.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Layout {
    /// Initial size in bytes.
    minimum: usize,
    /// Largest size in bytes.
    capacity: usize,
    /// Size of the guard after it, in bytes.
    guard: usize,
}

// SAFETY: it is address space of the process, and belongs to no thread.
unsafe impl Send for Reservation {}

impl Reservation {
    fn new(layout: Layout) -> Result<Self, Errno> {
        let bytes = layout.capacity.checked_add(layout.guard);
        let bytes = bytes.and_then(|bytes| bytes.checked_add(HUGE_PAGE));
        let bytes = bytes.and_then(NonZeroUsize::new).ok_or(Errno::EINVAL)?;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
        // SAFETY: no address is asked for, so no mapping is replaced.
        let area = unsafe { mmap_anonymous(None, bytes, ProtFlags::PROT_NONE, flags) }?;
        let at = area.addr().get();
        // SAFETY: this is less than a huge page away, and the area has one more than is needed.
        let start = unsafe { area.byte_add(at.next_multiple_of(HUGE_PAGE) - at) };
        Ok(Self { start, all: (area, bytes), layout })
    }

    /// Makes this range accessible, or inaccessible.
    fn protect(&self, from: usize, to: usize, prot: ProtFlags) -> Result<(), Errno> {
        let (from, to) = (from.next_multiple_of(PAGE), to.next_multiple_of(PAGE));
        if from >= to {
            return Ok(());
        }
        // SAFETY: the range is within the reservation, which starts at a page, and what its user
        // may access does not shrink while there is one.
        unsafe { mprotect(self.start.byte_add(from), to - from, prot) }
    }

    /// Restores the initial state of the memory: the initial number of zeroed bytes. It has `size`
    /// bytes now; from `shown` on, other pages are mapped.
    fn clear(&self, size: usize, shown: usize) -> Result<(), Errno> {
        let (minimum, end) = (self.layout.minimum, size.next_multiple_of(PAGE));
        let kept = MAX_KEPT.min(shown / PAGE * PAGE).min(end);
        if kept < minimum {
            return Err(Errno::E2BIG);
        }
        self.clear_touched(kept / PAGE)?;
        self.protect(minimum, kept, ProtFlags::PROT_NONE)?;
        if let Some(rest) = NonZeroUsize::new(end - kept) {
            let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_FIXED | MapFlags::MAP_NORESERVE;
            // SAFETY: the range is within the reservation, and the instance that used it is gone.
            unsafe {
                let from = self.start.byte_add(kept).addr();
                mmap_anonymous(Some(from), rest, ProtFlags::PROT_NONE, flags)?;
            }
        }
        Ok(())
    }

    /// Clears those of the first `pages` pages that have memory. All others are zero.
    fn clear_touched(&self, pages: usize) -> Result<(), Errno> {
        static PAGE_MAP: OnceLock<Option<File>> = OnceLock::new();
        /// The bits of an entry of the page map: the page is in memory, or swapped or moved.
        const HAS_MEMORY: u64 = 3 << 62;
        let page_map = PAGE_MAP.get_or_init(|| File::open("/proc/self/pagemap").ok());
        let page_map = page_map.as_ref().ok_or(Errno::ENOENT)?;
        let mut entries = [0; MAX_KEPT / PAGE * 8];
        let entries = &mut entries[..pages * 8];
        let first = self.start.addr().get() / PAGE;
        page_map.read_exact_at(entries, first as u64 * 8).map_err(|_| Errno::EIO)?;
        for (page, entry) in entries.as_chunks().0.iter().enumerate() {
            if u64::from_ne_bytes(*entry) & HAS_MEMORY != 0 {
                // SAFETY: the page is in the part that can be written, and the instance that used
                // it is gone.
                unsafe { self.start.byte_add(page * PAGE).write_bytes(0, PAGE) }
            }
        }
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: this is the whole reservation, and nobody uses it any more. A failure would leak
        // address space; there is no remedy.
        let _ = unsafe { munmap(self.all.0, self.all.1.get()) };
    }
}

/// The address range of a linear memory. It never moves.
pub(crate) struct GuestMemory {
    /// It is `None` only while this is dropped.
    reservation: Option<Reservation>,
    start: NonNull<c_void>,
    capacity: usize,
    /// Bytes that the decoder has.
    size: AtomicUsize,
    /// Address of the first mapped file.
    shown: AtomicUsize,
}

// SAFETY: it is address space of the process, and belongs to no thread. Only Wasmtime and `show`
// change what is in it, and both have the store for themselves.
unsafe impl Send for GuestMemory {}
// SAFETY: as above.
unsafe impl Sync for GuestMemory {}

impl GuestMemory {
    /// A zeroed memory: the last one of this thread, if it has the same layout.
    fn new(layout: Layout) -> Result<Self, Errno> {
        let spare = SPARE.take().filter(|spare| spare.layout == layout);
        let reservation = match spare {
            Some(spare) => spare,
            None => {
                let new = Reservation::new(layout)?;
                new.protect(0, layout.minimum, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)?;
                new
            }
        };
        let Reservation { start, layout: Layout { minimum, capacity, .. }, .. } = reservation;
        let (size, shown) = (AtomicUsize::new(minimum), AtomicUsize::new(usize::MAX));
        Ok(Self { reservation: Some(reservation), start, capacity, size, shown })
    }

    fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// All bytes that the decoder has.
    ///
    /// # Safety
    /// No code of the decoder runs as long as they are in use.
    pub(crate) unsafe fn content(&self) -> &[u8] {
        // SAFETY: the decoder has these bytes, and the caller vouches that it does not write now.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.size()) }
    }

    /// Whether the decoder has these bytes, and they begin at a page of WebAssembly.
    pub(crate) fn has(&self, at: u32, bytes: u64) -> bool {
        (at as usize).is_multiple_of(WASM_PAGE) && u64::from(at) + bytes <= self.size() as u64
    }

    fn grow_to(&self, size: usize) -> Result<(), Errno> {
        let old = self.size();
        if size > self.capacity {
            return Err(Errno::ENOMEM);
        }
        if let Some(reservation) = &self.reservation {
            reservation.protect(old, size, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)?;
        }
        self.size.store(size.max(old), Ordering::Relaxed);
        Ok(())
    }

    /// Maps all of a file at the address `at` of the memory.
    ///
    /// # Errors
    /// The file may shrink, the memory has no room for it, or the kernel refuses.
    ///
    /// # Safety
    /// No code of the decoder runs, and nobody has a reference into its memory.
    pub(crate) unsafe fn show(&self, at: u32, file: &SharedFile) -> Result<(), Errno> {
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
        self.shown.fetch_min(at, Ordering::Relaxed);
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

    /// Replaces the part of a file that was mapped at the address `at`, between these of its bytes,
    /// by zeroed memory.
    ///
    /// # Errors
    /// The kernel refuses.
    ///
    /// # Safety
    /// No code of the decoder runs, and nobody has a reference into its memory.
    pub(crate) unsafe fn hide(&self, at: u32, from: u64, to: u64) -> Result<(), Errno> {
        let page = |byte: u64| (at as usize + byte as usize).next_multiple_of(PAGE);
        let (from, to) = (page(from), page(to).min(self.size()));
        let length = to.checked_sub(from).and_then(NonZeroUsize::new);
        let Some(length) = length else { return Ok(()) };
        let prot = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_FIXED | MapFlags::MAP_NORESERVE;
        // SAFETY: the range is within memory that the decoder has, and the caller vouches that
        // nobody uses it now.
        unsafe { mmap_anonymous(Some(self.start.byte_add(from).addr()), length, prot, flags)? };
        Ok(())
    }
}

impl Drop for GuestMemory {
    /// The instance that used it is gone, because its memory has an `Arc` of this.
    fn drop(&mut self) {
        let Some(reservation) = self.reservation.take() else { return };
        let shown = self.shown.load(Ordering::Relaxed);
        if reservation.clear(self.size(), shown).is_ok() {
            // It fails if the thread is ending.
            let _ = SPARE.try_with(|spare| spare.replace(Some(reservation)));
        }
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
    /// The last memory that this thread made.
    static MADE: RefCell<Option<Arc<GuestMemory>>> = const { RefCell::new(None) };
    /// Memory for the next instance of this thread. It is in its initial state.
    static SPARE: RefCell<Option<Reservation>> = const { RefCell::new(None) };
    /// Bytes that the next memory of this thread has at least.
    static LEAST: Cell<usize> = const { Cell::new(0) };
}

/// Runs `make`, which makes an instance, and gives its memory at least this many bytes.
pub(crate) fn with_least<T>(bytes: usize, make: impl FnOnce() -> T) -> T {
    LEAST.set(bytes);
    let made = make();
    LEAST.set(0);
    made
}

/// Takes the last memory that this thread made: it belongs to the thread's last instance, provided
/// that it was taken after each earlier instance. An instance has one memory or none.
pub(crate) fn take_made() -> Option<Arc<GuestMemory>> {
    MADE.take()
}

/// Makes the memories of instances.
pub(crate) struct GuestMemories;

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
        let layout = Layout { minimum, capacity: capacity.next_multiple_of(PAGE), guard };
        let least = LEAST.take().max(minimum);
        let memory = GuestMemory::new(layout)
            .and_then(|memory| memory.grow_to(least).map(|()| Arc::new(memory)))
            .map_err(|error| format!("no memory for an instance: {error}"))?;
        MADE.set(Some(memory.clone()));
        Ok(Box::new(InstanceMemory(memory)))
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use nix::unistd::{pipe, write};
    use proptest::prelude::*;

    use super::*;

    const CAPACITY: usize = 64 << 20;
    const GUARD: usize = 1 << 20;

    fn memory(minimum: usize) -> (Box<dyn LinearMemory>, Arc<GuestMemory>) {
        let ty = MemoryType::new(0, None);
        let made = GuestMemories.new_memory(ty, minimum, None, Some(CAPACITY), GUARD).unwrap();
        (made, take_made().unwrap())
    }

    /// Size of the instance's memory, in bytes.
    fn bytes(memory: &mut dyn LinearMemory) -> &mut [u8] {
        // SAFETY: they can be accessed, and nobody else does.
        unsafe { std::slice::from_raw_parts_mut(memory.as_ptr(), memory.byte_size()) }
    }

    /// Whether the page at this address can be read: a system call fails where an access would
    /// trap.
    fn is_readable(memory: &dyn LinearMemory, at: usize) -> bool {
        let (_end, pipe) = pipe().unwrap();
        // SAFETY: only the kernel reads it, and says so if it can't.
        let byte = unsafe { std::slice::from_raw_parts(memory.as_ptr().add(at), 1) };
        write(pipe.as_fd(), byte).is_ok()
    }

    fn check_new(memory: &mut dyn LinearMemory, minimum: usize) -> Result<(), TestCaseError> {
        prop_assert_eq!(memory.byte_size(), minimum);
        let dirty = bytes(memory).iter().position(|byte| *byte != 0);
        prop_assert!(dirty.is_none(), "the byte at {} is not zero", dirty.unwrap_or(0));
        let after = [minimum, minimum + PAGE, MAX_KEPT - 1, MAX_KEPT, CAPACITY / 2, CAPACITY - 1];
        for at in after.into_iter().filter(|at| *at >= minimum) {
            prop_assert!(!is_readable(memory, at), "the byte at {} can be read", at);
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// This holds whatever earlier instances did, and whether or not their memory is used
        /// again.
        #[test]
        fn an_instance_finds_zeroed_memory_of_its_size_and_no_more(
            instances in proptest::collection::vec(
                (
                    1_usize..3,
                    proptest::collection::vec(0_usize..6 << 20, 0..4),
                    proptest::collection::vec(any::<proptest::sample::Index>(), 0..40),
                    any::<Option<proptest::sample::Index>>(),
                ),
                1..6,
            ),
        ) {
            SPARE.take();
            let mut last = None;
            for (minimum, growths, stores, shown) in instances {
                let minimum = minimum * 17 * WASM_PAGE;
                let (mut made, memory) = memory(minimum);
                if let Some((layout, start)) = last && layout == minimum {
                    prop_assert_eq!(made.as_ptr().addr(), start, "it was not used again");
                }
                check_new(&mut *made, minimum)?;
                for growth in growths {
                    let old = made.byte_size();
                    let size = (old + growth).next_multiple_of(WASM_PAGE);
                    made.grow_to(size).unwrap();
                    prop_assert!(bytes(&mut *made)[old..].iter().all(|byte| *byte == 0));
                }
                for store in stores {
                    let bytes = bytes(&mut *made);
                    let at = store.index(bytes.len());
                    bytes[at] = 0xee;
                }
                let pages = made.byte_size() / WASM_PAGE;
                let shown = shown.map(|page| page.index(pages) * WASM_PAGE);
                if let Some(at) = shown {
                    // SAFETY: nobody has a reference into the memory.
                    unsafe { memory.show(at as u32, &file()) }.unwrap();
                    prop_assert!(bytes(&mut *made)[at..at + PAGE].iter().all(|byte| *byte == 7));
                    // The page is a private copy.
                    bytes(&mut *made)[at] = 8;
                }
                // If its first part is mapped from a file, the memory is not kept.
                let is_kept = shown.is_none_or(|at| at >= minimum);
                last = is_kept.then(|| (minimum, made.as_ptr().addr()));
            }
        }
    }

    /// One page of sevens, sealed.
    fn file() -> SharedFile {
        use nix::fcntl::{FcntlArg, SealFlag, fcntl};
        use nix::sys::memfd::{MFdFlags, memfd_create};
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let fd = memfd_create("test", flags).unwrap();
        write(fd.as_fd(), &[7; PAGE]).unwrap();
        fcntl(&fd, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK)).unwrap();
        SharedFile { fd, bytes: PAGE as u64, most: PAGE as u64 }
    }

    #[test]
    fn a_memory_of_another_layout_is_not_used_again() {
        let (first, kept) = memory(WASM_PAGE);
        drop((first, kept));
        let (mut other, _) = memory(2 * WASM_PAGE);
        check_new(&mut *other, 2 * WASM_PAGE).unwrap();
    }
}
