//! The RecordIO framing of MXNet and dmlc, one record at a time.
//!
//! Follows `recordio.h` of dmlc-core. A part is `magic · cflag << 29 | length · payload · pad to 4`,
//! all little-endian. A record in one part (cflag 0) is a span of the chunk; the parts of a longer one
//! (cflag 1, then 2s, then 3) are joined, with the magic put back between them or plainly, as the
//! option `multipart` says.

mod parts;

use std::ops::Range;

use parts::{HEADER, MAGIC, Parts, padded};
use pipemill_plugin::{DecodeError, OptionSpec, Options, Resync, StreamInfo};

pub use parts::Wrong;

/// The framing, as the options and the channel have it.
#[derive(Debug)]
pub struct Framing {
    parts: Parts,
    max_record: u64,
}

/// What starts at a place of the chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// A record in one part; the next one starts at `end`.
    Plain {
        /// Where in the chunk its bytes lie.
        payload: Range<usize>,
        /// Where the next record starts.
        end: usize,
    },
    /// A record in several parts, to be [joined](Framing::join).
    Parts {
        /// Its bytes when they are joined.
        size: u64,
        /// Where the next record starts.
        end: usize,
    },
    /// A record that does not lie whole in the chunk.
    Cut {
        /// Bytes, from its start, that must be there to get on.
        need: usize,
    },
}

impl Framing {
    /// The option that [`open`](Self::open) looks at.
    pub fn option() -> OptionSpec {
        OptionSpec::choice(
            "multipart",
            &["dmlc", "concat"],
            "dmlc",
            "how the parts of a record are joined: with the magic between them (dmlc, MXNet) \
             or plainly (concat: MLIO, PipeModeDataset)",
        )
    }

    /// The framing of a stream.
    pub fn open(options: &Options, info: &StreamInfo) -> Self {
        let magic_between = options.text("multipart") != "concat";
        Self { parts: Parts { magic_between }, max_record: info.max_record }
    }

    /// The payload of the record at `at`, if that is in one part, sound and whole: what nearly every
    /// record of nearly every file is. The next one starts at [`behind`](Self::behind) it.
    #[inline(always)]
    pub fn plain(&self, chunk: &[u8], at: usize) -> Option<Range<usize>> {
        self.plain_within(chunk, at, self.max_record)
    }

    #[inline(always)]
    fn plain_within(&self, chunk: &[u8], at: usize, max: u64) -> Option<Range<usize>> {
        const MAGIC_WORD: u64 = u32::from_le_bytes(MAGIC) as u64;
        let header = chunk[at..].first_chunk::<HEADER>()?;
        // Magic and cflag in one look: with cflag 0, the length is all that stands above the magic.
        let word = u64::from_le_bytes(*header);
        let length = (word >> 32) as usize;
        let payload = at + HEADER;
        let fits = word & 0xe000_0000_ffff_ffff == MAGIC_WORD
            && length as u64 <= max
            && padded(length) <= chunk.len() - payload;
        fits.then(|| payload..payload + length)
    }

    /// Where the record behind a plain one starts.
    #[inline(always)]
    pub fn behind(payload: &Range<usize>) -> usize {
        payload.start + padded(payload.len())
    }

    /// The record that starts at `at`, checked for all that a file can get wrong.
    #[inline]
    pub fn next(&self, chunk: &[u8], at: usize) -> Result<Next, DecodeError> {
        let max = self.max_record;
        self.next_within(chunk, at, max).map_err(|wrong| wrong.into_error(at, max))
    }

    /// As [`next`](Self::next), for a record of which no more than `max` bytes are allowed.
    #[inline]
    pub fn next_within(&self, chunk: &[u8], at: usize, max: u64) -> Result<Next, Wrong> {
        match self.plain_within(chunk, at, max) {
            Some(payload) => Ok(Next::Plain { end: Self::behind(&payload), payload }),
            None => self.parts.look(chunk, at, max),
        }
    }

    /// Appends the payload of a record in parts: the bytes from its start to its end.
    pub fn join(&self, record: &[u8], payload: &mut Vec<u8>) {
        self.parts.join(record, payload);
    }

    /// Looks for the header of a record behind damage. Parts are padded, so from one header the next
    /// is a multiple of 4 bytes away.
    pub fn resync(chunk: &[u8], end: bool) -> Resync {
        let mut at = 0;
        while let Some(header) = chunk.get(at..at + HEADER) {
            if header[..4] == MAGIC && header[7] >> 5 <= 1 {
                return Resync { consumed: at, found: true };
            }
            at += 4;
        }
        Resync { consumed: if end { chunk.len() } else { at }, found: false }
    }
}
