//! Memories of batches: private ones, and slots of a file that decoders may map, as a ring has
//! them.

use std::sync::{Arc, Mutex};

use memmap2::{MmapMut, MmapOptions};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::ftruncate;
use pipemill_types::{ChunkMemory, SharedFile, SharedPart};

/// Content of memory that was used before.
const DIRT: u8 = 0xdb;
/// Slots of the file.
const SLOTS: usize = 3;
/// Bytes of a page.
const PAGE: usize = 4096;

/// Memory of a batch. Bytes that nobody wrote read as [`DIRT`].
pub enum Memory {
    Private { bytes: Vec<u8>, large: bool },
    Slot(Slot),
}

/// A slot of the file. It is free again when this is dropped.
pub struct Slot {
    place: Place,
    of: Arc<Slots>,
}

/// The place of a slot.
#[derive(Default)]
struct Place {
    bytes: Option<MmapMut>,
    number: usize,
}

/// A file with a few slots.
pub struct Slots {
    file: Arc<SharedFile>,
    /// Bytes of a slot.
    len: usize,
    free: Mutex<Vec<Place>>,
}

impl Slots {
    /// Slots of this many bytes.
    pub fn new(len: usize) -> Arc<Self> {
        let bytes = (SLOTS * len.next_multiple_of(PAGE)) as u64;
        let fd = memfd_create("slots", MFdFlags::MFD_ALLOW_SEALING).expect("a file");
        ftruncate(&fd, bytes as i64).expect("a size");
        fcntl(&fd, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK)).expect("a seal");
        let place = |number| {
            let size = len.next_multiple_of(PAGE);
            let options = MmapOptions::new().offset((number * size) as u64).len(size).to_owned();
            // SAFETY: each slot is mapped once, and decoders that map it too can't write it.
            Place { bytes: Some(unsafe { options.map_mut(&fd) }.expect("a mapping")), number }
        };
        let free = Mutex::new((0..SLOTS).map(place).collect());
        Arc::new(Self { file: Arc::new(SharedFile { fd, bytes, most: bytes }), len, free })
    }

    /// The slot that was freed last; private memory if none is free.
    pub fn take(self: &Arc<Self>) -> Memory {
        let free = self.free.lock().expect("nobody panics with it").pop();
        let Some(place) = free else { return Memory::private(self.len) };
        let mut slot = Memory::Slot(Slot { place, of: self.clone() });
        slot.as_mut().fill(DIRT);
        slot
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let place = std::mem::take(&mut self.place);
        self.of.free.lock().expect("nobody panics with it").push(place);
    }
}

impl Memory {
    /// Memory of this process alone.
    pub fn private(len: usize) -> Self {
        Self::Private { bytes: vec![DIRT; len], large: false }
    }

    /// Memory for a batch that fits into no other.
    pub fn large(len: usize) -> Self {
        Self::Private { bytes: vec![DIRT; len], large: true }
    }

    /// Whether it is for a batch that fits into no other.
    pub fn is_large(&self) -> bool {
        matches!(self, Self::Private { large: true, .. })
    }

    /// Makes it this large.
    pub fn grow(&mut self, len: usize) {
        if let Self::Private { bytes, .. } = self {
            // Each byte is copied at most once more in all.
            bytes.resize(len.max(2 * bytes.len()), DIRT);
        }
    }
}

impl AsRef<[u8]> for Memory {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Private { bytes, .. } => bytes,
            Self::Slot(slot) => {
                let bytes = slot.place.bytes.as_deref().expect("a slot is mapped");
                &bytes[..slot.of.len]
            }
        }
    }
}

impl AsMut<[u8]> for Memory {
    fn as_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Private { bytes, .. } => bytes,
            Self::Slot(slot) => {
                let bytes = slot.place.bytes.as_deref_mut().expect("a slot is mapped");
                &mut bytes[..slot.of.len]
            }
        }
    }
}

impl ChunkMemory for Memory {
    fn shared(&self) -> Option<SharedPart<'_>> {
        let Self::Slot(slot) = self else { return None };
        let offset = (slot.place.number * slot.of.len.next_multiple_of(PAGE)) as u64;
        Some(SharedPart { file: &slot.of.file, offset })
    }
}
