//! Reads ranges of objects through the [cache](crate::cache): what it has comes from the disk, the
//! rest is fetched in whole pages, given to the reader as it arrives, and stored.

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::error::RequestError;
use super::fetch::{Fetch, FrameSink};
use super::frame::{Frame, FrameSender};
use super::runtime::Task;
use super::target::Target;
use crate::SourceError;
use crate::cache::{
    BLOCK, Cache, CacheCounters, CacheSettings, CachedObject, ChannelCache, Claim, Facts,
    OpenError, PAGE, Pending,
};

/// How long a request that is not read any more may take to complete the block that it stores.
pub(super) const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

/// A cache that all channels of a process share. It is opened when the first of them needs it, and
/// is `None` if the disk refuses it.
pub(super) type SharedCache = Arc<OnceCell<Option<Arc<Cache>>>>;

/// A channel's handle to its cache.
pub(super) struct CacheHandle {
    settings: CacheSettings,
    shared: SharedCache,
    own: OnceLock<Arc<ChannelCache>>,
    pub(super) counters: Arc<CacheCounters>,
}

impl CacheHandle {
    pub(super) fn new(settings: CacheSettings, shared: SharedCache) -> Self {
        Self { settings, shared, own: OnceLock::new(), counters: Arc::default() }
    }

    /// Opens the cache.
    ///
    /// # Errors
    /// Others may write to its folder. A disk that refuses it is no error.
    pub(super) async fn open(&self, channel: Option<&str>) -> Result<(), SourceError> {
        let open = async || {
            let settings = self.settings.clone();
            let opened = spawn_blocking(move || Cache::open(&settings)).await;
            match opened.unwrap_or_else(|ended| Err(OpenError::Io(ended.into()))) {
                Ok(cache) => Ok(Some(cache)),
                Err(OpenError::Io(error)) => {
                    let message = crate::cache::not_written(&self.settings.path, &error);
                    log::warn!(channel; "{message}");
                    Ok(None)
                }
                Err(OpenError::Open(folder)) => {
                    Err(crate::cache::open_to_others(&self.settings.path, folder))
                }
            }
        };
        if let Some(cache) = self.shared.get_or_try_init(open).await? {
            let own = || cache.of_channel(channel.map(str::to_owned), self.counters.clone());
            self.own.get_or_init(own);
        }
        Ok(())
    }

    /// The cache, if it was opened and the disk has not refused it.
    pub(super) fn get(&self) -> Option<&Arc<ChannelCache>> {
        self.own.get()
    }
}

/// Fetches ranges of one object through a cache.
pub(super) struct CachedFetch {
    pub(super) fetch: Fetch,
    pub(super) cache: Arc<ChannelCache>,
}

/// Bytes that are missing in the cache, and that this request fetches.
struct MissingRun {
    /// Whole pages.
    bytes: Range<u64>,
    /// The claims of its blocks. Without one, another request fetches the block, too.
    claims: Vec<Option<Claim>>,
}

impl CachedFetch {
    /// Reads the range. If that fails, the error is sent as the last item. The sender is dropped
    /// when all that was fetched is stored.
    pub(super) async fn range(&self, range: Range<u64>, frames: FrameSender) {
        let Some(object) = self.object().await else {
            let mut frames = frames;
            self.fetch.range(range, &mut frames).await;
            return;
        };
        let mut at = range.start;
        while at < range.end && !frames.is_closed() {
            at = self.read(&object, at..range.end, &frames).await;
            if at == range.end {
                return;
            }
            let Some(run) = self.missing(&object, at..range.end).await else { continue };
            let end = run.bytes.end;
            let mut sink = FillingSink::new(self, object, run, at..range.end, frames.clone());
            if !self.fetch.range(sink.run.bytes.clone(), &mut sink).await {
                return;
            }
            at = end.min(range.end);
        }
    }

    /// The object for the cache. `None` if its state is not known for certain.
    async fn object(&self) -> Option<CachedObject> {
        // The fetch reports an error.
        let server = self.fetch.s3.server(&self.fetch.target.address).await.ok()?;
        self.fetch.target.for_cache(server, self.fetch.verify)
    }

    /// Sends the bytes that the cache has from the range's start on without a gap. Returns their
    /// end.
    async fn read(&self, object: &CachedObject, range: Range<u64>, frames: &FrameSender) -> u64 {
        let (cache, target) = (self.cache.clone(), self.fetch.target.clone());
        let (object, frames, start) = (*object, frames.clone(), range.start);
        let read = move || {
            let mut at = range.start;
            while at < range.end && !frames.is_closed() {
                let wanted = at..block_end(at).min(range.end);
                let Some((bytes, facts)) = cache.find(object, wanted) else { break };
                // They are known with the first byte.
                target.know(&facts);
                at = bytes.end();
                if frames.send(Ok(Frame::Cached(Box::new(bytes)))).is_err() {
                    break;
                }
            }
            at
        };
        spawn_blocking(read).await.unwrap_or(start)
    }

    /// The bytes that are missing from the range's start on, as soon as this request may fetch
    /// them. `None` if the first byte is in the cache now. It waits only while it has no claim, so
    /// two requests never wait for each other.
    async fn missing(&self, object: &CachedObject, range: Range<u64>) -> Option<MissingRun> {
        let started = Instant::now();
        let number = range.start / BLOCK;
        let mut claim = self.cache.try_claim(object, number);
        while claim.is_none() {
            let goes_on = self.cache.wait_for_claim(started).await;
            if !self.is_missing(object, range.start).await {
                return None;
            }
            claim = self.cache.try_claim(object, number);
            if !goes_on {
                break;
            }
        }
        self.missing_from(object, &range, claim).await
    }

    /// Whether the cache does not have the byte at this place.
    async fn is_missing(&self, object: &CachedObject, at: u64) -> bool {
        let (cache, object) = (self.cache.clone(), *object);
        let looked = spawn_blocking(move || cache.missing_until(&object, at..at + 1) > at);
        looked.await.unwrap_or(true)
    }

    async fn missing_from(
        &self,
        object: &CachedObject,
        range: &Range<u64>,
        claim: Option<Claim>,
    ) -> Option<MissingRun> {
        let (cache, object, range) = (self.cache.clone(), *object, range.clone());
        let found = spawn_blocking(move || {
            let until = |at: u64| cache.missing_until(&object, at..block_end(at).min(range.end));
            let mut end = until(range.start);
            if end == range.start {
                return None;
            }
            let mut claims = vec![claim];
            while end < range.end && end % BLOCK == 0 {
                let Some(claim) = cache.try_claim(&object, end / BLOCK) else { break };
                let next = until(end);
                if next == end {
                    break;
                }
                claims.push(Some(claim));
                end = next;
            }
            let start = range.start - range.start % PAGE;
            let bytes = start..end.next_multiple_of(PAGE).min(object.size);
            Some(MissingRun { bytes, claims })
        });
        // The task only ends early with the runtime.
        found.await.ok().flatten()
    }
}

fn block_end(at: u64) -> u64 {
    (at / BLOCK + 1) * BLOCK
}

/// Gives the bytes of a run to the reader, and stores them block by block.
struct FillingSink {
    cache: Arc<ChannelCache>,
    target: Arc<Target>,
    object: CachedObject,
    run: MissingRun,
    /// The bytes that the reader wants.
    wanted: Range<u64>,
    frames: FrameSender,
    /// The next byte.
    at: u64,
    /// Where the pages begin that are collected.
    start: u64,
    collected: Vec<Bytes>,
}

impl FillingSink {
    fn new(
        from: &CachedFetch,
        object: CachedObject,
        run: MissingRun,
        wanted: Range<u64>,
        frames: FrameSender,
    ) -> Self {
        let start = run.bytes.start;
        Self {
            cache: from.cache.clone(),
            target: from.fetch.target.clone(),
            object,
            run,
            wanted,
            frames,
            at: start,
            start,
            collected: Vec::new(),
        }
    }

    /// Sends the wanted bytes of a frame, which begins at `self.at`. Who does not receive them
    /// any more has closed the channel.
    fn forward(&self, bytes: &Bytes) {
        let offset = |place: u64| (place.max(self.at) - self.at).min(bytes.len() as u64) as usize;
        let wanted = bytes.slice(offset(self.wanted.start)..offset(self.wanted.end));
        if !wanted.is_empty() {
            let _ = self.frames.send(Ok(wanted.into()));
        }
    }

    /// Stores the collected pages. The claim of their block ends then.
    async fn store(&mut self) {
        let (cache, object, start) = (self.cache.clone(), self.object, self.start);
        let (facts, frames) = (self.target.facts_for_cache(), std::mem::take(&mut self.collected));
        let claim = if self.run.claims.is_empty() { None } else { self.run.claims.remove(0) };
        let store = move || {
            cache.store(&object, &facts, start, &frames);
            drop(claim);
        };
        // The task only ends early with the runtime.
        let _ = spawn_blocking(store).await;
        self.start = self.at;
    }
}

impl FrameSink for FillingSink {
    async fn frame(&mut self, mut bytes: Bytes) -> bool {
        self.cache.counters().add_missed(bytes.len() as u64);
        self.forward(&bytes);
        while !bytes.is_empty() {
            let end = block_end(self.at).min(self.run.bytes.end);
            let left = (end - self.at).min(bytes.len() as u64);
            self.collected.push(bytes.split_to(left as usize));
            self.at += left;
            if self.at == end {
                self.store().await;
            }
        }
        // If the reader has left, the block is still completed, and so is the last one: a reader
        // of a part of an object does not read to the end of what it requested.
        let is_between = self.collected.is_empty() && self.run.bytes.end - self.at > BLOCK;
        !(is_between && self.frames.is_closed())
    }

    fn fail(&mut self, error: RequestError) {
        self.frames.fail(error);
    }
}

/// The task of a part that fills a cache. When its part is dropped, it may complete its block.
pub(super) struct FillingTask {
    task: Option<Task<()>>,
    handle: Handle,
    pending: Pending,
}

impl FillingTask {
    pub(super) fn new(task: Task<()>, pending: Pending) -> Self {
        Self { task: Some(task), handle: Handle::current(), pending }
    }
}

impl Drop for FillingTask {
    fn drop(&mut self) {
        if let Some(mut task) = self.task.take().filter(|task| !task.0.is_finished()) {
            let guard = self.pending.add();
            self.handle.spawn(async move {
                // Otherwise the block is fetched again when it is needed.
                let _ = timeout(FINISH_TIMEOUT, &mut task.0).await;
                drop(guard);
            });
        }
    }
}

impl Target {
    /// The object for the cache. `None` without a strong ETag: nothing else shows that bytes are of
    /// the same state.
    pub(super) fn for_cache(&self, server: &str, verify: bool) -> Option<CachedObject> {
        let etag = self.etag().filter(|etag| !etag.starts_with("W/"))?;
        Some(CachedObject::new(&crate::cache::ObjectState {
            server,
            bucket: &self.address.bucket,
            key: &self.address.key,
            version: self.address.version.as_deref(),
            etag: super::target::bare_etag(etag),
            size: self.size,
            verify,
        }))
    }

    /// What a response has told of the object, to be stored with its bytes.
    fn facts_for_cache(&self) -> Facts {
        Facts {
            encoding: self.encoding.get().cloned().unwrap_or_default(),
            checksum: self.checksum.get().map(|sum| sum.to_bytes()).unwrap_or_default(),
        }
    }

    /// Takes what was stored with the bytes, as from a response.
    fn know(&self, facts: &Facts) {
        if !facts.encoding.is_empty() {
            let _ = self.encoding.set(facts.encoding.clone());
        }
        if let Some(checksum) = super::checksum::Checksum::from_bytes(&facts.checksum) {
            let _ = self.checksum.set(checksum);
        }
    }
}
