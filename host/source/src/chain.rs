//! Joins several inputs into one.

use std::time::Duration;

use crate::{Input, ReadOutcome, SourceError};

/// An input that reads several inputs in sequence.
pub(super) struct Chain {
    current: Option<Box<dyn Input>>,
    rest: std::vec::IntoIter<Box<dyn Input>>,
}

impl Chain {
    /// Joins `inputs`. A single input is returned as it is.
    pub(super) fn of(mut inputs: Vec<Box<dyn Input>>) -> Box<dyn Input> {
        if inputs.len() == 1
            && let Some(only) = inputs.pop()
        {
            return only;
        }
        let mut rest = inputs.into_iter();
        let current = rest.next();
        Box::new(Self { current, rest })
    }
}

impl Input for Chain {
    fn is_inflated(&self) -> bool {
        self.current.as_ref().is_some_and(|input| input.is_inflated())
    }

    fn check_unchanged(&self) -> Result<(), SourceError> {
        self.current.as_ref().map_or(Ok(()), |input| input.check_unchanged())
    }

    fn read(
        &mut self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<ReadOutcome, SourceError> {
        while let Some(input) = &mut self.current {
            match input.read(buf, timeout)? {
                ReadOutcome::End => self.current = self.rest.next(),
                outcome => return Ok(outcome),
            }
        }
        Ok(ReadOutcome::End)
    }
}
