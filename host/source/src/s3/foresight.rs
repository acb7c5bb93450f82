//! Tells the cache in which epochs a channel needs which blocks. An index knows that: the order of
//! an epoch depends on the seed and on the epoch's number alone.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};

use super::entry::{Entry, FoundObject, ObjectInfo};
use super::plan::{Planner, known};
use super::prefetch::{PrefetchEvent, ranges};
use super::settings::{Selection, Settings};
use super::target::Target;
use crate::KnownList;
use crate::cache::{AHEAD, BLOCK, ChannelCache, NameKey, PAST};

/// Objects, or blocks of them, that are put in order in all epochs that are looked at.
const MAX_ORDERED: usize = 4 << 20;

/// What a channel's source tells the cache.
#[derive(Default)]
pub(super) struct Foresight {
    /// It tells what the epochs after the next one need.
    later: Option<JoinHandle<()>>,
}

impl Foresight {
    /// Tells the cache what this epoch and the next one need, as it begins, and starts to tell what
    /// later ones do: no request of this epoch waits for that. Does nothing if each epoch reads the
    /// same, or if the cache has had room for all blocks.
    pub(super) async fn enter(
        &mut self,
        epoch: u32,
        planner: &Planner,
        cache: &Arc<ChannelCache>,
        events: &mpsc::Sender<PrefetchEvent>,
    ) {
        if let Some(later) = self.later.take() {
            // A task of the runtime only ends early with it.
            let _ = later.await;
        }
        let Selection::Known { list, .. } = &planner.settings.selection else { return };
        if !planner.settings.reading.order.is_shuffled_part() || !cache.lacks_room() {
            return;
        }
        // The first object shows the server. Where it can't be reached, the epoch fails.
        let Some(Ok(first)) = list.0.get(0).map(|first| first.name.parse()) else { return };
        let Ok(server) = planner.s3.server(&first).await.map(str::to_owned) else { return };
        let (planner, list, cache) = (planner.clone(), list.clone(), cache.clone());
        let needs = Arc::new(NeedsOfEpochs { planner, list, cache, server });
        let soon = needs.clone();
        let soon = spawn_blocking(move || soon.tell_soon(epoch));
        if let Ok(from) = soon.await {
            let events = events.downgrade();
            let is_over = move || events.upgrade().is_none_or(|events| events.is_closed());
            self.later = Some(spawn_blocking(move || needs.tell_later(epoch, from, is_over)));
        }
    }
}

/// What the epochs of a channel need.
struct NeedsOfEpochs {
    planner: Planner,
    list: KnownList,
    cache: Arc<ChannelCache>,
    server: String,
}

impl NeedsOfEpochs {
    /// Tells what this epoch and the next one need. Returns the first epoch that was not told
    /// before.
    fn tell_soon(&self, epoch: u32) -> u32 {
        let from = self.cache.enter_needs(epoch);
        // The order of this epoch is made last, because it is the one that is read next.
        for next in (from..self.end(epoch.saturating_add(2))).rev() {
            self.cache.add_needs(next, self.blocks_of(next));
        }
        from
    }

    /// Tells what later epochs need; `from` is what [`tell_soon`](Self::tell_soon) returned. The
    /// first time, it also tells what the last epochs needed: their blocks may make room.
    fn tell_later(&self, epoch: u32, from: u32, is_over: impl Fn() -> bool) {
        let past = if from == epoch { epoch.saturating_sub(PAST)..epoch } else { 0..0 };
        let order = &self.planner.settings.reading.order;
        let parts = order.part.map_or(1, |part| part.count as usize);
        let ordered = self.list.arrange(order, epoch).len().saturating_mul(parts);
        let ahead = (MAX_ORDERED / ordered.max(1)).clamp(1, AHEAD as usize) as u32;
        let later = from.max(epoch.saturating_add(2))..self.end((epoch + 1).saturating_add(ahead));
        for next in past.chain(later) {
            if is_over() || !self.cache.add_needs(next, self.blocks_of(next)) {
                return;
            }
        }
    }

    /// This end of a range of epochs, or that of the channel's.
    fn end(&self, end: u32) -> u32 {
        end.min(self.planner.settings.reading.epochs)
    }

    /// The cache's blocks that an epoch needs. Of compressed objects that are read in blocks it is
    /// not known.
    fn blocks_of(&self, epoch: u32) -> Vec<NameKey> {
        let Settings { reading, verify, .. } = &*self.planner.settings;
        let mut blocks = Vec::new();
        for item in self.list.arrange(&reading.order, epoch) {
            let Ok(Entry::Object(found)) = known(&self.list, "", item) else { continue };
            let FoundObject { address, info, block, .. } = found;
            let ObjectInfo::Listed { size, etag, .. } = info else { continue };
            let target = Target::new(address, size, etag.as_deref());
            let is_plain = reading.compression.resolve(&target.address.key).is_plain();
            let Some(object) = target.for_cache(&self.server, *verify) else { continue };
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
