//! Where the bytes of a chunk lie: block headers interrupt it at every multiple of 64 KiB.
//!
//! A place is a number of bytes from the start of the file. A chunk's own bytes, without block
//! headers, are counted from its start.

use std::ops::Range;

use crate::hash::hash;

/// Bytes of a block, with its header.
pub(crate) const BLOCK: u64 = 1 << 16;
/// Bytes of the header at the start of each block.
pub(crate) const BLOCK_HEADER: u64 = 24;
/// Bytes of a block after its header.
const USABLE: u64 = BLOCK - BLOCK_HEADER;

/// A chunk that begins at this place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) begin: u64,
}

impl Layout {
    /// The place after this number of the chunk's bytes.
    pub(crate) fn after(self, bytes: u64) -> u64 {
        let headers = (bytes + (self.begin + USABLE - 1) % BLOCK) / USABLE;
        self.begin + bytes + headers * BLOCK_HEADER
    }

    /// Bytes of the file that this number of the chunk's bytes take, with block headers.
    pub(crate) fn span(self, bytes: u64) -> u64 {
        self.after(bytes) - self.begin
    }

    /// The places of some of the chunk's bytes: a range for each block that has some of them. A range
    /// counts from the chunk's start.
    pub(crate) fn pieces(self, bytes: Range<u64>) -> impl Iterator<Item = Range<usize>> {
        let Range { mut start, end } = bytes;
        std::iter::from_fn(move || {
            if start >= end {
                return None;
            }
            // The place of a byte is the one before the place after it.
            let place = self.after(start + 1) - 1;
            let size = (end - start).min(BLOCK - place % BLOCK);
            start += size;
            let from = (place - self.begin) as usize;
            Some(from..from + size as usize)
        })
    }

    /// The place at which the chunk ends, if it has this number of bytes and of records.
    pub(crate) fn end(self, bytes: u64, records: u64) -> u64 {
        let place = self.begin + records;
        // A chunk does not end in a block header, or right after one.
        let missing = ((BLOCK - place % BLOCK) % BLOCK).saturating_sub(USABLE - 1);
        self.after(bytes).max(place + missing)
    }
}

/// Whether a chunk can begin at this place.
fn is_boundary(place: u64) -> bool {
    (BLOCK - place % BLOCK) % BLOCK < USABLE
}

/// The place of the chunk that follows the one in which a block begins, by the block's header; the
/// block's place, if a chunk begins with it. `None` if the header is damaged.
pub(crate) fn chunk_by_block(block: u64, header: &[u8; BLOCK_HEADER as usize]) -> Option<u64> {
    let [stored, previous, next] = std::array::from_fn(|number| {
        u64::from_le_bytes(std::array::from_fn(|byte| header[8 * number + byte]))
    });
    if hash([&header[8..]]) != stored {
        return None;
    }
    match previous {
        0 => Some(block),
        _ => block.checked_add(next).filter(|place| next > 0 && is_boundary(*place)),
    }
}
