//! Searches for the start of a record in the middle of a stream: for a length that its checksum
//! confirms, with another one where the record ends.

use pipemill_plugin::Resync;

use super::{FOOTER, HEADER, crc, word};

/// The first offset in the chunk that looks like the start of a record. A payload may contain
/// complete records, as a file in a file: where their chain breaks, its beginning was wrong.
pub(super) fn find(chunk: &[u8], end: bool, max_record: u64) -> Resync {
    let mut at = 0;
    while at + HEADER <= chunk.len() {
        if length(chunk, at, max_record).is_some() {
            match break_after(chunk, at, max_record) {
                Some(last) => at = last,
                None => return Resync { consumed: at, found: true },
            }
        }
        at += 1;
    }
    Resync { consumed: if end { chunk.len() } else { at }, found: false }
}

/// The last record in the chain of those that begin at `at`, if no record follows where it ends in
/// the chunk.
fn break_after(chunk: &[u8], mut at: usize, max_record: u64) -> Option<usize> {
    loop {
        let next = length(chunk, at, max_record)?.saturating_add(at + HEADER + FOOTER);
        if next > chunk.len().saturating_sub(HEADER) {
            return None;
        }
        if length(chunk, next, max_record).is_none() {
            return Some(at);
        }
        at = next;
    }
}

/// The length at `at`, if its checksum confirms it.
fn length(chunk: &[u8], at: usize, max_record: u64) -> Option<usize> {
    let bytes = chunk[at..].first_chunk::<8>()?;
    let length = u64::from_le_bytes(*bytes);
    // Almost all other bytes are not such a length, so a checksum is rarely computed.
    let is_length = length <= max_record && crc::masked(bytes) == word(chunk, at + 8);
    is_length.then(|| usize::try_from(length).unwrap_or(usize::MAX))
}
