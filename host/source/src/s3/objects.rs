//! S3 as a [`Source`]: receives the objects that `prefetch` sends, and makes an input of each.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use pipemill_codecs::{SeekPoint, SeekPoints};
use pipemill_types::{ListIdentity, printable};
use tokio::sync::mpsc;

use super::body::{Body, Reader};
use super::cached::FINISH_TIMEOUT;
use super::plan::Planner;
use super::prefetch::{
    MAX_QUEUED_OBJECTS, PrefetchEvent, PrefetchedObject, PrefetchedPiece, prefetch,
};
use super::runtime::{S3Runtime, Task};
use super::settings::{OnChange, Settings};
use super::target::Target;
use super::wait::wait;
use super::window::ReadWindow;
use crate::by_places::ByPlaces;
use crate::cache::CacheCounters;
use crate::chain::Chain;
use crate::header_and_rest::HeaderAndRest;
use crate::inflate::Failed;
use crate::skip::{ended, skip};
use crate::start::ObjectStart;
use crate::wait::WaitOutcome;
use crate::wrap::Wrapped;
use crate::{
    Block, Companion, Compression, Input, IsCached, Object, ReadOutcome, Source, SourceError,
    SourceEvent, Start, Stop, TotalSize,
};

/// A source of objects in S3.
pub struct Objects {
    /// Keeps the runtime alive as long as this source's tasks run on it.
    _s3: Arc<S3Runtime>,
    reader: Reader,
    settings: Arc<Settings>,
    events: mpsc::Receiver<PrefetchEvent>,
    _prefetch: Task<()>,
    /// Epoch of the last object.
    epoch: u32,
    /// Whether to skip the rest of this epoch.
    skip_epoch: bool,
    /// The expected identity of the list of the epoch in which the source starts.
    expected: Option<ListIdentity>,
    /// The point from which the object of the next start is inflated.
    point: Option<Arc<SeekPoint>>,
}

impl Objects {
    /// Starts to prefetch the epochs up to, but not including, `reading.epochs` from this place on.
    /// Objects before the place are listed, but not requested.
    pub fn new(s3: Arc<S3Runtime>, settings: Settings, start: Start, stop: Stop) -> Self {
        Self::from_seek_point(s3, settings, (start, None), stop)
    }

    /// As [`Objects::new`], with the seek point of the object at which it starts, as for
    /// [`Source::start_from`].
    pub fn from_seek_point(
        s3: Arc<S3Runtime>,
        settings: Settings,
        start: (Start, Option<Arc<SeekPoint>>),
        stop: Stop,
    ) -> Self {
        Self::with_total_size(s3, settings, start, stop, TotalSize::default())
    }

    /// As [`Objects::from_seek_point`], with the handle that receives each epoch's byte count.
    pub(crate) fn with_total_size(
        s3: Arc<S3Runtime>,
        settings: Settings,
        (start, point): (Start, Option<Arc<SeekPoint>>),
        stop: Stop,
        total_size: TotalSize,
    ) -> Self {
        let settings = Arc::new(settings);
        let planner = Planner {
            s3: Arc::new(s3.handle(&settings)),
            window: ReadWindow::new(s3.budget.clone(), settings.part_size, settings.concurrency),
            settings: settings.clone(),
            total_size,
            list_slot: s3.lists.slot(&settings),
            is_cached: Arc::default(),
        };
        let reader = Reader { planner, handle: s3.tokio().clone(), stop };
        let (events, task) = start_prefetch(&reader, start, None, point);
        Self {
            _s3: s3,
            reader,
            settings,
            events,
            _prefetch: task,
            epoch: start.epoch,
            skip_epoch: false,
            expected: None,
            point: None,
        }
    }

    /// The input of an object, or of a block of it, which begins at `start`.
    fn object_input(
        &self,
        name: &str,
        mut pieces: Vec<PrefetchedPiece>,
        start: ObjectStart,
        block: Option<Block>,
    ) -> Box<dyn Input> {
        if let Some(block) = block.filter(|_| start.point().is_some())
            && let Some(rest) = pieces.pop()
        {
            let rest = self.input(rest, start, OnChange::Fail);
            let Some(header) = pieces.pop() else { return rest };
            let header = self.input(header, ObjectStart::default(), OnChange::Fail);
            return Box::new(HeaderAndRest::new(header, block.header.into(), rest));
        }
        let offset = start.offset;
        // With several pieces, it is not known which one contains the byte.
        let is_single = matches!(pieces[..], [PrefetchedPiece::Object { .. }]);
        let can_seek = is_single && !self.settings.reading.wrap;
        let begin = if can_seek { start } else { ObjectStart::default() };
        // The bytes before `offset` were decoded by an earlier process. A block is one of a state
        // that an index knows.
        let is_begun = offset > 0 || begin.point().is_some() || block.is_some();
        let on_change = if is_begun { OnChange::Fail } else { self.settings.on_change };
        let inputs = pieces.into_iter().map(|piece| self.input(piece, begin, on_change)).collect();
        skip(name, Chain::of(inputs), begin.offset, offset)
    }

    /// A companion of an object.
    fn companion(&self, target: Arc<Target>) -> Companion {
        let size = target.size;
        let body = Body::on_demand(target, self.reader.clone(), OnChange::Fail);
        let (name, _, input) = self.body_input(body, 0, ObjectStart::default());
        Companion { name, size, input }
    }

    /// The input of a piece, which begins at `start`.
    fn input(
        &self,
        piece: PrefetchedPiece,
        start: ObjectStart,
        on_change: OnChange,
    ) -> Box<dyn Input> {
        let (name, size, input): (_, _, Box<dyn Input>) = match piece {
            PrefetchedPiece::Text(text) => {
                (String::new(), Some(text.len() as u64), Box::new(Text(text)))
            }
            PrefetchedPiece::OnDemand(target) => {
                let body = Body::on_demand(target, self.reader.clone(), on_change);
                self.body_input(body, 0, ObjectStart::default())
            }
            PrefetchedPiece::Object { target, bytes, goes_on, parts } => {
                let size = target.size;
                // At least one byte is after each point.
                if let Some(point) = start.point().filter(|point| point.compressed() >= size) {
                    let name = target.address.to_string();
                    return Box::new(Failed(ended(&name, size, point.compressed())));
                }
                // A block's bytes begin inside of the object.
                let first_byte = bytes.start;
                let start = match start.point() {
                    None => ObjectStart::at(start.offset.max(first_byte)),
                    Some(_) => start,
                };
                let mut body = Body::new(target, bytes, parts, self.reader.clone(), on_change);
                if goes_on {
                    body.go_on();
                }
                self.body_input(body, first_byte, start)
            }
        };
        if self.settings.reading.wrap { Box::new(Wrapped::new(name, input, size)) } else { input }
    }

    /// The input of a body that begins at `first_byte` of the object, from `start` on. Also returns
    /// its name, and its size if that is known.
    fn body_input(
        &self,
        body: Body,
        first_byte: u64,
        start: ObjectStart,
    ) -> (String, Option<u64>, Box<dyn Input>) {
        let Target { address, size, .. } = &*body.target;
        let (name, key, size) = (address.to_string(), address.key.clone(), *size);
        match self.settings.reading.compression.resolve(&key) {
            Compression::Auto => {
                let encoding = ObjectEncoding::Unknown(Some(Box::new(body)));
                let input = ByContentEncoding {
                    name: name.clone(),
                    first_byte,
                    offset: start.offset,
                    point: start.point().cloned().map(Box::new),
                    points: None,
                    encoding,
                };
                // The size after decompression is unknown before the first response.
                (name, None, Box::new(input))
            }
            Compression::None if start.point().is_none() => {
                let input = skip(&name, Box::new(body), first_byte, start.offset);
                (name, Some(size), input)
            }
            kind => {
                let input = kind.inflate_from(&name, Box::new(body), start.point());
                let begin = start.point().map_or(0, SeekPoint::inflated);
                (name.clone(), None, skip(&name, input, begin, start.offset))
            }
        }
    }
}

/// Starts the task that prefetches from this place on.
fn start_prefetch(
    reader: &Reader,
    start: Start,
    expected: Option<ListIdentity>,
    point: Option<Arc<SeekPoint>>,
) -> (mpsc::Receiver<PrefetchEvent>, Task<()>) {
    let (sender, events) = mpsc::channel(MAX_QUEUED_OBJECTS);
    let planner = reader.planner.clone();
    (events, Task(reader.handle.spawn(prefetch(planner, start, expected, point, sender))))
}

impl Drop for Objects {
    /// Waits until what is being stored in the cache is stored: a later process is to find it.
    fn drop(&mut self) {
        let Some(cache) = self.reader.planner.s3.cache() else { return };
        self.events.close();
        while self.events.try_recv().is_ok() {}
        if !self.reader.stop.is_requested() {
            cache.pending.wait(FINISH_TIMEOUT);
        }
    }
}

impl Source for Objects {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        if std::mem::take(&mut self.skip_epoch) {
            // Requests of the skipped objects are aborted when their task and their parts are
            // dropped.
            (self.events, self._prefetch) =
                start_prefetch(&self.reader, Start::of_epoch(self.epoch + 1), None, None);
            return Ok(SourceEvent::EpochEnd(self.epoch));
        }
        let Reader { handle, stop, .. } = &self.reader;
        let event = match wait(handle, stop, None, |cx| self.events.poll_recv(cx)) {
            WaitOutcome::Ready(event) => event,
            WaitOutcome::TimedOut | WaitOutcome::Stopped => return Ok(SourceEvent::End),
        };
        match event {
            Some(PrefetchEvent::Object(object)) => {
                let PrefetchedObject {
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
                    companions,
                } = *object;
                self.epoch = epoch;
                let byte = block.map_or(offset, |block| block.offset);
                let of_index = match &point {
                    None => self.reader.planner.seek_point(number, byte)?,
                    Some(_) => None,
                };
                let start = match point.as_deref().or(of_index.as_ref()) {
                    None => ObjectStart::at(offset),
                    point => ObjectStart::after(point, byte),
                };
                let divided = match &pieces[..] {
                    [PrefetchedPiece::OnDemand(target)] if block.is_none() && offset == 0 => {
                        self.reader.planner.divided(number, target)
                    }
                    _ => None,
                };
                let mut input = self.object_input(&name, pieces, start, block);
                if let Some(object) = divided {
                    input = Box::new(ByPlaces::new(input, object));
                }
                let companions = companions.into_iter().map(|one| self.companion(one)).collect();
                Ok(SourceEvent::Object(Object {
                    epoch,
                    ordinal,
                    name,
                    identity,
                    facts,
                    block,
                    known,
                    input,
                    companions,
                }))
            }
            Some(PrefetchEvent::EpochEnd(epoch)) => {
                self.epoch = epoch + 1;
                Ok(SourceEvent::EpochEnd(epoch))
            }
            Some(PrefetchEvent::End) => Ok(SourceEvent::End),
            Some(PrefetchEvent::Failed(error)) => Err(error),
            None => {
                let name = self.settings.selection.to_string();
                Err(SourceError::new(
                    name,
                    "the task that fetches it ended unexpectedly",
                    "report this",
                ))
            }
        }
    }

    /// Objects that were prefetched from another place are dropped. A caller that knows the place
    /// in advance passes it to [`Objects::new`] or [`Objects::from_seek_point`], so that nothing
    /// else is requested.
    fn start_at(&mut self, start: Start) -> Result<(), SourceError> {
        let Settings { selection, reading, .. } = &*self.settings;
        start.check_epoch(&selection.to_string(), 0, Some(reading.epochs))?;
        (self.epoch, self.skip_epoch) = (start.epoch, false);
        let (expected, point) = (self.expected.take(), self.point.take());
        (self.events, self._prefetch) = start_prefetch(&self.reader, start, expected, point);
        Ok(())
    }

    fn expect_list(&mut self, list: Option<ListIdentity>) {
        self.expected = list;
    }

    fn start_from(&mut self, point: Option<Arc<SeekPoint>>) {
        self.point = point;
    }

    fn can_reread(&self) -> bool {
        true
    }

    fn end_epoch(&mut self) {
        self.skip_epoch = true;
    }

    fn total_size(&mut self) -> TotalSize {
        self.reader.planner.total_size.clone()
    }

    fn set_cached(&mut self, is_cached: IsCached) {
        // It is called once.
        let _ = self.reader.planner.is_cached.set(is_cached);
    }

    fn cache(&self) -> Option<Arc<CacheCounters>> {
        self.reader.planner.s3.cache_counters()
    }
}

/// A value of an augmented manifest.
struct Text(Bytes);

impl Input for Text {
    fn read(&mut self, buf: &mut [u8], _: Option<Duration>) -> Result<ReadOutcome, SourceError> {
        if self.0.is_empty() {
            return Ok(ReadOutcome::End);
        }
        let count = self.0.len().min(buf.len());
        self.0.copy_to_slice(&mut buf[..count]);
        Ok(ReadOutcome::Bytes(count))
    }
}

/// An object whose name does not show its compression. Its `Content-Encoding` may show it.
struct ByContentEncoding {
    name: String,
    /// Stored byte at which the body begins.
    first_byte: u64,
    /// The first byte to read, counted in the inflated object.
    offset: u64,
    /// The point from which it is inflated; the body begins there.
    point: Option<Box<SeekPoint>>,
    /// The seek points of the object, if its reader wants them.
    points: Option<SeekPoints>,
    encoding: ObjectEncoding,
}

enum ObjectEncoding {
    /// The first frame has not arrived. The body is taken when it arrives.
    Unknown(Option<Box<Body>>),
    /// The inflated object.
    Known(Box<dyn Input>),
}

impl Input for ByContentEncoding {
    fn is_inflated(&self) -> bool {
        matches!(&self.encoding, ObjectEncoding::Known(input) if input.is_inflated())
    }

    fn set_seek_points(&mut self, points: &SeekPoints) {
        self.points = Some(points.clone());
        if let ObjectEncoding::Known(input) = &mut self.encoding {
            input.set_seek_points(points);
        }
    }

    fn range(&self, range: Range<u64>) -> Option<Result<Box<dyn Input>, SourceError>> {
        match &self.encoding {
            ObjectEncoding::Unknown(body) => {
                let body = body.as_ref()?;
                let encoding = body.target.encoding.get().map_or("", String::as_str);
                if compression(encoding) == Some(Compression::None) {
                    body.range(range)
                } else {
                    None
                }
            }
            ObjectEncoding::Known(input) => input.range(range),
        }
    }

    fn room_ahead(&self) -> Option<u64> {
        match &self.encoding {
            ObjectEncoding::Unknown(body) => body.as_ref()?.room_ahead(),
            ObjectEncoding::Known(input) => input.room_ahead(),
        }
    }

    fn is_stored(&self) -> bool {
        match &self.encoding {
            // Most objects have it.
            ObjectEncoding::Unknown(_) => true,
            ObjectEncoding::Known(input) => input.is_stored(),
        }
    }

    fn read(
        &mut self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<ReadOutcome, SourceError> {
        if let ObjectEncoding::Unknown(slot) = &mut self.encoding {
            // It is `Some` as long as the encoding is unknown.
            let Some(body) = slot else { return Ok(ReadOutcome::End) };
            match body.wait_for_first_frame(timeout)? {
                Some(ReadOutcome::End) if self.offset > 0 => {
                    return Err(ended(&self.name, 0, self.offset));
                }
                Some(outcome) => return Ok(outcome),
                None => {}
            }
            let encoding = body.target.encoding.get().map(String::as_str).unwrap_or_default();
            let kind = compression(encoding).ok_or_else(|| {
                let encoding = printable(encoding);
                let message = format!(
                    "its Content-Encoding is `{encoding}`, expected gzip, zstd, deflate or none"
                );
                let remedy = "set `compression = \"none\"` to decode its bytes as they are";
                SourceError::new(&self.name, message, remedy)
            })?;
            if let Some(mut body) = slot.take() {
                let point = self.point.as_deref();
                // The encoding need not be set: the point says it, too.
                let by_point = kind.is_plain() && point.is_some();
                let kind = if by_point { Compression::Auto } else { kind };
                let mut begin = point.map_or(self.first_byte, SeekPoint::inflated);
                if begin > 0 && !kind.is_plain() && point.is_none() {
                    // It is inflated from its beginning.
                    let target = body.target.clone();
                    body.fetch_again(target);
                    begin = 0;
                }
                let input = kind.inflate_from(&self.name, body, point);
                let mut input = skip(&self.name, input, begin, self.offset);
                if let Some(points) = &self.points {
                    input.set_seek_points(points);
                }
                self.encoding = ObjectEncoding::Known(input);
            }
        }
        match &mut self.encoding {
            ObjectEncoding::Known(input) => input.read(buf, timeout),
            ObjectEncoding::Unknown(_) => Ok(ReadOutcome::End),
        }
    }
}

/// The compressions of HTTP that are not supported, by their registered names.
const UNSUPPORTED: [&str; 8] =
    ["br", "compress", "x-compress", "dcb", "dcz", "exi", "pack200-gzip", "bzip2"];

/// The compression that a `Content-Encoding` names; `None` if it is not supported. Words that name
/// no compression are ignored: clients leave `aws-chunked` in after an upload, and write charsets
/// such as `utf-8` there.
fn compression(encoding: &str) -> Option<Compression> {
    let mut kind = Compression::None;
    for word in encoding.split(',').map(|word| word.trim().to_ascii_lowercase()) {
        let named = match word.as_str() {
            "gzip" | "x-gzip" => Compression::Gzip,
            "zstd" => Compression::Zstd,
            // This is HTTP's name of zlib's format.
            "deflate" => Compression::Zlib,
            word if UNSUPPORTED.contains(&word) => return None,
            _ => continue,
        };
        if kind != Compression::None {
            return None;
        }
        kind = named;
    }
    Some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_compressions_count() {
        use Compression::{Gzip, None as Plain, Zlib, Zstd};
        for (encoding, kind) in [
            ("", Some(Plain)),
            ("utf-8", Some(Plain)),
            ("UTF-8", Some(Plain)),
            ("identity", Some(Plain)),
            ("aws-chunked", Some(Plain)),
            ("aws-chunked,gzip", Some(Gzip)),
            ("GZIP, utf-8", Some(Gzip)),
            ("zstd", Some(Zstd)),
            ("deflate", Some(Zlib)),
            ("br", None),
            ("gzip, gzip", None),
            ("gzip, zstd", None),
        ] {
            assert_eq!(compression(encoding), kind, "{encoding}");
        }
    }
}
