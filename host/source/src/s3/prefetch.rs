//! Starts requests in the order in which their bytes will be read, object by object and epoch by
//! epoch, as far ahead of the reader as the [`ReadWindow`](super::window::ReadWindow) allows.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use pipemill_codecs::{Codec, SeekPoint};
use pipemill_types::{ListIdentity, ObjectFacts, ObjectIdentity};
use tokio::sync::{mpsc, oneshot};

use super::cached::{CachedFetch, FillingTask};
use super::error::RequestError;
use super::fetch::Fetch;
use super::foresight::Foresight;
use super::frame::Frame;
use super::list_progress::ListProgress;
use super::plan::{Plan, PlannedObject, PlannedPiece, Planner};
use super::runtime::Task;
use super::settings::Settings;
use super::target::Target;
use super::window::{RequestPermit, Reservation};
use crate::cache::{BLOCK, ChannelCache};
use crate::known::CompressedBlock;
use crate::start::ObjectStart;
use crate::{AskedObject, Block, Compression, KnownRecords, SourceError, Start};

/// Objects that may wait for their reader. This limits objects without bytes, which take no room in
/// the window.
pub(super) const MAX_QUEUED_OBJECTS: usize = 4_096;

/// A message from the prefetch task to the channel's thread. Messages are in order.
pub(super) enum PrefetchEvent {
    /// An object whose bytes are requested.
    Object(Box<PrefetchedObject>),
    /// The epoch has ended.
    EpochEnd(u32),
    /// The prefetch ended with an error.
    Failed(SourceError),
    /// The last epoch has ended.
    End,
}

/// An object whose bytes are requested.
pub(super) struct PrefetchedObject {
    pub(super) epoch: u32,
    pub(super) ordinal: u64,
    pub(super) name: String,
    pub(super) identity: ObjectIdentity,
    pub(super) facts: ObjectFacts,
    /// The block of it that is read, if it is not all of it.
    pub(super) block: Option<Block>,
    /// Its number in the list of an index.
    pub(super) number: Option<u64>,
    /// What an index knows of its records.
    pub(super) known: Option<KnownRecords>,
    /// Byte at which its reader begins.
    pub(super) offset: u64,
    /// The point of a state from which it is inflated. Points of an index are not held here,
    /// because many objects wait, and a point takes 13 KiB.
    pub(super) point: Option<Arc<SeekPoint>>,
    pub(super) pieces: Vec<PrefetchedPiece>,
    /// Its companions, of which nothing is requested.
    pub(super) companions: Vec<Arc<Target>>,
}

/// One piece of an object.
pub(super) enum PrefetchedPiece {
    /// A value of an augmented manifest.
    Text(Bytes),
    /// An object of which nothing is requested.
    OnDemand(Arc<Target>),
    Object {
        target: Arc<Target>,
        /// Stored bytes that the parts have.
        bytes: Range<u64>,
        /// Whether the bytes after them are requested when they are read.
        goes_on: bool,
        parts: mpsc::UnboundedReceiver<Part>,
    },
}

/// One requested part of an object. Dropping it aborts its request.
pub(super) struct Part {
    /// The part's bytes in order. An error is the last item.
    pub(super) frames: mpsc::UnboundedReceiver<Result<Frame, RequestError>>,
    /// The part's bytes in the window.
    pub(super) reservation: Reservation,
    /// The drop of this sender tells its receiver that the part was read.
    pub(super) _dropped: Option<oneshot::Sender<()>>,
    _task: PartTask,
}

/// The task that fetches a part.
enum PartTask {
    /// It is aborted when the part is dropped.
    Fetching { _task: Task<()> },
    /// It fills a cache.
    Filling { _task: FillingTask },
}

/// Prefetches all epochs from this place on. Returns early if the receiver is closed. The list of
/// the first epoch must be the expected one. The first object is inflated from `point` on.
pub(super) async fn prefetch(
    planner: Planner,
    start: Start,
    mut expected: Option<ListIdentity>,
    mut point: Option<Arc<SeekPoint>>,
    events: mpsc::Sender<PrefetchEvent>,
) {
    if let Err(error) = planner.s3.open_cache().await {
        // The task ends here, whether or not the error is received.
        let _ = events.send(PrefetchEvent::Failed(error)).await;
        return;
    }
    let (mut next, mut foresight) = (start, Foresight::default());
    while next.epoch < planner.settings.reading.epochs {
        if let Some(cache) = planner.s3.cache() {
            cache.epoch_began();
            foresight.enter(next.epoch, &planner, cache, &events).await;
        }
        let list = Arc::new(ListProgress::new(expected.take()));
        let mut plan = Plan::start(planner.clone(), next, list.clone());
        while let Some(planned) = plan.next().await {
            let planned = match planned {
                Err(error) => {
                    // The task ends here, whether or not the error is received.
                    let _ = events.send(PrefetchEvent::Failed(error)).await;
                    return;
                }
                Ok(planned) => planned,
            };
            match start_object(&planner, planned, next, point.take(), &list, &events).await {
                Ok(()) => {}
                Err(StartError::ReceiverClosed) => return,
                Err(StartError::Failed(error)) => {
                    // The task ends here, whether or not the error is received.
                    let _ = events.send(PrefetchEvent::Failed(error)).await;
                    return;
                }
            }
            next = Start { ordinal: next.ordinal + 1, offset: 0, ..next };
        }
        if events.send(PrefetchEvent::EpochEnd(next.epoch)).await.is_err() {
            return;
        }
        next = Start::of_epoch(next.epoch + 1);
    }
    let _ = events.send(PrefetchEvent::End).await;
}

/// Why no further object is started.
enum StartError {
    /// The channel's thread has closed its receiver.
    ReceiverClosed,
    /// What the index knows of the object is wrong.
    Failed(SourceError),
}

impl From<SourceError> for StartError {
    fn from(error: SourceError) -> Self {
        Self::Failed(error)
    }
}

/// Sends the object at `place`, and starts the requests for its parts as the window allows.
async fn start_object(
    planner: &Planner,
    planned: PlannedObject,
    place: Start,
    point: Option<Arc<SeekPoint>>,
    list: &Arc<ListProgress>,
    events: &mpsc::Sender<PrefetchEvent>,
) -> Result<(), StartError> {
    let facts = match &planned.pieces[..] {
        [PlannedPiece::Object(target)] => target.facts(),
        _ => ObjectFacts::default(),
    };
    let (content, list, known) = (planned.identity(), list.clone(), planned.known.clone());
    let is_cached = planner.is_cached.get().is_some_and(|is_cached| {
        let (name, block) = (&*planned.name, planned.block.as_ref());
        is_cached(&AskedObject { name, content: &content, facts: &facts, block })
    });
    let identity = ObjectIdentity::later(move || format!("{};{content}", list.known()));
    let is_whole = planner.settings.reading.wrap || planned.pieces.len() > 1;
    let point = point.filter(|point| !is_whole && point.inflated() <= place.offset);
    let is_inside = !is_whole && planned.block.is_none();
    let of_index = match &point {
        None if is_inside => planner.seek_point(planned.number, place.offset)?,
        _ => None,
    };
    let start = if is_inside {
        ObjectStart::after(point.as_deref().or(of_index.as_ref()), place.offset)
    } else {
        ObjectStart::default()
    };
    let mut requests = Vec::new();
    let mut pieces = Vec::with_capacity(planned.pieces.len());
    for piece in planned.pieces {
        let target = match piece {
            PlannedPiece::Text(text) => {
                pieces.push(PrefetchedPiece::Text(text));
                continue;
            }
            PlannedPiece::Object(target) => target,
        };
        let whole = first_byte(&planner.settings, &target, start)..target.size;
        let compressed = match &planned.block {
            Some(block) => planner.compressed_block(planned.number, block, target.size)?,
            None => None,
        };
        let (reading, is_block) = (&planner.settings.reading, planned.block.is_some());
        let is_on_demand = reading.is_on_demand(&target.address.key, target.size, is_block);
        // The workers of its sections request them.
        let is_divided = || planner.divided(planned.number, &target).is_some();
        let is_divided = is_inside && place.offset == 0 && is_divided();
        if is_on_demand && compressed.is_none() || is_cached && !is_block || is_divided {
            pieces.push(PrefetchedPiece::OnDemand(target));
            continue;
        }
        let ranges = match planned.block {
            None => vec![(whole, false)],
            Some(block) => ranges(block, compressed.as_ref(), target.size),
        };
        // What the cache has is requested only if it turns out to be damaged.
        let ranges = ranges.into_iter().map(|(bytes, goes_on)| match is_cached && goes_on {
            true => (bytes.start..bytes.start, true),
            false => (bytes, goes_on),
        });
        for (bytes, goes_on) in ranges {
            let (sender, parts) = mpsc::unbounded_channel();
            requests.push((target.clone(), bytes.clone(), sender));
            let target = target.clone();
            pieces.push(PrefetchedPiece::Object { target, bytes, goes_on, parts });
        }
    }
    let (Start { epoch, ordinal, offset }, name) = (place, planned.name);
    let (block, number) = (planned.block, planned.number);
    // A block is always decoded from its start.
    let offset = if block.is_some() { 0 } else { offset };
    let object = PrefetchedObject {
        epoch,
        ordinal,
        name,
        identity,
        facts,
        block,
        number,
        known,
        offset,
        point,
        pieces,
        companions: planned.companions,
    };
    let object = Box::new(object);
    events.send(PrefetchEvent::Object(object)).await.map_err(|_| StartError::ReceiverClosed)?;
    for (target, bytes, parts) in requests {
        for range in planner.part_ranges(bytes) {
            let (reservation, permit) = planner.window.reserve(range.end - range.start).await;
            let cache = planner.s3.cache();
            let part = start_part(planner, &target, range, (reservation, permit), cache);
            if parts.send(part).is_err() {
                // The reader has skipped the rest of this object.
                break;
            }
        }
    }
    Ok(())
}

/// Bytes after the end of a block that are fetched: some decoders see only there that a record is
/// whole.
const BEYOND_BLOCK: u64 = 64 << 10;

/// Compressed bytes that are fetched for the header of a block, in addition to as many as it has:
/// what a gzip member begins with, or the block of a zstd frame.
const HEADER_MARGIN: u64 = 8 << 10;
const ZSTD_HEADER_MARGIN: u64 = 64 << 10;

/// The bytes of an object of `size` bytes that a block most likely needs: its header, and the block
/// itself. Also returns whether the bytes after them are requested when they are read.
pub(super) fn ranges(
    block: Block,
    compressed: Option<&CompressedBlock>,
    size: u64,
) -> Vec<(Range<u64>, bool)> {
    let mut header = u64::from(block.header);
    let (begin, end) = match compressed {
        None => (block.offset, block.end.map_or(size, |end| end.saturating_add(BEYOND_BLOCK))),
        Some(CompressedBlock { point, end }) => {
            let is_zstd = point.as_ref().is_some_and(|point| point.codec() == Codec::Zstd);
            let margin = if is_zstd { ZSTD_HEADER_MARGIN } else { HEADER_MARGIN };
            header = if header > 0 { header + margin } else { 0 };
            (point.as_ref().map_or(0, SeekPoint::compressed), *end)
        }
    };
    let (header, end) = (0..header.min(size), end.min(size));
    let own = (begin.min(end)..end, true);
    if header.is_empty() { vec![own] } else { vec![(header, compressed.is_some()), own] }
}

/// The stored byte from which an object is fetched, so that it can be read from this place on. It
/// is 0 for a compressed object without a seek point, because such an object can be inflated only
/// from its beginning.
fn first_byte(settings: &Settings, target: &Target, start: ObjectStart) -> u64 {
    let kind = settings.reading.compression.resolve(&target.address.key);
    if let Some(point) = start.point().filter(|_| kind != Compression::None) {
        return point.compressed().min(target.size);
    }
    match kind {
        Compression::None => start.offset.min(target.size),
        // The `Content-Encoding` may show that the object is compressed. If it is not known yet,
        // the response shows it: so at least one byte is requested.
        Compression::Auto if !target.is_encoded() => {
            start.offset.min(target.size.saturating_sub(1))
        }
        Compression::Auto | Compression::Gzip | Compression::Zlib | Compression::Zstd => 0,
    }
}

impl Planner {
    /// Divides a range of an object into parts; an empty range has none. With a cache, a part ends
    /// where a block ends, so that no two parts wait for the same block.
    pub(super) fn part_ranges(
        &self,
        range: Range<u64>,
    ) -> impl Iterator<Item = Range<u64>> + use<> {
        let part_size = self.settings.part_size;
        match self.s3.cache() {
            None => part_ranges(range.clone(), range.start, part_size),
            Some(_) => part_ranges(range, 0, (part_size - part_size % BLOCK).max(BLOCK)),
        }
    }
}

/// Divides a range into parts, each of which ends a multiple of `part_size` after `origin`, or at
/// the end of the range.
pub(super) fn part_ranges(
    range: Range<u64>,
    origin: u64,
    part_size: u64,
) -> impl Iterator<Item = Range<u64>> + use<> {
    let mut start = range.start;
    std::iter::from_fn(move || {
        let first = start;
        start = (origin + ((first - origin) / part_size + 1) * part_size).min(range.end);
        (first < range.end).then_some(first..start)
    })
}

/// Starts the request for one part, through this cache.
pub(super) fn start_part(
    planner: &Planner,
    target: &Arc<Target>,
    range: Range<u64>,
    (reservation, permit): (Reservation, RequestPermit),
    cache: Option<&Arc<ChannelCache>>,
) -> Part {
    let (mut sender, frames) = mpsc::unbounded_channel();
    let fetch = Fetch {
        s3: planner.s3.clone(),
        window: planner.window.clone(),
        target: target.clone(),
        verify: planner.settings.verify,
    };
    let task = match cache.cloned() {
        None => {
            let task = tokio::spawn(async move {
                fetch.range(range, &mut sender).await;
                drop(permit);
            });
            PartTask::Fetching { _task: Task(task) }
        }
        Some(cache) => {
            let pending = cache.pending.clone();
            let cached = CachedFetch { fetch, cache };
            let task = tokio::spawn(async move {
                cached.range(range, sender).await;
                drop(permit);
            });
            PartTask::Filling { _task: FillingTask::new(Task(task), pending) }
        }
    };
    Part { frames, reservation, _dropped: None, _task: task }
}

#[cfg(test)]
mod tests {
    use super::part_ranges;

    #[test]
    fn parts_cover_each_byte_of_an_object_once() {
        assert_eq!(part_ranges(0..0, 0, 8).count(), 0);
        assert_eq!(part_ranges(9..9, 9, 8).count(), 0);
        assert!(part_ranges(0..8, 0, 8).eq(std::iter::once(0..8)));
        assert_eq!(part_ranges(0..17, 0, 8).collect::<Vec<_>>(), [0..8, 8..16, 16..17]);
        assert_eq!(part_ranges(3..17, 3, 8).collect::<Vec<_>>(), [3..11, 11..17]);
        assert_eq!(part_ranges(3..17, 0, 8).collect::<Vec<_>>(), [3..8, 8..16, 16..17]);
    }
}
