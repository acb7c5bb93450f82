//! Begins to read in the middle of an input that can't seek: a pipe, or compressed bytes.

use std::time::{Duration, Instant};

use pipemill_codecs::SeekPoints;

use crate::{Input, ReadOutcome, SourceError};

/// An input whose first bytes are read and thrown away by the first read.
struct Skip {
    name: String,
    input: Box<dyn Input>,
    /// Byte of the object at which the input begins.
    begin: u64,
    /// First byte of the object to read.
    offset: u64,
    /// Bytes to throw away.
    left: u64,
}

/// Makes an input that is at byte `begin` of an object begin at byte `offset`, which is not before
/// `begin`.
pub fn skip(name: &str, input: Box<dyn Input>, begin: u64, offset: u64) -> Box<dyn Input> {
    let left = offset.saturating_sub(begin);
    if left == 0 {
        return input;
    }
    Box::new(Skip { name: name.to_owned(), input, begin, offset, left })
}

impl Skip {
    /// Throws bytes away. Returns `None` when none is left, otherwise the outcome of the read.
    fn skip(
        &mut self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<Option<ReadOutcome>, SourceError> {
        let started = Instant::now();
        while self.left > 0 {
            let rest = timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
            let most = usize::try_from(self.left).map_or(buf.len(), |left| left.min(buf.len()));
            match self.input.read(&mut buf[..most], rest)? {
                ReadOutcome::Bytes(count) => self.left -= count as u64,
                ReadOutcome::End => {
                    return Err(ended(&self.name, self.offset - self.left, self.offset));
                }
                outcome => return Ok(Some(outcome)),
            }
            if self.left > 0 && timeout.is_some_and(|timeout| started.elapsed() >= timeout) {
                return Ok(Some(ReadOutcome::Nothing));
            }
        }
        Ok(None)
    }
}

impl Input for Skip {
    fn is_inflated(&self) -> bool {
        self.input.is_inflated()
    }

    fn check_unchanged(&self) -> Result<(), SourceError> {
        self.input.check_unchanged()
    }

    fn set_seek_points(&mut self, points: &SeekPoints) {
        self.input.set_seek_points(points);
    }

    fn at(&self, offset: u64) -> Option<Result<Box<dyn Input>, SourceError>> {
        self.input.at(offset)
    }

    fn read(
        &mut self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<ReadOutcome, SourceError> {
        if self.left > 0 {
            if let Some(outcome) = self.skip(buf, timeout)? {
                return Ok(outcome);
            }
            let (name, offset, bytes) = (&self.name, self.offset, self.offset - self.begin);
            log::info!(
                object = name;
                "{name}: begins at byte {offset}; {bytes} bytes before it were read and thrown away"
            );
        }
        self.input.read(buf, timeout)
    }
}

/// The error for an object that ended at byte `end`, before the byte `offset` at which it was to
/// begin.
pub(super) fn ended(name: &str, end: u64, offset: u64) -> SourceError {
    let message = format!("was to be read from byte {offset}, but it ends at byte {end}");
    let remedy = "it has changed since the state was taken: bring it back, or begin without the \
                  state";
    SourceError::new(name, message, remedy)
}
