//! A source whose objects are in memory and come in the pieces that a test chooses.

use std::time::Duration;

use pipemill::source::{Got, Input, Object, Source, SourceError, Step};

/// Objects in memory, all in one epoch.
pub struct Objects {
    objects: std::vec::IntoIter<Vec<u8>>,
    pieces: Vec<usize>,
    given: usize,
    ended: bool,
}

impl Objects {
    /// `pieces`: sizes of the reads of each object, 0 for one that gives nothing; then all the rest.
    pub fn new(objects: impl Iterator<Item = Vec<u8>>, pieces: &[usize]) -> Self {
        let objects = objects.collect::<Vec<_>>().into_iter();
        Self { objects, pieces: pieces.to_vec(), given: 0, ended: false }
    }
}

impl Source for Objects {
    fn next(&mut self) -> Result<Step, SourceError> {
        let Some(bytes) = self.objects.next() else {
            let first = !std::mem::replace(&mut self.ended, true);
            return Ok(if first { Step::EpochEnd(0) } else { Step::End });
        };
        let input = Pieces { bytes, at: 0, pieces: self.pieces.clone().into_iter() };
        self.given += 1;
        let name = format!("object {}", self.given - 1);
        Ok(Step::Object(Object { epoch: 0, name, input: Box::new(input) }))
    }

    fn end_epoch(&mut self) {
        self.objects = Vec::new().into_iter();
    }
}

struct Pieces {
    bytes: Vec<u8>,
    at: usize,
    pieces: std::vec::IntoIter<usize>,
}

impl Input for Pieces {
    fn read(&mut self, buf: &mut [u8], _: Option<Duration>) -> Result<Got, SourceError> {
        assert!(!buf.is_empty(), "asked to read nothing");
        let rest = &self.bytes[self.at..];
        if rest.is_empty() {
            return Ok(Got::End);
        }
        let count = match self.pieces.next() {
            Some(0) => return Ok(Got::Nothing),
            Some(size) => size.min(rest.len()).min(buf.len()),
            None => rest.len().min(buf.len()),
        };
        buf[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        Ok(Got::Bytes(count))
    }
}
