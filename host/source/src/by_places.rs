//! A compressed object that an index knows, read at several places concurrently: each read inflates
//! from the seek point before its place.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pipemill_codecs::{SeekPoint, SeekPoints};

use crate::skip::skip;
use crate::{Block, Compression, Input, KnownList, ReadOutcome, ReadSettings, SourceError};

/// An object of an index, and how it is read.
pub(crate) struct IndexedObject {
    pub(crate) list: KnownList,
    /// The name of the index, for messages.
    pub(crate) index: String,
    /// Its number in the list.
    pub(crate) number: u64,
    /// Its name, for messages.
    pub(crate) name: String,
    /// Its stored size in bytes.
    pub(crate) size: u64,
    pub(crate) compression: Compression,
}

/// Stored bytes that are read at a time after those that a place was expected to take.
const MORE_BYTES: u64 = 256 << 10;

impl ReadSettings {
    /// Whether a compressed object of an index, of this stored size, may be read at several places
    /// concurrently.
    pub(crate) fn is_divided(&self, size: u64) -> bool {
        self.divided_from.is_some_and(|most| size > most) && !self.wrap
    }
}

/// The object, read from its start. It tells the places of the index at which decoding can begin.
pub(crate) struct ByPlaces {
    /// The whole object, inflated from its start.
    input: Box<dyn Input>,
    places: Arc<Places>,
}

impl ByPlaces {
    /// An object that is read from its start by `input`.
    pub(crate) fn new(input: Box<dyn Input>, object: IndexedObject) -> Self {
        Self { input, places: Arc::new(Places { object, starts: OnceLock::new() }) }
    }
}

impl Input for ByPlaces {
    fn is_inflated(&self) -> bool {
        self.input.is_inflated()
    }

    fn check_unchanged(&self) -> Result<(), SourceError> {
        self.input.check_unchanged()
    }

    fn set_seek_points(&mut self, points: &SeekPoints) {
        self.input.set_seek_points(points);
    }

    fn stored_range(&self, range: Range<u64>) -> Option<Result<Box<dyn Input>, SourceError>> {
        self.input.stored_range(range)
    }

    fn at(&self, offset: u64) -> Option<Result<Box<dyn Input>, SourceError>> {
        if self.places.starts().is_empty() {
            return None;
        }
        // Where its bytes are is looked up by the first read, which knows how far it is to go.
        let stored = self.input.stored_range(0..0)?;
        let part = |stored| PlaceReader {
            places: self.places.clone(),
            offset,
            ahead_to: Arc::new(AtomicU64::new(u64::MAX)),
            state: PlaceState::Unopened(stored),
        };
        Some(stored.map(|stored| Box::new(part(stored)) as Box<dyn Input>))
    }

    fn next_start(&self, offset: u64) -> Option<u64> {
        self.places.next_start(offset)
    }

    fn read(
        &mut self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<ReadOutcome, SourceError> {
        self.input.read(buf, timeout)
    }
}

/// The places of an object.
struct Places {
    object: IndexedObject,
    /// The inflated bytes at which decoding can begin, except the object's start, in their order.
    starts: OnceLock<Vec<u64>>,
}

impl Places {
    fn starts(&self) -> &[u64] {
        self.starts.get_or_init(|| {
            let blocks = self.object.list.0.blocks(self.object.number, 1);
            blocks.iter().map(|block| block.offset).filter(|offset| *offset > 0).collect()
        })
    }

    /// The first place at or after this byte. The size of the object is not known, so the end after
    /// the last place is the largest number.
    fn next_start(&self, offset: u64) -> Option<u64> {
        let starts = self.starts();
        let next = starts.partition_point(|start| *start < offset);
        (!starts.is_empty()).then(|| starts.get(next).copied().unwrap_or(u64::MAX))
    }

    /// The point from which the object is inflated to be read from `offset` on, and the stored byte
    /// before which the bytes up to `end` most likely end.
    fn stored(&self, offset: u64, end: u64) -> Result<(Option<SeekPoint>, u64), SourceError> {
        let IndexedObject { list, index, number, size, .. } = &self.object;
        let block = Block { end: (end < u64::MAX).then_some(end), ..Block::rest(offset, 0, 0, 0) };
        let found = list.compressed_block(index, *number, &block, *size)?;
        Ok(found.map_or((None, *size), |found| (found.point, found.end)))
    }
}

/// The object from a place on.
struct PlaceReader {
    places: Arc<Places>,
    /// Inflated byte at which it begins.
    offset: u64,
    /// Inflated byte up to which it will most likely be read.
    ahead_to: Arc<AtomicU64>,
    state: PlaceState,
}

enum PlaceState {
    /// Nothing was read. It has the object as it is stored.
    Unopened(Box<dyn Input>),
    Open(Box<dyn Input>),
    /// It could not be opened.
    Failed(SourceError),
}

impl PlaceReader {
    /// The inflated bytes from its place on.
    fn open(&self, stored: Box<dyn Input>) -> Result<Box<dyn Input>, SourceError> {
        let IndexedObject { name, size, compression, .. } = &self.places.object;
        let (point, _) = self.places.stored(self.offset, u64::MAX)?;
        let from = point.as_ref().map_or(0, SeekPoint::compressed);
        let stored = StoredFrom {
            whole: stored,
            places: self.places.clone(),
            ahead_to: self.ahead_to.clone(),
            inflated: self.offset,
            current: None,
            at: from,
            size: *size,
        };
        let input = compression.inflate_from(name, Box::new(stored), point.as_ref());
        Ok(skip(name, input, point.as_ref().map_or(0, SeekPoint::inflated), self.offset))
    }
}

impl Input for PlaceReader {
    fn is_inflated(&self) -> bool {
        true
    }

    fn check_unchanged(&self) -> Result<(), SourceError> {
        match &self.state {
            PlaceState::Unopened(input) | PlaceState::Open(input) => input.check_unchanged(),
            PlaceState::Failed(error) => Err(error.clone()),
        }
    }

    fn next_start(&self, offset: u64) -> Option<u64> {
        self.places.next_start(offset)
    }

    fn read_ahead_to(&mut self, end: u64) {
        // Relaxed: it only says how much is requested at a time.
        self.ahead_to.store(end, Ordering::Relaxed);
    }

    fn read(
        &mut self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<ReadOutcome, SourceError> {
        if let PlaceState::Unopened(stored) = &mut self.state {
            let stored = std::mem::replace(stored, Box::new(Nothing));
            self.state = match self.open(stored) {
                Ok(input) => PlaceState::Open(input),
                Err(error) => PlaceState::Failed(error),
            };
        }
        match &mut self.state {
            PlaceState::Open(input) => input.read(buf, timeout),
            PlaceState::Failed(error) => Err(error.clone()),
            PlaceState::Unopened(_) => Ok(ReadOutcome::End),
        }
    }
}

/// The stored bytes of an object from a seek point on. They are requested up to the end of what is
/// to be read, and more of them only if the estimate was too low.
struct StoredFrom {
    /// Gives ranges of the object.
    whole: Box<dyn Input>,
    places: Arc<Places>,
    ahead_to: Arc<AtomicU64>,
    /// Inflated byte at which the reader begins.
    inflated: u64,
    /// The range that is read.
    current: Option<Box<dyn Input>>,
    /// Stored byte that is read next.
    at: u64,
    size: u64,
}

impl StoredFrom {
    /// The stored byte up to which bytes are requested now.
    fn end(&self) -> Result<u64, SourceError> {
        let ahead_to = self.ahead_to.load(Ordering::Relaxed).max(self.inflated.saturating_add(1));
        let (_, end) = self.places.stored(self.inflated, ahead_to)?;
        let end = if end > self.at { end } else { self.at.saturating_add(MORE_BYTES) };
        Ok(end.min(self.size))
    }
}

impl Input for StoredFrom {
    fn check_unchanged(&self) -> Result<(), SourceError> {
        self.current.as_ref().unwrap_or(&self.whole).check_unchanged()
    }

    fn read(
        &mut self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<ReadOutcome, SourceError> {
        // A range that ends before its first byte is the end: the object is shorter than it was.
        let mut is_new = false;
        loop {
            let Some(current) = &mut self.current else {
                if self.at >= self.size {
                    return Ok(ReadOutcome::End);
                }
                let range = self.at..self.end()?;
                let Some(input) = self.whole.range(range) else { return Ok(ReadOutcome::End) };
                (self.current, is_new) = (Some(input?), true);
                continue;
            };
            match current.read(buf, timeout)? {
                ReadOutcome::Bytes(count) => {
                    self.at += count as u64;
                    return Ok(ReadOutcome::Bytes(count));
                }
                ReadOutcome::End if is_new || self.at >= self.size => return Ok(ReadOutcome::End),
                ReadOutcome::End => self.current = None,
                outcome => return Ok(outcome),
            }
        }
    }
}

/// An input without bytes.
struct Nothing;

impl Input for Nothing {
    fn read(&mut self, _: &mut [u8], _: Option<Duration>) -> Result<ReadOutcome, SourceError> {
        Ok(ReadOutcome::End)
    }
}
