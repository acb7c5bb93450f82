//! Blocks that are large once they are decompressed: they are read in parts.

use pipemill_avro::Avro;
use pipemill_plugin::testing::{Outcome, Record, Setup, assert_any_split, decode_whole};

use crate::write::{CODECS, SYNC, block, file, header, long, one_block, string};
use crate::{at_once, field, record, setup};

const PACKED: [&str; 3] = ["deflate", "snappy", "zstandard"];

/// The first field of each record, which is text.
fn texts(outcome: &Outcome) -> Vec<&str> {
    fn text(record: &Record) -> &str {
        str::from_utf8(record[0].as_deref().expect("not nullable")).expect("the decoder checked it")
    }
    outcome.records.iter().map(text).collect()
}

/// 100,000 records that compress to almost nothing, in one block.
#[test]
fn a_block_of_many_small_records() {
    let schema = record(&field("n", "\"int\""));
    let data: Vec<_> = (0..100_000).flat_map(|number| long(number % 3)).collect();
    for codec in CODECS {
        let file = file(&schema, codec, &[(100_000, data.clone()), (1, long(7))]);
        let outcome = assert_any_split::<Avro>(&setup(&[]), &file, &[100, 1000]);
        assert_eq!(outcome.errors, []);
        assert_eq!(outcome.records.len(), 100_001);
        let numbers = outcome.records.iter().map(|record| record[0].as_ref().unwrap()[0]);
        assert!(numbers.take(100_000).eq((0..100_000u32).map(|number| (number % 3) as u8)));
    }
}

/// Records that are larger than a part: the part grows.
#[test]
fn records_larger_than_a_part() {
    let schema = record(&field("text", "\"string\""));
    let sizes = [10, 300_000, 20, 20_000, 1 << 20, 0, 70_000];
    let wanted: Vec<_> = sizes.iter().map(|size| "äb".repeat(*size / 3)).collect();
    let records: Vec<_> = wanted.iter().map(string).collect();
    for codec in CODECS {
        let file = one_block(&schema, codec, &records);
        let outcome = assert_any_split::<Avro>(&setup(&[]), &file, &[100]);
        assert_eq!(outcome.errors, []);
        assert_eq!(texts(&outcome), wanted, "{codec}");
    }
    // An array shows its size late.
    let schema = record(&field("list", r#"{"type": "array", "items": "string"}"#));
    let elements = vec![string("abc"); 200_000];
    let file = one_block(&schema, "deflate", &[crate::write::items(&elements, 1000, false)]);
    let outcome = at_once(&[], &file);
    assert_eq!(outcome.errors, []);
    assert_eq!(outcome.records[0][0].as_ref().unwrap().len(), 4 + 200_000 * 7);
}

/// With a small `max_record`, parts are small, and calls end after some of them.
#[test]
fn parts_of_any_size() {
    let schema = record(&[field("text", "\"string\""), field("n", "\"long\"")].join(","));
    let all: Vec<_> = (0..300)
        .map(|number| [string("x".repeat(number % 70)), long(number as i64)].concat())
        .collect();
    for codec in CODECS {
        let file = one_block(&schema, codec, &all);
        for max_record in (100..4000).step_by(190) {
            let setup = Setup { max_record, ..setup(&[]) };
            let outcome = decode_whole::<Avro>(&setup, &file);
            if codec != "null" && max_record < 2000 && !outcome.errors.is_empty() {
                assert!(outcome.errors[0].2.contains("compressed block"), "{:?}", outcome.errors);
                continue;
            }
            assert_eq!(outcome.errors, [], "{codec}, {max_record}");
            let lengths = outcome.records.iter().map(|record| record[0].as_ref().unwrap().len());
            assert!(lengths.eq((0..300).map(|number| number % 70)), "{codec}, {max_record}");
        }
    }
}

/// The records before an error in a block stay, and so do those of other blocks.
#[test]
fn errors_in_the_middle_of_a_block() {
    let schema = record(&field("text", "\"string\""));
    let good: Vec<_> = (0..2000).map(|number| string(format!("text {number}"))).collect();
    let mut bad = good.clone();
    bad[1500] = string(b"not \xff text");
    for codec in CODECS {
        let block = |records: &[Vec<u8>]| block(codec, 2000, &records.concat());
        let start = header(&schema, codec).len();
        let file = [header(&schema, codec), block(&bad), block(&good)].concat();
        for max_record in [64 << 20, 30_000] {
            let setup = Setup { max_record, ..setup(&[]).skipping() };
            let outcome = assert_any_split::<Avro>(&setup, &file, &[50, 3, 9000]);
            assert_eq!(outcome.records.len(), 3500, "{codec}");
            let [(offset, skipped, message)] = &outcome.errors[..] else {
                panic!("{:?}", outcome.errors)
            };
            let wanted = "record 1501 of the block's 2000, at +5, field `text`: expected UTF-8, found \
                          byte ff";
            assert_eq!(message, wanted);
            let end = (start + block(&bad).len()) as u64;
            assert_eq!(offset + skipped, end, "{codec}");
            if codec != "null" {
                assert_eq!(*offset, start as u64);
            }
        }
    }
}

/// A wrong checksum hides all records of its block.
#[test]
fn checksums_of_snappy_blocks() {
    let schema = record(&field("text", "\"string\""));
    // Blocks of one part, and of several.
    for size in [10, 100_000, 3 << 20] {
        let data = string("a".repeat(size));
        let mut bad = block("snappy", 1, &data);
        let at = bad.len() - SYNC.len() - 1;
        bad[at] ^= 1;
        let file = [header(&schema, "snappy"), block("snappy", 1, &data), bad].concat();
        let outcome = assert_any_split::<Avro>(&setup(&[]).skipping(), &file, &[1000]);
        assert_eq!((outcome.records.len(), outcome.errors.len()), (1, 1), "{size}");
        let message = &outcome.errors[0].2;
        let crc = pipemill_plugin::testing::crc32(&data) ^ 1;
        assert_eq!(
            *message,
            format!(
                "record 1 of the block's 1 and those after it can't be decompressed: expected bytes \
                 with the CRC-32 {crc:08x}, found others; the block is damaged"
            )
        );
    }
}

/// A part of a block counts as one call, whatever its records cost.
#[test]
fn many_fields_in_few_bytes() {
    let nulls: Vec<_> = (0..300).map(|number| field(&format!("n{number}"), "\"null\"")).collect();
    let schema = record(&[&nulls[..], &[field("x", "\"boolean\"")]].concat().join(","));
    let data = vec![1; 3000];
    for codec in PACKED.iter().chain(&["null"]) {
        let file = file(&schema, codec, &[(3000, data.clone())]);
        let outcome = at_once(&[], &file);
        assert_eq!((outcome.records.len(), outcome.errors.len()), (3000, 0));
    }
}
