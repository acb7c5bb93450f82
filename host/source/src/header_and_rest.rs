//! The first bytes of an object before a later part of it.

use std::ops::Range;
use std::time::Duration;

use crate::{Input, ReadOutcome, SourceError};

/// The first bytes of an input, followed by those of another input of the same object.
pub(crate) struct HeaderAndRest {
    header: Box<dyn Input>,
    /// Bytes of the header that are still to be read.
    left: u64,
    rest: Box<dyn Input>,
}

impl HeaderAndRest {
    /// The first `bytes` bytes of `header`, followed by `rest`.
    pub(crate) fn new(header: Box<dyn Input>, bytes: u64, rest: Box<dyn Input>) -> Self {
        Self { header, left: bytes, rest }
    }
}

impl Input for HeaderAndRest {
    fn is_stored(&self) -> bool {
        self.rest.is_stored()
    }

    fn is_inflated(&self) -> bool {
        self.left == 0 && self.rest.is_inflated()
    }

    fn range(&self, range: Range<u64>) -> Option<Result<Box<dyn Input>, SourceError>> {
        self.rest.range(range)
    }

    fn check_unchanged(&self) -> Result<(), SourceError> {
        self.rest.check_unchanged()
    }

    fn read(
        &mut self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<ReadOutcome, SourceError> {
        if self.left == 0 {
            return self.rest.read(buf, timeout);
        }
        let most = usize::try_from(self.left).map_or(buf.len(), |left| left.min(buf.len()));
        let outcome = self.header.read(&mut buf[..most], timeout)?;
        match outcome {
            ReadOutcome::Bytes(count) => self.left -= count as u64,
            // The decoder sees that the header is too short.
            ReadOutcome::End => self.left = 0,
            ReadOutcome::Nothing | ReadOutcome::Stopped => {}
        }
        Ok(outcome)
    }
}
