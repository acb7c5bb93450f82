//! A small object of a store, all of whose bytes are in memory: they were fetched by one request.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pipemill_source::{Input, ReadOutcome, SourceError};

/// The bytes of an object, from one of them on.
pub(crate) struct InMemory {
    bytes: Arc<[u8]>,
    at: usize,
}

impl InMemory {
    /// Reads an object to its end. `None` if a stop was requested.
    pub(crate) fn read(mut input: Box<dyn Input>) -> Result<Option<Self>, SourceError> {
        let (mut bytes, mut piece) = (Vec::new(), vec![0; 64 << 10]);
        loop {
            match input.read(&mut piece, None)? {
                ReadOutcome::Bytes(count) => bytes.extend_from_slice(&piece[..count]),
                ReadOutcome::Nothing => {}
                ReadOutcome::End => return Ok(Some(Self { bytes: bytes.into(), at: 0 })),
                ReadOutcome::Stopped => return Ok(None),
            }
        }
    }

    pub(crate) fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
}

impl Input for InMemory {
    fn is_stored(&self) -> bool {
        true
    }

    fn at(&self, offset: u64) -> Option<Result<Box<dyn Input>, SourceError>> {
        let at = usize::try_from(offset).unwrap_or(usize::MAX).min(self.bytes.len());
        Some(Ok(Box::new(Self { bytes: self.bytes.clone(), at })))
    }

    fn range(&self, range: Range<u64>) -> Option<Result<Box<dyn Input>, SourceError>> {
        self.at(range.start)
    }

    fn read(&mut self, buf: &mut [u8], _: Option<Duration>) -> Result<ReadOutcome, SourceError> {
        let rest = &self.bytes[self.at..];
        if rest.is_empty() {
            return Ok(ReadOutcome::End);
        }
        let count = rest.len().min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        Ok(ReadOutcome::Bytes(count))
    }
}
