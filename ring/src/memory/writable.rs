//! The host's side: the ring's memory, and dedicated buffers. They are writable here, and sealed
//! for everybody else.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, FcntlArg, SealFlag, fallocate, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MRemapFlags, ProtFlags, mremap};
use nix::unistd::ftruncate;
use pipemill_types::SharedFile;

use super::{Mapping, MemoryError, failed};

/// Bytes. A dedicated buffer grows by at least this much, and at least by a quarter of its size,
/// because growing costs system calls.
const MIN_GROWTH: usize = 1 << 20;
/// Bytes.
const PAGE: usize = 4096;
/// Bytes whose pages are made present by one system call. While it runs, other threads can't map
/// or unmap memory, so it is short.
const POPULATE_STEP: usize = 128 << 10;

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
    file: Arc<SharedFile>,
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
        Ok(RingMemory { file: Arc::new(SharedFile { fd, bytes: bytes as u64 }), map })
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
    /// Where the part is not within the memory.
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
    /// Where the part is not within the memory.
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

/// A dedicated buffer: a memfd for one batch. It grows while it is filled, and is
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
