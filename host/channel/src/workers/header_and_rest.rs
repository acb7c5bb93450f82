//! The header of an object before a later part of it.

use std::sync::Arc;

use pipemill_source::{Input, ReadOutcome, SourceError};

/// The bytes of a header, followed by those of an input.
pub(super) struct HeaderAndRest {
    header: Arc<Vec<u8>>,
    /// Bytes of the header that were read.
    read: usize,
    rest: Box<dyn Input>,
}

impl HeaderAndRest {
    pub(super) fn new(header: Arc<Vec<u8>>, rest: Box<dyn Input>) -> Self {
        Self { header, read: 0, rest }
    }
}

impl Input for HeaderAndRest {
    fn is_stored(&self) -> bool {
        self.rest.is_stored()
    }

    fn check_unchanged(&self) -> Result<(), SourceError> {
        self.rest.check_unchanged()
    }

    fn read(
        &mut self,
        buf: &mut [u8],
        timeout: Option<std::time::Duration>,
    ) -> Result<ReadOutcome, SourceError> {
        let left = &self.header[self.read..];
        if left.is_empty() {
            return self.rest.read(buf, timeout);
        }
        let count = left.len().min(buf.len());
        buf[..count].copy_from_slice(&left[..count]);
        self.read += count;
        Ok(ReadOutcome::Bytes(count))
    }
}
