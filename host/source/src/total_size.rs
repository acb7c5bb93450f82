//! Byte counts of epochs, from which progress displays compute what is left.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Epochs whose byte count is kept. A source never lists this many epochs ahead of its reader.
const MAX_EPOCHS: usize = 8_192;

/// Handle to the byte counts of the epochs for which it is known. All clones share one state. The
/// source sets the counts, possibly some epochs ahead of the epoch that is read.
#[derive(Clone, Default)]
pub struct TotalSize(Arc<Mutex<BTreeMap<u32, u64>>>);

impl TotalSize {
    /// Bytes of this epoch, if they are known. The counts of earlier epochs are dropped.
    pub fn of(&self, epoch: u32) -> Option<u64> {
        let mut epochs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *epochs = epochs.split_off(&epoch);
        epochs.get(&epoch).copied()
    }

    pub(super) fn set(&self, epoch: u32, bytes: u64) {
        let mut epochs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        epochs.insert(epoch, bytes);
        // Bounds the map if nobody calls `of`.
        if epochs.len() > MAX_EPOCHS {
            epochs.pop_first();
        }
    }
}
