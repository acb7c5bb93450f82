//! Where a file has its dictionaries and batches: what its footer says, if it fits the file.

use std::ops::Range;

use crate::flatbuffer::{Malformed, Table};
use crate::{FILE_HEAD, MAGIC};

/// Bytes of a block in a footer.
const BLOCK: usize = 24;
/// Bytes of the footer's length and of the magic after it.
pub(crate) const TAIL: usize = 4 + MAGIC.len();
/// The end mark of the messages.
pub(crate) const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// A message: its place in the file, and the bytes before its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) place: Range<u64>,
    pub(crate) head: u64,
}

impl Block {
    pub(crate) fn size(&self) -> u64 {
        self.place.end - self.place.start
    }

    /// The place of the prefix and the metadata.
    pub(crate) fn head(&self) -> Range<u64> {
        self.place.start..self.place.start + self.head
    }
}

/// The messages of a file after its schema.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    pub(crate) dictionaries: Vec<Block>,
    pub(crate) batches: Vec<Block>,
}

/// The place of the footer of a file of `size` bytes, which ends with these bytes. `None` if it has
/// none.
pub(crate) fn footer_place(tail: &[u8], size: u64) -> Option<Range<u64>> {
    let (rest, magic) = tail.split_at_checked(tail.len().checked_sub(MAGIC.len())?)?;
    let length = i32::from_le_bytes(*rest.last_chunk()?);
    let end = size.checked_sub(TAIL as u64).filter(|_| magic == MAGIC)?;
    let start = end.checked_sub(u64::try_from(length).ok()?)?;
    (start >= FILE_HEAD as u64).then_some(start..end)
}

impl Blocks {
    /// Reads a footer, which lies there. `None` if what it says does not fit the file: the
    /// dictionaries and then the batches follow each other up to the end mark before the footer.
    pub(crate) fn read(footer: &[u8], place: &Range<u64>) -> Option<Self> {
        let table = Table::root(footer).ok()?;
        let blocks = |number| blocks(&table, number).ok().flatten();
        let (dictionaries, batches) = (blocks(2)?, blocks(3)?);
        let mut all = dictionaries.iter().chain(&batches);
        let mut end = all.next()?.place.end;
        for block in all {
            if block.place.start != end {
                return None;
            }
            end = block.place.end;
        }
        (end.checked_add(END.len() as u64) == Some(place.start) && !batches.is_empty())
            .then_some(Self { dictionaries, batches })
    }

    /// The place of the schema: all before the other messages.
    pub(crate) fn schema(&self) -> Range<u64> {
        let first = self.dictionaries.first().or(self.batches.first());
        let end = first.map_or(0, |block| block.place.start);
        (FILE_HEAD as u64).min(end)..end
    }

    /// The place of the dictionaries.
    pub(crate) fn dictionaries(&self) -> Range<u64> {
        match (self.dictionaries.first(), self.dictionaries.last()) {
            (Some(first), Some(last)) => first.place.start..last.place.end,
            _ => 0..0,
        }
    }
}

/// The blocks of a field of the footer. `None` if one has no sound place.
fn blocks(footer: &Table, number: usize) -> Result<Option<Vec<Block>>, Malformed> {
    let read = |bytes: &[u8]| {
        let number = |at: usize| bytes.get(at..)?.first_chunk().copied().map(i64::from_le_bytes);
        let start = u64::try_from(number(0)?).ok()?;
        let head = u64::try_from(i32::from_le_bytes(*bytes.get(8..)?.first_chunk()?)).ok()?;
        let size = head.checked_add(u64::try_from(number(16)?).ok()?)?;
        Some(Block { place: start..start.checked_add(size)?, head })
    };
    Ok(footer.vector(number, BLOCK)?.chunks_exact(BLOCK).map(read).collect())
}
