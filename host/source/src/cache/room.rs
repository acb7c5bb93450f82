//! Room for a new block: for as long as the cache is full, most blocks do not look for it.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};
use std::time::SystemTime;

use super::block_file::BLOCK;
use super::eviction::{Room, exchange, make_room};
use super::folder::FoundBlock;
use super::identity::{BlockId, NameKey};
use super::needs::{Need, Needs};
use super::store::{Cache, ChannelCache, lock};
use super::usage::LockedUsage;

/// Most blocks that are refused before another one looks for room again.
const MAX_REFUSED: u64 = 64;

/// Blocks that need not look for room, because another one has found none.
#[derive(Default)]
pub(super) struct Refused {
    /// They are needed after this many epochs, or later.
    after: u32,
    /// Number of them. Blocks that are used meanwhile are needed later, so that one looks again.
    left: u64,
}

impl Cache {
    pub(super) fn room<'a>(
        &self,
        bytes: u64,
        keep_since: SystemTime,
        need: &'a dyn Fn(&FoundBlock) -> Need,
    ) -> Room<'a> {
        let first = self.next_folder.fetch_add(16, Ordering::Relaxed);
        Room { size: self.size, bytes, keep_since, first, need }
    }

    /// What the channels need. Those of shards share it.
    fn needs(&self) -> Vec<Arc<Mutex<Needs>>> {
        let mut all: Vec<Arc<Mutex<Needs>>> = Vec::new();
        for channel in lock(&self.channels).iter().filter_map(Weak::upgrade) {
            if !all.iter().any(|one| Arc::ptr_eq(one, &channel.needs)) {
                all.push(channel.needs.clone());
            }
        }
        all
    }

    /// Whether there was no room for a block in these epochs.
    fn is_full(&self) -> bool {
        *lock(&self.full_for) == Some(self.keep_since())
    }

    /// What was used since is not removed: when the epoch before the last began, of all channels.
    fn keep_since(&self) -> SystemTime {
        let channels = lock(&self.channels);
        let began = |one: &Weak<ChannelCache>| one.upgrade().map(|one| lock(&one.epochs)[0]);
        channels.iter().filter_map(began).min().unwrap_or_else(SystemTime::now)
    }

    /// Returns the number of blocks that were removed for it, and whether there is room.
    pub(super) fn find_room(
        &self,
        usage: &mut LockedUsage,
        bytes: u64,
        id: BlockId,
    ) -> io::Result<(u64, bool)> {
        let (needs, keep_since) = (self.needs(), self.keep_since());
        let need = |block: &FoundBlock| {
            NameKey::of_name(&block.name).map_or(Need::UNKNOWN, |key| of(&needs, key, block.used))
        };
        let room = self.room(bytes, keep_since, &need);
        if room.is_in(usage) {
            return Ok((0, true));
        }
        let mut removed = 0;
        if !self.is_full() {
            let (oldest, fits) = make_room(&self.folder, usage, &room)?;
            if fits {
                return Ok((oldest, true));
            }
            removed = oldest;
            *lock(&self.full_for) = Some(keep_since);
        }
        let after = of(&needs, id.name_key(), SystemTime::now()).after;
        if after == u32::MAX {
            return Ok((removed, false));
        }
        let (later, fits) = exchange(&self.folder, usage, &room, after)?;
        if !fits {
            let left = (self.size / BLOCK / 16).clamp(1, MAX_REFUSED);
            *lock(&self.refused) = Refused { after, left };
        }
        Ok((removed + later, fits))
    }

    /// Whether it is worth looking for room for this block.
    pub(super) fn may_find_room(&self, id: BlockId) -> bool {
        if !self.is_full() {
            return true;
        }
        let after = of(&self.needs(), id.name_key(), SystemTime::now()).after;
        let mut refused = lock(&self.refused);
        if after < u32::MAX && after >= refused.after && refused.left > 0 {
            refused.left -= 1;
            return false;
        }
        after < u32::MAX
    }
}

/// When a block is needed that was used then.
fn of(needs: &[Arc<Mutex<Needs>>], block: NameKey, used: SystemTime) -> Need {
    let each = needs.iter().map(|needs| lock(needs).of(block, used));
    each.fold(Need::UNKNOWN, Need::with)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use bytes::Bytes;
    use fastrand::Rng;

    use super::*;
    use crate::cache::{AHEAD, CacheSettings, CachedObject, Facts, ObjectState};

    const BLOCKS: usize = 128;
    const EPOCHS: u32 = 12;

    /// A block that is counted with 4 KiB.
    fn block(number: usize) -> CachedObject {
        let key = &*number.to_string();
        let (server, bucket, etag) = ("s", "b", "e");
        let state = ObjectState { server, bucket, key, version: None, etag, size: 9, verify: true };
        CachedObject::new(&state)
    }

    /// A cache that has room for this many blocks.
    fn cache(folder: &std::path::Path, room: usize) -> Arc<Cache> {
        std::fs::set_permissions(folder, Permissions::from_mode(0o700)).unwrap();
        Cache::open(&CacheSettings { path: folder.to_owned(), size: 4096 * room as u64 }).unwrap()
    }

    /// Reads a block from the cache, or stores it. Returns whether it was there.
    fn read(channel: &Arc<ChannelCache>, block: CachedObject) -> bool {
        let is_there = channel.find(block, 0..9).is_some();
        if !is_there {
            channel.store(&block, &Facts::default(), 0, &[Bytes::from_static(&[7; 9])]);
        }
        is_there
    }

    /// The blocks that one of `parts` parts reads in each epoch: another part of them each time.
    fn epochs(parts: usize) -> Vec<Vec<usize>> {
        let mut random = Rng::with_seed(parts as u64);
        let mut epoch = || {
            let mut blocks: Vec<_> = (0..BLOCKS).collect();
            random.shuffle(&mut blocks);
            blocks.truncate(BLOCKS / parts);
            blocks
        };
        (0..EPOCHS).map(|_| epoch()).collect()
    }

    /// Hits of the later half of the epochs, of a host that reads one of `parts` parts with this
    /// much room, by several sources if there are `shards`. They say what they need only if
    /// `foresees`. Another channel reads the same few blocks in each epoch: it finds them always.
    fn hits(parts: usize, room: usize, shards: usize, foresees: bool) -> usize {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), room + 4);
        let other = cache.of_channel(Some("other".into()), Arc::default());
        let source = |_| cache.of_channel(Some("train".into()), Arc::default());
        let sources: Vec<_> = (0..shards).map(source).collect();
        let epochs = epochs(parts);
        let mut hits = 0;
        for (epoch, blocks) in epochs.iter().enumerate() {
            other.epoch_began();
            for number in 0..4 {
                assert_eq!(read(&other, block(BLOCKS + number)), epoch > 0, "{number} in {epoch}");
            }
            for (shard, source) in sources.iter().enumerate() {
                source.epoch_began();
                let to = if foresees { EPOCHS.min(epoch as u32 + 1 + AHEAD) } else { 0 };
                for next in source.enter_needs(epoch as u32)..to {
                    let own = epochs[next as usize].iter().skip(shard).step_by(shards);
                    let keys = own.map(|number| block(*number).block(0).name_key());
                    assert!(source.add_needs(next, keys.collect()));
                }
            }
            let found = blocks.iter().enumerate();
            let found = found.filter(|(at, one)| read(&sources[at % shards], block(**one)));
            let found = found.count();
            hits += if epoch >= epochs.len() / 2 { found } else { 0 };
            assert!(cache.lock().unwrap().total() <= cache.size);
        }
        hits
    }

    #[test]
    fn what_is_needed_soon_stays_where_each_epoch_reads_another_part() {
        for (parts, shards) in [(4, 1), (4, 3), (8, 1)] {
            let room = BLOCKS / parts;
            let (without, with) =
                (hits(parts, room, shards, false), hits(parts, room, shards, true));
            assert!(with * 2 >= without * 3, "{with}, {without}");
        }
    }

    /// There is room for two blocks. In epoch 1, the block 2 takes the place of 1, which is not
    /// needed again. In epoch 3, 4 takes that of 2: 0 was used earlier, but is needed sooner.
    #[test]
    fn what_makes_room_is_needed_last_and_not_the_oldest() {
        let epochs: [&[usize]; 7] = [&[0, 1], &[2], &[3], &[4], &[4], &[0], &[2]];
        let folder = tempfile::tempdir().unwrap();
        let source = cache(folder.path(), 2).of_channel(None, Arc::default());
        let mut found = Vec::new();
        for (epoch, blocks) in epochs.iter().enumerate() {
            source.epoch_began();
            for next in source.enter_needs(epoch as u32)..epochs.len() as u32 {
                let keys = epochs[next as usize].iter();
                let keys = keys.map(|number| block(*number).block(0).name_key());
                source.add_needs(next, keys.collect());
            }
            found.extend(blocks.iter().filter(|number| read(&source, block(**number))).copied());
        }
        assert_eq!(found, [4, 0]);
        let counts = source.counters().now();
        assert_eq!((counts.stored, counts.evicted, counts.not_stored), (4, 2, 2));
    }

    /// From one epoch to the next, at most as many blocks stay as there is room for.
    #[test]
    fn where_all_is_read_in_each_epoch_every_choice_is_as_good() {
        let (without, with) = (hits(1, 32, 1, false), hits(1, 32, 1, true));
        assert_eq!((without, with), (32 * EPOCHS as usize / 2, 32 * EPOCHS as usize / 2));
    }
}
