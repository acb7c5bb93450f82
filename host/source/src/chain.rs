//! Several inputs, one after the other, as one.

use std::time::Duration;

use super::{Input, ReadOutcome, SourceError};

/// Inputs one after the other.
pub(super) struct Chain {
    inputs: std::vec::IntoIter<Box<dyn Input>>,
    current: Option<Box<dyn Input>>,
}

impl Chain {
    /// One input is itself.
    pub(super) fn of(mut inputs: Vec<Box<dyn Input>>) -> Box<dyn Input> {
        if inputs.len() == 1
            && let Some(only) = inputs.pop()
        {
            return only;
        }
        let mut inputs = inputs.into_iter();
        let current = inputs.next();
        Box::new(Self { inputs, current })
    }
}

impl Input for Chain {
    fn read(&mut self, buf: &mut [u8], wait: Option<Duration>) -> Result<ReadOutcome, SourceError> {
        while let Some(input) = &mut self.current {
            match input.read(buf, wait)? {
                ReadOutcome::End => self.current = self.inputs.next(),
                got => return Ok(got),
            }
        }
        Ok(ReadOutcome::End)
    }
}
