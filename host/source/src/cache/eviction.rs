//! Which blocks are removed when the cache is full: those that were used longest ago, but none that
//! a channel of this process has used in its last two epochs. An epoch needs each block once, so a
//! block that was just used is needed last: if there is no other, the new block is not stored. That
//! keeps a fixed part of a data set that is larger than the cache. To remove what was used longest
//! ago would always remove what is needed next.

use std::io;
use std::time::SystemTime;

use super::folder::{Folder, FoundBlock};
use super::usage::{FOLDERS, LockedUsage};

/// Blocks among which those are found that were used longest ago. Names of blocks are digests, so
/// the blocks of some folders are a sample of all.
const SAMPLE: usize = 4096;
/// This part of the cache is freed at once, so that not every new block looks for others to remove.
const FREED_PART: u64 = 64;
/// Of the sample, at most this part is removed: the rest was used later than most blocks.
const REMOVED_PART: u64 = 16;

/// Room in the cache.
pub(super) struct Room {
    /// Largest number of bytes of all blocks.
    pub(super) size: u64,
    /// Bytes of the new block.
    pub(super) bytes: u64,
    /// Blocks that were used since are not removed.
    pub(super) keep_since: SystemTime,
    /// The folder with which to begin.
    pub(super) first: u8,
}

/// Makes room for a new block, if there is none. Returns the number of blocks that were removed,
/// and whether there is room.
pub(super) fn make_room(
    folder: &Folder,
    usage: &mut LockedUsage,
    room: &Room,
) -> io::Result<(u64, bool)> {
    let fits = |usage: &LockedUsage| usage.total().saturating_add(room.bytes) <= room.size;
    let mut removed = 0;
    let mut sample = Vec::new();
    for number in 0..FOLDERS {
        if fits(usage) {
            break;
        }
        let at = (usize::from(room.first) + number) as u8;
        let blocks = folder.blocks(at)?;
        // What was counted before may be wrong after a crash.
        usage.set(at, blocks.iter().map(|block| block.bytes).sum());
        sample.extend(blocks.into_iter().map(|block| (at, block)));
        if sample.len() >= SAMPLE || number + 1 == FOLDERS {
            removed += remove_oldest(folder, usage, room, std::mem::take(&mut sample))?;
        }
    }
    let fits = fits(usage);
    usage.save()?;
    Ok((removed, fits))
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
    // A time in the future is that of a clock that was wrong.
    let is_kept = |block: &FoundBlock| (room.keep_since..=now).contains(&block.used);
    sample.retain(|(_, block)| !is_kept(block));
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
