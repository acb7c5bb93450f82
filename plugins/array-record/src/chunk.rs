//! The header of a chunk, and its data.
//!
//! ```text
//! uint64  hash of the rest of the header
//! uint64  bytes of the data, without block headers
//! uint64  hash of the data
//! uint8   type
//! uint56  number of records
//! uint64  bytes of all records
//! ```
//!
//! All numbers are little-endian. Padding follows the data: a chunk takes at least as many bytes as
//! it has records.

use std::ops::Range;

use crate::hash::hash;
use crate::layout::Layout;

/// Bytes of a chunk's header.
pub(crate) const HEADER: u64 = 40;
/// A chunk of more bytes or records than this is damaged: no file has them.
const MAX_SIZE: u64 = 1 << 56;

/// The type of a chunk.
pub(crate) mod kind {
    /// The first chunk of a file. It has no records.
    pub(crate) const SIGNATURE: u8 = b's';
    pub(crate) const PADDING: u8 = b'p';
    /// Sizes of records, and their values.
    pub(crate) const SIMPLE: u8 = b'r';
    /// Protocol buffers by their fields.
    pub(crate) const TRANSPOSED: u8 = b't';
}

/// A chunk whose header was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) layout: Layout,
    pub(crate) kind: u8,
    /// Bytes of the data.
    pub(crate) data: u64,
    data_hash: u64,
    pub(crate) records: u64,
    /// Bytes of all records.
    pub(crate) values: u64,
}

/// Why a chunk's header was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoHeader {
    /// This many bytes are needed.
    Cut(usize),
    Damaged,
}

impl Chunk {
    /// Reads the header of the chunk that begins with these bytes.
    pub(crate) fn read(layout: Layout, bytes: &[u8]) -> Result<Self, NoHeader> {
        let size = layout.span(HEADER) as usize;
        let Some(bytes) = bytes.get(..size) else { return Err(NoHeader::Cut(size)) };
        let mut header = [0; HEADER as usize];
        let parts = layout.pieces(0..HEADER).flat_map(|piece| &bytes[piece]);
        header.iter_mut().zip(parts).for_each(|(to, from)| *to = *from);
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| header[at + byte]));
        let chunk = Self {
            layout,
            kind: header[24],
            data: number(8),
            data_hash: number(16),
            records: number(24) >> 8,
            values: number(32),
        };
        let is_sound =
            hash([&header[8..]]) == number(0) && chunk.data < MAX_SIZE && chunk.values < MAX_SIZE;
        if is_sound { Ok(chunk) } else { Err(NoHeader::Damaged) }
    }

    /// Whether it is the signature of a file.
    pub(crate) fn is_signature(&self) -> bool {
        self.kind == kind::SIGNATURE && (self.data, self.records, self.values) == (0, 0, 0)
    }

    /// Bytes of the file up to the end of the data.
    pub(crate) fn bytes(&self) -> u64 {
        self.layout.span(HEADER + self.data)
    }

    /// Bytes of the file up to the next chunk.
    pub(crate) fn bytes_with_padding(&self) -> u64 {
        self.layout.end(HEADER + self.data, self.records) - self.layout.begin
    }

    /// Where some bytes of the data lie. The ranges count from the chunk's start.
    pub(crate) fn pieces(&self, data: Range<u64>) -> impl Iterator<Item = Range<usize>> {
        self.layout.pieces(HEADER + data.start..HEADER + data.end)
    }

    /// Some bytes of the data. `bytes` begins with the chunk, and has its data.
    pub(crate) fn copied(&self, bytes: &[u8], data: Range<u64>) -> Vec<u8> {
        let pieces: Vec<_> = self.pieces(data).map(|piece| &bytes[piece]).collect();
        pieces.concat()
    }

    /// Whether the data has the hash that the header says. `bytes` begins with the chunk, and has its
    /// data.
    pub(crate) fn is_sound(&self, bytes: &[u8]) -> bool {
        hash(self.pieces(0..self.data).map(|piece| &bytes[piece])) == self.data_hash
    }
}
