//! The order of an epoch of a known list: of its objects, or of their blocks.
//!
//! The blocks of all objects are shuffled once for all parts of them that a host reads, and take
//! some 64 bytes each in memory.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use crate::known::{KnownObjects, PlaceInOrder};
use crate::{Block, Order};

/// An object of a list, or a block of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Item {
    /// Number of the object in the list.
    pub(crate) object: u64,
    pub(crate) block: Option<Block>,
}

/// The objects or blocks that are read in an epoch, in its order.
#[derive(Clone)]
pub(crate) enum Arranged {
    /// The numbers of the objects.
    Objects(std::vec::IntoIter<u64>),
    Blocks(PartOfBlocks),
}

/// The order of all blocks in an epoch.
pub(crate) struct ShuffledBlocks {
    /// What the order depends on, in addition to the list.
    key: (Option<u64>, u32, u64),
    /// The blocks in the order of the list.
    blocks: Vec<Stored>,
    /// Their numbers, in the order of the epoch.
    order: Vec<u32>,
    /// For each block in the order of the epoch, the number of records that are read of it and of
    /// all before it.
    ends: Vec<u64>,
}

/// A whole block, without what a part changes.
struct Stored {
    object: u64,
    offset: u64,
    /// `u64::MAX` for the last block of an object.
    end: u64,
    record: u64,
    records: u64,
    skipped: u64,
    header: u32,
}

impl Stored {
    fn new(object: u64, block: &Block) -> Self {
        let Block { offset, header, record, records, skipped, end, .. } = *block;
        Self { object, offset, end: end.unwrap_or(u64::MAX), record, records, skipped, header }
    }

    fn block(&self) -> Block {
        let Self { offset, header, record, records, skipped, .. } = *self;
        Block {
            offset,
            header,
            record,
            records,
            skipped,
            read_from: record,
            read_to: record.saturating_add(records),
            end: Some(self.end).filter(|end| *end < u64::MAX),
        }
    }
}

impl ShuffledBlocks {
    /// The blocks of a list, of at least this many bytes, in the order of an epoch.
    pub(crate) fn new(list: &dyn KnownObjects, bytes: u64, order: &Order, epoch: u32) -> Self {
        // Most objects have a block or more.
        let mut blocks = Vec::with_capacity(usize::try_from(list.count()).unwrap_or(0));
        for object in 0..list.count() {
            list.each_block(object, bytes, &mut |block| blocks.push(Stored::new(object, &block)));
        }
        // A list of more blocks does not fit in memory.
        let numbers = (0..u32::try_from(blocks.len()).unwrap_or(u32::MAX)).collect();
        let undivided = Order { part: None, ..*order };
        let order = undivided.arrange(numbers, epoch, |_| Ok::<_, Infallible>(0));
        let order: Vec<u32> = order.unwrap_or_else(|none| match none {});
        // These lie together in memory, and the blocks do not.
        let records: Vec<u64> = blocks.iter().map(|block| block.records).collect();
        let mut end = 0;
        let ends = order.iter().map(|number| {
            end += records[*number as usize];
            end
        });
        let ends = ends.collect();
        Self { key: Self::key(bytes, &undivided, epoch), blocks, order, ends }
    }

    fn key(bytes: u64, order: &Order, epoch: u32) -> (Option<u64>, u32, u64) {
        (order.shuffle, epoch, bytes)
    }

    /// Whether it is the order of these blocks in this epoch.
    pub(crate) fn is_of(&self, bytes: u64, order: &Order, epoch: u32) -> bool {
        self.key == Self::key(bytes, order, epoch)
    }

    /// Number of records of all blocks.
    fn records(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Number of records before the block at this place of the order.
    fn before(&self, at: usize) -> u64 {
        at.checked_sub(1).map_or(0, |before| self.ends[before])
    }
}

/// A part of the blocks of an epoch.
#[derive(Clone)]
pub(crate) struct PartOfBlocks {
    all: Arc<ShuffledBlocks>,
    /// The records that are read, counted in the order of all blocks.
    records: Range<u64>,
    /// The blocks that are left, by their places in the order.
    left: Range<usize>,
    /// Whether all blocks are read: also those without records.
    is_whole: bool,
}

impl PartOfBlocks {
    /// The blocks of a part of the records. A block at a border of two parts belongs to both;
    /// blocks without a record of the part are left out.
    pub(crate) fn new(all: Arc<ShuffledBlocks>, order: &Order) -> Self {
        let (records, left) = (0..all.records(), 0..all.order.len());
        let Some(part) = order.part else { return Self { all, records, left, is_whole: true } };
        let records = part.range_of(all.records());
        let from = all.ends.partition_point(|end| *end <= records.start);
        let to = all.ends.partition_point(|end| *end < records.end);
        let to = if records.is_empty() { from } else { to + 1 };
        Self { left: from..to.min(all.order.len()), all, records, is_whole: false }
    }

    /// The block at this place of the order.
    fn item(&self, at: usize) -> Item {
        let stored = &self.all.blocks[self.all.order[at] as usize];
        let (from, to) = (self.all.before(at), self.all.ends[at]);
        let (first, last) = (self.records.start.max(from), self.records.end.min(to));
        let block = stored.block();
        let block = if self.is_whole { block } else { block.part(first - from, last - from) };
        Item { object: stored.object, block: Some(block) }
    }

    /// The blocks of a part of which none was taken; those of a whole epoch in the order of the
    /// list.
    pub(crate) fn items_of_list(&self) -> impl Iterator<Item = Item> {
        let (left, none) = (self.left.clone(), 0..0);
        let (whole, part) = if self.is_whole { (left, none) } else { (none, left) };
        let of_list = |at: usize| {
            let stored = &self.all.blocks[at];
            Item { object: stored.object, block: Some(stored.block()) }
        };
        whole.map(of_list).chain(part.filter(|at| self.is_read(at)).map(|at| self.item(at)))
    }

    fn is_read(&self, at: &usize) -> bool {
        self.is_whole || self.all.ends[*at] > self.all.before(*at)
    }

    /// Number of the blocks that are left.
    fn len(&self) -> usize {
        if self.is_whole {
            self.left.len()
        } else {
            self.left.clone().filter(|at| self.is_read(at)).count()
        }
    }

    /// The place of this record of the part, counted from 0. `None` if the part has fewer.
    pub(crate) fn place_of(&self, record: u64) -> Option<PlaceInOrder> {
        let in_order = self.records.start.checked_add(record)?;
        if in_order >= self.records.end {
            return None;
        }
        let at = self.all.ends.partition_point(|end| *end <= in_order);
        let ordinal = (self.left.start..at).filter(|at| self.is_read(at)).count() as u64;
        let block = self.item(at).block?;
        let record = in_order - self.all.before(at).max(self.records.start);
        Some(PlaceInOrder { ordinal, block, record })
    }
}

impl Arranged {
    /// Number of the objects or blocks that are left.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Objects(objects) => objects.len(),
            Self::Blocks(blocks) => blocks.len(),
        }
    }
}

impl Iterator for Arranged {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        match self {
            Self::Objects(objects) => objects.next().map(|object| Item { object, block: None }),
            Self::Blocks(blocks) => {
                while let Some(at) = blocks.left.next() {
                    if blocks.is_read(&at) {
                        return Some(blocks.item(at));
                    }
                }
                None
            }
        }
    }
}
