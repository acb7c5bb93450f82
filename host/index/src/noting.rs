//! A source that notes the objects that it gives, and leaves out those that need not be read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use pipemill_source::{
    Awaited, KnownObjects, ListPart, SeekPoints, Source, SourceError, SourceEvent, Start, TotalSize,
};
use pipemill_types::{AddedField, ListIdentity, is_same_content, split_identity};

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
    /// It has not changed since an older index was made.
    Kept(KeptObject),
    /// It belongs to another part.
    OtherPart,
}

/// An object of an older index.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeptObject {
    /// Which of the older indexes has it.
    pub(crate) index: usize,
    /// Its number there.
    pub(crate) number: usize,
}

/// The objects of older indexes, by their names.
pub(crate) struct Older {
    indexes: Vec<Arc<Index>>,
    objects: HashMap<String, KeptObject>,
}

impl Older {
    pub(crate) fn of(indexes: &[Arc<Index>]) -> Self {
        let mut objects = HashMap::new();
        for (index, older) in indexes.iter().enumerate() {
            let list = IndexedList::new(older.clone(), None);
            for number in 0..older.objects.count() {
                if let Some(object) = list.get(number as u64) {
                    objects.insert(object.name, KeptObject { index, number });
                }
            }
        }
        Self { indexes: indexes.to_vec(), objects }
    }

    /// The object of this name and content.
    fn object(&self, name: &str, content: &str) -> Option<KeptObject> {
        let kept = *self.objects.get(name)?;
        let object = self.indexes.get(kept.index)?.objects.get(kept.number)?;
        is_same_content(object.identity, content).then_some(kept)
    }
}

/// A source that notes the objects that it gives.
pub(crate) struct Noting {
    pub(crate) inner: Box<dyn Source>,
    /// Least number of bytes between two seek points of an object.
    pub(crate) distance: u64,
    pub(crate) older: Older,
    /// How many of the next objects of the part must be those of the older indexes.
    pub(crate) resumed: usize,
    /// The part of the objects that is read.
    pub(crate) part: Option<ListPart>,
    /// Fields whose values each object must have.
    pub(crate) added: Vec<AddedField>,
    pub(crate) seen: Arc<Mutex<Vec<Seen>>>,
}

/// Checks that an object has the values of these fields.
pub(crate) fn check_added(name: &str, added: &[AddedField]) -> Result<(), SourceError> {
    let wrong = added.iter().find_map(|field| field.value_of(name).err());
    wrong.map_or(Ok(()), |fault| Err(SourceError::new(name, fault.message, fault.remedy)))
}

impl Noting {
    /// Checks that an object of a build that goes on is as it was found a moment ago.
    fn check_resumed(&mut self, name: &str, reading: Reading) -> Result<(), SourceError> {
        if self.resumed == 0 || reading == Reading::OtherPart {
            return Ok(());
        }
        self.resumed -= 1;
        if reading == Reading::Read {
            let message = "has changed, or is new, since the sources were listed a moment ago";
            return Err(SourceError::new(name, message, "run the command again"));
        }
        Ok(())
    }
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
            let reading = match self.older.object(&object.name, content) {
                _ if !self.part.is_none_or(is_own) => Reading::OtherPart,
                Some(kept) => Reading::Kept(kept),
                None => Reading::Read,
            };
            self.check_resumed(&object.name, reading)?;
            check_added(&object.name, &self.added)?;
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
