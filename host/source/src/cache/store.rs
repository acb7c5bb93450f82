//! Reads and stores blocks. Whatever goes wrong with the disk costs the cache, never the run.

use std::fs::{File, FileTimes};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use tokio::sync::Semaphore;

use super::CacheSettings;
use super::block_file::{BLOCK, Facts, Header, NewPages, PAGE, read_ahead, read_header, write};
use super::cached_bytes::{CachedBytes, OpenBlock};
use super::claims::{Claim, Claims};
use super::counters::CacheCounters;
use super::eviction::make_room;
use super::folder::{Folder, NewFile, OpenError, is_regular};
use super::identity::{BlockId, CachedObject, NameKey};
use super::needs::{Need, Needs};
use super::pending::Pending;
use super::room::Refused;
use super::usage::{LockedUsage, Usage, charge};

/// How long somebody else may take to fetch a block. After that, it is fetched without waiting.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(10);
/// Blocks that stay open from the time they are found until they are read. Others are opened again.
pub(super) const MAX_OPEN_BLOCKS: usize = 64;

/// A cache, as all channels of this process share it.
pub(crate) struct Cache {
    pub(super) path: PathBuf,
    pub(super) size: u64,
    pub(super) folder: Folder,
    usage: Usage,
    pub(super) claims: Arc<Claims>,
    /// Whether nothing is stored any more, because the disk has refused it.
    is_off: AtomicBool,
    /// The time of [`Cache::keep_since`] for which there was no room.
    pub(super) full_for: Mutex<Option<SystemTime>>,
    /// The block that was refused last because none was found that is needed later.
    pub(super) refused: Mutex<Refused>,
    /// The folder in which blocks are removed next.
    pub(super) next_folder: AtomicU8,
    pub(super) channels: Mutex<Vec<Weak<ChannelCache>>>,
    /// Permits for blocks that stay open.
    open_blocks: Arc<Semaphore>,
}

/// A cache, as one channel uses it.
pub(crate) struct ChannelCache {
    pub(super) cache: Arc<Cache>,
    /// Name of the channel, for the log.
    channel: Option<String>,
    pub(super) counters: Arc<CacheCounters>,
    /// When the last epochs began, the oldest first. Requests run ahead of the reader, so blocks of
    /// the epoch before this one may be in use still.
    pub(super) epochs: Mutex<[SystemTime; 3]>,
    /// What the channel needs, if that is known; shared with its other sources, those of its
    /// shards.
    pub(super) needs: Arc<Mutex<Needs>>,
    /// The first epoch of which this source has not said what it needs.
    unknown_from: AtomicU32,
    pub(crate) pending: Pending,
}

impl Cache {
    /// Opens the cache. If it has more bytes than `size`, blocks are removed.
    pub(crate) fn open(settings: &CacheSettings) -> Result<Arc<Self>, OpenError> {
        let folder = Folder::open(&settings.path)?;
        let usage = Usage::new(folder.open_own("usage")?);
        let claims = Claims::new(folder.open_own("claims")?);
        let cache = Self {
            path: settings.path.clone(),
            size: settings.size,
            folder,
            usage,
            claims: Arc::new(claims),
            is_off: AtomicBool::new(false),
            full_for: Mutex::default(),
            refused: Mutex::default(),
            next_folder: AtomicU8::new(fastrand::u8(..)),
            channels: Mutex::default(),
            open_blocks: Arc::new(Semaphore::new(MAX_OPEN_BLOCKS)),
        };
        let mut usage = cache.lock()?;
        let room = cache.room(0, SystemTime::now(), &|_| Need::UNKNOWN);
        make_room(&cache.folder, &mut usage, &room)?;
        drop(usage);
        Ok(Arc::new(cache))
    }

    /// The cache of a channel, which counts in `counters`.
    pub(crate) fn of_channel(
        self: &Arc<Self>,
        channel: Option<String>,
        counters: Arc<CacheCounters>,
    ) -> Arc<ChannelCache> {
        let mut channels = lock(&self.channels);
        channels.retain(|one| one.strong_count() > 0);
        let mut others = channels.iter().filter_map(Weak::upgrade);
        let other = others.find(|other| channel.is_some() && other.channel == channel);
        let new = || Arc::new(Mutex::new(Needs::new()));
        let of_channel = Arc::new(ChannelCache {
            cache: self.clone(),
            channel,
            counters,
            epochs: Mutex::new([SystemTime::now(); 3]),
            needs: other.map_or_else(new, |other| other.needs.clone()),
            unknown_from: AtomicU32::new(0),
            pending: Pending::default(),
        });
        channels.push(Arc::downgrade(&of_channel));
        of_channel
    }

    pub(super) fn lock(&self) -> io::Result<LockedUsage<'_>> {
        self.usage
            .lock(|folder| Ok(self.folder.blocks(folder)?.iter().map(|block| block.bytes).sum()))
    }

    /// Removes a block that is damaged.
    fn remove(&self, id: BlockId) -> io::Result<()> {
        let mut usage = self.lock()?;
        let bytes = self.folder.remove(id)?;
        usage.subtract(id.folder(), bytes);
        usage.save()
    }

    /// Gives a file the name of its block, if there is room. Returns the number of blocks that were
    /// removed for it, and whether it is stored now.
    pub(super) fn publish(&self, new: &NewFile, id: BlockId) -> io::Result<(u64, bool)> {
        let bytes = charge(new.file().metadata()?.len());
        let mut usage = self.lock()?;
        let older = self.folder.counted(id)?;
        let (removed, fits) = self.find_room(&mut usage, bytes.saturating_sub(older), id)?;
        if !fits {
            return Ok((removed, false));
        }
        usage.add(id.folder(), bytes);
        usage.save()?;
        // Eviction may have removed the older file.
        let older = self.folder.counted(id)?;
        self.folder.publish(new, id)?;
        usage.subtract(id.folder(), older);
        usage.save()?;
        Ok((removed, true))
    }
}

/// The bytes of an object's block.
pub(super) fn block_length(object: &CachedObject, number: u64) -> u64 {
    object.size.saturating_sub(number * BLOCK).min(BLOCK)
}

/// The bytes of a block: its number, and the range in it. The range is in one block.
pub(super) fn in_block(range: &Range<u64>) -> (u64, Range<u64>) {
    let number = range.start / BLOCK;
    (number, range.start - number * BLOCK..range.end - number * BLOCK)
}

impl ChannelCache {
    /// Another epoch has begun.
    pub(crate) fn epoch_began(&self) {
        let mut epochs = lock(&self.epochs);
        *epochs = [epochs[1], epochs[2], SystemTime::now()];
    }

    /// Whether the cache has lacked room: only then it matters which blocks are needed soon.
    pub(crate) fn lacks_room(&self) -> bool {
        lock(&self.cache.full_for).is_some()
    }

    /// This epoch has begun, and it is known what it needs. Returns the first epoch from it on of
    /// which that was not said yet.
    pub(crate) fn enter_needs(&self, epoch: u32) -> u32 {
        lock(&self.needs).enter(epoch);
        self.unknown_from.load(Ordering::Relaxed).max(epoch)
    }

    /// These blocks are needed in this epoch. Returns whether another epoch may be added.
    pub(crate) fn add_needs(&self, epoch: u32, blocks: Vec<NameKey>) -> bool {
        let mut needs = lock(&self.needs);
        needs.add(epoch, blocks.into_iter());
        self.unknown_from.fetch_max(epoch + 1, Ordering::Relaxed);
        needs.has_room()
    }

    /// What it has done.
    pub(crate) fn counters(&self) -> &CacheCounters {
        &self.counters
    }

    /// Looks for these bytes of an object, all of one block. Returns those that it has without a
    /// gap, and what it knows of the object. `None` if the first byte is missing. The block counts
    /// as used now, and the system begins to read it from the disk.
    pub(crate) fn find(
        self: &Arc<Self>,
        object: CachedObject,
        range: Range<u64>,
    ) -> Option<(CachedBytes, Facts)> {
        let (number, inside) = in_block(&range);
        let (file, header) = self.open(object.block(number))?;
        let has = header.pages_from((inside.start / PAGE) as usize);
        let pages = has.start..has.end.min(inside.end.div_ceil(PAGE) as usize);
        if pages.is_empty() {
            return None;
        }
        let end = range.end.min(number * BLOCK + pages.end as u64 * PAGE);
        read_ahead(&file, pages, block_length(&object, number));
        // If the time can't be set, the block may be removed earlier.
        let _ = file.set_times(FileTimes::new().set_modified(SystemTime::now()));
        let facts = header.facts.clone();
        let permit = self.cache.open_blocks.clone().try_acquire_owned().ok();
        let block = permit.map(|permit| OpenBlock { file, header, _permit: Some(permit) });
        Some((CachedBytes::new(self.clone(), object, range.start..end, block), facts))
    }

    /// The end of the bytes of this range that are missing from its start on. The range is in one
    /// block.
    pub(crate) fn missing_until(&self, object: &CachedObject, range: Range<u64>) -> u64 {
        let (number, inside) = in_block(&range);
        let Some((_, header)) = self.open(object.block(number)) else { return range.end };
        let (first, last) = (inside.start / PAGE, inside.end.div_ceil(PAGE));
        let has = |page: &u64| !header.pages_from(*page as usize).is_empty();
        match (first..last).find(has) {
            Some(page) => (number * BLOCK + page * PAGE).max(range.start),
            None => range.end,
        }
    }

    /// Opens a block. `None` if there is none, or it is damaged.
    pub(super) fn open(&self, id: BlockId) -> Option<(File, Header)> {
        let file = match self.cache.folder.open_block(id) {
            Ok(file) => file?,
            Err(error) if is_of_process(&error) => return None,
            Err(_) => {
                self.remove_damaged(id);
                return None;
            }
        };
        let header = if is_regular(&file) { read_header(&file, id) } else { Ok(None) };
        match header {
            Ok(Some(header)) => Some((file, header)),
            Ok(None) | Err(_) => {
                self.remove_damaged(id);
                None
            }
        }
    }

    pub(super) fn remove_damaged(&self, id: BlockId) {
        self.found_damaged();
        if let Err(error) = self.cache.remove(id) {
            self.stop_storing(&error);
        }
    }

    /// Removes the damaged pages of a block: another file with the others takes its place.
    pub(super) fn remove_damaged_pages(&self, object: &CachedObject, number: u64) {
        self.found_damaged();
        let id = object.block(number);
        let Some((_, header)) = self.open(id) else { return };
        let kept = self.try_store(object, &header.facts, number * BLOCK, &[]);
        if matches!(kept, Ok((_, true))) {
            return;
        }
        if let Err(error) = kept.and_then(|_| self.cache.remove(id)) {
            self.stop_storing(&error);
        }
    }

    fn found_damaged(&self) {
        CacheCounters::add(&self.counters.damaged, 1);
        log::warn!(
            channel = self.channel;
            "the cache {}: a block is damaged; what is damaged is removed, and made again",
            self.cache.path.display()
        );
    }

    /// Removes all blocks of an object: its bytes are not what the server keeps.
    pub(crate) fn forget(&self, object: &CachedObject) {
        for number in 0..object.size.div_ceil(BLOCK) {
            if let Err(error) = self.cache.remove(object.block(number)) {
                return self.stop_storing(&error);
            }
        }
    }

    /// Stores pages of a block: the bytes of the object from `start` on, which is the start of a
    /// page, up to the end of a page or of the object.
    pub(crate) fn store(&self, object: &CachedObject, facts: &Facts, start: u64, frames: &[Bytes]) {
        let id = object.block(start / BLOCK);
        if !self.may_store(id) || !facts.fit() {
            return CacheCounters::add(&self.counters.not_stored, 1);
        }
        self.stored(self.try_store(object, facts, start, frames));
    }

    /// Whether a new block, or new records, may find room, and the disk has not refused any.
    pub(super) fn may_store(&self, id: BlockId) -> bool {
        !self.cache.is_off.load(Ordering::Relaxed) && self.cache.may_find_room(id)
    }

    /// Counts a block: how many were removed for it, and whether it is stored.
    pub(super) fn stored(&self, published: io::Result<(u64, bool)>) {
        let counters = &self.counters;
        match published {
            Ok((removed, is_stored)) => {
                CacheCounters::add(&counters.evicted, removed);
                let counter = if is_stored { &counters.stored } else { &counters.not_stored };
                CacheCounters::add(counter, 1);
            }
            Err(error) => {
                CacheCounters::add(&counters.not_stored, 1);
                self.stop_storing(&error);
            }
        }
    }

    fn try_store(
        &self,
        object: &CachedObject,
        facts: &Facts,
        start: u64,
        frames: &[Bytes],
    ) -> io::Result<(u64, bool)> {
        let number = start / BLOCK;
        let (id, first) = (object.block(number), ((start - number * BLOCK) / PAGE) as usize);
        let older = self.open(id);
        let older = older.as_ref().map(|(file, header)| (file, header));
        let folder = &self.cache.folder;
        let new = folder.new_file(id)?;
        let pages = NewPages { first, frames };
        let written = write(new.file(), id, facts, block_length(object, number), &pages, older);
        let now = FileTimes::new().set_modified(SystemTime::now());
        let published = written
            .and_then(|()| new.file().set_times(now))
            .and_then(|()| self.cache.publish(&new, id));
        if !matches!(published, Ok((_, true))) {
            folder.discard(&new);
        }
        published
    }

    /// Stores nothing any more, and says so once.
    pub(super) fn stop_storing(&self, error: &io::Error) {
        if self.cache.is_off.swap(true, Ordering::Relaxed) {
            return;
        }
        log::warn!(
            channel = self.channel;
            "{}", not_written(&self.cache.path, error)
        );
    }

    /// Claims a block; `None` if it is claimed already.
    pub(crate) fn try_claim(&self, object: &CachedObject, number: u64) -> Option<Claim> {
        self.cache.claims.claim(object.block(number))
    }

    /// Waits until a claim may have ended. Returns false if that takes too long since `started`.
    pub(crate) async fn wait_for_claim(&self, started: Instant) -> bool {
        self.cache.claims.wait().await;
        started.elapsed() < CLAIM_TIMEOUT
    }
}

/// The warning that a cache can't be written.
pub(crate) fn not_written(path: &std::path::Path, error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "make room on its disk, or set a smaller `size`, and start again"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "let this user write to it, or name another `path`, and start again"
        }
        _ => "see whether its disk is well, and start again",
    };
    format!(
        "the cache {} can't be written: {error}; the run goes on without what is not in it; \
         {remedy}",
        path.display()
    )
}

/// Whether an error of opening a file is none of the file: the process has too many open.
pub(super) fn is_of_process(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(nix::libc::EMFILE | nix::libc::ENFILE | nix::libc::ENOMEM))
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
