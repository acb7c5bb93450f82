//! S3 as a [`Source`]: receives the objects that `prefetch` sends, and makes an input of each.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use pipemill_types::printable;
use tokio::sync::mpsc;

use super::body::{Body, Reader};
use super::plan::Planner;
use super::prefetch::{MAX_QUEUED_OBJECTS, PrefetchEvent, PrefetchedPiece, prefetch};
use super::runtime::{S3Runtime, Task};
use super::settings::Settings;
use super::wait::{WaitOutcome, wait};
use super::window::ReadWindow;
use crate::chain::Chain;
use crate::wrap::Wrapped;
use crate::{
    Compression, Input, Object, ReadOutcome, Source, SourceError, SourceEvent, Stop, TotalSize,
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
}

impl Objects {
    /// Starts to prefetch the epochs from `first_epoch` up to, but not including, `reading.epochs`.
    pub fn new(s3: Arc<S3Runtime>, settings: Settings, first_epoch: u32, stop: Stop) -> Self {
        Self::with_total_size(s3, settings, first_epoch, stop, TotalSize::default())
    }

    /// As [`Objects::new`], with the handle that receives each epoch's byte count.
    pub(crate) fn with_total_size(
        s3: Arc<S3Runtime>,
        settings: Settings,
        first_epoch: u32,
        stop: Stop,
        total_size: TotalSize,
    ) -> Self {
        let settings = Arc::new(settings);
        let planner = Planner {
            s3: Arc::new(s3.handle(&settings)),
            window: ReadWindow::new(s3.budget.clone(), settings.part_size, settings.concurrency),
            settings: settings.clone(),
            total_size,
        };
        let reader = Reader { planner, handle: s3.tokio().clone(), stop };
        let (events, task) = start_prefetch(&reader, first_epoch);
        Self {
            _s3: s3,
            reader,
            settings,
            events,
            _prefetch: task,
            epoch: first_epoch,
            skip_epoch: false,
        }
    }

    fn input(&self, piece: PrefetchedPiece) -> Box<dyn Input> {
        let (name, size, input): (_, _, Box<dyn Input>) = match piece {
            PrefetchedPiece::Text(text) => {
                (String::new(), Some(text.len() as u64), Box::new(Text(text)))
            }
            PrefetchedPiece::Object { target, parts } => {
                let (name, key) = (target.address.to_string(), target.address.key.clone());
                let size = target.size;
                let body = Body::new(target, parts, self.reader.clone());
                match self.settings.reading.compression.resolve(&key) {
                    Compression::Auto => {
                        let encoding = ObjectEncoding::Unknown(Some(Box::new(body)));
                        let input = ByContentEncoding { name: name.clone(), encoding };
                        // The size after decompression is unknown before the first response.
                        (name, None, Box::new(input))
                    }
                    Compression::None => (name, Some(size), Box::new(body)),
                    kind => (name.clone(), None, kind.inflate(&name, Box::new(body))),
                }
            }
        };
        if self.settings.reading.wrap { Box::new(Wrapped::new(name, input, size)) } else { input }
    }
}

/// Starts the task that prefetches this epoch and all later ones.
fn start_prefetch(reader: &Reader, epoch: u32) -> (mpsc::Receiver<PrefetchEvent>, Task<()>) {
    let (sender, events) = mpsc::channel(MAX_QUEUED_OBJECTS);
    let planner = reader.planner.clone();
    let epochs = epoch..planner.settings.reading.epochs;
    (events, Task(reader.handle.spawn(prefetch(planner, epochs, sender))))
}

impl Source for Objects {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        if std::mem::take(&mut self.skip_epoch) {
            // Requests of the skipped objects are aborted when their task and their parts are
            // dropped.
            (self.events, self._prefetch) = start_prefetch(&self.reader, self.epoch + 1);
            return Ok(SourceEvent::EpochEnd(self.epoch));
        }
        let Reader { handle, stop, .. } = &self.reader;
        let event = match wait(handle, stop, None, |cx| self.events.poll_recv(cx)) {
            WaitOutcome::Ready(event) => event,
            WaitOutcome::TimedOut | WaitOutcome::Stopped => return Ok(SourceEvent::End),
        };
        match event {
            Some(PrefetchEvent::Object { epoch, name, facts, pieces }) => {
                self.epoch = epoch;
                let inputs = pieces.into_iter().map(|piece| self.input(piece)).collect();
                Ok(SourceEvent::Object(Object { epoch, name, facts, input: Chain::of(inputs) }))
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

    fn end_epoch(&mut self) {
        self.skip_epoch = true;
    }

    fn total_size(&mut self) -> TotalSize {
        self.reader.planner.total_size.clone()
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

/// An object whose name does not say how it is compressed. Its `Content-Encoding` may say it.
struct ByContentEncoding {
    name: String,
    encoding: ObjectEncoding,
}

enum ObjectEncoding {
    /// The first frame has not arrived. The body is taken when it arrives.
    Unknown(Option<Box<Body>>),
    /// The inflated object.
    Known(Box<dyn Input>),
}

impl Input for ByContentEncoding {
    fn read(
        &mut self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<ReadOutcome, SourceError> {
        if let ObjectEncoding::Unknown(slot) = &mut self.encoding {
            // It is `Some` as long as the encoding is unknown.
            let Some(body) = slot else { return Ok(ReadOutcome::End) };
            if let Some(outcome) = body.wait_for_first_frame(timeout)? {
                return Ok(outcome);
            }
            let encoding = body.target.encoding.get().map(String::as_str).unwrap_or_default();
            let kind = compression(encoding).ok_or_else(|| {
                let encoding = printable(encoding);
                let message =
                    format!("its Content-Encoding is `{encoding}`, expected gzip, zstd or none");
                let remedy = "set `compression = \"none\"` to decode its bytes as they are";
                SourceError::new(&self.name, message, remedy)
            })?;
            if let Some(body) = slot.take() {
                self.encoding = ObjectEncoding::Known(kind.inflate(&self.name, body));
            }
        }
        match &mut self.encoding {
            ObjectEncoding::Known(input) => input.read(buf, timeout),
            ObjectEncoding::Unknown(_) => Ok(ReadOutcome::End),
        }
    }
}

/// The compression that a `Content-Encoding` names; `None` if it is not supported. `aws-chunked` is
/// not a compression: some clients leave it in after an upload.
fn compression(encoding: &str) -> Option<Compression> {
    let mut kind = Compression::None;
    for word in encoding.split(',').map(|word| word.trim().to_ascii_lowercase()) {
        kind = match (word.as_str(), kind) {
            ("" | "identity" | "aws-chunked", kind) => kind,
            ("gzip" | "x-gzip", Compression::None) => Compression::Gzip,
            ("zstd", Compression::None) => Compression::Zstd,
            _ => return None,
        };
    }
    Some(kind)
}
