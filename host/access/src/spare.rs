//! Memory of blocks that are not kept any more, for other blocks: its pages are present, and new
//! memory would be zeroed first.

use std::sync::{Arc, Mutex, PoisonError};

/// Memory that is used again.
#[derive(Clone)]
pub(crate) struct SpareMemory(Arc<Mutex<Spare>>);

struct Spare {
    /// Most bytes that wait to be used again.
    limit: usize,
    bytes: usize,
    memories: Vec<Vec<u8>>,
}

/// Memory may be larger than what is needed by these bytes, and by a third of it.
const ROOM: usize = 64 << 10;

/// Whether memory of this size is not much too large for what is needed.
fn fits(size: usize, needed: usize) -> bool {
    size <= needed + needed / 3 + ROOM
}

impl SpareMemory {
    /// At most this many bytes wait to be used again.
    pub(crate) fn new(limit: usize) -> Self {
        Self(Arc::new(Mutex::new(Spare { limit, bytes: 0, memories: Vec::new() })))
    }

    /// Memory of this many bytes, which hold anything.
    pub(crate) fn take(&self, bytes: usize) -> Vec<u8> {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fit =
            |memory: &Vec<u8>| memory.capacity() >= bytes && fits(memory.capacity(), bytes);
        let Some(at) = spare.memories.iter().rposition(is_fit) else {
            drop(spare);
            return vec![0; bytes];
        };
        let mut memory = spare.memories.swap_remove(at);
        spare.bytes -= memory.capacity();
        drop(spare);
        memory.resize(bytes, 0);
        memory
    }

    /// Takes memory back.
    pub(crate) fn give(&self, memory: Vec<u8>) {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if memory.capacity() > 0 && spare.bytes + memory.capacity() <= spare.limit {
            spare.bytes += memory.capacity();
            spare.memories.push(memory);
        }
    }

    /// Cuts memory to the bytes that are in use. What is much too large becomes smaller.
    pub(crate) fn cut(memory: &mut Vec<u8>, used: usize) {
        memory.truncate(used);
        if !fits(memory.capacity(), used) {
            memory.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_if_it_fits() {
        let spare = SpareMemory::new(5 << 20);
        let place = |memory: &Vec<u8>| memory.as_ptr();
        let (mut large, small) = (spare.take(4 << 20), spare.take(1 << 20));
        let places = (place(&large), place(&small));
        SpareMemory::cut(&mut large, 7 << 19);
        assert_eq!((large.len(), place(&large)), (7 << 19, places.0));
        spare.give(large);
        spare.give(small);
        assert_ne!(place(&spare.take(2 << 20)), places.0);
        let again = spare.take(4 << 20);
        assert_eq!((again.len(), place(&again)), (4 << 20, places.0));
        let mut again = spare.take(1 << 20);
        assert_eq!((again.len(), place(&again)), (1 << 20, places.1));
        SpareMemory::cut(&mut again, 100);
        assert!(again.capacity() < 1 << 20);
    }

    #[test]
    fn no_more_than_the_limit_waits() {
        let spare = SpareMemory::new(100);
        spare.give(vec![0; 60]);
        spare.give(vec![0; 60]);
        let waiting = spare.0.lock().map(|spare| (spare.bytes, spare.memories.len()));
        assert_eq!(waiting.ok(), Some((60, 1)));
    }
}
