//! A writer of `aialgs.data.Record`s in RecordIO files, which can also write what SageMaker's never
//! does.

/// Appends a varint.
pub fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

/// Varints one behind the other.
pub fn varints(values: &[u64]) -> Vec<u8> {
    let mut message = Vec::new();
    values.iter().for_each(|value| varint(&mut message, *value));
    message
}

/// A field that is bytes, text or a message.
pub fn field(number: u64, value: &[u8]) -> Vec<u8> {
    let mut message = varints(&[number << 3 | 2, value.len() as u64]);
    message.extend_from_slice(value);
    message
}

/// A message of type `Value`: numbers as they stand in it, keys and shape.
pub fn tensor(case: u64, values: &[u8], keys: &[u64], shape: &[u64]) -> Vec<u8> {
    let mut tensor = field(1, values);
    if !keys.is_empty() {
        tensor.extend(field(2, &varints(keys)));
    }
    if !shape.is_empty() {
        tensor.extend(field(3, &varints(shape)));
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
    let values: Vec<_> = values.iter().map(|value| i64::from(*value) as u64).collect();
    tensor(7, &varints(&values), &[], &[])
}

/// Bytes.
pub fn bytes(values: &[&[u8]]) -> Vec<u8> {
    let values = values.iter().flat_map(|value| field(1, value));
    field(9, &values.chain(field(2, b"text/plain")).collect::<Vec<_>>())
}

/// An entry of `features` (1) or `label` (2).
pub fn entry(map: u64, key: &str, value: &[u8]) -> Vec<u8> {
    field(map, &[field(1, key.as_bytes()), field(2, value)].concat())
}

/// A record with the usual keys.
pub fn usual(features: &[u8], label: &[u8]) -> Vec<u8> {
    [entry(1, "values", features), entry(2, "values", label)].concat()
}

/// Appends one part of a record.
pub fn part(file: &mut Vec<u8>, cflag: u32, payload: &[u8]) {
    file.extend_from_slice(&0xced7_230a_u32.to_le_bytes());
    file.extend_from_slice(&(cflag << 29 | payload.len() as u32).to_le_bytes());
    file.extend_from_slice(payload);
    file.resize(file.len().next_multiple_of(4), b' ');
}

/// A file of these payloads.
pub fn file(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    payloads.iter().for_each(|payload| part(&mut file, 0, payload));
    file
}
