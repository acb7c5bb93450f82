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
    /// Bytes that were decompressed in the running call of `decode`, and bytes of the spans that
    /// refer to them.
    pub(crate) made: u64,
}

/// The records that an archive becomes.
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
    /// Bytes of a row.
    pub(crate) row: usize,
    /// Bytes of the member's data.
    pub(crate) size: u64,
    /// The checksum of what was read of the member; `None` if it is not checked.
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
    /// Decompressed bytes that are done with.
    pub(crate) done: u64,
    /// Their checksum; `None` if it is not checked.
    pub(crate) crc: Option<Crc32>,
}

/// A member that is skipped.
#[derive(Debug)]
pub(crate) struct Skip {
    /// Bytes of data that are left, at least 1.
    pub(crate) left: u64,
    pub(crate) descriptor: Option<Descriptor>,
}

/// The result of a step.
pub(crate) enum Step {
    /// Decoding goes on at this place.
    GoOn(usize),
    /// More bytes are needed, or another call: `decode` returns this.
    Return(Progress),
}

/// Everything up to `at` is done with, and `need` bytes from there on are needed.
pub(crate) fn wants(at: usize, need: usize) -> Step {
    Step::Return(Progress::consumed(at).and_wants(need))
}

/// As [`wants`]; but if no more bytes follow, an error: `expected` was expected after `held` bytes.
pub(crate) fn more_bytes(
    at: usize,
    need: usize,
    expected: &str,
    held: usize,
    end: bool,
) -> Result<Step, DecodeError> {
    if end { Err(cut_short(at, expected, held)) } else { Ok(wants(at, need)) }
}
