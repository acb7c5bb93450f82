//! The host's side: the ring's memory, and dedicated buffers. They are writable here, and sealed
//! for everybody else.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::ProtFlags;
use nix::unistd::ftruncate;
use pipemill_types::{MemoryBudget, SharedFile, TakenMemory};

use super::pages::{Backoff, populate_in_background};
use super::{Mapping, MemoryError, PAGE, failed};

/// In bytes. A dedicated buffer grows by at least this much, and at least by a quarter of its size,
/// because growing costs system calls.
const MIN_GROWTH: usize = 1 << 20;
/// Extra time that huge pages of a ring may take. A ring is made once.
const RING_DELAY: Duration = Duration::from_millis(10);
/// The same for a dedicated buffer. There is one for each batch that fits into no slot.
const DEDICATED_DELAY: Duration = Duration::from_millis(1);

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

/// The ring's memory in the host: writable here, sealed for everybody else.
pub(crate) struct RingMemory {
    file: Arc<SharedFile>,
    map: Arc<Mapping>,
}

impl RingMemory {
    /// `bytes` bytes of zeroed memory, all of it reserved. Pages that are not huge become present
    /// in the background.
    pub(crate) fn create(name: &str, bytes: usize) -> Result<RingMemory, MemoryError> {
        let fd = create(name)?;
        let map = map_whole(&fd, bytes)?;
        let huge_end = map.reserve(&fd, 0, Some(RING_DELAY))?.end;
        seal(&fd, bytes)?;
        let map = Arc::new(map);
        if huge_end < bytes {
            populate_in_background(&map, huge_end);
        }
        let bytes = bytes as u64;
        Ok(RingMemory { file: Arc::new(SharedFile { fd, bytes, most: bytes }), map })
    }

    /// The descriptor to hand out. It is sealed, so it gives read access only.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.file.fd.as_fd()
    }

    /// The memory as a file, which can't shrink.
    pub(crate) fn file(&self) -> &Arc<SharedFile> {
        &self.file
    }

    /// A part of the memory, for writing.
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

/// Allocates the memory from `from` on. Returns the end of its huge pages.
fn reserve_dedicated(map: &Mapping, fd: impl AsFd, from: usize) -> Result<usize, MemoryError> {
    let is_due = DEDICATED_BACKOFF.is_due();
    let huge = map.reserve(fd, from, is_due.then_some(DEDICATED_DELAY))?;
    if huge.end > from || huge.was_late {
        DEDICATED_BACKOFF.tried(huge.was_late);
    }
    Ok(huge.end)
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
        let huge_end = reserve_dedicated(&map, &fd, 0)?;
        // The pages are made present in the foreground, because all of them are written soon.
        // Without it, each page becomes present when it is first written.
        let _ = map.populate(huge_end, bytes - huge_end);
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
        reserve_dedicated(&map, &*self.fd, old)?;
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
