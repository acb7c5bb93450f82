//! Memory that a window uses again: of blocks that all records have left. The window's thread gives
//! it, and the decoder's thread takes it.

use std::sync::{Arc, Mutex, MutexGuard};

use crate::batch::block_memory::{BlockMemory, Bytes};

/// The smallest page of memory, in bytes.
const SMALL_PAGE: usize = 4 << 10;

/// A handle to the memory. Its clones share the memory.
#[derive(Clone)]
pub(super) struct SpareMemory {
    block_bytes: usize,
    state: Arc<Mutex<SpareState>>,
}

#[derive(Default)]
struct SpareState {
    /// Memory of the size of a block.
    blocks: Vec<Bytes>,
    /// Bytes of other memory that was taken, and for which no block was freed yet: less than a
    /// block.
    owed: usize,
    /// Bytes of blocks that the decoder fills, for the tests.
    #[cfg(test)]
    lent: usize,
}

impl SpareMemory {
    /// An empty handle, for blocks of this size.
    pub(super) fn new(block_bytes: usize) -> Self {
        Self { block_bytes, state: Arc::default() }
    }

    /// Bytes of a block.
    pub(super) fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    fn lock(&self) -> MutexGuard<'_, SpareState> {
        self.state.lock().expect("no code under this lock panics")
    }

    /// Memory of a block.
    pub(super) fn take(&self) -> Bytes {
        let spare = self.lock().blocks.pop();
        spare.unwrap_or_else(|| Bytes::new(self.block_bytes))
    }

    /// Makes memory for the decoder's next block, unless there is some. Returns whether it did.
    ///
    /// The kernel clears memory where it is first written to, which takes as long as decoding does.
    pub(super) fn prepare(&self) -> bool {
        let is_needed = self.lock().blocks.is_empty();
        if is_needed {
            let mut bytes = Bytes::new(self.block_bytes);
            bytes.iter_mut().step_by(SMALL_PAGE).for_each(|byte| *byte = 0);
            self.lock().blocks.push(bytes);
        }
        is_needed
    }

    /// Memory of a block, for the decoder's next records.
    pub(super) fn lend(&self) -> BlockMemory {
        let bytes = self.take();
        #[cfg(test)]
        {
            self.lock().lent += bytes.len();
        }
        bytes.into()
    }

    /// The decoder has given back what was lent.
    #[cfg(test)]
    pub(super) fn returned(&self, memory: &BlockMemory) {
        if !memory.is_dedicated() {
            self.lock().lent -= memory.as_ref().len();
        }
    }

    /// Memory of any size. The same amount of spare memory is freed.
    pub(super) fn other(&self, bytes: usize) -> Bytes {
        self.free(bytes);
        Bytes::Heap(vec![0; bytes])
    }

    /// Memory of any size, for records of the decoder that fit into no block.
    pub(super) fn lend_dedicated(&self, bytes: usize) -> BlockMemory {
        self.free(bytes);
        BlockMemory::dedicated(bytes)
    }

    /// A copy of the first `used` bytes of a block's memory, which is given back.
    pub(super) fn shrink(&self, memory: Bytes, used: usize) -> Bytes {
        let exact = Bytes::Heap(memory[..used].to_vec());
        self.give(memory);
        self.free(used);
        exact
    }

    fn free(&self, bytes: usize) {
        let mut state = self.lock();
        state.owed += bytes;
        while state.owed >= self.block_bytes {
            state.owed -= self.block_bytes;
            state.blocks.pop();
        }
    }

    /// Takes memory that is not needed any more. Only memory of a block is used again.
    pub(super) fn give(&self, memory: Bytes) {
        if memory.len() == self.block_bytes {
            self.lock().blocks.push(memory);
        }
    }

    /// Bytes of memory that are held.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        let state = self.lock();
        state.blocks.iter().map(|memory| memory.len()).sum::<usize>() + state.lent
    }
}
