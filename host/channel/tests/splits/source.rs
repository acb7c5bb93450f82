//! A source whose objects are in memory and come in the pieces that a test chooses.

use std::time::Duration;

use pipemill_source::{
    Input, KnownRecords, Object, ReadOutcome, Source, SourceError, SourceEvent, Start,
};
use pipemill_types::{ErrorKind, ObjectFacts, ObjectIdentity};

use crate::host::{Bytes, Setup};

/// Objects in memory, all in one epoch.
pub struct Objects {
    all: Vec<Bytes>,
    objects: std::vec::IntoIter<Bytes>,
    /// The byte at which the next object begins.
    offset: usize,
    way: Setup,
    given: usize,
    ended: bool,
}

impl Objects {
    /// The pieces in `way` are sizes of the reads of each object, 0 for a read without bytes. Then
    /// one read gives all the rest.
    pub fn new(objects: &[Bytes], way: &Setup) -> Self {
        let all = Vec::from(objects);
        let objects = all.clone().into_iter();
        Self { all, objects, offset: 0, way: way.clone(), given: 0, ended: false }
    }
}

/// Number in an index of the first record of this object.
pub fn first_in_index(ordinal: u64) -> u64 {
    1_000_000 * ordinal
}

impl Source for Objects {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        let Some(Bytes(bytes)) = self.objects.next() else {
            let first = !std::mem::replace(&mut self.ended, true);
            return Ok(if first { SourceEvent::EpochEnd(0) } else { SourceEvent::End });
        };
        let pieces = self.way.pieces.clone().into_iter();
        let at = std::mem::take(&mut self.offset);
        let size = bytes.len() as u64;
        let (fails_at, has_places) = (self.way.fails_at, self.way.has_places);
        let come_at_once = self.way.come_at_once;
        let comes_next = true;
        let input = Pieces { bytes, at, pieces, come_at_once, comes_next, fails_at, has_places };
        self.given += 1;
        let name = format!("object {}", self.given - 1);
        Ok(SourceEvent::Object(Object {
            epoch: 0,
            ordinal: self.given as u64 - 1,
            name,
            identity: match self.way.saves.is_some() || self.way.cache.is_some() {
                true => ObjectIdentity::of(format!("etag:\"{}\"", self.given - 1)),
                false => ObjectIdentity::default(),
            },
            facts: ObjectFacts {
                size: self.way.section.gt(&0).then_some(size),
                ..ObjectFacts::default()
            },
            companions: Vec::new(),
            block: None,
            known: Some(KnownRecords {
                first: first_in_index(self.given as u64 - 1),
                skipped: self.way.skipped.clone(),
            }),
            input: Box::new(input),
        }))
    }

    fn start_at(&mut self, start: Start) -> Result<(), SourceError> {
        // Objects can be read again, so this may be called at any time.
        self.objects = Vec::from(&self.all[start.ordinal as usize..]).into_iter();
        (self.given, self.offset) = (start.ordinal as usize, start.offset as usize);
        Ok(())
    }

    fn can_reread(&self) -> bool {
        self.way.rereads
    }

    fn end_epoch(&mut self) {
        self.objects = Vec::new().into_iter();
    }
}

#[derive(Clone)]
struct Pieces {
    bytes: Vec<u8>,
    at: usize,
    pieces: std::vec::IntoIter<usize>,
    come_at_once: bool,
    /// Whether the next piece is there by now.
    comes_next: bool,
    fails_at: Option<usize>,
    has_places: bool,
}

impl Input for Pieces {
    fn is_stored(&self) -> bool {
        // Nobody asks of stored bytes whether more are there already.
        !self.come_at_once
    }

    fn at(&self, offset: u64) -> Option<Result<Box<dyn Input>, SourceError>> {
        let place = Self { at: self.bytes.len().min(offset as usize), ..self.clone() };
        self.has_places.then(|| Ok(Box::new(place) as Box<dyn Input>))
    }

    fn read(
        &mut self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<ReadOutcome, SourceError> {
        assert!(!buf.is_empty(), "asked to read nothing");
        let is_there = std::mem::replace(&mut self.comes_next, true);
        if timeout == Some(Duration::ZERO) && !is_there {
            return Ok(ReadOutcome::Nothing);
        }
        let end = self.fails_at.unwrap_or(self.bytes.len()).min(self.bytes.len()).max(self.at);
        let rest = &self.bytes[self.at..end];
        if rest.is_empty() && self.fails_at.is_some() {
            return Err(SourceError {
                object: None,
                message: "the disk is gone".to_owned(),
                remedy: "find it".to_owned(),
                epoch: None,
                missing: false,
                kind: ErrorKind::Source,
            });
        }
        if rest.is_empty() {
            return Ok(ReadOutcome::End);
        }
        let count = match self.pieces.next() {
            Some(0) => return Ok(ReadOutcome::Nothing),
            Some(size) => size.min(rest.len()).min(buf.len()),
            None => rest.len().min(buf.len()),
        };
        buf[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        self.comes_next = self.come_at_once;
        Ok(ReadOutcome::Bytes(count))
    }
}
