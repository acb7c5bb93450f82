//! The state of the decoder between calls.

use pipemill_parsing::head::Head;
use pipemill_parsing::paths::WantedPath;

use crate::block::{Budget, File};
use crate::errors::Place;
use crate::record::RecordReader;

/// The `avro` decoder.
#[derive(Debug)]
pub struct Avro {
    pub(crate) head: Head,
    pub(crate) wanted: Option<Vec<WantedPath>>,
    /// Largest record in bytes, and largest compressed block.
    pub(crate) max_record: u64,
    pub(crate) budget: Budget,
    /// The content of the header, once it was read.
    pub(crate) file: Option<File>,
    /// Size of the header of the object's first file; `None` before it and after that file.
    pub(crate) header_bytes: Option<u64>,
    pub(crate) state: State,
    /// Whether the file's deflate blocks have bytes after their data: see `packed`.
    pub(crate) has_tail: bool,
    pub(crate) reader: RecordReader,
}

/// The next part of a file to read.
#[derive(Debug)]
pub(crate) enum State {
    /// A block or the end of the file, or another file.
    Between,
    /// A record of a block without compression, or the block's end.
    Plain(PlainBlock),
    /// Records of a compressed block. The block is not consumed yet.
    Packed(PackedBlock),
}

/// A block without compression that is being read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlainBlock {
    /// Size of its head, which is consumed with the first record: if the head is damaged, the search
    /// for the marker must begin in it.
    pub(crate) head: usize,
    /// Size of its records in bytes, according to the block's head.
    pub(crate) records: u64,
    /// Records that were not read yet.
    pub(crate) records_left: u64,
    /// Bytes of them, by the block's head.
    pub(crate) bytes_left: u64,
    /// Whether its marker was seen: if so, `bytes_left` is right.
    pub(crate) checked: bool,
}

impl PlainBlock {
    pub(crate) fn new(head: usize, records: u64, size: u64) -> Self {
        Self { head, records, records_left: records, bytes_left: size, checked: false }
    }
    /// Whether nothing of it was consumed.
    pub(crate) fn is_whole(&self) -> bool {
        self.head > 0
    }
    /// The next record.
    pub(crate) fn place(&self) -> Place {
        Place { record: self.records - self.records_left + 1, records: self.records }
    }
}

/// A compressed block that is being read.
#[derive(Debug)]
pub(crate) struct PackedBlock {
    /// Its records.
    pub(crate) records: u64,
    /// Records that were not read yet.
    pub(crate) left: u64,
    /// Size of its head.
    pub(crate) head: usize,
    /// Its size between head and marker, in the file.
    pub(crate) size: u64,
    /// Decompressed bytes of the records that were read.
    pub(crate) done: u64,
    /// Bytes to decompress at a time.
    pub(crate) part: usize,
    /// Whether the checksum was compared.
    pub(crate) checked: bool,
}

impl PackedBlock {
    pub(crate) fn new(records: u64, head: usize, size: u64, part: usize) -> Self {
        Self { records, left: records, head, size, done: 0, part, checked: false }
    }
    /// The next record.
    pub(crate) fn place(&self) -> Place {
        Place { record: self.records - self.left + 1, records: self.records }
    }
}
