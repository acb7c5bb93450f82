//! The consumer's side: a read-only mapping of memory whose descriptor the host has sent.

use std::os::fd::OwnedFd;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::mman::ProtFlags;
use nix::sys::stat::fstat;

use super::fork::HiddenAfterFork;
use super::{Mapping, MemoryError, failed};

/// A consumer's read-only mapping of shared memory. Children that are forked later can't read it:
/// the host overwrites it as soon as the parent has sent RELEASE.
#[derive(Debug)]
pub(crate) struct ReadMemory {
    // The fields are dropped in this order: from then on, a forked child can reuse these addresses.
    _hidden: HiddenAfterFork,
    map: Mapping,
}

impl ReadMemory {
    /// Maps `bytes` bytes of a received descriptor, after checking that reading them can't fault.
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
        let map = Mapping::new(&fd, bytes, ProtFlags::PROT_READ)?;
        Ok(ReadMemory { _hidden: HiddenAfterFork::new(&map)?, map })
    }

    /// `bytes` bytes from `from` on. `None` if they are not within the memory.
    ///
    /// # Safety
    /// While the slice lives, the host must not write to this part: it belongs to a batch that was
    /// granted and is RELEASEd after the slice's end.
    pub(crate) unsafe fn part(&self, from: usize, bytes: usize) -> Option<&[u8]> {
        let part = self.map.part(from, bytes)?;
        // SAFETY: the part is within the mapping, which can't shrink (`map` has checked the seal),
        // and the caller vouches that nobody writes it.
        Some(unsafe { std::slice::from_raw_parts(part, bytes) })
    }
}
