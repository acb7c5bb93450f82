//! Memory for chunks that lie in no batch. From [`LARGE`] bytes on it is a file without a name, so
//! that a decoder's window shows it: a long chunk is in memory once, not once more in the decoder.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use memmap2::{MmapMut, MmapOptions};
use nix::fcntl::{FallocateFlags, FcntlArg, SealFlag, fallocate, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use pipemill_types::{ChunkMemory, HUGE_PAGE, SharedFile, SharedPart};

/// From this many bytes on, the memory is a file. A smaller chunk is copied into the decoder's
/// memory, and both copies stay in the processor's caches.
const LARGE: usize = 1 << 20;

/// Bytes that can be read and written, and that a window may show.
pub struct InputBuffer {
    memory: Memory,
    /// Bytes up to which it grows, as far as is known.
    most: u64,
}

enum Memory {
    Heap(Vec<u8>),
    File(Mapped),
}

/// A file and its mapping, which has all its bytes.
struct Mapped {
    map: MmapMut,
    file: Arc<SharedFile>,
}

impl InputBuffer {
    /// A buffer without memory, which will grow up to `most` bytes.
    pub fn new(most: u64) -> Self {
        let most = most.checked_next_multiple_of(HUGE_PAGE as u64).unwrap_or(most);
        Self { memory: Memory::Heap(Vec::new()), most }
    }

    /// Gives it at least `bytes` bytes. The first `used` bytes stay as they are, and the others
    /// have any values.
    pub fn hold(&mut self, bytes: usize, used: usize) {
        let has = self.as_ref().len();
        if has >= bytes {
            return;
        }
        if bytes >= LARGE {
            let spare = usize::try_from(self.most).unwrap_or(usize::MAX).min(has + has / 4);
            let wanted = bytes.max(spare).next_multiple_of(HUGE_PAGE);
            let grown = match &self.memory {
                Memory::File(mapped) => mapped.grown(wanted, self.most),
                Memory::Heap(list) => Mapped::new(wanted, self.most, &list[..used]),
            };
            match grown {
                Ok(mapped) => return self.memory = Memory::File(mapped),
                // Where the kernel refuses, memory of this process alone works, too.
                Err(error) => log::debug!("chunks of {bytes} bytes are copied: {error}"),
            }
        }
        let mut list = match std::mem::replace(&mut self.memory, Memory::Heap(Vec::new())) {
            Memory::Heap(list) => list,
            Memory::File(mapped) => mapped.map[..used].to_vec(),
        };
        list.resize(bytes, 0);
        self.memory = Memory::Heap(list);
    }
}

impl AsRef<[u8]> for InputBuffer {
    fn as_ref(&self) -> &[u8] {
        match &self.memory {
            Memory::Heap(list) => list,
            Memory::File(mapped) => &mapped.map,
        }
    }
}

impl AsMut<[u8]> for InputBuffer {
    fn as_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Heap(list) => list,
            Memory::File(mapped) => &mut mapped.map,
        }
    }
}

impl ChunkMemory for InputBuffer {
    fn shared(&self) -> Option<SharedPart<'_>> {
        match &self.memory {
            Memory::Heap(_) => None,
            Memory::File(mapped) => Some(SharedPart { file: &mapped.file, offset: 0 }),
        }
    }
}

impl Mapped {
    /// A new file of this size, which begins with `content`.
    fn new(bytes: usize, most: u64, content: &[u8]) -> io::Result<Self> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = File::from(memfd_create("pipemill:input", flags)?);
        fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK))?;
        let mut mapped = Self::of(file, 0..bytes, most)?;
        mapped.map[..content.len()].copy_from_slice(content);
        Ok(mapped)
    }

    /// The same file, which has this size now.
    fn grown(&self, bytes: usize, most: u64) -> io::Result<Self> {
        let file = File::from(self.file.fd.try_clone()?);
        Self::of(file, self.map.len()..bytes, most)
    }

    /// Maps a file that has all bytes before this range, and gets those of the range.
    fn of(file: File, new: Range<usize>, most: u64) -> io::Result<Self> {
        let (start, length) = (new.start as i64, new.len() as i64);
        // All of it is taken here. Otherwise the kernel would kill the process at the first use of
        // a page that it has no memory for.
        fallocate(&file, FallocateFlags::empty(), start, length)?;
        // SAFETY: the file has all these bytes and can't shrink. Nobody else writes to it: it has
        // no name, and a decoder's window is a private mapping.
        let map = unsafe { MmapOptions::new().len(new.end).map_mut(&file) }?;
        let bytes = new.end as u64;
        let shared = SharedFile { fd: file.into(), bytes, most: most.max(bytes) };
        Ok(Self { map, file: Arc::new(shared) })
    }
}
