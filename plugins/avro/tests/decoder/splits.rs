//! Every split gives the records that were written, in blocks of any size and with any codec.

use std::ops::Range;

use pipemill_avro::Avro;
use pipemill_plugin::testing::{Record, Setup, assert_any_split};
use proptest::prelude::*;

use crate::setup;
use crate::write::{CODECS, block, compress, header, items, long, string};

/// A schema with one field of each kind of type.
pub const SCHEMA: &str = r#"{"type": "record", "name": "r", "namespace": "test", "fields": [
    {"name": "id", "type": "long"},
    {"name": "name", "type": "string"},
    {"name": "count", "type": ["null", "int"]},
    {"name": "inner", "type": {"type": "record", "name": "inner", "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "score", "type": "double"}]}},
    {"name": "kind", "type": {"type": "enum", "name": "kind", "symbols": ["a", "b", "c"]}},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "map", "type": {"type": "map", "values": ["long", "bytes"]}},
    {"name": "numbers", "type": {"type": "array", "items": "long"}},
    {"name": "vector", "type": [{"type": "array", "items": "float"}, "null"]},
    {"name": "code", "type": {"type": "fixed", "name": "code", "size": 3}},
    {"name": "data", "type": "bytes"}]}"#;

/// All fields except for the map, which can't be a field.
pub const FIELDS: &str = "id,name,count,inner,kind,tags,numbers,vector,code,data";

/// The bytes of a record, and the expected result with [`FIELDS`].
#[derive(Debug, Clone)]
pub struct Written {
    pub bytes: Vec<u8>,
    pub record: Record,
}

pub fn written() -> impl Strategy<Value = Written> {
    let number =
        prop_oneof![3 => -100i64..100, 1 => any::<i64>(), 1 => any::<i32>().prop_map(i64::from)];
    let text = prop_oneof![5 => "[a-zä]{0,12}", 1 => "[a-zä€]{100,400}"];
    let data = prop_oneof![
        5 => prop::collection::vec(any::<u8>(), 0..20),
        1 => prop::collection::vec(any::<u8>(), 0..1000),
    ];
    let lists = (
        prop::collection::vec(text.clone(), 0..4),
        prop::collection::vec((text.clone(), prop::option::of(number.clone())), 0..3),
        prop::collection::vec(number.clone(), 0..6),
        prop::option::of(prop::collection::vec(any::<f32>(), 0..5)),
    );
    let numbers = (number, prop::option::of(any::<i32>()), any::<bool>(), any::<f64>(), 0u8..3);
    (numbers, (text, data, any::<[u8; 3]>()), lists, 1usize..4, any::<bool>()).prop_map(
        |((id, count, flag, score, kind), (name, data, code), lists, per_block, sized)| {
            let (tags, map, numbers, vector) = lists;
            let list = |all: Vec<Vec<u8>>| items(&all, per_block, sized);
            let bytes = [
                long(id),
                string(&name),
                count.map_or(vec![0], |count| [&[2][..], &long(count.into())].concat()),
                vec![u8::from(flag)],
                score.to_le_bytes().to_vec(),
                long(kind.into()),
                list(tags.iter().map(string).collect()),
                list(
                    map.iter()
                        .map(|(key, value)| match value {
                            Some(number) => [&string(key)[..], &[0], &long(*number)].concat(),
                            None => [&string(key)[..], &[2], &string(key)].concat(),
                        })
                        .collect(),
                ),
                list(numbers.iter().map(|number| long(*number)).collect()),
                vector.as_ref().map_or(vec![2], |vector| {
                    let floats = vector.iter().map(|number| number.to_le_bytes().to_vec());
                    [&[0][..], &list(floats.collect())].concat()
                }),
                code.to_vec(),
                string(&data),
            ];
            let ends = tags.iter().scan(4 * (tags.len() + 1), |at, tag| {
                *at += tag.len();
                Some(*at)
            });
            let offsets = std::iter::once(4 * (tags.len() + 1)).chain(ends);
            let offsets = offsets.flat_map(|offset| (offset as u32).to_le_bytes());
            let tags: Vec<u8> = offsets.chain(tags.concat().into_bytes()).collect();
            let record = vec![
                Some(id.to_le_bytes().to_vec()),
                Some(name.into_bytes()),
                count.map(|count| count.to_le_bytes().to_vec()),
                Some(vec![u8::from(flag)]),
                Some(score.to_le_bytes().to_vec()),
                Some(vec![kind]),
                Some(tags),
                Some(numbers.iter().flat_map(|number| number.to_le_bytes()).collect()),
                vector
                    .map(|vector| vector.iter().flat_map(|number| number.to_le_bytes()).collect()),
                Some(code.to_vec()),
                Some(data),
            ];
            Written { bytes: bytes.concat(), record }
        },
    )
}

/// Blocks of records.
pub fn blocks(count: Range<usize>) -> impl Strategy<Value = Vec<Vec<Written>>> {
    prop::collection::vec(prop::collection::vec(written(), 0..12), count)
}

pub fn pieces() -> impl Strategy<Value = Vec<usize>> {
    let piece = prop_oneof![1 => 1usize..20, 3 => 1usize..600, 2 => 500usize..5000];
    prop::collection::vec(piece, 0..60)
}

pub fn codec() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&CODECS[..])
}

/// The bytes of these blocks.
pub fn block_bytes(codec: &str, records: &[Written]) -> Vec<u8> {
    let data: Vec<_> = records.iter().flat_map(|record| record.bytes.clone()).collect();
    block(codec, records.len() as i64, &data)
}

pub fn file(codec: &str, blocks: &[Vec<Written>]) -> Vec<u8> {
    let blocks = blocks.iter().flat_map(|records| block_bytes(codec, records));
    header(SCHEMA, codec).into_iter().chain(blocks).collect()
}

/// Whether no record and no compressed block is larger than `max_record`.
pub fn all_fit(codec: &str, blocks: &[Vec<Written>], max_record: u64) -> bool {
    let fits = |bytes: &[u8]| bytes.len() as u64 <= max_record;
    blocks.iter().all(|block| {
        block.iter().all(|written| fits(&written.bytes))
            && (codec == "null" || fits(&block_bytes(codec, block)))
    })
}

/// A setup for the test schema.
pub fn setup_with(max_record: u64, skip: bool) -> Setup {
    Setup { max_record, skip, ..setup(&[("fields", FIELDS)]) }
}

proptest! {
    #[test]
    fn written_records_are_read(
        codec in codec(),
        blocks in blocks(0..6),
        max_record in prop_oneof![1 => Just(64u64 << 20), 2 => 10_000u64..20_000],
        pieces in pieces(),
    ) {
        prop_assume!(all_fit(codec, &blocks, max_record));
        let (mut file, mut starts) = (header(SCHEMA, codec), Vec::new());
        for records in &blocks {
            let start = file.len();
            let bytes = block_bytes(codec, records);
            let mut at = start;
            if codec == "null" {
                let size: usize = records.iter().map(|record| record.bytes.len()).sum();
                at = start + bytes.len() - size - 16;
            }
            for record in records {
                starts.push(at as u64);
                at += if codec == "null" { record.bytes.len() } else { 0 };
            }
            file.extend(bytes);
        }
        let outcome = assert_any_split::<Avro>(&setup_with(max_record, false), &file, &pieces);
        prop_assert_eq!(outcome.errors, []);
        let records: Vec<_> = blocks.concat().into_iter().map(|written| written.record).collect();
        prop_assert_eq!(outcome.records, records);
        prop_assert_eq!(outcome.starts, starts);
    }

    /// A record that is larger than `max_record` ends its block.
    #[test]
    fn records_larger_than_max_record(
        codec in codec(),
        blocks in blocks(0..5),
        max_record in 60u64..1500,
        skip: bool,
        pieces in pieces(),
    ) {
        let file = file(codec, &blocks);
        let outcome = assert_any_split::<Avro>(&setup_with(max_record, skip), &file, &pieces);
        let fits = |written: &&Written| written.bytes.len() as u64 <= max_record;
        let mut records: Vec<Record> = Vec::new();
        for block in &blocks {
            let data: Vec<_> = block.iter().flat_map(|written| written.bytes.clone()).collect();
            // A compressed block must fit, too.
            let is_read = codec == "null" || compress(codec, &data).len() as u64 <= max_record;
            let count = if is_read { block.iter().take_while(fits).count() } else { 0 };
            records.extend(block[..count].iter().map(|written| written.record.clone()));
            if !skip && (!is_read || count < block.len()) {
                break;
            }
        }
        prop_assert_eq!(outcome.records, records);
    }

    #[test]
    fn files_that_are_cut_short(
        codec in codec(),
        blocks in blocks(0..5),
        at in any::<prop::sample::Index>(),
        max_record in prop_oneof![Just(64u64 << 20), 6_000u64..10_000],
        skip: bool,
        pieces in pieces(),
    ) {
        prop_assume!(all_fit(codec, &blocks, max_record));
        let file = file(codec, &blocks);
        let at = at.index(file.len());
        let outcome = assert_any_split::<Avro>(&setup_with(max_record, skip), &file[..at], &pieces);
        let mut sound = Vec::new();
        let mut end = header(SCHEMA, codec).len();
        let mut ends_well = at == 0 || at == end;
        for block in &blocks {
            let start = end;
            end += block_bytes(codec, block).len();
            ends_well |= at == end;
            let size: usize = block.iter().map(|record| record.bytes.len()).sum();
            let mut place = if codec == "null" { end - 16 - size } else { end };
            for written in block {
                place += written.bytes.len();
                // In a large block without compression, a record is read as soon as the byte after
                // it has arrived.
                let is_large = codec == "null" && size as u64 > max_record;
                if end <= at || is_large && place < at && start + 18 <= at {
                    sound.push(written.record.clone());
                }
            }
        }
        prop_assert_eq!(outcome.records, sound);
        prop_assert_eq!(outcome.errors.is_empty(), ends_well);
    }
}
