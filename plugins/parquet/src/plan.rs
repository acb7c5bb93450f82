//! The plan of a file: a part for each group of rows, with the bytes of the wanted columns.

use std::collections::BTreeSet;
use std::ops::Range;

use pipemill_parsing::paths::{WantedPath, wanted_paths};
use pipemill_plugin::{DecodeError, Next, Options, Part, Piece, Resume, StreamInfo};

use crate::columns;
use crate::directory::{Directory, check_single, footer_place, gap, read_footer, start_in};
use crate::footer::{Chunk, ENCRYPTED, Footer, MAGIC, Node, RowGroup};
use crate::part::{Kind, PartHead};

/// A file of at most this size is read as a whole: its footer is most of it, or nearly.
const SMALL: u64 = 16 << 10;
/// Bytes at the end of a file that are read first. Most footers are in them.
const TAIL_BYTES: u64 = 64 << 10;
/// Longest footer that is read for a plan.
const MAX_FOOTER: u64 = 24 << 20;
/// Longest gap before the footer that is searched for another file.
const MAX_GAP: u64 = 4 << 20;
/// Bytes that a plan may take, and those that count for each range and part: the host's limit.
const MAX_PLAN: usize = 8 << 20;
const RANGE_BYTES: usize = 16;
const PART_BYTES: usize = 64;

/// See [`Decoder::plan`](pipemill_plugin::Decoder::plan).
pub(crate) fn plan(options: &Options, info: &StreamInfo, seen: &[Piece]) -> Result<Next, String> {
    let Some(size) = info.size.filter(|size| *size > SMALL) else { return Ok(Next::Whole) };
    let wanted = wanted_paths(options, "columns", "column")?;
    let file = Seen { pieces: seen, size };
    match file.plan(wanted.as_deref()) {
        Ok(next) => Ok(next),
        Err(error) => Ok(Next::Parts(vec![part_of_error(&error)])),
    }
}

/// A part whose stream gives this error.
fn part_of_error(error: &DecodeError) -> Part {
    let kind = if error.resume == Resume::Refused { Kind::Refused } else { Kind::Damaged };
    let context = PartHead::with(kind, 0, error.message.as_bytes(), 0);
    Part { context, ..Part::default() }
}

/// What was read of a file.
struct Seen<'a> {
    pieces: &'a [Piece],
    size: u64,
}

impl Seen<'_> {
    /// These bytes of the file, if they were read.
    fn bytes(&self, range: &Range<u64>) -> Option<&[u8]> {
        self.pieces.iter().find_map(|piece| {
            let from = usize::try_from(range.start.checked_sub(piece.offset)?).ok()?;
            let length = usize::try_from(range.end - range.start).ok()?;
            piece.bytes.get(from..from.checked_add(length)?)
        })
    }

    fn plan(&self, wanted: Option<&[WantedPath]>) -> Result<Next, DecodeError> {
        let head = 0..MAGIC.len() as u64;
        let tail = self.size.saturating_sub(TAIL_BYTES)..self.size;
        let (Some(first), Some(last)) = (self.bytes(&head), self.bytes(&tail)) else {
            return Ok(Next::Read(vec![head.into(), tail.into()]));
        };
        if first != MAGIC && first != ENCRYPTED {
            // The stream says what it is.
            return Ok(Next::Whole);
        }
        let place = footer_place(last, self.size)?;
        if place.end - place.start > MAX_FOOTER {
            return Ok(Next::Whole);
        }
        let Some(footer) = self.bytes(&place) else { return Ok(Next::Read(vec![place.into()])) };
        let footer = read_footer(footer, place.start)?;
        if let Some(gap) = gap(&footer, &place) {
            if gap.end - gap.start > MAX_GAP {
                return Ok(Next::Whole);
            }
            let start = start_in(&gap);
            let start = start.start as u64..(start.end as u64).min(self.size);
            let (Some(at_start), Some(between)) = (self.bytes(&start), self.bytes(&gap)) else {
                return Ok(Next::Read(vec![start.into(), gap.into()]));
            };
            check_single(at_start, between)?;
        }
        let directory = Directory::of(footer, wanted, self.size)?;
        let parts = Parts::new(&directory, wanted).parts();
        let bytes = |part: &Part| part.context.len() + part.ranges.len() * RANGE_BYTES + PART_BYTES;
        match parts.iter().map(bytes).sum::<usize>() {
            ..=MAX_PLAN => Ok(Next::Parts(parts)),
            _ => Ok(Next::Whole),
        }
    }
}

/// Makes the parts of a file.
struct Parts<'a> {
    directory: &'a Directory,
    /// The schema with the columns of `kept` alone.
    schema: Vec<Node>,
    /// The numbers of the columns that the parts' footers have.
    kept: BTreeSet<usize>,
    /// The numbers of the columns whose pages the parts have.
    wanted: BTreeSet<usize>,
}

impl<'a> Parts<'a> {
    fn new(directory: &'a Directory, paths: Option<&[WantedPath]>) -> Self {
        let Directory { footer, columns, .. } = directory;
        let wanted: BTreeSet<_> = columns.iter().map(|column| column.number).collect();
        let schema = pruned(&footer.schema, &wanted);
        let same = |found: &columns::Column, column: &columns::Column| {
            *found == columns::Column { number: found.number, ..column.clone() }
        };
        let is_same = columns::columns(&schema, paths).is_ok_and(|found| {
            found.len() == columns.len()
                && found.iter().zip(columns).all(|(found, column)| same(found, column))
        });
        if is_same {
            return Self { directory, schema, kept: wanted.clone(), wanted };
        }
        // Without some of its columns, the schema means something else.
        let leaves = footer.schema.iter().skip(1).filter(|node| node.children <= 0).count();
        let schema = footer.schema.clone();
        Self { directory, schema, kept: (0..leaves).collect(), wanted }
    }

    /// A part for each group that has rows; or one part without rows, which has the schema.
    fn parts(&self) -> Vec<Part> {
        let groups = self.directory.footer.groups.iter().zip(0..);
        let mut parts: Vec<_> = groups
            .filter(|(group, _)| group.rows > 0)
            .map(|(group, number)| self.part(group, number))
            .collect();
        if parts.is_empty() {
            parts.push(self.with_footer(0, Vec::new(), Vec::new()));
        }
        parts
    }

    /// The part of a group. Its columns lie in the order in which they lie in the file.
    fn part(&self, group: &RowGroup, number: u64) -> Part {
        let mut chunks: Vec<Chunk> = self.kept.iter().map(|_| Chunk::default()).collect();
        let mut wanted: Vec<_> = self.wanted.iter().copied().collect();
        wanted.sort_by_key(|number| group.chunks[*number].start());
        let (mut ranges, mut columns) = (Vec::new(), 0i64);
        for number in wanted {
            let chunk = &group.chunks[number];
            let start = chunk.start();
            let moved = |at: i64| at.saturating_sub(start).saturating_add(columns);
            let at = self.kept.range(..number).count();
            chunks[at] = Chunk {
                data: moved(chunk.data),
                // A dictionary may lie at the first byte of a part.
                dictionary: chunk.dictionary.filter(|at| *at > 0).map(moved),
                ..chunk.clone()
            };
            columns += chunk.size;
            // The places were checked.
            ranges.push(start as u64..start as u64 + chunk.size as u64);
        }
        let groups = vec![RowGroup { rows: group.rows, chunks }];
        self.with_footer(number, groups, ranges)
    }

    fn with_footer(&self, number: u64, groups: Vec<RowGroup>, ranges: Vec<Range<u64>>) -> Part {
        let rows: i64 = groups.iter().map(|group| group.rows).sum();
        let schema = self.schema.clone();
        let footer = Footer { rows, schema, groups, is_encrypted: false };
        let columns = ranges.iter().map(|range| range.end - range.start).sum();
        let context = PartHead::with(Kind::Group, number, &footer.bytes(), columns);
        let ranges = ranges.into_iter().map(Into::into).collect();
        Part { context, ranges, records: u64::try_from(rows).ok() }
    }
}

/// The schema with these columns alone. Groups without any of them are left out.
fn pruned(schema: &[Node], kept: &BTreeSet<usize>) -> Vec<Node> {
    let mut pruning = Pruning { schema, kept, next: 0, leaves: 0, found: Vec::new() };
    pruning.node();
    pruning.found
}

struct Pruning<'a> {
    schema: &'a [Node],
    kept: &'a BTreeSet<usize>,
    next: usize,
    leaves: usize,
    found: Vec<Node>,
}

impl Pruning<'_> {
    /// Goes on to the next node. Returns whether it is kept. The schema's depth was checked.
    fn node(&mut self) -> bool {
        let Some(node) = self.schema.get(self.next) else { return false };
        self.next += 1;
        let at = self.found.len();
        self.found.push(node.clone());
        let is_kept = if node.children <= 0 {
            self.leaves += 1;
            self.kept.contains(&(self.leaves - 1))
        } else {
            let children = (0..node.children).filter(|_| self.node()).count();
            self.found[at].children = children as i32;
            children > 0
        };
        if !is_kept {
            self.found.truncate(at);
        }
        is_kept
    }
}
