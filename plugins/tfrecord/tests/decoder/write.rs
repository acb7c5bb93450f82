//! A TFRecord writer, from the definition in TensorFlow's `record_writer.cc`.

use pipemill_plugin::testing::crc32c;

pub fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Appends the length and its checksum.
pub fn header(file: &mut Vec<u8>, length: u64) {
    let length = length.to_le_bytes();
    file.extend_from_slice(&length);
    file.extend_from_slice(&masked(&length).to_le_bytes());
}

/// Appends a record.
pub fn record(file: &mut Vec<u8>, payload: &[u8]) {
    header(file, payload.len() as u64);
    file.extend_from_slice(payload);
    file.extend_from_slice(&masked(payload).to_le_bytes());
}
