//! The objects of an index as a list that sources read.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use pipemill_source::{Block, KnownObject, KnownObjects, SeekPoint};
use pipemill_types::ListIdentity;

use crate::{Index, Place};

/// The objects of an index, for a source.
#[derive(Clone)]
pub struct IndexedList {
    index: Arc<Index>,
    /// The folder to which names are relative; empty for objects in S3.
    root: String,
}

impl IndexedList {
    /// The objects of an index. `root` is the folder that they lie in, if they were moved.
    pub fn new(index: Arc<Index>, root: Option<String>) -> Self {
        let root = root.unwrap_or_else(|| index.header.root.clone());
        Self { index, root }
    }
}

impl KnownObjects for IndexedList {
    fn count(&self) -> u64 {
        self.index.objects.count() as u64
    }

    fn get(&self, number: u64) -> Option<KnownObject> {
        let object = self.index.objects.get(usize::try_from(number).ok()?)?;
        let is_address = self.index.header.root.is_empty();
        let name = if is_address {
            object.name.to_owned()
        } else {
            Path::new(&self.root).join(object.name).to_string_lossy().into_owned()
        };
        let (identity, size) = (object.identity.to_owned(), object.size);
        Some(KnownObject { name, identity, size })
    }

    fn size(&self, number: u64) -> u64 {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        self.index.objects.get(number).map_or(0, |object| object.size)
    }

    fn blocks(&self, number: u64, bytes: u64) -> Vec<Block> {
        let object = usize::try_from(number).ok().and_then(|number| self.index.objects.get(number));
        let Some(object) = object else { return Vec::new() };
        let first = Block { offset: 0, header: 0, record: 0, records: object.records, end: None };
        let mut blocks = vec![first];
        let last_place = object.places.last().map_or(0, |place| place.offset);
        let is_plain =
            self.index.header.compression.is_plain_name(object.name) && last_place < object.size;
        // A compressed object is read from a place if it can be inflated from there. In S3, that
        // would request all of its bytes after the place.
        let is_file = !self.index.header.root.is_empty();
        let divides = |place: &&Place| is_plain || (is_file && !place.inflate.is_empty());
        for place in object.places.iter().filter(divides) {
            let Some(last) = blocks.last_mut() else { break };
            if place.offset - last.offset < bytes || place.record == last.record {
                continue;
            }
            last.end = Some(place.offset);
            last.records = place.record - last.record;
            blocks.push(Block {
                offset: place.offset,
                header: place.header,
                record: place.record,
                records: object.records - place.record,
                end: None,
            });
        }
        blocks
    }

    fn seek_point(&self, number: u64, offset: u64) -> Result<Option<SeekPoint>, String> {
        let object = usize::try_from(number).ok().and_then(|number| self.index.objects.get(number));
        let places = object.map_or(&[][..], |object| object.places);
        let after = places.partition_point(|place| place.offset <= offset);
        match places[..after].last().filter(|place| !place.inflate.is_empty()) {
            Some(place) => SeekPoint::from_bytes(&place.inflate).map(Some),
            None => Ok(None),
        }
    }

    fn memory(&self) -> u64 {
        self.index.objects.memory()
    }

    fn records(&self, number: u64) -> Option<u64> {
        Some(self.index.objects.get(usize::try_from(number).ok()?)?.records)
    }

    fn identity(&self) -> ListIdentity {
        let digest = self.index.header.digest.get(..16).unwrap_or_default();
        let contents = u64::from_str_radix(digest, 16).unwrap_or_default();
        let objects = self.count();
        ListIdentity { objects, is_whole: true, contents, times: 0, unordered: 0 }
    }
}

/// Without its objects, of which there may be millions.
impl fmt::Debug for IndexedList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, root } = self;
        let (objects, digest) = (index.objects.count(), &index.header.digest);
        let mut shown = f.debug_struct("IndexedList");
        shown.field("objects", &objects).field("digest", digest).field("root", root).finish()
    }
}
