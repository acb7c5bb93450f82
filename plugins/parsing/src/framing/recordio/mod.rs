//! The RecordIO framing of MXNet and dmlc, one record at a time.
//!
//! Follows `recordio.h` of dmlc-core. A part is `magic · cflag << 29 | length · payload · padding
//! to a multiple of 4`, all little-endian. A record in one part (cflag 0) is a span of the chunk.
//! The parts of a longer record (cflag 1, then any number of 2, then 3) are joined. The option
//! `multipart` says whether the magic is put back between them.

mod parts;

use std::ops::Range;

use parts::{HEADER, MAGIC, PartReader, padded};
use pipemill_plugin::{DecodeError, OptionSpec, Options, Resync, StreamInfo};

pub use parts::RecordError;

/// Finds the records of a RecordIO stream.
#[derive(Debug)]
pub struct Framing {
    parts: PartReader,
    /// Largest record in bytes, without headers and padding.
    max_record: u64,
}

/// The record that starts at an offset of the chunk. All offsets count from the start of the chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextRecord {
    /// A record in one part.
    Plain {
        /// The bytes of the record.
        payload: Range<usize>,
        /// The start of the next record.
        end: usize,
    },
    /// A record in several parts, for [`Framing::join`].
    Parts {
        /// Size of the joined record in bytes.
        size: u64,
        /// The start of the next record.
        end: usize,
    },
    /// The chunk ends before the record does.
    Cut {
        /// Number of bytes from the start of the record that are needed to make progress.
        need: usize,
    },
}

impl Framing {
    /// The option that [`open`](Self::open) reads.
    pub fn option() -> OptionSpec {
        OptionSpec::choice(
            "multipart",
            &["dmlc", "concat"],
            "dmlc",
            "how the parts of a record are joined: with the magic between them (dmlc, MXNet) \
             or without it (concat: MLIO, PipeModeDataset)",
        )
    }

    /// The framing of a new stream.
    pub fn open(options: &Options, info: &StreamInfo) -> Self {
        let magic_between = options.text("multipart") != "concat";
        Self { parts: PartReader { magic_between }, max_record: info.max_record }
    }

    /// The fast path for one record: the payload of the record at `at`, if the record has one part,
    /// is valid and is completely in the chunk. Almost every record of almost every file does.
    /// [`next_start`](Self::next_start) returns the start of the next record.
    #[inline(always)]
    pub fn plain(&self, chunk: &[u8], at: usize) -> Option<Range<usize>> {
        self.plain_within(chunk, at, self.max_record)
    }

    #[inline(always)]
    fn plain_within(&self, chunk: &[u8], at: usize, max: u64) -> Option<Range<usize>> {
        const MAGIC_WORD: u64 = u32::from_le_bytes(MAGIC) as u64;
        let header = chunk[at..].first_chunk::<HEADER>()?;
        // One comparison checks magic and cflag: with cflag 0, all bits above the magic are the
        // length.
        let word = u64::from_le_bytes(*header);
        let length = (word >> 32) as usize;
        let payload = at + HEADER;
        let fits = word & 0xe000_0000_ffff_ffff == MAGIC_WORD
            && length as u64 <= max
            && padded(length) <= chunk.len() - payload;
        fits.then(|| payload..payload + length)
    }

    /// The start of the record after a plain one.
    #[inline(always)]
    pub fn next_start(payload: &Range<usize>) -> usize {
        payload.start + padded(payload.len())
    }

    /// The record that starts at `at`, with every check that the format allows.
    ///
    /// # Errors
    /// The record is damaged, or larger than `max_record`.
    #[inline]
    pub fn next(&self, chunk: &[u8], at: usize) -> Result<NextRecord, DecodeError> {
        let max = self.max_record;
        self.next_within(chunk, at, max).map_err(|error| error.into_decode_error(at, max))
    }

    /// Like [`next`](Self::next), for a record of at most `max` bytes.
    ///
    /// # Errors
    /// The record is damaged, or larger than `max`.
    #[inline]
    pub fn next_within(
        &self,
        chunk: &[u8],
        at: usize,
        max: u64,
    ) -> Result<NextRecord, RecordError> {
        match self.plain_within(chunk, at, max) {
            Some(payload) => Ok(NextRecord::Plain { end: Self::next_start(&payload), payload }),
            None => self.parts.read_record(chunk, at, max),
        }
    }

    /// Appends the joined payload of a record in several parts. `record` is the range of all of its
    /// bytes, as [`next`](Self::next) found it.
    pub fn join(&self, record: &[u8], payload: &mut Vec<u8>) {
        self.parts.join(record, payload);
    }

    /// Searches for the next header of a record after damage. `chunk` starts at a multiple of 4
    /// bytes from the last good header, and so does every header, because parts are padded.
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
