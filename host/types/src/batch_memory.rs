//! Memory that batches are filled in.

use crate::{ChunkMemory, Column};

/// Memory of a batch while it is filled. Records stay where the decoder has found them in it.
pub trait BatchMemory: ChunkMemory + AsMut<[u8]> {
    /// Writes the index of the batch's records into the memory, if it has a place there, and
    /// returns whether it did. Then the batch is handed over without columns. So another thread may
    /// hand it over whose core has none of the columns in its caches.
    ///
    /// `payload`: bytes of the records, at the start of the memory. `texts`: bytes at most that
    /// name the object and tell its facts. To write to the memory afterwards makes the index
    /// invalid.
    fn write_index(&mut self, payload: usize, texts: usize, columns: &[Column]) -> bool {
        let _ = (payload, texts, columns);
        false
    }

    /// The columns of the index that was written, which is not valid any more from now on.
    fn take_index(&mut self) -> Option<Vec<Column>> {
        None
    }
}

impl BatchMemory for Vec<u8> {}
