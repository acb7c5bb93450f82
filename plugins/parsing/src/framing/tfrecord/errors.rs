//! The errors of a TFRecord: their messages, and where decoding can continue.

use super::{FOOTER, HEADER, crc, word};
use pipemill_plugin::DecodeError;

/// The length at `start` does not match its checksum. The start of the next record is unknown then.
pub(super) fn wrong_length(chunk: &[u8], start: usize) -> DecodeError {
    let bytes = &chunk[start..start + 8];
    let (found, stored) = (crc::masked(bytes), word(chunk, start + 8));
    let message = format!(
        "the length at +0 has the masked CRC-32C {found:08x}, expected {stored:08x} as stored at +8; \
         this is not TFRecord, or the length is damaged, and what follows can't be found"
    );
    DecodeError::fatal(start, message)
}

/// The payload of the record at `start` does not match its checksum, but the length does.
pub(super) fn wrong_payload(chunk: &[u8], start: usize, length: usize) -> DecodeError {
    let payload = start + HEADER;
    let end = payload + length;
    let (found, stored) = (crc::masked(&chunk[payload..end]), word(chunk, end));
    let message = format!(
        "the payload at +{HEADER} ({length} bytes) has the masked CRC-32C {found:08x}, expected \
         {stored:08x} as stored at +{}; the record is damaged",
        HEADER + length
    );
    DecodeError::skippable(start, message, (end + FOOTER) as u64)
}

/// The record at `start` is larger than `max_record`. Decoding can continue after it only if its
/// length was `verified`.
pub(super) fn too_large(start: usize, length: u64, max: u64, verified: bool) -> DecodeError {
    let message = format!(
        "record of {length} bytes is larger than max_record ({max} bytes); raise max_record if \
         records may be that large"
    );
    let next = length.checked_add((start + HEADER + FOOTER) as u64);
    match next {
        Some(next) if verified && next <= i64::MAX as u64 => {
            DecodeError::skippable(start, message, next)
        }
        _ => DecodeError::fatal(start, message),
    }
}
