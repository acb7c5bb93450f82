//! Writers of the formats, for the tests and examples of the decoders. They follow the definition
//! of a format, can also write what is not valid, and are not fast.

use pipemill_plugin::testing::crc32c;

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

/// Protobuf varints, one after the other.
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

/// The records of a `.plain` fixture: each one is a length (`u32`, little-endian), then the bytes.
///
/// # Panics
/// If the last record is cut.
pub fn read_plain(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (record, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        records.push(record.to_vec());
        bytes = rest;
    }
    records
}

/// A decimal next to the middle between the float32 of these bits, at least 1e-6 and below 1e13, and the
/// next one: `away` units of its last digit from it. It has at most 14 digits. Where a number is not read
/// exactly, such a one first becomes the wrong float.
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
