//! A RecordIO writer for both dialects, by the definition in dmlc-core's `recordio.h`.

use pipemill_parsing::testing::{RECORDIO_MAGIC as MAGIC, write_recordio_part as part};
use proptest::prelude::*;

/// Appends the parts of one record.
pub fn parts(file: &mut Vec<u8>, parts: &[&[u8]]) {
    let last = parts.len() - 1;
    for (index, payload) in parts.iter().enumerate() {
        let cflag = match index {
            _ if last == 0 => 0,
            0 => 1,
            index if index == last => 3,
            _ => 2,
        };
        part(file, cflag, payload);
    }
}

/// Appends a record as dmlc does: it is split at each magic at a multiple of 4 bytes, which is
/// dropped.
pub fn dmlc(file: &mut Vec<u8>, payload: &[u8]) {
    let mut split = Vec::new();
    let mut from = 0;
    for at in (0..payload.len() / 4 * 4).step_by(4) {
        if payload[at..at + 4] == MAGIC {
            split.push(&payload[from..at]);
            from = at + 4;
        }
    }
    split.push(&payload[from..]);
    parts(file, &split);
}

/// Appends a record in parts of these sizes. The reader must join them without the magic.
pub fn concat(file: &mut Vec<u8>, mut payload: &[u8], sizes: &[usize]) {
    let mut split = Vec::new();
    for size in sizes {
        let (head, rest) = payload.split_at((*size).min(payload.len()));
        split.push(head);
        payload = rest;
    }
    split.push(payload);
    parts(file, &split);
}

/// Payloads with the magic, or a part of it, at aligned and unaligned offsets.
pub fn payload() -> impl Strategy<Value = Vec<u8>> {
    let atom = prop_oneof![
        3 => Just(MAGIC.to_vec()),
        2 => prop::collection::vec(any::<u8>(), 0..4),
        2 => prop::collection::vec(any::<u8>(), 4),
        1 => prop::collection::vec(any::<u8>(), 0..300),
        1 => (0usize..4).prop_map(|n| MAGIC[..n].to_vec()),
    ];
    prop::collection::vec(atom, 0..8).prop_map(|atoms| atoms.concat())
}
