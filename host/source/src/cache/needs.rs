//! In which of its next epochs a channel needs blocks, where an index tells it.
//!
//! A channel that reads all of its data in each epoch needs each block once an epoch. Then it makes
//! no difference which blocks stay: from one epoch to the next, at most as many are kept as there
//! is room for, and each of them is read once. A channel that reads another part of shuffled data
//! in each epoch needs one block in the next epoch again, and another one after many.

use std::collections::HashMap;
use std::time::SystemTime;

use super::block_file::BLOCK;
use super::identity::NameKey;

/// Epochs before this one that are remembered.
pub(crate) const PAST: u32 = 2;
/// Later epochs that may be known. Each epoch is a bit.
pub(crate) const AHEAD: u32 = u32::BITS - PAST - 1;
/// Blocks that may be known.
const MAX_BLOCKS: usize = 1 << 20;
/// Memory of each of them, while the table grows.
const BYTES_OF_BLOCK: u64 = 40;

/// Bytes of memory that it takes to know what a channel needs of objects of these sizes.
pub(crate) fn memory_of_needs(sizes: impl Iterator<Item = u64>) -> u64 {
    let blocks: u64 = sizes.map(|size| size.div_ceil(BLOCK)).sum();
    blocks.min(MAX_BLOCKS as u64) * BYTES_OF_BLOCK
}

/// What the sources of a channel need. Those of its shards share it.
pub(super) struct Needs {
    /// The last epoch that has begun, and when it did.
    epoch: u32,
    began: SystemTime,
    /// The epochs in which each block is read: bit 0 is [`PAST`] epochs before this one.
    blocks: HashMap<NameKey, u32>,
}

/// When a block is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Need {
    /// Number of epochs until then, 0 for this one. `u32::MAX` if no epoch that is known needs it.
    pub(super) after: u32,
    /// Whether this process reads it in this epoch, or has read it in one of the last: so it knows
    /// better than the time of the last use whether the block may be removed.
    pub(super) is_own: bool,
}

impl Need {
    /// Nothing is known.
    pub(super) const UNKNOWN: Self = Self { after: u32::MAX, is_own: false };

    /// What both say.
    pub(super) fn with(self, other: Self) -> Self {
        Self { after: self.after.min(other.after), is_own: self.is_own || other.is_own }
    }
}

impl Needs {
    pub(super) fn new() -> Self {
        Self { epoch: 0, began: SystemTime::now(), blocks: HashMap::new() }
    }

    /// An epoch has begun.
    pub(super) fn enter(&mut self, epoch: u32) {
        if epoch <= self.epoch {
            return;
        }
        let passed = epoch - self.epoch;
        self.blocks.retain(|_, epochs| {
            *epochs = epochs.checked_shr(passed).unwrap_or(0);
            *epochs != 0
        });
        (self.epoch, self.began) = (epoch, SystemTime::now());
    }

    /// These blocks are read in this epoch.
    pub(super) fn add(&mut self, epoch: u32, blocks: impl Iterator<Item = NameKey>) {
        let bit =
            epoch.saturating_add(PAST).checked_sub(self.epoch).and_then(|at| 1_u32.checked_shl(at));
        if let Some(bit) = bit {
            blocks.for_each(|block| *self.blocks.entry(block).or_default() |= bit);
        }
    }

    /// Whether another epoch may be added.
    pub(super) fn has_room(&self) -> bool {
        self.blocks.len() < MAX_BLOCKS
    }

    /// When a block is needed that was used then.
    pub(super) fn of(&self, block: NameKey, used: SystemTime) -> Need {
        let Some(epochs) = self.blocks.get(&block) else { return Need::UNKNOWN };
        let is_own = epochs & ((1 << (PAST + 1)) - 1) != 0;
        let is_next = used < self.began && epochs >> PAST & 1 == 1;
        let after = match epochs >> (PAST + 1) {
            _ if is_next => 0,
            0 => u32::MAX,
            later => later.trailing_zeros() + 1,
        };
        Need { after, is_own }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cache::{CachedObject, ObjectState};

    fn block(number: u64) -> NameKey {
        let (server, bucket, key, etag) = ("s", "b", "k", "e");
        let state = ObjectState { server, bucket, key, version: None, etag, size: 9, verify: true };
        CachedObject::new(&state).block(number).name_key()
    }

    #[test]
    fn memory_is_that_of_some_blocks_at_most() {
        assert_eq!(memory_of_needs([0, 1, BLOCK, BLOCK + 1].into_iter()), 4 * 40);
        assert_eq!(memory_of_needs([1 << 50].into_iter()), 40 << 20);
    }

    #[test]
    fn a_need_is_that_of_the_next_epoch_that_reads_the_block() {
        let is_read = |number: u64, epoch: u32| u64::from(epoch).is_multiple_of(number + 1);
        let reads = |epoch: u32| (0..40).filter(move |number| is_read(*number, epoch));
        let mut needs = Needs::new();
        for epoch in 0..100 {
            needs.enter(epoch);
            let new = if epoch == 0 { 0..=AHEAD } else { epoch + AHEAD..=epoch + AHEAD };
            new.for_each(|epoch| needs.add(epoch, reads(epoch).map(block)));
            let (before, since) = (needs.began - Duration::from_nanos(1), needs.began);
            for number in 0..40 {
                let next = |from| (from..=epoch + AHEAD).find(|one| is_read(number, *one));
                let after = |from| next(from).map_or(u32::MAX, |next| next - epoch);
                let is_own = (epoch.saturating_sub(PAST)..=epoch).any(|one| is_read(number, one));
                let expected = Need { after: after(epoch), is_own };
                assert_eq!(needs.of(block(number), before), expected, "{number} in {epoch}");
                let expected = Need { after: after(epoch + 1), is_own };
                assert_eq!(needs.of(block(number), since), expected, "{number} in {epoch}");
            }
        }
        needs.enter(100 + 32);
        assert_eq!(needs.blocks.len(), 0);
        assert_eq!(needs.of(block(0), needs.began), Need::UNKNOWN);
    }
}
