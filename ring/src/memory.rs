//! Shared memory: sealed memfds, which the host may write and a consumer can only read.
//! No other file maps memory; the others see slices.

use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, FcntlArg, SealFlag, fallocate, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MRemapFlags, MapFlags, MmapAdvise, ProtFlags, madvise, mmap, mremap, munmap};
use nix::sys::stat::fstat;
use nix::unistd::ftruncate;

/// Bytes. A dedicated buffer grows by at least this much, and at least by a quarter of its size,
/// because growing costs system calls.
const MIN_GROWTH: usize = 1 << 20;
/// Bytes.
const PAGE: usize = 4096;
/// Bytes whose pages are made present by one system call. While it runs, other threads can't map
/// or unmap memory, so it is short.
const POPULATE_STEP: usize = 128 << 10;

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
}

/// Makes all pages of a mapping present, from its start on, in a thread: the mapping is in use
/// meanwhile. A writer that is faster takes one page fault for each page, which costs it no more
/// than to wait for this.
fn populate_in_background(map: &Arc<Mapping>) {
    let (map, bytes) = (Arc::downgrade(map), map.bytes);
    let work = move || {
        for from in (0..bytes).step_by(POPULATE_STEP) {
            let Some(map) = map.upgrade() else { return };
            if map.populate(from, POPULATE_STEP.min(bytes - from)).is_err() {
                return;
            }
        }
    };
    // Where no thread can be started, each page becomes present when it is first written.
    let _ = thread::Builder::new().name("ring-pages".into()).spawn(work);
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the one that was mapped, and no borrow of it lives any more.
        // A failure would leak address space; there is no remedy.
        let _ = unsafe { munmap(self.start, self.bytes) };
    }
}

fn create(name: &str) -> Result<OwnedFd, MemoryError> {
    // The name is only seen in /proc/PID/maps. The kernel allows 249 bytes and no NUL.
    let name: String = name.chars().filter(|c| !c.is_control()).take(60).collect();
    memfd_create(name.as_str(), MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)
        .map_err(failed("creating it", 0))
}

/// Reserves the memory now: a lack of it is an error here, and would be SIGBUS at a later write.
fn reserve(fd: impl AsFd, from: usize, to: usize) -> Result<(), MemoryError> {
    loop {
        let (offset, length) = (from as i64, (to - from) as i64);
        match fallocate(&fd, FallocateFlags::empty(), offset, length) {
            Err(Errno::EINTR) => continue,
            result => return result.map_err(failed("reserving it", to)),
        }
    }
}

/// After this, nobody can resize the memory or make a writable mapping of it. The writable mapping
/// that the host has made before stays.
fn seal(fd: impl AsFd, bytes: usize) -> Result<(), MemoryError> {
    let seals = SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_FUTURE_WRITE
        | SealFlag::F_SEAL_SEAL;
    fcntl(fd, FcntlArg::F_ADD_SEALS(seals)).map_err(failed("sealing it", bytes))?;
    Ok(())
}

/// The ring's memory in the host: writable here, sealed for everybody else.
pub(crate) struct RingMemory {
    fd: OwnedFd,
    map: Arc<Mapping>,
}

impl RingMemory {
    /// `bytes` bytes of zeroed memory, all of it reserved. Its pages become present in the
    /// background, which takes some 40 ms for 64 MiB.
    pub(crate) fn create(name: &str, bytes: usize) -> Result<RingMemory, MemoryError> {
        let fd = create(name)?;
        reserve(&fd, 0, bytes)?;
        let map = Mapping::new(&fd, bytes, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)?;
        seal(&fd, bytes)?;
        let map = Arc::new(map);
        populate_in_background(&map);
        Ok(RingMemory { fd, map })
    }

    /// The descriptor to hand out. It is sealed, so it gives read access only.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// A part of the memory, for writing.
    ///
    /// # Panics
    /// Where the part is not within the memory.
    ///
    /// # Safety
    /// For the life of the slice nobody else in this process may hold one that overlaps it, and no
    /// consumer may hold a grant of it.
    #[expect(clippy::mut_from_ref, reason = "parts of one mapping are lent apart from each other")]
    pub(crate) unsafe fn part(&self, start: usize, bytes: usize) -> &mut [u8] {
        let end = start.checked_add(bytes);
        assert!(end.is_some_and(|end| end <= self.map.bytes), "a part outside the ring's memory");
        // SAFETY: the part is within the mapping (asserted above) and initialised (zeroed by the
        // kernel), and the caller vouches that it is not aliased.
        unsafe {
            std::slice::from_raw_parts_mut(self.map.start.cast::<u8>().add(start).as_ptr(), bytes)
        }
    }

    /// A part of the memory, for reading.
    ///
    /// # Panics
    /// Where the part is not within the memory.
    ///
    /// # Safety
    /// Nobody may write to this part while the slice lives.
    pub(crate) unsafe fn part_to_read(&self, start: usize, bytes: usize) -> &[u8] {
        assert!(start <= self.map.bytes && bytes <= self.map.bytes - start);
        // SAFETY: the part is within the mapping (asserted above) and initialised (zeroed by the
        // kernel), and the caller vouches that nobody writes it.
        unsafe {
            std::slice::from_raw_parts(self.map.start.cast::<u8>().add(start).as_ptr(), bytes)
        }
    }
}

/// A dedicated buffer: a memfd for one batch (or one status). It grows while it is filled, and is
/// then cut to size and sealed.
pub(crate) struct DedicatedBuffer {
    fd: OwnedFd,
    map: Mapping,
}

impl DedicatedBuffer {
    /// At least `bytes` bytes of zeroed memory.
    pub(crate) fn create(name: &str, bytes: usize) -> Result<DedicatedBuffer, MemoryError> {
        let bytes = bytes.max(PAGE).next_multiple_of(PAGE);
        let fd = create(name)?;
        reserve(&fd, 0, bytes)?;
        let map = Mapping::new(&fd, bytes, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)?;
        // In the foreground, because all of it is written soon. Without it, each page becomes
        // present when it is first written.
        let _ = map.populate(0, bytes);
        Ok(DedicatedBuffer { fd, map })
    }

    /// Makes it at least `bytes` bytes long. What was written stays; its address may change.
    pub(crate) fn ensure(&mut self, bytes: usize) -> Result<(), MemoryError> {
        let old = self.map.bytes;
        if bytes <= old {
            return Ok(());
        }
        let new = bytes.max(old + MIN_GROWTH.max(old / 4)).next_multiple_of(PAGE);
        reserve(&self.fd, old, new)?;
        // SAFETY: the range is exactly this mapping, `&mut self` proves that nobody borrows from
        // it, and `reserve` has made the file long enough.
        let start = unsafe { mremap(self.map.start, old, new, MRemapFlags::MREMAP_MAYMOVE, None) }
            .map_err(failed("growing it", new))?;
        self.map.start = start;
        self.map.bytes = new;
        Ok(())
    }

    /// All of it, for writing.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: this is the whole mapping, initialised (zeroed by the kernel), borrowed through
        // `&mut self`, and no other process has its descriptor yet.
        unsafe {
            std::slice::from_raw_parts_mut(self.map.start.cast::<u8>().as_ptr(), self.map.bytes)
        }
    }

    /// All of it, for reading.
    pub(crate) fn bytes_to_read(&self) -> &[u8] {
        // SAFETY: this is the whole mapping, which lives as long as `self`. No other process has it
        // before it is sealed, and writing needs `&mut self`.
        unsafe { std::slice::from_raw_parts(self.map.start.cast::<u8>().as_ptr(), self.map.bytes) }
    }

    /// Cuts it to `bytes` bytes and makes it read-only for everybody. Returns the descriptor to
    /// hand out.
    pub(crate) fn seal(self, bytes: usize) -> Result<OwnedFd, MemoryError> {
        let DedicatedBuffer { fd, map } = self;
        drop(map);
        ftruncate(&fd, bytes as i64).map_err(failed("cutting it to size", bytes))?;
        seal(&fd, bytes)?;
        Ok(fd)
    }
}

/// A consumer's read-only mapping of shared memory.
#[derive(Debug)]
pub(crate) struct ReadMemory {
    map: Mapping,
}

impl ReadMemory {
    /// Maps `bytes` bytes of a received descriptor, after it has checked that reading them can't
    /// fault.
    pub(crate) fn map(fd: OwnedFd, bytes: u64) -> Result<ReadMemory, MemoryError> {
        let size = fstat(&fd).map_err(failed("asking for its size", 0))?.st_size;
        if u64::try_from(size).unwrap_or(0) < bytes {
            let text = format!("{size} bytes long where {bytes} were announced");
            return Err(MemoryError::Unfit(text));
        }
        let seals = fcntl(&fd, FcntlArg::F_GET_SEALS).map_err(failed("asking for its seals", 0))?;
        if !SealFlag::from_bits_retain(seals).contains(SealFlag::F_SEAL_SHRINK) {
            return Err(MemoryError::Unfit("not sealed against shrinking".into()));
        }
        let bytes = usize::try_from(bytes)
            .map_err(|_| MemoryError::Unfit(format!("{bytes} bytes long: more than fit here")))?;
        Ok(ReadMemory { map: Mapping::new(&fd, bytes, ProtFlags::PROT_READ)? })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: this is the whole mapping, and it can't shrink (`map` has checked the seal). By
        // the contract the host does not write what it has granted, and only parts that are granted
        // are read.
        unsafe { std::slice::from_raw_parts(self.map.start.cast::<u8>().as_ptr(), self.map.bytes) }
    }
}

/// The bytes of a column, as they are written into an index.
pub(crate) fn column_bytes(column: &[u32]) -> &[u8] {
    // SAFETY: u32 has no padding, any byte is a valid u8, and the length is that of the slice.
    unsafe { std::slice::from_raw_parts(column.as_ptr().cast::<u8>(), size_of_val(column)) }
}

/// The column that lies in these bytes. None where they are not aligned, or not a whole number of
/// elements.
pub(crate) fn column(bytes: &[u8]) -> Option<&[u32]> {
    // SAFETY: every bit pattern is a valid u32.
    let (before, column, after) = unsafe { bytes.align_to::<u32>() };
    (before.is_empty() && after.is_empty()).then_some(column)
}
