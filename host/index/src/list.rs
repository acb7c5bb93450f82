//! The objects of an index as a list that sources read.

use std::fmt;
use std::sync::Arc;

use pipemill_source::{Block, KnownObject, KnownObjects, SeekPoint};
use pipemill_types::ListIdentity;

use crate::{Index, IndexedObject};

/// The objects of an index, for a source.
#[derive(Clone)]
pub struct IndexedList {
    index: Arc<Index>,
    /// The folder that the files lie in, if they were moved.
    root: Option<String>,
}

impl IndexedList {
    /// The objects of an index. `root` is the folder that they lie in, if they were moved.
    pub fn new(index: Arc<Index>, root: Option<String>) -> Self {
        Self { index, root }
    }

    fn object(&self, number: u64) -> Option<IndexedObject<'_>> {
        self.index.objects.get(usize::try_from(number).ok()?)
    }
}

impl KnownObjects for IndexedList {
    fn count(&self) -> u64 {
        self.index.objects.count() as u64
    }

    fn get(&self, number: u64) -> Option<KnownObject> {
        let object = self.object(number)?;
        let name = self.index.header.full_name(self.root.as_deref(), object.name);
        let (identity, size) = (object.identity.to_owned(), object.size);
        Some(KnownObject { name, identity, size })
    }

    fn short_name(&self, number: u64) -> Option<&str> {
        self.index.objects.name(usize::try_from(number).ok()?)
    }

    fn size(&self, number: u64) -> u64 {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        self.index.objects.size(number).unwrap_or(0)
    }

    fn blocks(&self, number: u64, bytes: u64) -> Vec<Block> {
        let mut blocks = Vec::new();
        self.each_block(number, bytes, &mut |block| blocks.push(block));
        blocks
    }

    fn each_block(&self, number: u64, bytes: u64, with: &mut dyn FnMut(Block)) {
        let Some(object) = self.object(number) else { return };
        let mut last = Block::rest(0, 0, 0, object.records);
        for place in object.places {
            if place.offset - last.offset < bytes || place.record == last.record {
                continue;
            }
            with(last.up_to(place.offset, place.record));
            last = Block::rest(place.offset, place.header, place.record, object.records);
        }
        with(last);
    }

    /// An object may have many places, so they are not looked at one by one.
    fn block_with(&self, number: u64, record: u64) -> Option<Block> {
        let object = self.object(number)?;
        if record >= object.records {
            return None;
        }
        let after = object.places.partition_point(|place| place.record <= record);
        let (before, after) = object.places.split_at(after);
        let last = before.last().map_or(0, |place| place.record);
        // Of several places with one record, the first one divides; a place with the object's first
        // record is the object's start.
        let begin = before.partition_point(|place| place.record < last);
        let begin = before.get(begin).filter(|_| last > 0);
        let (offset, header) = begin.map_or((0, 0), |place| (place.offset, place.header));
        let rest = Block::rest(offset, header, last, object.records);
        Some(after.first().map_or(rest, |place| rest.up_to(place.offset, place.record)))
    }

    fn seek_point(&self, number: u64, offset: u64) -> Result<Option<SeekPoint>, String> {
        let places = self.object(number).map_or(&[][..], |object| object.places);
        let after = places.partition_point(|place| place.offset <= offset);
        match places[..after].last().filter(|place| !place.inflate.is_empty()) {
            Some(place) => SeekPoint::from_bytes(&place.inflate).map(Some),
            None => Ok(None),
        }
    }

    /// The point of a place is before the place, so one of the next places has it.
    fn seek_point_after(&self, number: u64, offset: u64) -> Result<Option<SeekPoint>, String> {
        let places = self.object(number).map_or(&[][..], |object| object.places);
        let from = places.partition_point(|place| place.offset < offset);
        for place in places[from..].iter().filter(|place| !place.inflate.is_empty()) {
            let point = SeekPoint::from_bytes(&place.inflate)?;
            if point.inflated() >= offset {
                return Ok(Some(point));
            }
        }
        Ok(None)
    }

    fn memory(&self) -> u64 {
        self.index.objects.memory()
    }

    fn records(&self, number: u64) -> Option<u64> {
        let records = self.index.objects.records_of(usize::try_from(number).ok()?);
        records.filter(|_| !self.index.header.objects_only)
    }

    fn total_records(&self) -> u64 {
        self.index.objects.records()
    }

    fn first_record(&self, number: u64) -> u64 {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        self.index.objects.first_record(number)
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
