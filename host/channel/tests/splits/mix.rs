//! Inputs of the strange but honest decoder in `bad-plugins/src/mix.rs`, and their expected
//! results.

use proptest::prelude::*;

use crate::host::{End, Observed};
use crate::inputs::noise;

/// A record: its payload, and how each of its fields is made.
#[derive(Debug, Clone)]
pub struct Record {
    length: u16,
    seed: u64,
    fields: [u8; 3],
}

/// An object of such records.
#[derive(Debug, Clone)]
pub struct Object(Vec<Record>);

/// Objects in which one kind of field follows the other, alone and mixed.
pub fn objects() -> impl Strategy<Value = Object> {
    let length = prop_oneof![6 => 0u16..30, 3 => 0u16..700, 1 => 0u16..20_000];
    let fields = prop_oneof![
        4 => any::<[u8; 3]>(),
        1 => Just([1, 1, 1]),
        1 => Just([2, 1, 1]),
        1 => Just([0, 0, 0]),
        // Made: once, eight times, empty.
        1 => Just([3 | 1 << 2, 3 | 7 << 2, 3]),
        1 => Just([3, 3, 3]),
        1 => Just([1, 3, 0]),
    ];
    let run = (length, any::<u64>(), fields, 1usize..40)
        .prop_map(|(length, seed, fields, count)| vec![Record { length, seed, fields }; count]);
    prop::collection::vec(run, 0..8).prop_map(|runs| Object(runs.concat()))
}

impl Record {
    fn payload(&self) -> Vec<u8> {
        noise(usize::from(self.length), self.seed)
    }

    fn fields(&self) -> Vec<Option<Vec<u8>>> {
        let (payload, length) = (self.payload(), usize::from(self.length));
        let field = |how: &u8| match how & 3 {
            0 => None,
            1 => Some(payload.clone()),
            2 => Some(payload[length / 2..][..length / 3].to_vec()),
            _ => Some(payload.repeat(usize::from(how >> 2 & 7))),
        };
        self.fields.iter().map(field).collect()
    }
}

impl Object {
    pub fn bytes(&self) -> Vec<u8> {
        let record = |record: &Record| {
            [&record.length.to_le_bytes()[..], &record.fields, &record.payload()].concat()
        };
        self.0.iter().flat_map(record).collect()
    }
}

/// All records came, in order, each with the right content.
pub fn check(objects: &[Object], seen: &Observed) -> Result<(), TestCaseError> {
    prop_assert_eq!(&seen.end, &End::Ended);
    let mut kept = seen.records.iter();
    for (number, object) in objects.iter().enumerate() {
        let (name, mut start) = (format!("object {number}"), 0);
        for (index, record) in object.0.iter().enumerate() {
            let Some(kept) = kept.next() else {
                return Err(TestCaseError::fail(format!(
                    "object {number}: record {index} is missing"
                )));
            };
            prop_assert_eq!(
                (kept.object.as_str(), kept.number, kept.start),
                (name.as_str(), index as u64, start)
            );
            prop_assert_eq!(&kept.fields, &record.fields(), "object {}, record {}", number, index);
            start += 5 + u64::from(record.length);
        }
    }
    prop_assert_eq!(kept.next(), None);
    Ok(())
}
