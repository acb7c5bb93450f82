//! The host's side: the ring's memory, and dedicated buffers. They are writable here, and sealed
//! for everybody else.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::ProtFlags;
use nix::unistd::ftruncate;
use pipemill_types::{HUGE_PAGE, MemoryBudget, SharedFile, TakenMemory};

use super::pages::Backoff;
use super::{Mapping, MemoryError, PAGE, failed};

/// In bytes. A dedicated buffer grows by at least this much, and at least by a quarter of its size,
/// because growing costs system calls.
const MIN_GROWTH: usize = 1 << 20;
/// Whether dedicated buffers get huge pages.
static DEDICATED_BACKOFF: Backoff = Backoff::new();

fn create(name: &str) -> Result<OwnedFd, MemoryError> {
    // The name is visible only in /proc/PID/maps. The kernel allows 249 bytes and no NUL.
    let name: String = name.chars().filter(|c| !c.is_control()).take(60).collect();
    memfd_create(name.as_str(), MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)
        .map_err(failed("creating it", 0))
}

/// Makes the file `bytes` bytes long, and maps it.
fn map_whole(fd: impl AsFd, bytes: usize) -> Result<Mapping, MemoryError> {
    ftruncate(&fd, bytes as i64).map_err(failed("making it as long", bytes))?;
    Mapping::new(fd, bytes, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)
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

/// The ring's memory in the host: writable here, sealed for everybody else. It is reserved from its
/// start on, as far as slots have been used. To reserve all of it would be most of the time that a
/// host takes to start, and a small input never needs most of it.
pub(crate) struct RingMemory {
    file: Arc<SharedFile>,
    map: Mapping,
    /// The end of the reserved part.
    reserved: AtomicUsize,
    /// Whether the next pages are tried as huge ones. One thread reserves at a time.
    backoff: Mutex<Backoff>,
}

impl RingMemory {
    /// `bytes` bytes of zeroed memory, none of it reserved.
    pub(crate) fn create(name: &str, bytes: usize) -> Result<RingMemory, MemoryError> {
        let fd = create(name)?;
        let map = map_whole(&fd, bytes)?;
        seal(&fd, bytes)?;
        let file = Arc::new(SharedFile { fd, bytes: bytes as u64, most: bytes as u64 });
        Ok(RingMemory {
            file,
            map,
            reserved: AtomicUsize::new(0),
            backoff: Mutex::new(Backoff::new()),
        })
    }

    /// Reserves everything before `end`, and makes it present. Memory must be reserved before it is
    /// written: a lack of memory is an error here, and would be SIGBUS there.
    ///
    /// # Errors
    /// The kernel does not grant the memory. A later call tries again.
    pub(crate) fn reserve(&self, end: usize) -> Result<(), MemoryError> {
        if end <= self.reserved.load(Ordering::Acquire) {
            return Ok(());
        }
        let backoff = self.backoff.lock().expect("no code under this lock panics");
        let from = self.reserved.load(Ordering::Relaxed);
        if from < end {
            let to = end.next_multiple_of(HUGE_PAGE).min(self.map.bytes);
            let huge_end = self.map.reserve(self.fd(), from, to, &backoff)?;
            self.map.populate(huge_end, to);
            self.reserved.store(to, Ordering::Release);
        }
        Ok(())
    }

    /// The descriptor to hand out. It is sealed, so it gives read access only.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.file.fd.as_fd()
    }

    /// The memory as a file, which can't shrink.
    pub(crate) fn file(&self) -> &Arc<SharedFile> {
        &self.file
    }

    /// A part of the memory, for writing. It is [reserved](RingMemory::reserve).
    ///
    /// # Panics
    /// If the part is not within the memory.
    ///
    /// # Safety
    /// For the life of the slice nobody else in this process may hold one that overlaps it, and no
    /// consumer may hold a grant of it.
    #[expect(clippy::mut_from_ref, reason = "parts of one mapping are lent apart from each other")]
    pub(crate) unsafe fn part(&self, start: usize, bytes: usize) -> &mut [u8] {
        let part = self.map.part(start, bytes).expect("a part of the ring's memory");
        // SAFETY: the part is within the mapping and initialised (zeroed by the kernel), and the
        // caller vouches that it is not aliased.
        unsafe { std::slice::from_raw_parts_mut(part, bytes) }
    }

    /// A part of the memory, for reading.
    ///
    /// # Panics
    /// If the part is not within the memory.
    ///
    /// # Safety
    /// Nobody may write to this part while the slice lives.
    pub(crate) unsafe fn part_to_read(&self, start: usize, bytes: usize) -> &[u8] {
        let part = self.map.part(start, bytes).expect("a part of the ring's memory");
        // SAFETY: the part is within the mapping and initialised (zeroed by the kernel), and the
        // caller vouches that nobody writes it.
        unsafe { std::slice::from_raw_parts(part, bytes) }
    }
}

#[cfg(test)]
impl RingMemory {
    /// Bytes that the kernel has allocated.
    pub(crate) fn allocated(&self) -> usize {
        let stat = nix::sys::stat::fstat(self.fd()).expect("it is open");
        stat.st_blocks as usize * 512
    }

    /// From now on, the kernel grants no memory: the descriptor is one for reading.
    pub(crate) fn grant_nothing(&mut self) {
        use std::os::fd::AsRawFd;
        let path = format!("/proc/self/fd/{}", self.fd().as_raw_fd());
        let fd = std::fs::File::open(path).expect("it can be read").into();
        self.file = Arc::new(SharedFile { fd, bytes: self.file.bytes, most: self.file.most });
    }
}

/// A dedicated buffer: a memfd for a batch that fits into no slot. It grows while it is filled for
/// the first time, and is sealed then. The host can still write to it, and does so when nobody
/// reads the batch any more: new memory would cost several times as much as reused memory.
#[derive(Debug)]
pub(crate) struct DedicatedBuffer {
    fd: Arc<OwnedFd>,
    map: Mapping,
    /// Its bytes in the channel's budget.
    taken: TakenMemory,
    /// Whether it can't grow any more.
    is_sealed: bool,
}

impl DedicatedBuffer {
    /// At least `bytes` bytes of zeroed memory, which count in this budget.
    pub(crate) fn create(
        name: &str,
        bytes: usize,
        budget: &Arc<MemoryBudget>,
    ) -> Result<DedicatedBuffer, MemoryError> {
        let bytes = bytes.max(PAGE).next_multiple_of(PAGE);
        let taken = budget.take(bytes as u64)?;
        let fd = create(name)?;
        let map = map_whole(&fd, bytes)?;
        let huge_end = map.reserve(&fd, 0, bytes, &DEDICATED_BACKOFF)?;
        map.populate(huge_end, bytes);
        Ok(DedicatedBuffer { fd: Arc::new(fd), map, taken, is_sealed: false })
    }

    /// Makes it at least `bytes` bytes long. The bytes that were written stay; the address may
    /// change. A sealed buffer is replaced by another one of this name.
    ///
    /// # Errors
    /// [`MemoryError::OverBudget`] if the budget does not have enough left: nothing is changed
    /// then. Otherwise, the kernel does not grant the memory.
    pub(crate) fn ensure(
        &mut self,
        name: &str,
        bytes: usize,
        budget: &Arc<MemoryBudget>,
    ) -> Result<(), MemoryError> {
        let old = self.map.bytes;
        if bytes <= old {
            return Ok(());
        }
        let needed = bytes.next_multiple_of(PAGE);
        let ample = bytes.max(old + MIN_GROWTH.max(old / 4)).next_multiple_of(PAGE);
        if self.is_sealed {
            let larger = DedicatedBuffer::create(name, ample, budget);
            let mut larger = larger.or_else(|_| DedicatedBuffer::create(name, needed, budget))?;
            larger.bytes()[..old].copy_from_slice(self.bytes_to_read());
            *self = larger;
            return Ok(());
        }
        let fits = self.taken.resize(ample as u64).is_ok();
        let new = if fits { ample } else { needed };
        self.taken.resize(new as u64)?;
        // The old mapping is dropped only now, when nothing can fail any more.
        let map = map_whole(&*self.fd, new)?;
        map.reserve(&*self.fd, old, new, &DEDICATED_BACKOFF)?;
        self.map = map;
        Ok(())
    }

    /// Its size in bytes.
    pub(crate) fn len(&self) -> usize {
        self.map.bytes
    }

    /// All of it, for writing. It contains the bytes of an older batch, if it was sealed.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: this is the whole mapping, initialised (zeroed by the kernel), borrowed through
        // `&mut self`. No other process reads it: it was not sealed yet, or the ring has given it
        // out again because nobody holds a grant of it.
        unsafe {
            std::slice::from_raw_parts_mut(self.map.start.cast::<u8>().as_ptr(), self.map.bytes)
        }
    }

    /// All of it, for reading.
    pub(crate) fn bytes_to_read(&self) -> &[u8] {
        // SAFETY: this is the whole mapping, which lives as long as `self`. Writing needs `&mut
        // self`, and no other process can write.
        unsafe { std::slice::from_raw_parts(self.map.start.cast::<u8>().as_ptr(), self.map.bytes) }
    }

    /// Makes it read-only for everybody else, once the batch in it has `used` bytes. Returns memory
    /// if more than half of it is not in use.
    pub(crate) fn seal(&mut self, used: usize) -> Result<(), MemoryError> {
        if self.is_sealed {
            return Ok(());
        }
        // The next batch may be somewhat larger.
        let kept = (used + used / 4).max(PAGE).next_multiple_of(PAGE);
        if self.map.bytes / 2 > used && self.map.bytes > kept {
            self.map.cut(kept);
            ftruncate(&*self.fd, kept as i64).map_err(failed("cutting it to size", kept))?;
            self.taken.resize(kept as u64)?;
        }
        seal(&*self.fd, self.map.bytes)?;
        self.is_sealed = true;
        Ok(())
    }

    /// The descriptor to hand out. Once the buffer is sealed, it gives read access only.
    pub(crate) fn fd(&self) -> Arc<OwnedFd> {
        self.fd.clone()
    }
}
