//! A writer of `tf.train.Example`s. It can also write messages that TensorFlow never writes.

pub use pipemill_parsing::testing::{protobuf_field as field, tfrecord_file as file};

use pipemill_parsing::testing::varints;

/// The value of a feature.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Bytes(Vec<Vec<u8>>),
    Float(Vec<f32>),
    Int64(Vec<i64>),
    /// A feature without a value.
    Nothing,
}

impl Value {
    /// The message of type `Feature`.
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
                let packed = varints(values.iter().map(|value| *value as u64));
                field(3, &field(1, &packed))
            }
            Self::Nothing => Vec::new(),
        }
    }
}

/// An entry of the map `feature`.
pub fn entry(key: &str, feature: &[u8]) -> Vec<u8> {
    field(1, &[field(1, key.as_bytes()), field(2, feature)].concat())
}

/// The message of type `Example`.
pub fn example(features: &[(&str, Value)]) -> Vec<u8> {
    let entries = features.iter().map(|(key, value)| entry(key, &value.feature()));
    field(1, &entries.collect::<Vec<_>>().concat())
}
