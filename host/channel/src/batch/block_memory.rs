//! Memory for records that wait: in a window, in the inputs of a mix, between workers.

use std::any::Any;
use std::ops::{Deref, DerefMut};

use memmap2::{Advice, MmapMut};
use pipemill_types::{BatchMemory, ChunkMemory, Column, HUGE_PAGE, SharedPart};

use crate::sink::grow_private;

/// The index of a block takes at most this many times the block's memory. Without this limit,
/// records without bytes would never fill a block.
const MAX_INDEX: usize = 4;

/// Memory for the decoder's records.
pub struct BlockMemory {
    bytes: Bytes,
    /// Whether it is for a single record that does not fit into other memory.
    is_dedicated: bool,
}

impl AsRef<[u8]> for BlockMemory {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsMut<[u8]> for BlockMemory {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl ChunkMemory for BlockMemory {
    fn shared(&self) -> Option<SharedPart<'_>> {
        match &self.bytes {
            Bytes::Lent(lent) => lent.shared(),
            Bytes::Heap(_) | Bytes::Mapped(_) => None,
        }
    }
}

/// Only lent memory has a place for an index.
impl BatchMemory for BlockMemory {
    fn write_index(&mut self, payload: usize, texts: usize, columns: &[Column]) -> bool {
        match &mut self.bytes {
            Bytes::Lent(lent) => lent.write_index(payload, texts, columns),
            Bytes::Heap(_) | Bytes::Mapped(_) => false,
        }
    }

    fn wanted_views(&self) -> usize {
        match &self.bytes {
            Bytes::Lent(lent) => lent.wanted_views(),
            Bytes::Heap(_) | Bytes::Mapped(_) => 0,
        }
    }

    fn take_index(&mut self) -> Option<Vec<Column>> {
        match &mut self.bytes {
            Bytes::Lent(lent) => lent.take_index(),
            Bytes::Heap(_) | Bytes::Mapped(_) => None,
        }
    }
}

impl BlockMemory {
    /// Private memory of `bytes` bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { bytes: Bytes::new(bytes), is_dedicated: false }
    }

    /// Private memory of `bytes` bytes, for a record that fits into no other memory.
    pub(crate) fn dedicated(bytes: usize) -> Self {
        Self { bytes: Bytes::Heap(vec![0; bytes]), is_dedicated: true }
    }

    /// Memory that is lent. Its owner takes it back with [`into_lent`](Self::into_lent).
    pub(crate) fn lent(memory: impl LentMemory) -> Self {
        Self { bytes: Bytes::Lent(Box::new(memory)), is_dedicated: false }
    }

    /// Whether the memory is lent.
    pub(crate) fn is_lent(&self) -> bool {
        matches!(self.bytes, Bytes::Lent(_))
    }

    /// The lent memory, if it is of the type `M`. Otherwise the error is `self`.
    pub(crate) fn into_lent<M: LentMemory>(self) -> Result<M, Self> {
        match self.bytes {
            Bytes::Lent(lent) if (&*lent as &dyn Any).is::<M>() => {
                let lent: Box<dyn Any> = lent;
                Ok(*lent.downcast().expect("its type was looked at"))
            }
            bytes => Err(Self { bytes, ..self }),
        }
    }

    /// Whether it is for a single record that does not fit into other memory.
    pub(crate) fn is_dedicated(&self) -> bool {
        self.is_dedicated
    }

    /// Bytes that values may take in this memory, together with the index of `records` records.
    /// `None` if the index is too large.
    pub(crate) fn room(&self, records: usize, fields: usize) -> Option<usize> {
        let size = self.bytes.len();
        (self.is_dedicated || has_room_for_index(records, fields, size)).then_some(size)
    }

    /// Enlarges the memory to at least `bytes` bytes. Its content stays.
    pub(crate) fn grow(&mut self, bytes: usize) {
        self.is_dedicated = true;
        match &mut self.bytes {
            Bytes::Heap(list) => grow_private(list, bytes),
            other => {
                let mut list = vec![0; bytes.max(other.len())];
                list[..other.len()].copy_from_slice(other);
                self.bytes = Bytes::Heap(list);
            }
        }
    }

    /// Takes the bytes out.
    pub(crate) fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

impl From<Bytes> for BlockMemory {
    fn from(bytes: Bytes) -> Self {
        Self { bytes, is_dedicated: false }
    }
}

/// Memory that can be lent: the memory of a sink's batches.
pub(crate) trait LentMemory: BatchMemory + Any {}

impl<M: BatchMemory + Any> LentMemory for M {}

/// Zeroed bytes, or lent memory.
pub(crate) enum Bytes {
    Heap(Vec<u8>),
    Mapped(MmapMut),
    Lent(Box<dyn LentMemory>),
}

impl Bytes {
    /// Allocates `len` zeroed bytes: in huge pages, if `len` fills one and the kernel has some. A
    /// window is larger than the processor's caches. In small pages, each of its records would cost
    /// a miss of the page table. The first use of small pages also takes as long as decoding does.
    pub(crate) fn new(len: usize) -> Self {
        if len >= HUGE_PAGE
            // Fails if the process has reached its limit of mappings.
            && let Ok(map) = MmapMut::map_anon(len)
        {
            // A kernel without huge pages refuses. Small pages work, too.
            let _ = map.advise(Advice::HugePage);
            return Self::Mapped(map);
        }
        Self::Heap(vec![0; len])
    }
}

impl Default for Bytes {
    fn default() -> Self {
        Self::Heap(Vec::new())
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Heap(list) => list,
            Self::Mapped(map) => map,
            Self::Lent(lent) => (**lent).as_ref(),
        }
    }
}

impl DerefMut for Bytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(list) => list,
            Self::Mapped(map) => map,
            Self::Lent(lent) => (**lent).as_mut(),
        }
    }
}

/// Whether the index of `records` records is small enough for a block of `block` bytes.
pub(crate) fn has_room_for_index(records: usize, fields: usize, block: usize) -> bool {
    records.saturating_mul(8 * fields + 16) <= MAX_INDEX * block
}
