//! Counts what decoding costs, in bytes and not in time: a test that is bounded by this count does
//! the same on every machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The work of all runs of a plugin so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Work(Arc<AtomicU64>);

/// What a new instance costs: as much as this number of bytes.
const INSTANCE: u64 = 16 << 10;
/// What a call costs.
const CALL: u64 = 1 << 10;
/// What a value of a record costs, besides its bytes.
const VALUE: u64 = 64;
/// What a byte of a value costs: it is copied several times, and compared.
const VALUE_BYTE: u64 = 2;

impl Work {
    /// Adds a run: its number of calls, the bytes that they were shown, and the values of the records,
    /// of which each has a number of bytes.
    pub(super) fn add(&self, calls: u64, shown: u64, values: impl Iterator<Item = usize>) {
        let values: u64 = values.map(|bytes| VALUE + VALUE_BYTE * bytes as u64).sum();
        self.0.fetch_add(INSTANCE + calls * CALL + shown + values, Ordering::Relaxed);
    }

    /// The work so far, in bytes.
    pub(super) fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
