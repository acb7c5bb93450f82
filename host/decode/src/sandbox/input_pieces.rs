//! Memory for chunks in several pieces of one size, which are parts of one file. A decoder's window
//! shows the file, so a chunk in any piece is in memory once, not once more in the decoder.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memmap2::{MmapMut, MmapOptions};
use nix::fcntl::{FallocateFlags, FcntlArg, SealFlag, fallocate, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use pipemill_types::{BatchMemory, ChunkMemory, SharedFile, SharedPart};

/// A file that is divided into pieces, which get their memory one by one.
pub struct InputPieces {
    file: Arc<SharedFile>,
    /// Bytes of a piece.
    bytes: usize,
    count: usize,
    /// Number of the pieces that were given out.
    given: AtomicUsize,
}

/// A piece of the file: bytes that can be read and written.
pub struct InputPiece {
    map: MmapMut,
    file: Arc<SharedFile>,
    offset: u64,
}

impl InputPieces {
    /// `count` pieces of `bytes` bytes, which are whole pages. None of them has memory yet.
    ///
    /// # Errors
    /// The kernel refuses the file.
    pub fn new(count: usize, bytes: usize) -> io::Result<Self> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = File::from(memfd_create("pipemill:portions", flags)?);
        let all = count as u64 * bytes as u64;
        file.set_len(all)?;
        fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW))?;
        let file = Arc::new(SharedFile { fd: file.into(), bytes: all, most: all });
        Ok(Self { file, bytes, count, given: AtomicUsize::new(0) })
    }

    /// A piece that was not given out before. `None` if there is none left, or no memory for it.
    pub fn next(&self) -> Option<InputPiece> {
        let at = self.given.fetch_add(1, Ordering::Relaxed);
        if at >= self.count {
            self.given.store(self.count, Ordering::Relaxed);
            return None;
        }
        let piece = self.piece(at as u64 * self.bytes as u64);
        piece.inspect_err(|error| log::debug!("portions are copied to decoders: {error}")).ok()
    }

    fn piece(&self, offset: u64) -> io::Result<InputPiece> {
        // All of it is taken here. Otherwise the kernel would kill the process at the first use of
        // a page that it has no memory for.
        let (start, length) = (offset as i64, self.bytes as i64);
        fallocate(&self.file.fd, FallocateFlags::empty(), start, length)?;
        let mut options = MmapOptions::new();
        options.offset(offset).len(self.bytes).populate();
        // SAFETY: the file has all these bytes and can't shrink. Nobody else writes to them: it has
        // no name, a decoder's window is a private mapping, and no other piece overlaps this one.
        let map = unsafe { options.map_mut(&self.file.fd) }?;
        Ok(InputPiece { map, file: self.file.clone(), offset })
    }
}

impl AsRef<[u8]> for InputPiece {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}

impl AsMut<[u8]> for InputPiece {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.map
    }
}

impl ChunkMemory for InputPiece {
    fn shared(&self) -> Option<SharedPart<'_>> {
        Some(SharedPart { file: &self.file, offset: self.offset })
    }
}

impl BatchMemory for InputPiece {}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn each_piece_is_a_part_of_the_file_and_is_given_once() {
        const BYTES: usize = 8192;
        let pieces = InputPieces::new(3, BYTES).unwrap();
        let mut given: Vec<_> = std::iter::from_fn(|| pieces.next()).collect();
        assert_eq!(given.len(), 3);
        for (number, piece) in given.iter_mut().enumerate() {
            assert_eq!(piece.as_ref().len(), BYTES);
            piece.as_mut().fill(number as u8 + 1);
        }
        for (number, piece) in given.iter().enumerate() {
            let part = piece.shared().unwrap();
            assert_eq!(part.file.bytes, 3 * BYTES as u64);
            let mut bytes = vec![0; BYTES];
            let file = File::from(part.file.fd.try_clone().unwrap());
            file.read_exact_at(&mut bytes, part.offset).unwrap();
            assert!(bytes.iter().all(|byte| *byte == number as u8 + 1));
        }
        drop(given);
        assert!(pieces.next().is_none());
    }
}
