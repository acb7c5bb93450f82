//! The plan of a file: a part for each batch, with the buffers of the wanted columns.
//!
//! A file is read as a whole if its footer does not fit it, if a dictionary comes after a batch, or
//! if it gains nothing: batches are small, or dictionaries are large. So it has the records and
//! errors that it has without a plan.

use std::collections::BTreeSet;
use std::ops::Range;

use pipemill_parsing::paths::wanted_paths;
use pipemill_plugin::{Next, Options, Part, Piece, StreamInfo};

use crate::blocks::{Block, Blocks, END, footer_place};
use crate::columns::Layout;
use crate::message::{Framing, MARK, Message, MessageKind, Prefix};
use crate::part::PartHead;
use crate::pruned::{Pruned, rows};
use crate::stream::VERSIONS;
use crate::{FILE_HEAD, Limits, MAGIC, schema};

/// Bytes at both ends of a file that are read first.
const END_BYTES: u64 = 64 << 10;
/// Longest footer that is read.
const MAX_FOOTER: u64 = 4 << 20;
/// Batches of less than this many bytes, on average, are read as a whole file.
const SMALL_BATCH: u64 = 16 << 10;
/// Most batches whose metadata is read: as many as the host's limit of ranges and steps allows,
/// with those for the footer.
const MAX_PRUNED: usize = 1536;
/// Most bytes of all metadata that is read.
const MAX_METADATA: u64 = 16 << 20;
/// Ranges of a step: the host's limit.
const RANGES: usize = 64;
/// Bytes that a plan may take, and those that count for each range and part: the host's limit.
const MAX_PLAN: usize = 8 << 20;
const RANGE_BYTES: usize = 16;
const PART_BYTES: usize = 64;

/// See [`Decoder::plan`](pipemill_plugin::Decoder::plan).
pub(crate) fn plan(options: &Options, info: &StreamInfo, seen: &[Piece]) -> Result<Next, String> {
    let Some(size) = info.size.filter(|size| *size > SMALL_BATCH) else { return Ok(Next::Whole) };
    let wanted = wanted_paths(options, "columns", "column")?;
    let file = Seen { pieces: seen };
    let (head, tail) = (0..END_BYTES.min(size), size - END_BYTES.min(size)..size);
    let (Some(first), Some(last)) = (file.bytes(&head), file.bytes(&tail)) else {
        return Ok(Next::Read(vec![head.into(), tail.into()]));
    };
    let place = footer_place(last, size).filter(|place| place.end - place.start <= MAX_FOOTER);
    let Some(place) = place.filter(|_| first.starts_with(MAGIC)) else { return Ok(Next::Whole) };
    let with_end = place.start.saturating_sub(END.len() as u64)..place.end;
    let Some(footer) = file.bytes(&with_end) else { return Ok(Next::Read(vec![with_end.into()])) };
    let Some((_, footer)) = footer.split_at_checked(END.len()).filter(|(end, _)| *end == END)
    else {
        return Ok(Next::Whole);
    };
    let limits = Limits::new(info.max_record);
    let Some(blocks) = Blocks::read(footer, &place) else { return Ok(Next::Whole) };
    let place = blocks.schema();
    if place.end - place.start > limits.metadata as u64 || place.start < FILE_HEAD as u64 {
        return Ok(Next::Whole);
    }
    let Some(message) = file.bytes(&place) else { return Ok(Next::Read(vec![place.into()])) };
    let layout = schema_of(message, limits).and_then(|message| {
        let nodes = schema::read(&message.header, message.version).ok()?;
        Layout::new(&nodes, wanted.as_deref()).ok()
    });
    let Some(layout) = layout else { return Ok(Next::Whole) };
    let plan = Plan { file: &file, blocks: &blocks, layout: &layout, schema: message, limits };
    Ok(plan.next(wanted.is_some()).unwrap_or(Next::Whole))
}

/// The message of a schema, if it is sound and takes all of these bytes.
fn schema_of(bytes: &[u8], limits: Limits) -> Option<Message<'_>> {
    let Prefix::Metadata(place) =
        Some(Framing::Marked).filter(|_| bytes.starts_with(&MARK))?.read(bytes, limits.metadata)
    else {
        return None;
    };
    let message = Message::read(bytes.get(place.clone())?).ok()?;
    let is_schema = message.kind == MessageKind::Schema && VERSIONS.contains(&message.version);
    (is_schema && message.body == 0 && place.end == bytes.len()).then_some(message)
}

/// What was read of a file.
struct Seen<'a> {
    pieces: &'a [Piece],
}

impl<'a> Seen<'a> {
    /// These bytes of the file, if they were read.
    fn bytes(&self, range: &Range<u64>) -> Option<&'a [u8]> {
        self.pieces.iter().find_map(|piece| {
            let from = usize::try_from(range.start.checked_sub(piece.offset)?).ok()?;
            let length = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
            piece.bytes.get(from..from.checked_add(length)?)
        })
    }
}

/// A file whose directory was read.
struct Plan<'a> {
    file: &'a Seen<'a>,
    blocks: &'a Blocks,
    layout: &'a Layout,
    /// The message of the schema.
    schema: &'a [u8],
    limits: Limits,
}

impl Plan<'_> {
    /// The next step. `None` if the file is read as a whole.
    fn next(&self, has_columns: bool) -> Option<Next> {
        let batches = &self.blocks.batches;
        let mut all = self.blocks.dictionaries.iter().chain(batches);
        let is_large = |block: &Block| block.size() > self.limits.max_record;
        let bytes: u64 = batches.iter().map(Block::size).sum();
        let count = batches.len() as u64;
        if all.any(is_large) || bytes / count < SMALL_BATCH {
            return None;
        }
        let has_dictionary = self.layout.columns.iter().any(|one| one.values.dictionary.is_some());
        let dictionaries = match has_dictionary {
            true => self.blocks.dictionaries(),
            false => 0..0,
        };
        let of_dictionaries = dictionaries.end - dictionaries.start;
        // Each part reads them.
        if of_dictionaries.saturating_mul(count - 1) > bytes / 4 {
            return None;
        }
        let heads: u64 = batches.iter().map(|block| block.head).sum();
        let is_pruned = has_columns && batches.len() <= MAX_PRUNED && heads <= MAX_METADATA;
        let mut heads = vec![None; batches.len()];
        if is_pruned {
            heads = batches.iter().map(|block| self.file.bytes(&block.head())).collect();
            let missing = heads.iter().zip(batches).filter(|(head, _)| head.is_none());
            let missing: Vec<_> = missing.map(|(_, block)| block.head()).take(RANGES).collect();
            if !missing.is_empty() {
                return Some(Next::Read(missing.into_iter().map(Into::into).collect()));
            }
        }
        let mut parts = Vec::with_capacity(batches.len());
        let mut taken = 0;
        for ((number, block), head) in (0..).zip(batches).zip(heads) {
            let (part, size) = self.part(number, block, head, dictionaries.clone());
            taken += part.context.len() + part.ranges.len() * RANGE_BYTES + PART_BYTES;
            if size > self.limits.max_record || taken > MAX_PLAN {
                return None;
            }
            parts.push(part);
        }
        Some(Next::Parts(parts))
    }

    /// The part of a batch, and its bytes. `head` is the batch's prefix and metadata, if columns
    /// are left out.
    fn part(
        &self,
        number: u64,
        block: &Block,
        head: Option<&[u8]>,
        dictionaries: Range<u64>,
    ) -> (Part, u64) {
        let before = dictionaries.end - dictionaries.start;
        let mut ranges: Vec<_> = Some(dictionaries).filter(|_| before > 0).into_iter().collect();
        let pruned = head.and_then(|head| Pruned::of(head, block, self.layout));
        let (metadata, rest) = match pruned {
            Some(Pruned { metadata, places, bytes }) => {
                ranges.extend(places);
                (metadata, bytes)
            }
            None => {
                ranges.push(block.place.clone());
                (Vec::new(), block.size())
            }
        };
        let (context, size) = PartHead::context(number, (self.schema, &metadata), (before, rest));
        let ranges = ranges.into_iter().map(Into::into).collect();
        let records = head.and_then(|head| rows(head, self.layout));
        (Part { context, ranges, records }, size)
    }
}

/// Numbers of the buffers of a batch.
pub(crate) type Buffers = BTreeSet<usize>;
