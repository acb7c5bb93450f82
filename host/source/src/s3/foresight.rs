//! Tells the cache in which epochs a channel needs which blocks. An index knows that: the order of
//! an epoch depends on the seed and on the epoch's number alone.

use std::sync::Arc;

use tokio::task::spawn_blocking;

use super::entry::{Entry, FoundObject, ObjectInfo};
use super::plan::{Planner, known};
use super::prefetch::ranges;
use super::settings::{Selection, Settings};
use super::target::Target;
use crate::KnownList;
use crate::cache::{AHEAD, BLOCK, ChannelCache, NameKey};

/// Objects, or blocks of them, that are put in order in all epochs that are looked at.
const MAX_ORDERED: usize = 4 << 20;

impl Planner {
    /// Tells it what this epoch and later ones need, as it begins. Does nothing if each epoch reads
    /// the same, or if the cache has had room for all blocks.
    pub(super) async fn foresee(&self, epoch: u32, cache: &Arc<ChannelCache>) {
        let Selection::Known { list, .. } = &self.settings.selection else { return };
        if !self.settings.reading.order.is_shuffled_part() || !cache.lacks_room() {
            return;
        }
        // The first object shows the server. Where it can't be reached, the epoch fails.
        let Some(Ok(first)) = list.0.get(0).map(|first| first.name.parse()) else { return };
        let Ok(server) = self.s3.server(&first).await.map(str::to_owned) else { return };
        let (planner, list, cache) = (self.clone(), list.clone(), cache.clone());
        let said = spawn_blocking(move || planner.say_needs(&list, epoch, &cache, &server));
        // The task only ends early with the runtime.
        let _ = said.await;
    }

    fn say_needs(&self, list: &KnownList, epoch: u32, cache: &ChannelCache, server: &str) {
        let Settings { reading, .. } = &*self.settings;
        let parts = reading.order.part.map_or(1, |part| part.count as usize);
        let ordered = list.arrange(&reading.order, epoch).len().saturating_mul(parts);
        let ahead = (MAX_ORDERED / ordered.max(1)).clamp(1, AHEAD as usize) as u32;
        let last = epoch.saturating_add(ahead).min(reading.epochs.saturating_sub(1));
        for next in cache.needs_from(epoch)..=last {
            let has_room = cache.add_needs(next, self.blocks_of(list, next, server));
            if next >= epoch && !has_room {
                break;
            }
        }
    }

    /// The cache's blocks that an epoch needs. Of compressed objects that are read in blocks it is
    /// not known.
    fn blocks_of(&self, list: &KnownList, epoch: u32, server: &str) -> Vec<NameKey> {
        let Settings { reading, verify, .. } = &*self.settings;
        let mut blocks = Vec::new();
        for item in list.arrange(&reading.order, epoch) {
            let Ok(Entry::Object(found)) = known(list, "", item) else { continue };
            let FoundObject { address, info, block, .. } = found;
            let ObjectInfo::Listed { size, etag, .. } = info else { continue };
            let target = Target::new(address, size, etag.as_deref());
            let is_plain = reading.compression.resolve(&target.address.key).is_plain();
            let Some(object) = target.for_cache(server, *verify) else { continue };
            let bytes = match block {
                None => vec![(0..size, false)],
                Some(block) if is_plain => ranges(block, None, size),
                Some(_) => continue,
            };
            for (range, _) in bytes.into_iter().filter(|(range, _)| !range.is_empty()) {
                let numbers = range.start / BLOCK..=(range.end - 1) / BLOCK;
                blocks.extend(numbers.map(|number| object.block(number).name_key()));
            }
        }
        blocks
    }
}
