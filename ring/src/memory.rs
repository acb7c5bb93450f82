//! Shared memory: sealed memfds that the host may write and a consumer can only read.
//! The only file that maps memory; everything else sees slices.

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

/// Growing costs system calls, so an extent grows by this many bytes, or by a quarter, at least.
const GROWTH: usize = 1 << 20;
const PAGE: usize = 4096;
/// Pages that are made present at once; other threads' changes of what is mapped wait meanwhile.
const STEP: usize = 128 << 10;

/// Shared memory could not be had or is not what was promised.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The kernel refused; most often the machine's or the container's memory limit.
    #[error("{bytes} bytes of shared memory: {what} failed: {errno}")]
    System {
        /// Which step.
        what: &'static str,
        /// How much memory it was about.
        bytes: usize,
        /// The kernel's answer.
        errno: Errno,
    },
    /// A received descriptor is smaller than its message said, or may shrink under the reader.
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

// SAFETY: a mapping is plain memory that belongs to the process, not to a thread. Who may write
// where is the duty of the types below.
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

    /// Makes `bytes` of its pages present, to be written without a fault each. Linux before 5.14 can't, and then
    /// they fault.
    fn populate(&self, from: usize, bytes: usize) -> Result<(), Errno> {
        assert!(from <= self.bytes && bytes <= self.bytes - from);
        // SAFETY: the range lies within the mapping, and nothing that is in it changes.
        unsafe { madvise(self.start.byte_add(from), bytes, MmapAdvise::MADV_POPULATE_WRITE) }
    }
}

/// Makes all pages of a mapping present, from its start on, while it is in use already: whoever writes to it first
/// takes a fault a page instead, and loses no more than by waiting for all of them.
fn populate_behind(map: &Arc<Mapping>) {
    let (map, bytes) = (Arc::downgrade(map), map.bytes);
    let work = move || {
        for from in (0..bytes).step_by(STEP) {
            let Some(map) = map.upgrade() else { return };
            if map.populate(from, STEP.min(bytes - from)).is_err() {
                return;
            }
        }
    };
    // Without a thread they come as they are written.
    let _ = thread::Builder::new().name("ring-pages".into()).spawn(work);
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the one that was mapped, and whoever borrowed from it is gone.
        // A failure would leak address space, which nobody could repair.
        let _ = unsafe { munmap(self.start, self.bytes) };
    }
}

fn create(name: &str) -> Result<OwnedFd, MemoryError> {
    // The name only shows up in /proc/PID/maps. The kernel takes 249 bytes and no NUL.
    let name: String = name.chars().filter(|c| !c.is_control()).take(60).collect();
    memfd_create(name.as_str(), MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)
        .map_err(failed("creating it", 0))
}

/// Reserves the pages now: a lack of memory is an error here, and SIGBUS at the first write later.
fn reserve(fd: impl AsFd, from: usize, to: usize) -> Result<(), MemoryError> {
    loop {
        let (offset, length) = (from as i64, (to - from) as i64);
        match fallocate(&fd, FallocateFlags::empty(), offset, length) {
            Err(Errno::EINTR) => continue,
            result => return result.map_err(failed("reserving it", to)),
        }
    }
}

/// After this, nobody can resize the memory or get a writable mapping of it; ours stays.
fn seal(fd: impl AsFd, bytes: usize) -> Result<(), MemoryError> {
    let seals = SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_FUTURE_WRITE
        | SealFlag::F_SEAL_SEAL;
    fcntl(fd, FcntlArg::F_ADD_SEALS(seals)).map_err(failed("sealing it", bytes))?;
    Ok(())
}

/// The ring's memory as the host has it: sealed for others, writable here.
pub(crate) struct RingMemory {
    fd: OwnedFd,
    map: Arc<Mapping>,
}

impl RingMemory {
    /// `bytes` of zeroed memory, all of it reserved. Its pages become present while the caller goes on: of 64 MiB
    /// that takes some 40 ms.
    pub(crate) fn create(name: &str, bytes: usize) -> Result<RingMemory, MemoryError> {
        let fd = create(name)?;
        reserve(&fd, 0, bytes)?;
        let map = Mapping::new(&fd, bytes, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)?;
        seal(&fd, bytes)?;
        let map = Arc::new(map);
        populate_behind(&map);
        Ok(RingMemory { fd, map })
    }

    /// The descriptor to hand out. It is sealed, so it gives read access only.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// A part of the memory, to be written.
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
        // SAFETY: within the mapping (above), initialised (zeroed by the kernel), and the caller
        // vouches that it is not aliased.
        unsafe {
            std::slice::from_raw_parts_mut(self.map.start.cast::<u8>().add(start).as_ptr(), bytes)
        }
    }

    /// Part of it, to be read.
    ///
    /// # Safety
    /// Nobody may write to this part as long as the slice lives.
    pub(crate) unsafe fn part_to_read(&self, start: usize, bytes: usize) -> &[u8] {
        assert!(start <= self.map.bytes && bytes <= self.map.bytes - start);
        // SAFETY: the part lies within the mapping, and the caller vouches for the rest.
        unsafe {
            std::slice::from_raw_parts(self.map.start.cast::<u8>().add(start).as_ptr(), bytes)
        }
    }
}

/// Memory of its own for one batch: grows while it is filled, then is cut to size and sealed.
pub(crate) struct ExtentMemory {
    fd: OwnedFd,
    map: Mapping,
}

impl ExtentMemory {
    /// At least `bytes` of zeroed memory.
    pub(crate) fn create(name: &str, bytes: usize) -> Result<ExtentMemory, MemoryError> {
        let bytes = bytes.max(PAGE).next_multiple_of(PAGE);
        let fd = create(name)?;
        reserve(&fd, 0, bytes)?;
        let map = Mapping::new(&fd, bytes, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)?;
        // All of it is written soon.
        let _ = map.populate(0, bytes);
        Ok(ExtentMemory { fd, map })
    }

    /// Makes it at least `bytes` long. What was written stays; its address may change.
    pub(crate) fn ensure(&mut self, bytes: usize) -> Result<(), MemoryError> {
        let old = self.map.bytes;
        if bytes <= old {
            return Ok(());
        }
        let new = bytes.max(old + GROWTH.max(old / 4)).next_multiple_of(PAGE);
        reserve(&self.fd, old, new)?;
        // SAFETY: the range is exactly our mapping, `&mut self` proves that nobody borrows from
        // it, and the file was made long enough just above.
        let start = unsafe { mremap(self.map.start, old, new, MRemapFlags::MREMAP_MAYMOVE, None) }
            .map_err(failed("growing it", new))?;
        self.map.start = start;
        self.map.bytes = new;
        Ok(())
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the whole mapping, initialised (zeroed by the kernel), borrowed through
        // `&mut self`, and not yet handed to anybody.
        unsafe {
            std::slice::from_raw_parts_mut(self.map.start.cast::<u8>().as_ptr(), self.map.bytes)
        }
    }

    /// All of it, to be read.
    pub(crate) fn bytes_to_read(&self) -> &[u8] {
        // SAFETY: the whole mapping, which lives as long as `self`; nobody else has it before it is
        // sealed, and writing needs `&mut self`.
        unsafe { std::slice::from_raw_parts(self.map.start.cast::<u8>().as_ptr(), self.map.bytes) }
    }

    /// Cuts it to `bytes` and makes it read-only for all. The descriptor is to be handed out.
    pub(crate) fn seal(self, bytes: usize) -> Result<OwnedFd, MemoryError> {
        let ExtentMemory { fd, map } = self;
        drop(map);
        ftruncate(&fd, bytes as i64).map_err(failed("cutting it to size", bytes))?;
        seal(&fd, bytes)?;
        Ok(fd)
    }
}

/// A consumer's view of shared memory: read-only, and good for as long as it lives.
#[derive(Debug)]
pub(crate) struct ReadMemory {
    map: Mapping,
}

impl ReadMemory {
    /// Maps `bytes` of a received descriptor, after checking that reading them can't fault.
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
        // SAFETY: the whole mapping; it can't shrink (seal checked above). By the contract the
        // host doesn't write what it has granted, and nothing but granted parts is looked at.
        unsafe { std::slice::from_raw_parts(self.map.start.cast::<u8>().as_ptr(), self.map.bytes) }
    }
}

/// The bytes of a column, to be copied into an index.
pub(crate) fn column_bytes(column: &[u32]) -> &[u8] {
    // SAFETY: u32 has no padding, any byte is a valid u8, and the length is that of the slice.
    unsafe { std::slice::from_raw_parts(column.as_ptr().cast::<u8>(), size_of_val(column)) }
}

/// The column that lies in these bytes, or none where they are not aligned or not a whole number.
pub(crate) fn column(bytes: &[u8]) -> Option<&[u32]> {
    // SAFETY: every bit pattern is a valid u32.
    let (before, column, after) = unsafe { bytes.align_to::<u32>() };
    (before.is_empty() && after.is_empty()).then_some(column)
}
