//! A source that notes the objects that it gives, and leaves out those that need not be read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use pipemill_source::{
    Awaited, KnownObjects, ListPart, SeekPoints, Source, SourceError, SourceEvent, Start, TotalSize,
};
use pipemill_types::{ListIdentity, is_same_content, split_identity};

use crate::{Index, IndexedList};

/// Most bytes that the seek points of one object take. With more, the distance doubles.
const MAX_SEEK_POINTS: usize = 256 << 20;

/// An object that the source has given.
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) identity: String,
    pub(crate) size: u64,
    /// The seek points of a compressed object.
    pub(crate) points: SeekPoints,
    pub(crate) reading: Reading,
}

/// Whether an object is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// It is.
    Read,
    /// It has not changed since an older index was made. It has this number there.
    Kept(usize),
    /// It belongs to another part.
    OtherPart,
}

/// The objects of an older index, by their names.
pub(crate) struct Older {
    index: Option<Arc<Index>>,
    numbers: HashMap<String, usize>,
}

impl Older {
    pub(crate) fn of(index: Option<&Arc<Index>>) -> Self {
        let list = index.map(|index| IndexedList::new(index.clone(), None));
        let names = list.iter().flat_map(|list| {
            (0..list.count()).filter_map(|number| Some((list.get(number)?.name, number as usize)))
        });
        Self { numbers: names.collect(), index: index.cloned() }
    }

    /// The number of an object of this name and content.
    fn number(&self, name: &str, content: &str) -> Option<usize> {
        let number = *self.numbers.get(name)?;
        let object = self.index.as_ref()?.objects.get(number)?;
        is_same_content(object.identity, content).then_some(number)
    }
}

/// A source that notes the objects that it gives.
pub(crate) struct Noting {
    pub(crate) inner: Box<dyn Source>,
    /// Least number of bytes between two seek points of an object.
    pub(crate) distance: u64,
    pub(crate) older: Older,
    /// The part of the objects that is read.
    pub(crate) part: Option<ListPart>,
    pub(crate) seen: Arc<Mutex<Vec<Seen>>>,
}

impl Source for Noting {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        loop {
            let mut event = self.inner.next()?;
            let SourceEvent::Object(object) = &mut event else { return Ok(event) };
            let points = SeekPoints::every(self.distance, MAX_SEEK_POINTS);
            object.input.set_seek_points(&points);
            let (_, content) = split_identity(object.identity.text());
            let is_own = |part: ListPart| part.of_number(object.ordinal) == part.index;
            let reading = match self.older.number(&object.name, content) {
                _ if !self.part.is_none_or(is_own) => Reading::OtherPart,
                Some(number) => Reading::Kept(number),
                None => Reading::Read,
            };
            let seen = Seen {
                name: object.name.clone(),
                identity: content.to_owned(),
                size: object.facts.size.unwrap_or(0),
                points,
                reading,
            };
            let mut list = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            // The number fits: the list is in memory.
            list.truncate(object.ordinal as usize);
            list.push(seen);
            if reading == Reading::Read {
                return Ok(event);
            }
        }
    }

    fn start_at(&mut self, start: Start) -> Result<(), SourceError> {
        self.inner.start_at(start)
    }

    fn expect_list(&mut self, list: Option<ListIdentity>) {
        self.inner.expect_list(list);
    }

    fn can_reread(&self) -> bool {
        self.inner.can_reread()
    }

    fn end_epoch(&mut self) {
        self.inner.end_epoch();
    }

    fn total_size(&mut self) -> TotalSize {
        self.inner.total_size()
    }

    fn awaited(&self) -> Awaited {
        self.inner.awaited()
    }
}

/// Takes the place of a source that was taken out.
pub(crate) struct NoSource;

impl Source for NoSource {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        Ok(SourceEvent::End)
    }

    fn end_epoch(&mut self) {}
}
