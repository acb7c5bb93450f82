//! Objects that are known before the source lists or reads any: those of an index.

use std::convert::Infallible;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use pipemill_codecs::Codec;
use pipemill_types::{
    Companions, ErrorKind, ListIdentity, ObjectIdentity, is_same_content, split_companions,
    split_identity,
};

use crate::arranged::{Arranged, Item, PartOfBlocks, ShuffledBlocks};
use crate::by_places::{ByPlaces, IndexedObject};
use crate::file_identity::file_facts;
use crate::file_version::FileVersion;
use crate::header_and_rest::HeaderAndRest;
use crate::open::{Found, Opened};
use crate::start::{ObjectStart, check_list};
use crate::{
    Block, Input, KnownRecords, ListPart, Object, Order, ReadSettings, SeekPoint, SkippedRecords,
    Source, SourceError, SourceEvent, Start, Stop, TotalSize,
};

/// An object that is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownObject {
    /// A path, or an address in S3.
    pub name: String,
    /// Identifies its content: see [`ListIdentity`].
    pub identity: String,
    /// Its stored size in bytes.
    pub size: u64,
}

/// A list of objects that are known.
pub trait KnownObjects: fmt::Debug + Send + Sync {
    /// Number of objects.
    fn count(&self) -> u64;

    /// The object with this number, from 0. `None` if there are fewer.
    fn get(&self, number: u64) -> Option<KnownObject>;

    /// The name of this object below the root of the list, or an address in S3. `None` if there are
    /// fewer.
    fn short_name(&self, number: u64) -> Option<&str>;

    /// The stored size of this object in bytes; 0 if there are fewer.
    fn size(&self, number: u64) -> u64;

    /// The blocks of an object, of at least this many bytes; only the last one may be smaller. An
    /// object that can't be decoded from the middle is one block.
    fn blocks(&self, number: u64, bytes: u64) -> Vec<Block>;

    /// Calls `with` for each of the [`blocks`](Self::blocks) of an object.
    fn each_block(&self, number: u64, bytes: u64, with: &mut dyn FnMut(Block)) {
        self.blocks(number, bytes).into_iter().for_each(with);
    }

    /// The object that has this record, counted from 0 over all objects, and the number of the
    /// record there. `None` if there are fewer. Neither number counts records that are skipped.
    fn object_with(&self, record: u64) -> Option<(u64, u64)> {
        let (mut object, mut after) = (0, self.count());
        // The last object that begins at or before the record. Earlier ones may be empty.
        while object + 1 < after {
            let middle = object.midpoint(after);
            match self.first_record(middle) <= record {
                true => object = middle,
                false => after = middle,
            }
        }
        let record = record - self.first_record(object).min(record);
        (record < self.records(object)?).then_some((object, record))
    }

    /// The smallest block of an object that has this record, counted from 0. `None` if it has no
    /// such record.
    fn block_with(&self, number: u64, record: u64) -> Option<Block> {
        let has = |block: &Block| block.records > record.wrapping_sub(block.record);
        self.blocks(number, 1).into_iter().find(has)
    }

    /// The last seek point of a compressed object at or before this byte, counted inflated. `None`
    /// if it has none there.
    ///
    /// # Errors
    /// What the list has in its place is no seek point; the error says why.
    fn seek_point(&self, number: u64, offset: u64) -> Result<Option<SeekPoint>, String>;

    /// The first seek point of a compressed object at or after this byte, counted inflated. `None`
    /// if it has none there.
    ///
    /// # Errors
    /// As those of [`seek_point`](Self::seek_point).
    fn seek_point_after(&self, number: u64, offset: u64) -> Result<Option<SeekPoint>, String>;

    /// Number of records of the object with this number. `None` if there is no such object.
    fn records(&self, number: u64) -> Option<u64>;

    /// Number of records of all objects, without those that are skipped.
    fn total_records(&self) -> u64 {
        (0..self.count()).filter_map(|object| self.records(object)).sum()
    }

    /// Whether the object is read: not all of its records are skipped.
    fn is_read(&self, number: u64) -> bool {
        let _ = number;
        true
    }

    /// Number of records of all objects before the one with this number, with those that are
    /// skipped.
    fn first_record(&self, number: u64) -> u64;

    /// All records that are skipped, by their numbers among those of all objects; none if this
    /// object has none of them. Other numbers don't count them.
    fn skipped(&self, number: u64) -> SkippedRecords {
        let _ = number;
        SkippedRecords::default()
    }

    /// Identifies the list.
    fn identity(&self) -> ListIdentity;

    /// Bytes that the list takes in memory.
    fn memory(&self) -> u64;
}

/// A list of known objects that several sources share. Two of them are equal if they are one list.
#[derive(Debug, Clone)]
pub struct KnownList(pub Arc<dyn KnownObjects>, Arc<Mutex<LastOrder>>);

/// The order of blocks that was asked for last.
#[derive(Default)]
struct LastOrder(Option<Arc<ShuffledBlocks>>);

impl fmt::Debug for LastOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LastOrder")
    }
}

/// The place of a record in an order of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaceInOrder {
    /// Number of its block in the order, from 0.
    pub ordinal: u64,
    /// The block.
    pub block: Block,
    /// Number of the record among those of the block that are read, from 0.
    pub record: u64,
}

impl KnownList {
    /// A list of these objects.
    pub fn new(objects: Arc<dyn KnownObjects>) -> Self {
        Self(objects, Arc::default())
    }

    /// The objects or blocks that are read in an epoch, in its order.
    ///
    /// Objects are divided into parts as those of any list. Of blocks, the records are divided:
    /// each part is a range of the records of all shuffled blocks, and has as many as the others,
    /// or one more. So a block at a border of two parts is read for both.
    pub(crate) fn arrange(&self, order: &Order, epoch: u32) -> Arranged {
        if let Some(bytes) = order.blocks {
            let all = self.shuffled(bytes, order, epoch);
            return Arranged::Blocks(PartOfBlocks::new(all, order));
        }
        let size = |object: &u64| Ok::<_, Infallible>(self.0.size(*object));
        let objects = order.arrange(self.read().collect(), epoch, size);
        Arranged::Objects(objects.unwrap_or_else(|none| match none {}).into_iter())
    }

    /// Bytes of all these items, of an order that has this; `None` if they are not known. The items
    /// of a whole epoch are looked at in the order of the list: they lie together in memory.
    fn total_length(&self, items: &Arranged, order: &Order, reading: &ReadSettings) -> Option<u64> {
        let length = |item| self.length(&item, reading);
        match items {
            Arranged::Blocks(blocks) => blocks.items_of_list().map(length).sum(),
            Arranged::Objects(_) if order.part.is_none() => {
                self.read().map(|object| length(Item { object, block: None })).sum()
            }
            Arranged::Objects(_) => items.clone().map(length).sum(),
        }
    }

    /// All blocks in the order of an epoch. Those who ask one after the other share it.
    fn shuffled(&self, bytes: u64, order: &Order, epoch: u32) -> Arc<ShuffledBlocks> {
        // Others who ask meanwhile wait for it.
        let mut last = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.0.as_ref().filter(|last| last.is_of(bytes, order, epoch)) {
            return last.clone();
        }
        // Two of them are not in memory at once, unless the older one is still read.
        last.0 = None;
        let shuffled = Arc::new(ShuffledBlocks::new(&*self.0, bytes, order, epoch));
        last.0.insert(shuffled).clone()
    }

    /// The seek point from which a compressed object is inflated to be read from this byte on,
    /// counted inflated. `index` is the name of the index, for messages.
    pub(crate) fn seek_point(
        &self,
        index: &str,
        number: u64,
        offset: u64,
    ) -> Result<Option<SeekPoint>, SourceError> {
        let point = self.0.seek_point(number, offset);
        point.map_err(|why| self.no_seek_point(index, number, offset, &why))
    }

    /// The stored bytes of a block of an object of `size` bytes, if the object is compressed and
    /// the block is not all of it. `index` is the name of the index, for messages.
    pub(crate) fn compressed_block(
        &self,
        index: &str,
        number: u64,
        block: &Block,
        size: u64,
    ) -> Result<Option<CompressedBlock>, SourceError> {
        let before = |offset| self.seek_point(index, number, offset);
        let point = before(block.offset)?;
        let Some(end) = block.end else {
            return Ok(point.map(|point| CompressedBlock { point: Some(point), end: size }));
        };
        // The next block begins there, so there is a point if the object is compressed.
        let Some(last) = before(end)? else { return Ok(None) };
        let next = self.0.seek_point_after(number, end);
        let next = next.map_err(|why| self.no_seek_point(index, number, end, &why))?;
        let end = compressed_end(&last, next.as_ref(), end).min(size);
        Ok(Some(CompressedBlock { point, end }))
    }

    fn no_seek_point(&self, index: &str, number: u64, offset: u64, why: &str) -> SourceError {
        let name = self.0.short_name(number).unwrap_or_default();
        let message = format!("its seek point near byte {offset} of {name}: {why}");
        SourceError::new(index, message, "make the index again")
    }

    /// The numbers of the objects that are read.
    fn read(&self) -> impl Iterator<Item = u64> {
        (0..self.0.count()).filter(|number| self.0.is_read(*number))
    }

    /// What is known of the records of this object.
    pub(crate) fn known_records(&self, number: u64) -> KnownRecords {
        KnownRecords { first: self.0.first_record(number), skipped: self.0.skipped(number) }
    }

    /// Number of records of all objects.
    pub fn total_records(&self) -> u64 {
        self.0.total_records()
    }

    /// The place of this record, counted from 0 in the order of an epoch of blocks. `None` if the
    /// epoch has fewer records.
    pub fn place_of(&self, order: &Order, epoch: u32, record: u64) -> Option<PlaceInOrder> {
        PartOfBlocks::new(self.shuffled(order.blocks?, order, epoch), order).place_of(record)
    }

    /// The blocks of a part in the order of an epoch: each with the number of its object, and the
    /// number of bytes that are decoded for it. None without blocks.
    pub fn blocks_of_part(
        &self,
        order: &Order,
        epoch: u32,
    ) -> impl Iterator<Item = (u64, Block, u64)> + '_ {
        let items = self.arrange(order, epoch);
        items.filter_map(|item| item.block.map(|block| (item.object, block, self.bytes(&item))))
    }

    /// For each part, the number of records of each of its objects. Of parts of blocks, only the
    /// sum is known for all epochs. `None` if not even that is known, because objects are shuffled
    /// before they are divided.
    pub fn records_of_parts(&self, order: &Order) -> Option<Vec<Vec<u64>>> {
        let records = |number: u64| self.0.records(number).unwrap_or(0);
        match order.part {
            None => Some(vec![self.read().map(records).collect()]),
            Some(part) if order.blocks.is_some() => {
                let all = self.total_records();
                let parts = (0..part.count).map(|index| ListPart { index, ..part }.range_of(all));
                Some(parts.map(|range| vec![range.end - range.start]).collect())
            }
            Some(_) if order.shuffle.is_some() => None,
            Some(_) => {
                let size = |number: &u64| Ok::<_, Infallible>(self.0.size(*number));
                let parts = order.divide(self.read().collect(), 0, size);
                let parts = parts.unwrap_or_else(|none| match none {}).into_iter();
                Some(parts.map(|part| part.into_iter().map(records).collect()).collect())
            }
        }
    }

    /// Number of bytes that will be read of the object or block, if it is known.
    pub(crate) fn length(&self, item: &Item, reading: &ReadSettings) -> Option<u64> {
        reading.length(self.0.short_name(item.object)?, self.bytes(item))
    }

    /// Bytes of the object or block; 0 if there is none.
    pub(crate) fn bytes(&self, item: &Item) -> u64 {
        let size = self.0.size(item.object);
        match item.block {
            Some(block) => block.end.unwrap_or(size).saturating_sub(block.offset),
            None => size,
        }
    }
}

/// The stored bytes of a block of a compressed object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompressedBlock {
    /// The point from which the block is inflated; without one, the object's start.
    pub(crate) point: Option<SeekPoint>,
    /// Stored byte before which the block most likely ends.
    pub(crate) end: u64,
}

/// Compressed bytes that a block is expected to take at most beyond its computed end.
const END_MARGIN: u64 = 16 << 10;
/// Content that Zstandard inflates at once.
const ZSTD_BLOCK: u64 = 128 << 10;

/// The compressed byte before which the inflated byte `end` most likely lies. It is between two
/// seek points that follow each other, whose content is taken to be compressed evenly. Without a
/// point after it, the content is taken to be compressed as all before it.
fn compressed_end(last: &SeekPoint, next: Option<&SeekPoint>, end: u64) -> u64 {
    let (from, origin) = (last.compressed(), last.inflated());
    let (compressed, inflated) = match next {
        Some(next) => {
            let inflated = next.inflated().saturating_sub(origin);
            (next.compressed().saturating_sub(from), inflated)
        }
        None => (from, origin),
    };
    let wanted = if last.codec() == Codec::Zstd { end.saturating_add(ZSTD_BLOCK) } else { end };
    let scaled = u128::from(wanted.saturating_sub(origin)) * u128::from(compressed);
    let bytes = u64::try_from(scaled.div_ceil(inflated.max(1).into())).unwrap_or(u64::MAX);
    let estimate = from.saturating_add(bytes).saturating_add(bytes / 16 + END_MARGIN);
    // At the next point, nothing of the block is left.
    next.map_or(estimate, |next| estimate.min(next.compressed()))
}

impl PartialEq for KnownList {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for KnownList {}

/// A source of files that are known. It looks at a file when it opens it, and at none before.
pub struct KnownFiles {
    list: KnownList,
    /// The index that knows them, for messages.
    name: String,
    reading: ReadSettings,
    stop: Stop,
    epoch: u32,
    /// This epoch's files, or their blocks, that are still to be read; `None` before they are put
    /// in order.
    rest: Option<std::iter::Enumerate<Arranged>>,
    start: Option<Start>,
    expected: Option<ListIdentity>,
    /// Byte at which the next file begins.
    offset: u64,
    /// The file before.
    before: Option<Checked>,
    total_size: Option<TotalSize>,
}

impl KnownFiles {
    /// Reads the epochs up to, but not including, `reading.epochs`.
    pub fn new(list: KnownList, name: String, reading: ReadSettings, stop: Stop) -> Self {
        Self {
            list,
            name,
            reading,
            stop,
            epoch: 0,
            rest: None,
            start: None,
            expected: None,
            offset: 0,
            before: None,
            total_size: None,
        }
    }

    fn known(&self, number: u64) -> Result<KnownObject, SourceError> {
        self.list.0.get(number).ok_or_else(|| {
            let message = format!("it has no object {number}");
            SourceError::new(&self.name, message, "make it again")
        })
    }

    /// Puts the files of this epoch in order, up to the place at which the source begins.
    fn begin_epoch(&mut self) -> Result<(), SourceError> {
        let list = self.list.0.identity();
        if let Some(expected) = self.expected.take() {
            check_list(&self.name, self.epoch, &expected, &list)?;
        }
        let items = self.list.arrange(&self.reading.order, self.epoch);
        if let Some(total_size) = &self.total_size {
            let order = &self.reading.order;
            if let Some(bytes) = self.list.total_length(&items, order, &self.reading) {
                total_size.set(self.epoch, bytes);
            }
        }
        let start = self.start.take().unwrap_or_default();
        start.check_list(&self.name, items.len() as u64)?;
        let mut rest = items.enumerate();
        // The number fits: `check_list` has compared it with the length.
        rest.by_ref().take(start.ordinal as usize).for_each(drop);
        (self.rest, self.offset) = (Some(rest), start.offset);
        Ok(())
    }

    /// Opens a file, which must be as the list knows it.
    fn open(&mut self, ordinal: u64, item: Item) -> Result<Object, SourceError> {
        let known = self.known(item.object)?;
        let (path, name) = (Path::new(&known.name), known.name.clone());
        // A block is always decoded from its start.
        let offset = std::mem::take(&mut self.offset);
        let offset = item.block.map_or(offset, |block| block.offset);
        let point = self.list.seek_point(&self.name, item.object, offset)?;
        let open = |start| self.reading.open(path, &name, start, Found::Selected(None), &self.stop);
        let Opened { mut input, version } = open(ObjectStart::after(point.as_ref(), offset))?;
        if let Some(block) = item.block.filter(|block| block.header > 0) {
            // The file that is open is read: another one may have its name by now.
            let header = match input.at(0) {
                Some(header) => header?,
                None => open(ObjectStart::default())?.input,
            };
            input = Box::new(HeaderAndRest::new(header, block.header.into(), input));
        }
        if item.block.is_none() && offset == 0 && input.is_inflated() {
            input = self.divided(input, item.object, &known);
        }
        let companions = self.reading.open_companions(path, &name, version, &self.stop)?;
        let list = Some(self.list.0.identity());
        let (facts, identity) = file_facts(path, version, &companions, list);
        let states = version.into_iter().chain(companions.iter().map(|one| one.version)).collect();
        let identity = self.checked(&known, states, identity)?;
        let companions = companions.into_iter().map(|one| one.companion).collect();
        let (epoch, block) = (self.epoch, item.block);
        let known = Some(self.list.known_records(item.object));
        Ok(Object { epoch, ordinal, name, identity, facts, block, known, input, companions })
    }

    /// A compressed file that is read from its start, and at the places of the index if it is long.
    fn divided(&self, input: Box<dyn Input>, number: u64, known: &KnownObject) -> Box<dyn Input> {
        if !self.reading.is_divided(known.size) {
            return input;
        }
        let object = IndexedObject {
            list: self.list.clone(),
            index: self.name.clone(),
            number,
            name: known.name.clone(),
            size: known.size,
            compression: self.reading.compression.resolve(&known.name),
        };
        Box::new(ByPlaces::new(input, object))
    }

    /// Checks that an open file and its companions are as the list knows them. The content of files
    /// that are in the same states as for the block before is not looked at again.
    fn checked(
        &mut self,
        known: &KnownObject,
        states: Vec<FileVersion>,
        identity: ObjectIdentity,
    ) -> Result<ObjectIdentity, SourceError> {
        let is_before = |one: &&Checked| one.known == *known && one.states == states;
        if let Some(before) = self.before.as_ref().filter(is_before) {
            return Ok(before.identity.clone());
        }
        let (_, found) = split_identity(identity.text());
        if !is_same_content(&known.identity, found) {
            return Err(changed(&self.name, known, found, &self.reading.companions));
        }
        self.before = (!states.is_empty()).then(|| {
            let (known, identity) = (known.clone(), identity.clone());
            Checked { known, states, identity }
        });
        Ok(identity)
    }
}

/// The file whose content was checked last, the states of it and its companions then, and its
/// identity.
struct Checked {
    known: KnownObject,
    states: Vec<FileVersion>,
    identity: ObjectIdentity,
}

/// The error for an object that is not as an index knows it, or whose companion is not.
pub(crate) fn changed(
    index: &str,
    known: &KnownObject,
    found: &str,
    companions: &Companions,
) -> SourceError {
    let counts = [&known.identity, found].map(|text| split_companions(text).1.count());
    if counts[0] != counts[1] {
        let [then, now] = counts;
        let message = format!(
            "has {now} companions, and the index {index} was made with {then} of it: another \
             decoder was meant"
        );
        let remedy = "make the index again, with this decoder";
        return SourceError {
            kind: ErrorKind::Refused,
            ..SourceError::new(&known.name, message, remedy)
        };
    }
    let ((object, then), (object_now, now)) =
        (split_companions(&known.identity), split_companions(found));
    let names = companions.of(known.name.as_bytes()).unwrap_or_default();
    let other = then.zip(now).zip(names).find(|((then, now), _)| !is_same_content(then, now));
    let is_same = is_same_content(object, object_now);
    let (what, then, now) = match other.filter(|_| is_same) {
        Some(((then, now), name)) => {
            (format!("its companion {} has changed", String::from_utf8_lossy(&name)), then, now)
        }
        None => ("has changed".to_owned(), object, object_now),
    };
    let message = format!("{what} since the index {index} was made: it was {then}, and is {now}");
    let remedy = "bring the object back, or make the index again";
    SourceError { kind: ErrorKind::Refused, ..SourceError::new(&known.name, message, remedy) }
}

impl Source for KnownFiles {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        if self.epoch == self.reading.epochs {
            return Ok(SourceEvent::End);
        }
        if self.rest.is_none() {
            self.begin_epoch()?;
        }
        match self.rest.as_mut().and_then(Iterator::next) {
            Some((ordinal, number)) => self.open(ordinal as u64, number).map(SourceEvent::Object),
            None => {
                self.rest = None;
                self.epoch += 1;
                Ok(SourceEvent::EpochEnd(self.epoch - 1))
            }
        }
    }

    fn start_at(&mut self, start: Start) -> Result<(), SourceError> {
        start.check_epoch(&self.name, 0, Some(self.reading.epochs))?;
        (self.epoch, self.rest, self.start) = (start.epoch, None, Some(start));
        Ok(())
    }

    fn expect_list(&mut self, list: Option<ListIdentity>) {
        self.expected = list;
    }

    fn can_reread(&self) -> bool {
        true
    }

    fn end_epoch(&mut self) {
        let none = Arranged::Objects(Vec::new().into_iter());
        (self.rest, self.start, self.offset) = (Some(none.enumerate()), None, 0);
        self.expected = None;
    }

    fn total_size(&mut self) -> TotalSize {
        self.total_size.get_or_insert_default().clone()
    }
}

#[cfg(test)]
mod tests;
