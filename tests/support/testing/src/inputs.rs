//! Inputs whose records are known.

use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

/// A TFRecord file of these payloads.
pub fn tfrecord<T: AsRef<[u8]>>(payloads: &[T]) -> Vec<u8> {
    let mut file = Vec::new();
    for payload in payloads {
        let payload = payload.as_ref();
        let length = (payload.len() as u64).to_le_bytes();
        file.extend_from_slice(&length);
        file.extend_from_slice(&masked(&length).to_le_bytes());
        file.extend_from_slice(payload);
        file.extend_from_slice(&masked(payload).to_le_bytes());
    }
    file
}

/// TensorFlow's masked CRC-32C.
fn masked(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// A RecordIO file of these payloads, one part each.
pub fn recordio<T: AsRef<[u8]>>(payloads: &[T]) -> Vec<u8> {
    let mut file = Vec::new();
    for payload in payloads {
        let payload = payload.as_ref();
        file.extend_from_slice(&[0x0a, 0x23, 0xd7, 0xce]);
        file.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        file.extend_from_slice(payload);
        file.resize(file.len().next_multiple_of(4), 0);
    }
    file
}

/// As it stands in quarantine files and in JSON output.
pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Compressed with gzip.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.expect("memory can be written to")
}

/// Compressed with zlib.
pub fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.expect("memory can be written to")
}

/// Compressed with Zstandard.
pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 1).expect("memory can be written to")
}

/// What [`base64()`] was made of.
pub fn unbase64(text: &str) -> Vec<u8> {
    STANDARD.decode(text).expect("base64")
}
