//! Which blocks are removed when the cache is full: those that were used longest ago, but none that
//! a channel of this process has used in its last two epochs. An epoch needs each block once, so a
//! block that was just used is needed last: if there is no other, the new block is not stored. That
//! keeps a fixed part of a data set that is larger than the cache. To remove what was used longest
//! ago would always remove what is needed next.
//!
//! Where it is known that a channel needs a block only [after some epochs](super::needs), the block
//! makes room for one that is needed sooner.

use std::cmp::Reverse;
use std::io;
use std::time::SystemTime;

use super::folder::{Folder, FoundBlock};
use super::needs::Need;
use super::usage::{FOLDERS, LockedUsage};

/// Blocks among which those are found that were used longest ago. Names of blocks are digests, so
/// the blocks of some folders are a sample of all.
const SAMPLE: usize = 4096;
/// This part of the cache is freed at once, so that not every new block looks for others to remove.
const FREED_PART: u64 = 64;
/// Of the sample, at most this part is removed: the rest was used later than most blocks.
const REMOVED_PART: u64 = 16;

/// Blocks among which those are found that are needed later than a new one.
const EXCHANGE_SAMPLE: usize = 256;
/// At most this many of them make room at once, so that not every new block looks for others.
const EXCHANGED: usize = 16;

/// Room in the cache.
pub(super) struct Room<'a> {
    /// Largest number of bytes of all blocks.
    pub(super) size: u64,
    /// Bytes of the new block.
    pub(super) bytes: u64,
    /// Blocks that were used since are not removed.
    pub(super) keep_since: SystemTime,
    /// The folder with which to begin.
    pub(super) first: u8,
    /// When a block is needed.
    pub(super) need: &'a dyn Fn(&FoundBlock) -> Need,
}

impl Room<'_> {
    /// Whether there is room.
    pub(super) fn is_in(&self, usage: &LockedUsage) -> bool {
        usage.total().saturating_add(self.bytes) <= self.size
    }

    /// Whether a block was used lately. A time in the future is that of a clock that was wrong.
    fn is_used(&self, block: &FoundBlock) -> bool {
        (self.keep_since..=SystemTime::now()).contains(&block.used)
    }
}

/// Makes room for a new block, if there is none. Returns the number of blocks that were removed,
/// and whether there is room.
pub(super) fn make_room(
    folder: &Folder,
    usage: &mut LockedUsage,
    room: &Room,
) -> io::Result<(u64, bool)> {
    let mut removed = 0;
    let mut sample = Vec::new();
    for number in 0..FOLDERS {
        if room.is_in(usage) {
            break;
        }
        sample.extend(count_again(folder, usage, room, number)?);
        if sample.len() >= SAMPLE || number + 1 == FOLDERS {
            removed += remove_oldest(folder, usage, room, std::mem::take(&mut sample))?;
        }
    }
    let fits = room.is_in(usage);
    usage.save()?;
    Ok((removed, fits))
}

/// Makes room for a block that is needed after this many epochs: blocks that are needed later are
/// removed, if they are among those that are looked at. Returns as [`make_room`].
pub(super) fn exchange(
    folder: &Folder,
    usage: &mut LockedUsage,
    room: &Room,
    after: u32,
) -> io::Result<(u64, bool)> {
    let (mut later, mut looked_at) = (Vec::new(), 0);
    for number in 0..FOLDERS {
        for (at, block) in count_again(folder, usage, room, number)? {
            looked_at += 1;
            let need = (room.need)(&block);
            if need.after > after && (need.is_own || !room.is_used(&block)) {
                later.push((need.after, at, block));
            }
        }
        if looked_at >= EXCHANGE_SAMPLE {
            break;
        }
    }
    later.sort_by_key(|(after, _, block)| (Reverse(*after), block.used));
    let at_once = (looked_at / REMOVED_PART as usize).min(EXCHANGED);
    let mut removed = 0;
    for (_, at, block) in later {
        if room.is_in(usage) && removed >= at_once {
            break;
        }
        folder.remove_found(at, &block)?;
        usage.subtract(at, block.bytes);
        removed += 1;
    }
    usage.save()?;
    Ok((removed as u64, room.is_in(usage)))
}

/// The blocks of a folder, `number` folders after the first, whose bytes are counted again: what
/// was counted before may be wrong after a crash.
fn count_again(
    folder: &Folder,
    usage: &mut LockedUsage,
    room: &Room,
    number: usize,
) -> io::Result<impl Iterator<Item = (u8, FoundBlock)> + use<>> {
    let at = (usize::from(room.first) + number) as u8;
    let blocks = folder.blocks(at)?;
    usage.set(at, blocks.iter().map(|block| block.bytes).sum());
    Ok(blocks.into_iter().map(move |block| (at, block)))
}

fn remove_oldest(
    folder: &Folder,
    usage: &mut LockedUsage,
    room: &Room,
    mut sample: Vec<(u8, FoundBlock)>,
) -> io::Result<u64> {
    let sampled: u64 = sample.iter().map(|(_, block)| block.bytes).sum();
    let extra = (room.size / FREED_PART).min(sampled / REMOVED_PART);
    let target = room.size.saturating_sub(room.bytes);
    let now = SystemTime::now();
    sample.retain(|(_, block)| !room.is_used(block) && (room.need)(block).after == u32::MAX);
    sample.sort_by_key(|(_, block)| if block.used > now { None } else { Some(block.used) });
    let mut removed = 0;
    for (at, block) in sample {
        // If there is room, a little more is removed.
        let total = usage.total();
        if total <= target && total.saturating_sub(block.bytes) < target.saturating_sub(extra) {
            break;
        }
        folder.remove_found(at, &block)?;
        usage.subtract(at, block.bytes);
        removed += 1;
    }
    Ok(removed)
}
