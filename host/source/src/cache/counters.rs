//! What a channel's cache has done, for metrics and reports.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// Counts of a channel's cache. Relaxed: they are for people, and no other data depends on them.
#[derive(Debug, Default)]
pub struct CacheCounters {
    pub(super) hit_bytes: AtomicU64,
    pub(super) missed_bytes: AtomicU64,
    pub(super) stored: AtomicU64,
    pub(super) evicted: AtomicU64,
    pub(super) damaged: AtomicU64,
    pub(super) not_stored: AtomicU64,
}

/// The counts at one moment. The page on operating documents their names in a status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheCounts {
    /// Stored bytes that came from the cache; in a cache of records, bytes of objects whose records
    /// came from it, after decompression.
    pub hit_bytes: u64,
    /// Bytes that were fetched from S3; in a cache of records, bytes that were decoded.
    pub missed_bytes: u64,
    /// Blocks that were stored.
    pub stored: u64,
    /// Blocks that were removed to make room.
    pub evicted: u64,
    /// Blocks that were found damaged, and were removed.
    pub damaged: u64,
    /// Blocks that were not stored: there was no room, or the disk refused them.
    pub not_stored: u64,
}

impl CacheCounts {
    /// The sums of two caches.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            hit_bytes: self.hit_bytes + other.hit_bytes,
            missed_bytes: self.missed_bytes + other.missed_bytes,
            stored: self.stored + other.stored,
            evicted: self.evicted + other.evicted,
            damaged: self.damaged + other.damaged,
            not_stored: self.not_stored + other.not_stored,
        }
    }

    /// The part of all bytes that came from the cache, in percent, rounded down. `None` if there
    /// were none.
    pub fn percent(&self) -> Option<u64> {
        let all = u128::from(self.hit_bytes) + u128::from(self.missed_bytes);
        let percent = (u128::from(self.hit_bytes) * 100).checked_div(all)?;
        Some(percent as u64)
    }
}

impl CacheCounters {
    pub(super) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts bytes that came from the cache.
    pub fn add_hit(&self, bytes: u64) {
        Self::add(&self.hit_bytes, bytes);
    }

    /// Counts bytes that were fetched, or decoded.
    pub fn add_missed(&self, bytes: u64) {
        Self::add(&self.missed_bytes, bytes);
    }

    /// The counts now.
    pub fn now(&self) -> CacheCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CacheCounts {
            hit_bytes: of(&self.hit_bytes),
            missed_bytes: of(&self.missed_bytes),
            stored: of(&self.stored),
            evicted: of(&self.evicted),
            damaged: of(&self.damaged),
            not_stored: of(&self.not_stored),
        }
    }
}
