//! Inputs of the honest decoder in `bad-plugins/src/blocks.rs`, and their expected results:
//! compressed blocks that take several calls, errors that are reported inside a call, lists and
//! categories.

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use proptest::prelude::*;

use crate::host::{End, Observed};

/// An item of the input.
#[derive(Debug, Clone)]
pub enum Item {
    Record(Vec<u8>),
    /// Reported while the decoder continues.
    Bad(usize),
    /// Returned as an error.
    Error(usize),
    /// Records in a deflated block.
    Block(Vec<Vec<u8>>),
}

/// Items of all kinds, in runs.
pub fn items() -> impl Strategy<Value = Vec<Item>> {
    let text = || prop::collection::vec(prop::sample::select(b"ab \xff".to_vec()), 0..40);
    let records =
        prop::collection::vec(prop_oneof![9 => text(), 1 => Just(vec![b'x'; 255])], 0..300);
    let item = prop_oneof![
        4 => text().prop_map(Item::Record),
        1 => (0usize..300).prop_map(Item::Bad),
        1 => (0usize..300).prop_map(Item::Error),
        2 => records.prop_map(Item::Block),
    ];
    prop::collection::vec((item, 1usize..4), 0..12)
        .prop_map(|runs| runs.into_iter().flat_map(|(item, count)| vec![item; count]).collect())
}

/// The items as the decoder reads them.
pub fn bytes(items: &[Item]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for item in items {
        let (kind, payload) = match item {
            Item::Record(data) => (b'r', data.clone()),
            Item::Bad(size) => (b'b', vec![0; *size]),
            Item::Error(size) => (b'e', vec![0; *size]),
            Item::Block(records) => (b'z', deflated(records)),
        };
        bytes.push(kind);
        bytes.extend((payload.len() as u16).to_le_bytes());
        bytes.extend(payload);
    }
    bytes
}

fn deflated(records: &[Vec<u8>]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    for record in records {
        encoder.write_all(&[record.len() as u8]).expect("memory");
        encoder.write_all(record).expect("memory");
    }
    encoder.finish().expect("memory")
}

/// The fields of a record: its bytes, its words as a list, and its origin.
fn fields(data: &[u8], from: u8) -> Vec<Option<Vec<u8>>> {
    let words: Vec<_> = std::str::from_utf8(data).unwrap_or("").split(' ').collect();
    let mut end = 4 * (words.len() as u32 + 1);
    let mut list = end.to_le_bytes().to_vec();
    for word in &words {
        end += word.len() as u32;
        list.extend(end.to_le_bytes());
    }
    list.extend(words.concat().into_bytes());
    vec![Some(data.to_vec()), Some(list), Some(vec![from])]
}

/// All records and errors came, in order, each with the right content.
pub fn check(items: &[Item], seen: &Observed) -> Result<(), TestCaseError> {
    let (mut records, mut errors) = (Vec::new(), Vec::new());
    let mut start = 0;
    for item in items {
        let size = bytes(std::slice::from_ref(item)).len() as u64;
        match item {
            Item::Record(data) => records.push((start, fields(data, 0))),
            Item::Bad(_) | Item::Error(_) => errors.push((start, size)),
            Item::Block(block) => {
                records.extend(block.iter().map(|data| (start, fields(data, 1))));
            }
        }
        start += size;
    }
    // A channel that skipped errors and delivered nothing fails.
    if !records.is_empty() || errors.is_empty() {
        prop_assert_eq!(&seen.end, &End::Ended);
    }
    let kept: Vec<_> =
        seen.records.iter().map(|record| (record.start, record.fields.clone())).collect();
    prop_assert_eq!(kept, records);
    let facts = r#"{"format":"items"}"#;
    prop_assert!(seen.records.iter().all(|record| record.metadata == facts));
    let found = seen.quarantined.iter();
    let found: Vec<_> = found.map(|one| (one["offset"].as_u64(), one["length"].as_u64())).collect();
    let errors: Vec<_> =
        errors.into_iter().map(|(offset, length)| (Some(offset), Some(length))).collect();
    prop_assert_eq!(found, errors);
    Ok(())
}
