//! The counts and the places of an index are true, for plain and for compressed files, also where
//! bytes can't be decoded.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use pipemill_channel::{Learning, Resume};
use pipemill_index::{Index, IndexedList, IndexedObject, Place};
use pipemill_source::KnownObjects;
use pipemill_testing::inputs::{recordio, tfrecord};
use pipemill_types::{Accepted, BatchPosition, ObjectIdentity, schema_extension};
use proptest::prelude::*;

use crate::file::config;
use crate::reading::{Decoder, Record, Records, channel, index, run};

pub const DECODERS: [Decoder; 6] = [
    ("csv", &[("header", "true"), ("types", "a:int64,b:float64,c:utf8")]),
    ("csv", &[("header", "auto"), ("types", "auto")]),
    ("jsonl", &[("fields", "a:int64,b:float64,c")]),
    ("tfrecord", &[]),
    ("recordio", &[]),
    ("lines", &[]),
];

/// A file of the decoder with these records.
pub fn file(decoder: usize, records: &[u32]) -> Vec<u8> {
    let text = |line: &dyn Fn(&u32) -> String| records.iter().map(line).collect::<String>();
    let long = |n: &u32| "x".repeat((*n % 211) as usize);
    let bytes: Vec<_> = records.iter().map(|n| format!("{n} {}", long(n)).into_bytes()).collect();
    match decoder {
        0 | 1 => format!("a,b,c\n{}", text(&|n| format!("{n},{n}.5,{}\n", long(n)))).into_bytes(),
        2 => text(&|n| format!("{{\"a\":{n},\"b\":{n}.5,\"c\":\"{}\"}}\n", long(n))).into_bytes(),
        3 => tfrecord(&bytes),
        4 => recordio(&bytes),
        _ => text(&|n| format!("{n} {}\n", long(n))).into_bytes(),
    }
}

/// The name's ending, and the compressed bytes: of one part, or of several one after the other.
pub fn compressed(kind: u8, bytes: &[u8]) -> (&'static str, Vec<u8>) {
    let parts = bytes.chunks(bytes.len().max(1).div_ceil(1 + usize::from(kind % 2) * 3).max(1));
    match kind {
        2 | 3 => {
            let mut out = Vec::new();
            for part in parts {
                let mut gzip = flate2::write::GzEncoder::new(&mut out, Default::default());
                gzip.write_all(part).expect("a vector");
                gzip.finish().expect("a vector");
            }
            (".gz", out)
        }
        4 | 5 => {
            let parts = parts.map(|part| zstd::bulk::compress(part, 1).expect("compressed"));
            (".zst", parts.collect::<Vec<_>>().concat())
        }
        _ => ("", bytes.to_vec()),
    }
}

/// The records of each object, by its number.
fn by_object(records: &Records) -> BTreeMap<u64, Vec<&Record>> {
    let mut all = BTreeMap::<_, Vec<_>>::new();
    for (object, record) in &records.records {
        all.entry(*object).or_default().push(record);
    }
    all
}

/// The state whose next record is the one at this place.
fn resume(index: &Index, number: u64, object: &IndexedObject<'_>, place: &Place) -> Resume {
    let position = BatchPosition {
        object_number: number,
        object: object.name.to_owned(),
        identity: ObjectIdentity::of(object.identity.to_owned()),
        header: place.header,
        offset: place.offset,
        first_record: place.record,
        ..BatchPosition::default()
    };
    let schema = schema_extension(&index.header.fields).map(|(_, text)| text);
    Resume { position, delivered: 0, schema, accepted: Accepted::default() }
}

/// The blocks of each object have all its records, in their order, and begin at all its places. A
/// compressed object has those that it can be inflated from.
fn check_blocks(index: &Index) {
    let list = IndexedList::new(Arc::new(index.clone()), None);
    for (number, object) in (0..).zip(index.objects.iter()) {
        let is_inflated = !index.header.compression.is_plain_name(object.name);
        let fits = |place: &Place| place.inflate.is_empty() != is_inflated;
        assert!(object.places.iter().all(fits), "places of {}", object.name);
        let mut records: Vec<_> = object.places.iter().map(|place| place.record).collect();
        records.retain(|record| *record > 0);
        records.dedup();
        let blocks = list.blocks(number, 1).into_iter();
        let begun: Vec<_> = blocks.map(|block| block.record).filter(|record| *record > 0).collect();
        assert_eq!(begun, records, "{}", object.name);
        for record in 0..object.records + 2 {
            let blocks = list.blocks(number, 1);
            let expected =
                blocks.into_iter().find(|one| one.records > record.wrapping_sub(one.record));
            assert_eq!(list.block_with(number, record), expected, "{} {record}", object.name);
        }
        for bytes in [1, 10_000, 30_000, u64::MAX] {
            let blocks = list.blocks(number, bytes);
            let (mut record, mut offset) = (0, Some(0));
            for block in blocks {
                assert_eq!((block.record, Some(block.offset)), (record, offset), "{}", object.name);
                let end = block.end.unwrap_or(u64::MAX);
                assert!(end - block.offset >= bytes || block.end.is_none());
                (record, offset) = (record + block.records, block.end);
            }
            assert_eq!((record, offset), (object.records, None), "{}", object.name);
        }
    }
}

fn check(folder: &Path, decoder: Decoder, index: &Index, all: &Records) {
    let records = by_object(all);
    assert_eq!(index.header.records, all.records.len() as u64);
    for (number, object) in (0..).zip(index.objects.iter()) {
        let own = records.get(&number).cloned().unwrap_or_default();
        assert_eq!(object.records, own.len() as u64, "records of {}", object.name);
        for place in object.places {
            let resumed = resume(index, number, &object, place);
            let known = Learning::Known(index.header.fields.as_slice().into());
            let rest = own.len() - place.record as usize;
            let seen = run(channel(folder, decoder, 1), Some(resumed), known, rest.max(1));
            let seen = seen.expect("it was decoded before");
            let seen: Vec<_> = seen.records.iter().take(rest).map(|(_, record)| record).collect();
            assert_eq!(seen, own[place.record as usize..], "{} from {place:?}", object.name);
        }
    }
}

proptest! {
    #![proptest_config(config(48))]

    #[test]
    fn counts_and_places_are_true(
        decoder in 0..DECODERS.len(),
        files in prop::collection::vec(
            (prop::collection::vec(0u32..100_000, 0..900), 0u8..6), 1..5
        ),
        damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        distance in 1u64..40_000,
        workers in 1usize..4,
    ) {
        let folder = tempfile::tempdir().unwrap();
        for (number, (records, kind)) in files.iter().enumerate() {
            let mut bytes = file(decoder, records);
            // A damaged header is another file: see `decode`'s tests.
            if bytes.len() > 64 && number > 0 {
                for (at, byte) in &damages {
                    let at = 40 + at.index(bytes.len() - 40);
                    bytes[at] = *byte;
                }
            }
            let (ending, bytes) = compressed(*kind, &bytes);
            fs::write(folder.path().join(format!("{number}{ending}")), bytes).unwrap();
        }
        let decoder = DECODERS[decoder];
        let whole = run(channel(folder.path(), decoder, 1), None, Learning::FromOwn, usize::MAX);
        let made = index(channel(folder.path(), decoder, workers), distance);
        prop_assert_eq!(whole.is_ok(), made.is_some());
        let (Ok(whole), Some(made)) = (whole, made) else { return Ok(()) };
        prop_assert_eq!(made.objects.count(), files.len());
        check(folder.path(), decoder, &made, &whole);
        check_blocks(&made);
    }
}
