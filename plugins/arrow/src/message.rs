//! Messages: a prefix with the size of the metadata, the metadata, and a body of buffers.

use std::ops::Range;

use pipemill_plugin::Codec;

use crate::columns::Slot;
use crate::flatbuffer::{Malformed, Table};

/// The first bytes of each message, since version 0.15 of Arrow.
pub(crate) const MARK: [u8; 4] = [0xff; 4];
/// Messages begin at multiples of this number of bytes.
pub(crate) const ALIGNMENT: usize = 8;
/// Bytes of a number in a prefix.
const WORD: usize = 4;
/// Bytes of a node and of a buffer in a header.
const PAIR: usize = 16;
/// Most rows of a batch: the most that the specification recommends.
const MAX_ROWS: i64 = i32::MAX as i64;

/// How messages begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// With a mark, and a size.
    Marked,
    /// With a size: versions before 0.15.
    Bare,
}

/// The prefix of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Prefix {
    /// It is not complete: it has this number of bytes.
    Cut(usize),
    /// The end mark, with its number of bytes.
    End(usize),
    /// The place of the metadata.
    Metadata(Range<usize>),
    /// The error.
    Bad(String),
}

impl Framing {
    /// The framing of a stream that begins with these bytes. `None` if they are too few.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        let first = bytes.first_chunk::<WORD>()?;
        Some(if *first == MARK { Self::Marked } else { Self::Bare })
    }

    /// Bytes of a prefix.
    pub(crate) fn prefix(self) -> usize {
        match self {
            Self::Marked => 2 * WORD,
            Self::Bare => WORD,
        }
    }

    /// Reads the prefix of a message. The metadata has at most `most` bytes.
    pub(crate) fn read(self, bytes: &[u8], most: usize) -> Prefix {
        let prefix = self.prefix();
        if self == Self::Marked && bytes.first_chunk().is_some_and(|first| *first != MARK) {
            let found = bytes[..WORD].escape_ascii();
            return Prefix::Bad(format!("expected the mark of a message, found `{found}`"));
        }
        let Some(size) = bytes.get(prefix - WORD..).and_then(<[u8]>::first_chunk) else {
            return Prefix::Cut(prefix);
        };
        match i32::from_le_bytes(*size) {
            0 => Prefix::End(prefix),
            size => match usize::try_from(size).ok().filter(|size| *size <= most) {
                Some(size) => Prefix::Metadata(prefix..prefix + size),
                None => Prefix::Bad(format!(
                    "expected a message with at most {most} bytes of metadata, found {size}"
                )),
            },
        }
    }
}

/// Whether the first message of a file has no prefix: the files of polars begin so. Its first
/// number is the place of a table, which is less than the size of any message.
pub(crate) fn is_without_prefix(bytes: &[u8]) -> bool {
    const SMALLEST: u32 = 12;
    let first = bytes.first_chunk().copied().map_or(0, u32::from_le_bytes);
    (1..SMALLEST).contains(&first)
}

/// The end of a message without a prefix: the next message begins there, or the end mark. `None` if
/// it is not among these bytes.
pub(crate) fn end_without_prefix(bytes: &[u8], most: usize) -> Option<usize> {
    let places = (0..bytes.len()).step_by(ALIGNMENT);
    places.into_iter().find(|at| {
        let rest = &bytes[*at..];
        rest.starts_with(&MARK)
            && match Framing::Marked.read(rest, most) {
                Prefix::End(_) => true,
                Prefix::Metadata(place) => place.len() % ALIGNMENT == 0,
                _ => false,
            }
    })
}

/// The metadata of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    table: Table<'a>,
    pub(crate) kind: MessageKind,
    pub(crate) header: Table<'a>,
    pub(crate) version: i16,
    /// Bytes of the body.
    pub(crate) body: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageKind {
    Schema,
    Dictionary,
    Batch,
    /// A tensor, or what later versions have.
    Other(u8),
}

impl MessageKind {
    /// What it is, for messages.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Schema => "another schema".to_owned(),
            Self::Dictionary => "a dictionary".to_owned(),
            Self::Batch => "a batch of rows before the schema".to_owned(),
            Self::Other(number) => format!("a message of type {number}"),
        }
    }
}

impl<'a> Message<'a> {
    pub(crate) fn read(metadata: &'a [u8]) -> Result<Self, Malformed> {
        let message = Table::root(metadata)?;
        let kind = match message.u8(1, 0)? {
            0 => return Err(Malformed("a header")),
            1 => MessageKind::Schema,
            2 => MessageKind::Dictionary,
            3 => MessageKind::Batch,
            other => MessageKind::Other(other),
        };
        Ok(Self {
            table: message,
            kind,
            header: message.table(2)?.ok_or(Malformed("a header"))?,
            version: message.i16(0, 0)?,
            body: u64::try_from(message.i64(3, 0)?).map_err(|_| Malformed("a size of the body"))?,
        })
    }

    /// The place of the body's size in the metadata; `None` if it is not there.
    pub(crate) fn place_of_body(&self) -> Option<usize> {
        self.table.place(3)
    }
}

/// The header of a batch: of rows, or of a dictionary's values.
#[derive(Debug)]
pub(crate) struct BatchHeader<'a> {
    pub(crate) rows: usize,
    pub(crate) codec: Option<Codec>,
    nodes: &'a [u8],
    buffers: &'a [u8],
    /// The buffers of columns of views before each of them, and before the end.
    views: Vec<usize>,
}

/// Why a header can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HeaderError {
    Bad(String),
    /// The decoder does not support it.
    Refused(String),
}

impl From<Malformed> for HeaderError {
    fn from(what: Malformed) -> Self {
        Self::Bad(format!("expected {}, found something else", what.0))
    }
}

impl<'a> BatchHeader<'a> {
    /// Reads the header of a batch that has these nodes and buffers.
    pub(crate) fn read(batch: &Table<'a>, size: Slot) -> Result<Self, HeaderError> {
        let bad = |message: String| Err(HeaderError::Bad(message));
        let rows = batch.i64(0, 0)?;
        if !(0..=MAX_ROWS).contains(&rows) {
            return bad(format!("expected at most {MAX_ROWS} rows, found {rows}"));
        }
        let (nodes, buffers) = (batch.vector(1, PAIR)?, batch.vector(2, PAIR)?);
        if nodes.len() != size.node * PAIR {
            let found = nodes.len() / PAIR;
            return bad(format!("expected {} columns as in the schema, found {found}", size.node));
        }
        let mut views = vec![0];
        for count in batch.vector(4, 8)?.chunks_exact(8) {
            let count = count.first_chunk().copied().map_or(0, i64::from_le_bytes);
            let before = views.last().copied().unwrap_or(0);
            let all = usize::try_from(count).ok().and_then(|count| count.checked_add(before));
            views.push(all.ok_or(Malformed("a number of buffers"))?);
        }
        let all = views.last().and_then(|views| views.checked_add(size.buffer));
        if views.len() != size.views + 1 || all != Some(buffers.len() / PAIR) {
            let found = buffers.len() / PAIR;
            return bad(format!("expected the buffers of the schema's columns, found {found}"));
        }
        let codec = batch.table(3)?.map(|one| codec(&one)).transpose()?;
        // The value fits: it has 31 bits.
        Ok(Self { rows: rows as usize, codec, nodes, buffers, views })
    }

    /// The length and the number of nulls of a node.
    pub(crate) fn node(&self, slot: Slot) -> (i64, i64) {
        pair(self.nodes, slot.node)
    }

    /// The place of a buffer in the body: the first one of this slot, or one after it.
    pub(crate) fn buffer(&self, slot: Slot, number: usize) -> (i64, i64) {
        self.place(self.first_buffer(slot) + number)
    }

    /// The number of the first buffer of this slot.
    pub(crate) fn first_buffer(&self, slot: Slot) -> usize {
        slot.buffer + self.views.get(slot.views).copied().unwrap_or(0)
    }

    /// The place of a buffer in the body.
    pub(crate) fn place(&self, number: usize) -> (i64, i64) {
        pair(self.buffers, number)
    }

    /// The number of buffers.
    pub(crate) fn count(&self) -> usize {
        self.buffers.len() / PAIR
    }

    /// Whether the batches differ in the places of their buffers alone.
    pub(crate) fn is_same_but_for_places(&self, other: &Self) -> bool {
        let facts = |one: &Self| (one.rows, one.codec, one.count());
        facts(self) == facts(other) && self.nodes == other.nodes && self.views == other.views
    }

    /// The number of buffers with the long values of a column of views.
    pub(crate) fn long_buffers(&self, slot: Slot) -> usize {
        let before = |at: usize| self.views.get(at).copied().unwrap_or(0);
        before(slot.views + 1).saturating_sub(before(slot.views))
    }
}

fn codec(compression: &Table) -> Result<Codec, HeaderError> {
    let (codec, method) = (compression.u8(0, 0)?, compression.u8(1, 0)?);
    match (codec, method) {
        (0, 0) => Ok(Codec::Lz4),
        (1, 0) => Ok(Codec::Zstd),
        _ => Err(HeaderError::Refused(format!(
            "the batch is compressed with codec {codec} and method {method}, which are not known \
             here; write the file again with lz4 or zstd"
        ))),
    }
}

/// Two numbers of a vector.
fn pair(vector: &[u8], at: usize) -> (i64, i64) {
    let number = |at: usize| {
        let bytes = vector.get(at..).and_then(<[u8]>::first_chunk);
        bytes.copied().map_or(0, i64::from_le_bytes)
    };
    (number(at * PAIR), number(at * PAIR + PAIR / 2))
}
