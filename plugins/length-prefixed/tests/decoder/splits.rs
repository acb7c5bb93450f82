//! Every split of any input gives what was written, or the result of a simple model.

use pipemill_length_prefixed::LengthPrefixed;
use pipemill_plugin::testing::{Record, Setup, assert_any_split};
use proptest::prelude::*;

use crate::write::{Encoding, PREFIXES};

fn encoding() -> impl Strategy<Value = Encoding> {
    (prop::sample::select(&PREFIXES[..]), any::<bool>())
        .prop_map(|(prefix, includes)| Encoding { prefix, includes })
}

fn payloads() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let length = prop_oneof![4 => 0usize..20, 2 => 120usize..135, 1 => 0usize..700];
    let payload = length.prop_flat_map(|length| prop::collection::vec(any::<u8>(), length));
    prop::collection::vec(payload, 0..30)
}

fn pieces() -> impl Strategy<Value = Vec<usize>> {
    let piece = prop_oneof![4 => 1usize..20, 2 => 1usize..200];
    prop::collection::vec(piece, 0..60)
}

/// The model: records with their starts, and the offset of the first error.
fn model(encoding: Encoding, bytes: &[u8], max: u64) -> (Vec<Record>, Vec<u64>, Option<u64>) {
    let (mut records, mut starts, mut at) = (Vec::new(), Vec::new(), 0);
    let number = |bytes: &[u8]| bytes.iter().fold(0u128, |above, byte| above << 8 | *byte as u128);
    while at < bytes.len() {
        let rest = &bytes[at..];
        let width = match encoding.prefix {
            "varint" => rest.iter().position(|byte| *byte < 0x80).map_or(11, |last| last + 1),
            fixed => fixed[1..3].parse::<usize>().expect("bits") / 8,
        };
        let value = match encoding.prefix {
            _ if width > rest.len() => None,
            "varint" => rest[..width].iter().rev().try_fold(0u128, |above, byte| {
                above.checked_mul(128)?.checked_add(*byte as u128 & 127)
            }),
            prefix if prefix.ends_with("be") => Some(number(&rest[..width])),
            _ => Some(number(&rest[..width].iter().rev().copied().collect::<Vec<_>>())),
        };
        let value = value.filter(|value| *value <= u64::MAX as u128 && width <= 10);
        let own = if encoding.includes { width as u128 } else { 0 };
        let length = value.and_then(|value| value.checked_sub(own));
        let whole = length.filter(|length| {
            *length <= max as u128 && *length + width as u128 <= rest.len() as u128
        });
        let Some(length) = whole else { return (records, starts, Some(at as u64)) };
        records.push(vec![Some(rest[width..width + length as usize].to_vec())]);
        starts.push(at as u64);
        at += width + length as usize;
    }
    (records, starts, None)
}

proptest! {
    #[test]
    fn written_records_are_read(encoding in encoding(), payloads in payloads(), pieces in pieces()) {
        let file: Vec<u8> = payloads.iter().flat_map(|payload| encoding.record(payload)).collect();
        let outcome = assert_any_split::<LengthPrefixed>(&Setup::new(&encoding.options()), &file, &pieces);
        prop_assert_eq!(outcome.errors, []);
        let records: Vec<Record> = payloads.into_iter().map(|payload| vec![Some(payload)]).collect();
        prop_assert_eq!(outcome.records, records);
    }

    #[test]
    fn any_bytes_give_what_the_model_gives(
        encoding in encoding(),
        payloads in payloads(),
        noise in prop::collection::vec(prop_oneof![2 => any::<u8>(), 1 => 0u8..4, 1 => Just(0xff)], 0..40),
        flip in any::<(prop::sample::Index, u8)>(),
        max_record in prop_oneof![3 => Just(64u64 << 20), 1 => 0u64..130, 1 => Just(u64::MAX)],
        pieces in pieces(),
        skip: bool,
    ) {
        let mut file: Vec<u8> = payloads.iter().flat_map(|payload| encoding.record(payload)).collect();
        file.extend(noise);
        if !file.is_empty() {
            let at = flip.0.index(file.len());
            file[at] ^= flip.1;
        }
        let setup = Setup { max_record, skip, ..Setup::new(&encoding.options()) };
        let outcome = assert_any_split::<LengthPrefixed>(&setup, &file, &pieces);
        let (records, starts, error) = model(encoding, &file, max_record);
        prop_assert_eq!(outcome.records, records);
        prop_assert_eq!(outcome.starts, starts);
        let places: Vec<_> = outcome.errors.iter().map(|(at, ..)| *at).collect();
        prop_assert_eq!(places, Vec::from_iter(error));
    }
}
