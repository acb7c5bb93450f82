//! Writers of the formats, for the tests and examples of the decoders. They follow the definition
//! of a format, can also write invalid data, and are not fast.

use pipemill_plugin::Decoder;
use pipemill_plugin::testing::{Setup, assert_all_splits, crc32c, decode_whole};

/// The first four bytes of each RecordIO part.
pub const RECORDIO_MAGIC: [u8; 4] = [0x0a, 0x23, 0xd7, 0xce];

/// Appends a protobuf varint.
pub fn write_varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

/// A sequence of protobuf varints.
pub fn varints(values: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut message = Vec::new();
    values.into_iter().for_each(|value| write_varint(&mut message, value));
    message
}

/// A protobuf field that is bytes, text, a message or packed numbers.
pub fn protobuf_field(number: u64, value: &[u8]) -> Vec<u8> {
    let mut message = varints([number << 3 | 2, value.len() as u64]);
    message.extend_from_slice(value);
    message
}

/// Appends one RecordIO part. The padding is not 0, because readers must ignore it.
pub fn write_recordio_part(file: &mut Vec<u8>, cflag: u32, payload: &[u8]) {
    file.extend_from_slice(&RECORDIO_MAGIC);
    file.extend_from_slice(&(cflag << 29 | payload.len() as u32).to_le_bytes());
    file.extend_from_slice(payload);
    file.resize(file.len().next_multiple_of(4), b' ');
}

/// A RecordIO file in which each record has one part.
pub fn recordio_file(records: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut file = Vec::new();
    records.iter().for_each(|record| write_recordio_part(&mut file, 0, record.as_ref()));
    file
}

/// TensorFlow's masked CRC-32C.
pub fn masked_crc32c(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Appends the length of a TFRecord and its checksum.
pub fn write_tfrecord_header(file: &mut Vec<u8>, length: u64) {
    let length = length.to_le_bytes();
    file.extend_from_slice(&length);
    file.extend_from_slice(&masked_crc32c(&length).to_le_bytes());
}

/// Appends a TFRecord.
pub fn write_tfrecord(file: &mut Vec<u8>, payload: &[u8]) {
    write_tfrecord_header(file, payload.len() as u64);
    file.extend_from_slice(payload);
    file.extend_from_slice(&masked_crc32c(payload).to_le_bytes());
}

/// A TFRecord file.
pub fn tfrecord_file(payloads: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut file = Vec::new();
    payloads.iter().for_each(|payload| write_tfrecord(&mut file, payload.as_ref()));
    file
}

/// Objects of clearly other formats, and the descriptions of them in messages.
pub fn other_formats() -> Vec<(&'static str, Vec<u8>)> {
    let bytes = |head: &[u8], more: usize| {
        // Bytes without a pattern, like compressed ones.
        let more = (0..more as u32).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 24) as u8);
        head.iter().copied().chain(more).collect::<Vec<u8>>()
    };
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:6a2c\nsize 4096\n";
    vec![
        ("git lfs pull", pointer.to_vec()),
        ("an HTML page", b"<!DOCTYPE html>\n<html><body>404 Not Found</body></html>\n".to_vec()),
        ("compression = \"gzip\"", bytes(b"\x1f\x8b\x08\0\0\0\0\0\x02\xff", 56)),
        ("compression = \"gzip\"", bytes(b"\x1f\x8b\x08\x08\x07\x5b\xcd\x15\x02\xff", 2000)),
        ("compression = \"zstd\"", bytes(b"\x28\xb5\x2f\xfd\x04\x58", 700)),
        ("decoder = \"npy\"", bytes(b"\x93NUMPY\x01\0v\0{'descr': '<u2', ", 200)),
        ("decoder = \"tokens\"", bytes(b"\x88\xd8\x34\x01\x01\0\0\0", 1200)),
        ("decoder = \"parquet\"", bytes(b"PAR1\x15\x04\x15\x10", 900)),
        ("decoder = \"arrow\"", bytes(b"ARROW1\0\0\xff\xff\xff\xff", 900)),
        ("decoder = \"megatron\"", bytes(b"MMIDIDX\0\0\x01\0\0\0\0\0\0\0\x08", 900)),
        ("a zip archive", bytes(b"PK\x03\x04\x14\0\0\0\x08\0", 900)),
        ("decoder = \"avro\"", bytes(b"Obj\x01\x04\x16avro.schema", 900)),
    ]
}

/// Asserts that a decoder refuses each of [`other_formats`] and names the format, at any split,
/// with any policy for bad records. `own` is what the message would say about its own format.
///
/// # Panics
/// It fails if the decoder accepts one.
pub fn assert_refuses_other_formats<D: Decoder>(setup: &Setup, own: &str) {
    for (what, object) in other_formats().into_iter().filter(|(what, _)| *what != own) {
        let outcome = assert_all_splits::<D>(&setup.clone().skipping(), &object);
        assert!(outcome.refused && outcome.records.is_empty(), "{what}: {:?}", outcome.errors);
        let [(0, _, message)] = &outcome.errors[..] else { panic!("{:?}", outcome.errors) };
        assert!(message.starts_with("the object is ") && message.contains(what), "{message}");
    }
}

/// Asserts that a decoder that accepts any bytes accepts [`other_formats`] with the option `sniff`.
///
/// # Panics
/// It fails if the decoder refuses one.
pub fn assert_takes_other_formats<D: Decoder>(setup: &Setup) {
    let mut setup = setup.clone();
    setup.options.push(("sniff".to_owned(), "false".to_owned()));
    for (what, object) in other_formats() {
        let outcome = decode_whole::<D>(&setup, &object);
        let is_refused = outcome.errors.iter().any(|(.., text)| text.starts_with("the object is"));
        assert!(!is_refused, "{what}: {:?}", outcome.errors);
    }
}

/// The records of a `.plain` fixture: each one is a length (`u32`, little-endian), then the bytes.
///
/// # Panics
/// It fails if the last record is cut.
pub fn read_plain(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (record, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        records.push(record.to_vec());
        bytes = rest;
    }
    records
}

/// A decimal next to the middle between the float32 of these bits, at least 1e-6 and below 1e13,
/// and the next one: `away` units of its last digit from it. It has at most 14 digits. If numbers
/// are not read exactly, such a number is rounded to the wrong float.
pub fn near_middle(bits: u32, away: i64) -> String {
    let [below, above] = [bits, bits + 1].map(|bits| f64::from(f32::from_bits(bits)));
    let middle = (below + above) / 2.0;
    let before_dot = middle.log10().max(0.0) as usize + 1;
    let places = 14usize.saturating_sub(before_dot).min(13);
    let digits = (middle * 10f64.powi(places as i32)).round() as i64 + away;
    let digits = format!("{digits:0>width$}", width = places + 1);
    let (whole, part) = digits.split_at(digits.len() - places);
    format!("{whole}.{part}")
}
