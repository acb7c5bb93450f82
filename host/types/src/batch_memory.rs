//! Memory that is filled with a batch.

use crate::{ChunkMemory, Column};

/// Bytes of the view of a string.
pub const VIEW_BYTES: usize = 16;

/// Memory of a batch while it is filled. Records stay in it where the decoder found them.
pub trait BatchMemory: ChunkMemory + AsMut<[u8]> {
    /// Writes the index of the batch's records into the memory, if it has room for it, and returns
    /// whether it did. If so, the batch is delivered without columns. Another thread, whose core
    /// has none of the columns in its caches, can then deliver it.
    ///
    /// `payload`: bytes of the records, at the start of the memory. `texts`: upper limit of the
    /// bytes that name the object and describe it. Writing to the memory afterwards makes the index
    /// invalid.
    fn write_index(&mut self, payload: usize, texts: usize, columns: &[Column]) -> bool {
        let _ = (payload, texts, columns);
        false
    }

    /// Number of fields for which views of strings are written with the index,
    /// [`VIEW_BYTES`] for each record. It may change at any time: if there is no room for views,
    /// they are left out.
    fn wanted_views(&self) -> usize {
        0
    }

    /// The columns of the index that was written; the index becomes invalid.
    fn take_index(&mut self) -> Option<Vec<Column>> {
        None
    }
}

impl BatchMemory for Vec<u8> {}
