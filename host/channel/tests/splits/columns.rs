//! Inputs of the honest decoder in `bad-plugins/src/columns.rs`, and their expected results.

use proptest::prelude::*;

use crate::host::{End, Observed};
use crate::inputs::noise;

/// Records that are emitted together.
#[derive(Debug, Clone)]
pub struct Block {
    how: u8,
    records: Vec<Record>,
}

/// A record: its number, the length of its bytes, and whether the last field is there.
type Record = (u16, usize, bool);

/// Blocks of an object: none, small ones, and some that are larger than a slot.
pub fn blocks() -> impl Strategy<Value = Vec<Block>> {
    let length = prop_oneof![5 => Just(0), 5 => 0usize..30, 1 => 0usize..3_000];
    let is_there = prop_oneof![Just(true), any::<bool>()];
    let record = || (any::<u16>(), length.clone(), is_there.clone());
    let some = prop::collection::vec(record(), 0..20);
    let many = (prop::collection::vec(record(), 1..50), 1usize..40).prop_map(|(records, times)| {
        let count = records.len() * times;
        records.into_iter().cycle().take(count).collect::<Vec<_>>()
    });
    let records = prop_oneof![3 => some, 2 => many];
    let block = (any::<u8>(), records).prop_map(|(how, records)| Block { how, records });
    prop::collection::vec(block, 0..8)
}

/// The blocks as the decoder reads them.
pub fn bytes(blocks: &[Block]) -> Vec<u8> {
    blocks.iter().flat_map(Block::bytes).collect()
}

impl Block {
    fn bytes(&self) -> Vec<u8> {
        let records = &self.records;
        let mut bytes = (records.len() as u16).to_le_bytes().to_vec();
        bytes.push(self.how);
        bytes.extend(records.iter().flat_map(|(number, ..)| number.to_le_bytes()));
        let mut end = 0u32;
        bytes.extend(end.to_le_bytes());
        for (_, length, _) in records {
            end += *length as u32;
            bytes.extend(end.to_le_bytes());
        }
        bytes.extend(records.iter().flat_map(|record| value(*record)));
        let mut bits = vec![0; records.len().div_ceil(8)];
        for (at, (_, _, is_there)) in records.iter().enumerate() {
            bits[at / 8] |= u8::from(*is_there) << (at % 8);
        }
        bytes.extend(bits);
        bytes
    }
}

fn value((number, length, _): Record) -> Vec<u8> {
    noise(length, u64::from(number))
}

/// All records came, in order, each with the right content.
pub fn check(objects: &[Vec<Block>], seen: &Observed) -> Result<(), TestCaseError> {
    prop_assert_eq!(&seen.end, &End::Ended);
    let mut kept = seen.records.iter();
    for (object, blocks) in objects.iter().enumerate() {
        let (mut number, mut start) = (0u64, 0u64);
        for block in blocks {
            for record in &block.records {
                let Some(kept) = kept.next() else {
                    let why = format!("object {object}: record {number} is missing");
                    return Err(TestCaseError::fail(why));
                };
                let name = format!("object {object}");
                prop_assert_eq!(
                    (kept.object.as_str(), kept.number, kept.start),
                    (name.as_str(), number, start)
                );
                let of = record.0.to_le_bytes().to_vec();
                let expected = vec![Some(of.clone()), Some(value(*record)), record.2.then_some(of)];
                prop_assert_eq!(&kept.fields, &expected, "object {}, record {}", object, number);
                number += 1;
            }
            start += block.bytes().len() as u64;
        }
    }
    prop_assert_eq!(kept.next(), None);
    Ok(())
}
