//! Saves what a build has found every so often, so that a build that was killed goes on.

use std::sync::{Arc, Mutex, PoisonError};

use pipemill_types::Field;

use crate::build::{ErrorCounts, objects};
use crate::noting::{Reading, Seen};
use crate::places::FoundPlaces;
use crate::progress::FirstObject;
use crate::{Header, Index, Progress, ValueLengths};

/// Objects are saved together that have this many stored bytes, or are as many.
const BYTES: u64 = 256 << 20;
const OBJECTS: u64 = 4096;

/// Saves what a build has found of its objects.
pub(crate) struct Saver {
    pub(crate) progress: Progress,
    /// The facts that are known before the first record.
    pub(crate) header: Header,
    pub(crate) seen: Arc<Mutex<Vec<Seen>>>,
    pub(crate) errors: Arc<ErrorCounts>,
    /// The number of the first object that is not saved.
    first: usize,
    /// The number of the first object that is not counted in the next two.
    counted: usize,
    /// The stored bytes of the objects that were read and not saved, and their number.
    bytes: u64,
    objects: u64,
    /// Whether something could not be saved. Then nothing more is.
    failed: bool,
}

impl Saver {
    pub(crate) fn new(
        progress: Progress,
        header: Header,
        seen: Arc<Mutex<Vec<Seen>>>,
        errors: Arc<ErrorCounts>,
    ) -> Self {
        let (first, counted, bytes, objects, failed) = (0, 0, 0, 0, false);
        Self { progress, header, seen, errors, first, counted, bytes, objects, failed }
    }

    pub(crate) fn into_progress(self) -> Progress {
        self.progress
    }

    /// Whether the objects before this one are to be saved.
    pub(crate) fn is_due(&mut self, number: usize) -> bool {
        if number <= self.counted || self.failed {
            return false;
        }
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let new = seen.get(self.counted..number).unwrap_or_default();
        for object in new.iter().filter(|object| object.reading == Reading::Read) {
            self.bytes = self.bytes.saturating_add(object.size);
            self.objects += 1;
        }
        self.counted = number;
        self.bytes >= BYTES || self.objects >= OBJECTS
    }

    /// Saves the objects before this one, which are complete. Returns whether that went well. If it
    /// did not, the log says so, and the build goes on.
    pub(crate) fn save(
        &mut self,
        number: usize,
        found: &[FoundPlaces],
        fields: &[Field],
        lengths: Vec<ValueLengths>,
    ) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let objects = objects(&seen, self.first..number, found, &errors, &[]);
        let first = seen.first().map(|first| FirstObject {
            name: first.name.clone(),
            identity: first.identity.clone(),
        });
        drop((seen, errors));
        // The end of the build reports an object that can't be named.
        let (Ok((root, objects)), Some(first)) = (objects, first) else {
            self.failed = true;
            return false;
        };
        let fields = fields.to_vec();
        let header = Header { fields, lengths, root: root.0, ..self.header.clone() };
        if let Err(error) = self.progress.save(&Index::new(header, objects), &first) {
            log::warn!("the progress can't be saved in {}: {error}", self.progress.file());
            self.failed = true;
            return false;
        }
        (self.first, self.bytes, self.objects) = (number, 0, 0);
        true
    }
}
