//! How many bytes an epoch has: for those who show how far it is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Epochs that are remembered: more than are read ahead.
const MOST: usize = 8_192;

/// The bytes of epochs as they are read, once they are known. A source tells them, some epochs ahead of who asks.
#[derive(Clone, Default)]
pub struct TotalSize(Arc<Mutex<BTreeMap<u32, u64>>>);

impl TotalSize {
    /// The bytes of this epoch, if they are known. Earlier ones are forgotten.
    pub fn of(&self, epoch: u32) -> Option<u64> {
        let mut epochs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *epochs = epochs.split_off(&epoch);
        epochs.get(&epoch).copied()
    }

    pub(super) fn tell(&self, epoch: u32, bytes: u64) {
        let mut epochs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        epochs.insert(epoch, bytes);
        // Nobody may ever ask.
        if epochs.len() > MOST {
            epochs.pop_first();
        }
    }
}
