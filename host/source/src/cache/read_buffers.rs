//! Memory into which blocks are read. It is used again, because the system clears the pages of new
//! memory first, which takes longer than to read a block.

use std::sync::{Arc, Mutex, PoisonError};

use super::block_file::BLOCK;

/// Most buffers that wait to be used again. They are a part of what requests may take for a cache:
/// see [`CACHE_BYTES_OF_REQUEST`](super::CACHE_BYTES_OF_REQUEST).
const KEPT: usize = 8;

/// Buffers of one channel that are not in use.
#[derive(Debug, Default)]
pub(super) struct ReadBuffers(Mutex<Vec<Vec<u8>>>);

impl ReadBuffers {
    /// An empty buffer with room for a block.
    pub(super) fn take(self: &Arc<Self>) -> ReadBuffer {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let bytes = kept.unwrap_or_else(|| Vec::with_capacity(BLOCK as usize));
        ReadBuffer { bytes, buffers: self.clone() }
    }
}

/// A buffer that goes back when it is dropped.
pub(super) struct ReadBuffer {
    pub(super) bytes: Vec<u8>,
    buffers: Arc<ReadBuffers>,
}

impl AsRef<[u8]> for ReadBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for ReadBuffer {
    fn drop(&mut self) {
        let mut kept = self.buffers.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT {
            self.bytes.clear();
            kept.push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_again_and_few_are_kept() {
        let buffers = Arc::<ReadBuffers>::default();
        let mut first = buffers.take();
        first.bytes.extend(b"abc");
        let place = first.bytes.as_ptr();
        drop(first);
        let again = buffers.take();
        assert!(again.bytes.is_empty() && again.bytes.as_ptr() == place);
        let many: Vec<_> = (0..2 * KEPT).map(|_| buffers.take()).collect();
        drop((again, many));
        assert_eq!(buffers.0.lock().map(|kept| kept.len()).ok(), Some(KEPT));
    }
}
