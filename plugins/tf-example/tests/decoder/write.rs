//! A writer of `tf.train.Example`s in TFRecord files, which can also write what TensorFlow's never do.

use pipemill_plugin::testing::crc32c;

/// Appends a varint.
pub fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

/// A field that is bytes, text or a message.
pub fn field(number: u64, value: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    varint(&mut message, number << 3 | 2);
    varint(&mut message, value.len() as u64);
    message.extend_from_slice(value);
    message
}

/// The value of a feature.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Bytes(Vec<Vec<u8>>),
    Float(Vec<f32>),
    Int64(Vec<i64>),
    /// A feature that has none.
    Nothing,
}

impl Value {
    /// As a message of type `Feature`.
    pub fn feature(&self) -> Vec<u8> {
        match self {
            Self::Bytes(values) => {
                let values: Vec<_> = values.iter().flat_map(|value| field(1, value)).collect();
                field(1, &values)
            }
            Self::Float(values) => {
                let values: Vec<_> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                field(2, &field(1, &values))
            }
            Self::Int64(values) => {
                let mut packed = Vec::new();
                values.iter().for_each(|value| varint(&mut packed, *value as u64));
                field(3, &field(1, &packed))
            }
            Self::Nothing => Vec::new(),
        }
    }
}

/// An entry of the map of features.
pub fn entry(key: &str, feature: &[u8]) -> Vec<u8> {
    field(1, &[field(1, key.as_bytes()), field(2, feature)].concat())
}

/// A message of type `Example`.
pub fn example(features: &[(&str, Value)]) -> Vec<u8> {
    let entries = features.iter().map(|(key, value)| entry(key, &value.feature()));
    field(1, &entries.collect::<Vec<_>>().concat())
}

/// Appends a record to a file.
pub fn record(file: &mut Vec<u8>, payload: &[u8]) {
    let masked = |bytes: &[u8]| crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8);
    let length = (payload.len() as u64).to_le_bytes();
    file.extend_from_slice(&length);
    file.extend_from_slice(&masked(&length).to_le_bytes());
    file.extend_from_slice(payload);
    file.extend_from_slice(&masked(payload).to_le_bytes());
}

/// A file of these payloads.
pub fn file(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    payloads.iter().for_each(|payload| record(&mut file, payload));
    file
}
