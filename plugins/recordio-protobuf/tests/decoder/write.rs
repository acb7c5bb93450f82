//! A writer of `aialgs.data.Record`s. It can also write messages that SageMaker's writer never
//! writes.

pub use pipemill_parsing::testing::{
    protobuf_field as field, recordio_file as file, varints, write_recordio_part as part,
};

/// A message of type `Value`: encoded numbers, keys and shape.
pub fn tensor(case: u64, values: &[u8], keys: &[u64], shape: &[u64]) -> Vec<u8> {
    let mut tensor = field(1, values);
    if !keys.is_empty() {
        tensor.extend(field(2, &varints(keys.iter().copied())));
    }
    if !shape.is_empty() {
        tensor.extend(field(3, &varints(shape.iter().copied())));
    }
    field(case, &tensor)
}

/// A dense tensor of float32.
pub fn float32(values: &[f32]) -> Vec<u8> {
    let values: Vec<_> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor(2, &values, &[], &[])
}

/// A sparse tensor of float32.
pub fn sparse(values: &[f32], keys: &[u64], shape: &[u64]) -> Vec<u8> {
    let values: Vec<_> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor(2, &values, keys, shape)
}

/// A dense tensor of int32.
pub fn int32(values: &[i32]) -> Vec<u8> {
    let values = values.iter().map(|value| i64::from(*value) as u64);
    tensor(7, &varints(values), &[], &[])
}

/// A list of bytes.
pub fn bytes(values: &[&[u8]]) -> Vec<u8> {
    let values = values.iter().flat_map(|value| field(1, value));
    field(9, &values.chain(field(2, b"text/plain")).collect::<Vec<_>>())
}

/// An entry of `features` (1) or `label` (2).
pub fn entry(map: u64, key: &str, value: &[u8]) -> Vec<u8> {
    field(map, &[field(1, key.as_bytes()), field(2, value)].concat())
}

/// A record with the keys that SageMaker uses.
pub fn usual(features: &[u8], label: &[u8]) -> Vec<u8> {
    [entry(1, "values", features), entry(2, "values", label)].concat()
}
