//! S3 as a [`Source`]: takes the objects that `prefetch` sends, in order, and makes inputs of their pieces.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::sync::mpsc;

use super::body::{Body, Reader};
use super::plan::Planner;
use super::prefetch::{Coming, Item, WAITING, conduct};
use super::wait::{Waited, wait};
use super::window::Window;
use super::{S3, Settings, Task};
use crate::Stop;
use crate::chain::Chain;
use crate::wrap::Wrapped;
use crate::{Compression, Input, Object, ReadOutcome, Source, SourceError, SourceEvent, TotalSize};

/// A channel's objects in S3, epoch after epoch.
pub struct Objects {
    /// Threads for requests must not end before what they serve.
    _s3: Arc<S3>,
    reader: Reader,
    settings: Arc<Settings>,
    items: mpsc::Receiver<Item>,
    _conductor: Task<()>,
    /// Of the last object.
    epoch: u32,
    /// The rest of this epoch is left out.
    left: bool,
}

impl Objects {
    /// Begins to fetch the epochs from this one on, up to number `reading.epochs`.
    pub fn new(s3: Arc<S3>, settings: Settings, first_epoch: u32, stop: Stop) -> Self {
        Self::telling(s3, settings, first_epoch, stop, TotalSize::default())
    }

    /// The same; `total` is told how many bytes each epoch has.
    pub fn telling(
        s3: Arc<S3>,
        settings: Settings,
        first_epoch: u32,
        stop: Stop,
        total: TotalSize,
    ) -> Self {
        let settings = Arc::new(settings);
        let planner = Planner {
            reach: Arc::new(s3.reach(&settings)),
            window: Window::new(s3.budget.clone(), settings.part_size, settings.concurrency),
            settings: settings.clone(),
            total,
        };
        let reader = Reader { planner, handle: s3.handle().clone(), stop };
        let (items, conductor) = from_epoch(&reader, first_epoch);
        let epoch = first_epoch;
        Self { _s3: s3, reader, settings, items, _conductor: conductor, epoch, left: false }
    }

    fn input(&self, coming: Coming) -> Box<dyn Input> {
        let (name, size, input): (_, _, Box<dyn Input>) = match coming {
            Coming::Text(text) => (String::new(), Some(text.len() as u64), Box::new(Text(text))),
            Coming::Object { target, parts } => {
                let (name, key) = (target.address.to_string(), target.address.key.clone());
                let size = target.size;
                let body = Body::new(target, parts, self.reader.clone());
                match self.settings.reading.compression.of(&key) {
                    Compression::Auto => {
                        let input = ByHeader {
                            name: name.clone(),
                            is: ObjectEncoding::Unknown(Some(Box::new(body))),
                        };
                        // How large it is, only its first answer tells.
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

fn from_epoch(reader: &Reader, epoch: u32) -> (mpsc::Receiver<Item>, Task<()>) {
    let (sender, items) = mpsc::channel(WAITING);
    let planner = reader.planner.clone();
    let epochs = epoch..planner.settings.reading.epochs;
    (items, Task(reader.handle.spawn(conduct(planner, epochs, sender))))
}

impl Source for Objects {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        if std::mem::take(&mut self.left) {
            // What was begun of this epoch is ended with its task and its parts.
            let (items, conductor) = from_epoch(&self.reader, self.epoch + 1);
            (self.items, self._conductor) = (items, conductor);
            return Ok(SourceEvent::EpochEnd(self.epoch));
        }
        let Reader { handle, stop, .. } = &self.reader;
        let item = match wait(handle, stop, None, |cx| self.items.poll_recv(cx)) {
            Waited::ReadOutcome(item) => item,
            Waited::Late | Waited::Stopped => return Ok(SourceEvent::End),
        };
        match item {
            Some(Item::Object { epoch, name, pieces }) => {
                self.epoch = epoch;
                let inputs = pieces.into_iter().map(|coming| self.input(coming)).collect();
                Ok(SourceEvent::Object(Object { epoch, name, input: Chain::of(inputs) }))
            }
            Some(Item::EpochEnd(epoch)) => {
                self.epoch = epoch + 1;
                Ok(SourceEvent::EpochEnd(epoch))
            }
            Some(Item::End) => Ok(SourceEvent::End),
            Some(Item::Failed(error)) => Err(error),
            None => {
                let name = self.settings.what.to_string();
                Err(SourceError::new(
                    name,
                    "the task that fetches it ended unexpectedly",
                    "report this",
                ))
            }
        }
    }

    fn end_epoch(&mut self) {
        self.left = true;
    }

    fn total(&mut self) -> TotalSize {
        self.reader.planner.total.clone()
    }
}

/// A value that stands in a manifest.
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

/// An object whose name does not say how it is compressed; its `Content-Encoding` may.
struct ByHeader {
    name: String,
    is: ObjectEncoding,
}

enum ObjectEncoding {
    /// Taken when its first byte is there.
    Unknown(Option<Box<Body>>),
    Known(Box<dyn Input>),
}

impl Input for ByHeader {
    fn read(&mut self, buf: &mut [u8], wait: Option<Duration>) -> Result<ReadOutcome, SourceError> {
        if let ObjectEncoding::Unknown(slot) = &mut self.is {
            // It is there until it is known.
            let Some(body) = slot else { return Ok(ReadOutcome::End) };
            if let Some(got) = body.begin(wait)? {
                return Ok(got);
            }
            let encoding = body.target.encoding.get().map(String::as_str).unwrap_or_default();
            let kind = compression(encoding).ok_or_else(|| {
                let message =
                    format!("its Content-Encoding is `{encoding}`, expected gzip, zstd or none");
                let remedy = "set `compression = \"none\"` to decode its bytes as they are";
                SourceError::new(&self.name, message, remedy)
            })?;
            if let Some(body) = slot.take() {
                self.is = ObjectEncoding::Known(kind.inflate(&self.name, body));
            }
        }
        match &mut self.is {
            ObjectEncoding::Known(input) => input.read(buf, wait),
            ObjectEncoding::Unknown(_) => Ok(ReadOutcome::End),
        }
    }
}

/// What a `Content-Encoding` means. `aws-chunked` tells how an object was sent to the server.
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
