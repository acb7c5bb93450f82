//! Objects that are known before the source lists or reads any: those of an index.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use pipemill_types::{ListIdentity, ObjectIdentity, is_same_content, split_identity};

use crate::file_identity::file_facts;
use crate::file_version::FileVersion;
use crate::header_and_rest::HeaderAndRest;
use crate::open::{Found, Opened};
use crate::start::{ObjectStart, check_list};
use crate::{
    Block, Object, ReadSettings, SeekPoint, Source, SourceError, SourceEvent, Start, Stop,
    TotalSize,
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

    /// The stored size of this object in bytes; 0 if there are fewer.
    fn size(&self, number: u64) -> u64;

    /// The blocks of an uncompressed object, of at least this many bytes; only the last one may be
    /// smaller. Any other object is one block.
    fn blocks(&self, number: u64, bytes: u64) -> Vec<Block>;

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

    /// Number of records of the object with this number. `None` if there is no such object.
    fn records(&self, number: u64) -> Option<u64>;

    /// Identifies the list.
    fn identity(&self) -> ListIdentity;

    /// Bytes that the list takes in memory.
    fn memory(&self) -> u64;
}

/// A list of known objects that several sources share. Two of them are equal if they are one list.
#[derive(Debug, Clone)]
pub struct KnownList(pub Arc<dyn KnownObjects>);

/// An object of a list, or a block of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Item {
    /// Number of the object in the list.
    pub(crate) object: u64,
    pub(crate) block: Option<Block>,
}

impl KnownList {
    /// The objects of the list, or the blocks of its objects, in the order of the list.
    pub(crate) fn items(&self, reading: &ReadSettings) -> impl Iterator<Item = Item> {
        let bytes = reading.order.blocks;
        (0..self.0.count()).flat_map(move |object| {
            let whole = bytes.is_none().then_some(Item { object, block: None });
            let blocks = bytes.map(|bytes| self.0.blocks(object, bytes)).unwrap_or_default();
            let blocks = blocks.into_iter().map(move |block| Item { object, block: Some(block) });
            whole.into_iter().chain(blocks)
        })
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
    rest: Option<std::iter::Enumerate<std::vec::IntoIter<Item>>>,
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
        let size = |item: &Item| Ok::<_, SourceError>(self.list.bytes(item));
        let items = self.list.items(&self.reading).collect();
        let items = self.reading.order.arrange(items, self.epoch, size)?;
        if let Some(total_size) = &self.total_size {
            let length = |item: &Item| {
                let object = self.list.0.get(item.object)?;
                self.reading.length(&object.name, self.list.bytes(item))
            };
            if let Some(bytes) = items.iter().map(length).sum() {
                total_size.set(self.epoch, bytes);
            }
        }
        let start = self.start.take().unwrap_or_default();
        start.check_list(&self.name, items.len() as u64)?;
        let mut rest = items.into_iter().enumerate();
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
        let point = self.list.0.seek_point(item.object, offset).map_err(|why| {
            let message = format!("its seek point before byte {offset} of {name}: {why}");
            SourceError::new(&self.name, message, "make the index again")
        })?;
        let open = |start| self.reading.open(path, &name, start, Found::Selected(None), &self.stop);
        let Opened { mut input, version } = open(ObjectStart::after(point.as_ref(), offset))?;
        if let Some(block) = item.block.filter(|block| block.header > 0) {
            let header = open(ObjectStart::default())?.input;
            input = Box::new(HeaderAndRest::new(header, block.header.into(), input));
        }
        let (facts, identity) = file_facts(path, version, Some(self.list.0.identity()));
        let identity = self.checked(&known, version, identity)?;
        let block = item.block;
        Ok(Object { epoch: self.epoch, ordinal, name, identity, facts, block, input })
    }

    /// Checks that an open file is as the list knows it. The content of a file that is in the same
    /// state as for its block before is not looked at again.
    fn checked(
        &mut self,
        known: &KnownObject,
        version: Option<FileVersion>,
        identity: ObjectIdentity,
    ) -> Result<ObjectIdentity, SourceError> {
        let is_before = |one: &&Checked| one.known == *known && Some(one.version) == version;
        if let Some(before) = self.before.as_ref().filter(is_before) {
            return Ok(before.identity.clone());
        }
        let (_, found) = split_identity(identity.text());
        if !is_same_content(&known.identity, found) {
            return Err(changed(&self.name, known, found));
        }
        self.before = version.map(|version| {
            let (known, identity) = (known.clone(), identity.clone());
            Checked { known, version, identity }
        });
        Ok(identity)
    }
}

/// The file whose content was checked last, its state then, and its identity.
struct Checked {
    known: KnownObject,
    version: FileVersion,
    identity: ObjectIdentity,
}

/// The error for an object that is not as an index knows it.
fn changed(index: &str, known: &KnownObject, found: &str) -> SourceError {
    let message = format!(
        "has changed since the index {index} was made: it was {}, and is {found}",
        known.identity
    );
    let remedy = "bring the object back, or make the index again";
    SourceError { refused: true, ..SourceError::new(&known.name, message, remedy) }
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
        (self.rest, self.start, self.offset) = (Some(Vec::new().into_iter().enumerate()), None, 0);
        self.expected = None;
    }

    fn total_size(&mut self) -> TotalSize {
        self.total_size.get_or_insert_default().clone()
    }
}
