//! An object's bytes, as the channel's thread reads them: part by part, from the responses' bodies
//! or from the files of the cache.

use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::checksum::Hasher;
use super::error::RequestError;
use super::frame::Frame;
use super::plan::Planner;
use super::prefetch::{Part, start_part};
use super::runtime::Task;
use super::settings::OnChange;
use super::target::{Target, head};
use super::wait::wait;
use crate::cache::{BLOCK, ChannelCache};
use crate::{Input, ReadOutcome, SourceError, Stop};

/// Bytes that are requested first of an object, or of bytes after a block, which are requested when
/// they are read.
const FIRST_BYTES: u64 = 64 << 10;

/// The bytes of one object.
pub(super) struct Body {
    pub(super) target: Arc<Target>,
    parts: UnboundedReceiver<Part>,
    part: Option<Part>,
    /// The rest of the current frame.
    frame: Frame,
    /// Stored byte that is read next.
    offset: u64,
    /// Stored byte after the last one that is read.
    last: u64,
    hasher: Option<Hasher>,
    /// The error that ended the object. Each further read returns it.
    failed: Option<SourceError>,
    reader: Reader,
    on_change: OnChange,
    /// Stored byte after the last one that was requested. When it is reached, more are.
    requested: u64,
    /// Number of bytes that are requested then. `None`: all.
    step: Option<u64>,
    /// The task that fetches its bytes, if they were not prefetched.
    fetching: Option<Task<()>>,
    /// The last block that the cache was to have, and did not.
    not_in_cache: Option<u64>,
    /// Whether the cache is not asked any more.
    past_cache: bool,
}

/// The parts that the channel's thread needs to wait for bytes and to restart an object.
#[derive(Clone)]
pub(super) struct Reader {
    pub(super) planner: Planner,
    pub(super) handle: Handle,
    pub(super) stop: Stop,
}

impl Reader {
    /// Waits until `poll` is ready, and reports the time to the window.
    fn wait<T>(
        &self,
        timeout: Option<Duration>,
        poll: impl FnMut(&mut Context) -> Poll<T>,
    ) -> Result<T, ReadOutcome> {
        let started = Instant::now();
        let result = wait(&self.handle, &self.stop, timeout, poll).ready();
        self.planner.window.reader_waited(started.elapsed());
        result
    }
}

/// Whether to wait for bytes that have not arrived yet.
#[derive(Clone, Copy)]
enum Blocking {
    No,
    /// Wait at most for this time; without a limit if it is `None`.
    Yes(Option<Duration>),
}

/// Result of getting the next frame.
enum NextFrame {
    /// The frame is in `Body::frame`.
    Ready,
    /// The object has no more frames.
    End,
    /// No frame is available now; the outcome is that of the read.
    NotReady(ReadOutcome),
}

impl Body {
    /// The parts have these bytes of the object. The checksum covers the whole object, so it is
    /// compared only if they are all.
    pub(super) fn new(
        target: Arc<Target>,
        bytes: Range<u64>,
        parts: UnboundedReceiver<Part>,
        reader: Reader,
        on_change: OnChange,
    ) -> Self {
        Self {
            target,
            parts,
            part: None,
            frame: Frame::default(),
            offset: bytes.start,
            last: bytes.end,
            hasher: None,
            failed: None,
            reader,
            on_change,
            requested: bytes.end,
            step: None,
            fetching: None,
            not_in_cache: None,
            past_cache: false,
        }
    }

    /// All bytes of an object of which nothing is requested.
    pub(super) fn on_demand(target: Arc<Target>, reader: Reader, on_change: OnChange) -> Self {
        let (_, nothing) = unbounded_channel();
        let bytes = 0..target.size;
        let body = Self::new(target, bytes, nothing, reader, on_change);
        Self { requested: 0, ..body }
    }

    /// Requests the bytes after those that the parts have, too, when they are read: few at first.
    pub(super) fn go_on(&mut self) {
        (self.last, self.step) = (self.target.size, Some(FIRST_BYTES));
    }

    /// Reads from the current frame into `buf`, and returns the number of bytes.
    fn read_frame(&mut self, buf: &mut [u8]) -> usize {
        if self.offset == 0 && self.last == self.target.size && self.step.is_none() {
            self.hasher = self.target.checksum.get().map(|checksum| checksum.hasher());
        }
        let Ok(count) = self.frame.read(buf, self.hasher.as_mut()) else {
            self.fetch_rest();
            return 0;
        };
        self.offset += count as u64;
        if let Some(part) = &mut self.part {
            part.reservation.read(count as u64);
        }
        count
    }

    /// Gets the next frame, from the current part or from a later one.
    fn next_frame(&mut self, blocking: Blocking) -> Result<NextFrame, SourceError> {
        loop {
            let Some(mut part) = self.part.take() else {
                match self.next_part(blocking) {
                    Ok(Some(part)) => self.part = Some(part),
                    Ok(None) => return Ok(NextFrame::End),
                    Err(outcome) => return Ok(NextFrame::NotReady(outcome)),
                }
                continue;
            };
            match self.next_frame_of(&mut part, blocking) {
                Ok(Some(Ok(frame))) => {
                    self.part = Some(part);
                    self.frame = frame;
                    return Ok(NextFrame::Ready);
                }
                Ok(Some(Err(error))) => self.restart_or_fail(error)?,
                Ok(None) if part.reservation.left() == 0 => {}
                Ok(None) => {
                    let message = format!(
                        "the task that fetches it ended unexpectedly at byte {}",
                        self.offset
                    );
                    let address = self.target.address.to_string();
                    return Err(SourceError::new(address, message, "report this"));
                }
                Err(outcome) => {
                    self.part = Some(part);
                    return Ok(NextFrame::NotReady(outcome));
                }
            }
        }
    }

    /// The next frame of this part, or its request's error; `None` at the end of the part.
    fn next_frame_of(
        &mut self,
        part: &mut Part,
        blocking: Blocking,
    ) -> Result<Option<Result<Frame, RequestError>>, ReadOutcome> {
        match part.frames.try_recv() {
            Ok(frame) => return Ok(Some(frame)),
            Err(TryRecvError::Disconnected) => return Ok(None),
            Err(TryRecvError::Empty) => {}
        }
        let Blocking::Yes(timeout) = blocking else { return Err(ReadOutcome::Nothing) };
        self.reader.wait(timeout, |cx| part.frames.poll_recv(cx))
    }

    /// The next part; `None` at the end of the object.
    fn next_part(&mut self, blocking: Blocking) -> Result<Option<Part>, ReadOutcome> {
        let has_more = self.offset == self.requested && self.requested < self.last;
        match self.parts.try_recv() {
            Ok(part) => return Ok(Some(part)),
            Err(TryRecvError::Disconnected) if !has_more => return Ok(None),
            Err(_) => {}
        }
        let Blocking::Yes(timeout) = blocking else { return Err(ReadOutcome::Nothing) };
        if has_more {
            self.request_more();
        }
        self.reader.wait(timeout, |cx| self.parts.poll_recv(cx))
    }

    /// Requests the bytes after those that were requested.
    fn request_more(&mut self) {
        let up_to = |bytes| self.last.min(self.offset.saturating_add(bytes));
        match self.step {
            Some(step) => {
                let next = self.offset..up_to(step);
                self.step = Some((2 * step).min(self.reader.planner.settings.part_size.max(step)));
                self.fetch(vec![next]);
            }
            None => {
                // Often, only the first bytes are read.
                let first = up_to(FIRST_BYTES);
                self.fetch(vec![self.offset..first, first..self.last]);
            }
        }
    }

    /// Waits for the first frame, with which the target's encoding is known. Returns `None` if it
    /// has arrived, otherwise the outcome of a read.
    pub(super) fn wait_for_first_frame(
        &mut self,
        timeout: Option<Duration>,
    ) -> Result<Option<ReadOutcome>, SourceError> {
        match self.next_frame(Blocking::Yes(timeout))? {
            NextFrame::Ready => Ok(None),
            NextFrame::End => self.end().map(Some),
            NextFrame::NotReady(outcome) => Ok(Some(outcome)),
        }
    }

    /// Starts again with the new object if the settings allow it, the object has changed, and none
    /// of its bytes was read. Otherwise returns the error.
    fn restart_or_fail(&mut self, error: RequestError) -> Result<(), SourceError> {
        let planner = &self.reader.planner;
        let address = &self.target.address;
        let restart = self.on_change == OnChange::RestartObject
            && self.offset == 0
            && matches!(error, RequestError::Changed(_));
        if !restart {
            return Err(error.into_source_error(address));
        }
        log::warn!(
            channel = planner.s3.channel, object:% = address;
            "{}; the new object is read instead", error.into_source_error(address).message
        );
        let verify = planner.settings.verify;
        let target = self.reader.handle.block_on(head(&planner.s3, address, verify))?;
        self.fetch_again(Arc::new(target));
        Ok(())
    }

    /// Reads this target from its first byte.
    pub(super) fn fetch_again(&mut self, target: Arc<Target>) {
        let bytes = 0..target.size;
        (self.target, self.part, self.frame) = (target, None, Frame::default());
        (self.last, self.step) = (bytes.end, None);
        self.fetch(vec![bytes]);
    }

    /// Requests again what was requested, from the next byte on: the cache does not have it. If
    /// that happens twice at one block, the cache is not asked again: it may be unable to remove
    /// what is damaged.
    fn fetch_rest(&mut self) {
        let block = Some(self.offset / BLOCK);
        self.past_cache |= self.not_in_cache == block;
        self.not_in_cache = block;
        (self.part, self.frame) = (None, Frame::default());
        let rest = self.offset..self.requested;
        self.fetch(vec![rest]);
    }

    /// Requests these bytes, which are read next: ranges that follow each other.
    fn fetch(&mut self, bytes: Vec<Range<u64>>) {
        (self.offset, self.requested) = (bytes[0].start, bytes[bytes.len() - 1].end);
        let (sender, parts) = unbounded_channel();
        let planner = self.reader.planner.clone();
        let cache = planner.s3.cache().filter(|_| !self.past_cache).cloned();
        let fetch = fetch(planner, self.target.clone(), bytes, sender, cache);
        self.fetching = Some(Task(self.reader.handle.spawn(fetch)));
        self.parts = parts;
    }

    /// Checks length and checksum at the end of the object.
    fn end(&mut self) -> Result<ReadOutcome, SourceError> {
        let target = &self.target;
        let error = |message: String, remedy: &str| {
            Err(SourceError::new(target.address.to_string(), message, remedy))
        };
        if self.offset != self.last {
            let (offset, size) = (self.offset, self.last);
            return error(format!("its request ended at byte {offset} of {size}"), "try again");
        }
        if let Some(hasher) = self.hasher.take()
            && let Some(checksum) = target.checksum.get()
            && let Err(computed) = checksum.verify(hasher)
        {
            let planner = &self.reader.planner;
            if let (Some(cache), Some(server)) = (planner.s3.cache(), planner.s3.known_server())
                && let Some(object) = target.for_cache(server, planner.settings.verify)
            {
                cache.forget(&object);
            }
            let message = format!(
                "{}: what was decoded of this object is not what was stored",
                checksum.mismatch(&computed)
            );
            return error(message, "read it again; if it stays so, store it again");
        }
        Ok(ReadOutcome::End)
    }
}

/// Fetches bytes of an object for which the reader waits, or soon does. Bypasses the window: its
/// current holders may be read later, so waiting would deadlock. One part at a time.
async fn fetch(
    planner: Planner,
    target: Arc<Target>,
    bytes: Vec<Range<u64>>,
    parts: UnboundedSender<Part>,
    cache: Option<Arc<ChannelCache>>,
) {
    for range in bytes.into_iter().flat_map(|range| planner.part_ranges(range)) {
        let reserved = planner.window.force(range.end - range.start).await;
        let (sender, dropped) = oneshot::channel();
        let mut part = start_part(&planner, &target, range, reserved, cache.as_ref());
        part._dropped = Some(sender);
        if parts.send(part).is_err() {
            return;
        }
        // Nothing is ever sent, so this is always an error: it reports the drop of the part.
        let _ = dropped.await;
    }
}

impl Input for Body {
    fn is_stored(&self) -> bool {
        true
    }

    fn range(&self, range: Range<u64>) -> Option<Result<Box<dyn Input>, SourceError>> {
        let reader = self.reader.clone();
        let mut body = Self::on_demand(self.target.clone(), reader, OnChange::Fail);
        body.last = range.end;
        body.fetch(vec![range]);
        Some(Ok(Box::new(body)))
    }

    fn room_ahead(&self) -> Option<u64> {
        Some(self.reader.planner.window.room())
    }

    fn read(
        &mut self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<ReadOutcome, SourceError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if self.reader.stop.is_requested() {
            return Ok(ReadOutcome::Stopped);
        }
        let mut count = 0;
        loop {
            count += self.read_frame(&mut buf[count..]);
            if count == buf.len() || !self.frame.is_empty() {
                return Ok(ReadOutcome::Bytes(count));
            }
            // If `buf` has bytes already, they are returned without waiting for more.
            let blocking = if count == 0 { Blocking::Yes(timeout) } else { Blocking::No };
            match self.next_frame(blocking) {
                Ok(NextFrame::Ready) => {}
                Ok(_) if count > 0 => return Ok(ReadOutcome::Bytes(count)),
                Ok(NextFrame::End) => return self.end(),
                Ok(NextFrame::NotReady(outcome)) => return Ok(outcome),
                Err(error) => {
                    self.failed = Some(error.clone());
                    return if count > 0 { Ok(ReadOutcome::Bytes(count)) } else { Err(error) };
                }
            }
        }
    }
}
