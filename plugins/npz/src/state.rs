//! The state of the decoder between calls, and the result of a step.

use pipemill_parsing::head::Head;
use pipemill_parsing::npy::ArrayLayout;
use pipemill_plugin::{DecodeError, Field, Progress};

use crate::archive::Archive;
use crate::crc32::Crc32;
use crate::errors::cut_short;
use crate::wanted::WantedArrays;
use crate::zip::{Descriptor, Sizes};

/// The `npz` decoder.
#[derive(Debug)]
pub struct Npz {
    pub(crate) head: Head,
    pub(crate) emit: Emit,
    /// Whether checksums are checked.
    pub(crate) verify: bool,
    /// Largest record in bytes.
    pub(crate) max_record: u64,
    /// Offset of the chunk in the input.
    pub(crate) offset: u64,
    /// Whether the input may end here: an archive ended, or there was an error.
    pub(crate) may_end: bool,
    /// The archive that is being read.
    pub(crate) archive: Option<Archive>,
    pub(crate) state: State,
    /// The fields of the records, once they are known.
    pub(crate) schema: Option<Vec<Field>>,
    /// Number of bytes that were decompressed in the running call of `decode`, with the bytes of
    /// the spans that refer to them.
    pub(crate) made: u64,
}

/// The records of an archive.
#[derive(Debug)]
pub(crate) enum Emit {
    /// The rows of the array of this name; without a name, of the only array.
    Rows(Option<String>),
    /// One record with these arrays.
    Sample(WantedArrays),
}

impl Emit {
    /// The arrays of a record, if a record is an archive.
    pub(crate) fn wanted(&self) -> Option<&WantedArrays> {
        match self {
            Self::Sample(wanted) => Some(wanted),
            Self::Rows(_) => None,
        }
    }
}

/// The next thing in the chunk.
#[derive(Debug)]
pub(crate) enum State {
    /// A record of the archive.
    Header,
    /// Rows of a stored array.
    Rows(Box<StoredRows>),
    /// The header of a deflated array, of which some rows were emitted.
    Inflate(Box<InflatedRows>),
    /// Data of a member that is skipped.
    Skip(Skip),
    /// The descriptor of a member.
    Descriptor(Descriptor),
}

/// A stored array whose rows are being read.
#[derive(Debug)]
pub(crate) struct StoredRows {
    /// The name of the member.
    pub(crate) name: String,
    pub(crate) layout: ArrayLayout,
    /// Number of rows that were not read yet, at least 1.
    pub(crate) left: u64,
    /// Size of a row in bytes.
    pub(crate) row: usize,
    /// Size of the member's data in bytes.
    pub(crate) size: u64,
    /// The checksum of the part of the member that was read; `None` if it is not checked.
    pub(crate) crc: Option<Crc32>,
    pub(crate) sizes: Sizes,
    pub(crate) descriptor: Option<Descriptor>,
}

/// A deflated array whose rows are being read.
#[derive(Debug)]
pub(crate) struct InflatedRows {
    pub(crate) layout: ArrayLayout,
    /// Number of rows that were not read yet, at least 1.
    pub(crate) left: u64,
    /// Number of rows of a part.
    pub(crate) part_rows: u64,
    /// Number of decompressed bytes that are finished.
    pub(crate) done: u64,
    /// Their checksum; `None` if it is not checked.
    pub(crate) crc: Option<Crc32>,
}

/// A member that is skipped.
#[derive(Debug)]
pub(crate) struct Skip {
    /// Remaining bytes of data, at least 1.
    pub(crate) left: u64,
    pub(crate) descriptor: Option<Descriptor>,
}

/// The result of a step.
pub(crate) enum Step {
    /// Decoding continues at this offset.
    GoOn(usize),
    /// More bytes are needed, or another call: `decode` returns this.
    Return(Progress),
}

/// Everything up to `at` is finished, and `need` bytes from there on are needed.
pub(crate) fn wants(at: usize, need: usize) -> Step {
    Step::Return(Progress::consumed(at).and_wants(need))
}

/// As [`wants`]; but an error if no more bytes follow: `expected` was expected after `held` bytes.
pub(crate) fn more_bytes(
    at: usize,
    need: usize,
    expected: &str,
    held: usize,
    end: bool,
) -> Result<Step, DecodeError> {
    if end { Err(cut_short(at, expected, held)) } else { Ok(wants(at, need)) }
}
