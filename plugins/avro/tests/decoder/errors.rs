//! The messages of errors, and the bytes that are skipped after each.

use pipemill_plugin::testing::{Outcome, Setup};

use crate::write::{SYNC, block, header, items, long, one_block, string};
use crate::{field, outcome, record, setup};

/// The outcome of a file whose block has this data and this number of records in its head, and that
/// continues with a good block of a record `"after"`. The error's place counts from the start of
/// the block.
fn bad_block(of: &str, records: i64, data: &[u8]) -> (usize, (usize, usize), String) {
    let schema = record(&field("x", of));
    let start = header(&schema, "null").len();
    let bad = block("null", records, data);
    let file = [header(&schema, "null"), bad, block("null", 0, b"")].concat();
    let outcome = outcome(&setup(&[]).skipping(), &file);
    let [(offset, skipped, message)] = &outcome.errors[..] else { panic!("{:?}", outcome.errors) };
    let place = (*offset as usize - start, (offset + skipped) as usize - start);
    (outcome.records.len(), place, message.clone())
}

/// The errors when errors are skipped, and the number of records.
fn skipping(file: &[u8]) -> (usize, Vec<(u64, u64, String)>) {
    let Outcome { records, errors, .. } = outcome(&setup(&[]).skipping(), file);
    (records.len(), errors)
}

#[test]
fn values_that_are_not_valid() {
    let of_enum = r#"{"type": "enum", "name": "e", "symbols": ["a", "b", "c"]}"#;
    let list = r#"{"type": "array", "items": "string"}"#;
    let int_max = [0xff, 0xff, 0xff, 0xff, 0x1f];
    for (of, data, at, problem) in [
        ("\"boolean\"", vec![2], 0, "expected a boolean, 00 or 01, found byte 02"),
        (
            "\"int\"",
            int_max.to_vec(),
            0,
            "expected a varint of at most 32 bits, found a longer one",
        ),
        ("\"long\"", vec![0xff; 11], 0, "expected a varint of at most 64 bits, found a longer one"),
        ("\"bytes\"", long(-1), 0, "expected a size from 0 on, found -1"),
        ("\"string\"", string(b"ab\xc3"), 3, "expected UTF-8, found byte c3"),
        (of_enum, long(3), 0, "expected a symbol of an enum, 0 to 2, found 3"),
        (of_enum, long(-1), 0, "expected a symbol of an enum, 0 to 2, found -1"),
        (r#"["null", "int"]"#, long(2), 0, "expected a branch of a union, 0 to 1, found 2"),
        (r#"["int"]"#, long(1), 0, "expected branch 0 of a union, found 1"),
        (list, [long(1), string(b"\xff")].concat(), 2, "expected UTF-8, found byte ff"),
        (
            list,
            [long(-1), long(5), string("ab"), vec![0; 9]].concat(),
            2,
            "expected items of 5 bytes, as their block says, found 3 bytes",
        ),
        (
            list,
            [long(i64::MIN), vec![0; 9]].concat(),
            0,
            "expected a size from 0 on, found -9223372036854775808",
        ),
        (
            r#"{"type": "array", "items": "boolean"}"#,
            items(&[vec![1], vec![0], vec![7]], 9, false),
            3,
            "expected a boolean, 00 or 01, found byte 07",
        ),
    ] {
        let size = data.len();
        let (records, place, message) = bad_block(of, 1, &data);
        let wanted = format!("record 1 of the block's 1, at +{at}, field `x`: {problem}");
        assert_eq!((records, message), (0, wanted), "{of}");
        // The block is skipped, with its head and marker.
        let head = 1 + long(size as i64).len();
        assert_eq!(place, (0, head + size + SYNC.len()), "{of}");
    }
    for (of, data) in [
        ("\"string\"", long(3)),
        ("\"string\"", [long(4), b"abc".to_vec()].concat()),
        ("\"double\"", vec![0; 7]),
        ("\"long\"", vec![0x80]),
        (r#"{"type": "array", "items": "double"}"#, [long(i64::MAX), vec![0; 8]].concat()),
        (r#"{"type": "array", "items": "int"}"#, [long(i64::MAX), vec![0; 8]].concat()),
        (list, [long(-3), long(100), vec![0; 8]].concat()),
    ] {
        let (records, _, message) = bad_block(of, 1, &data);
        assert!(message.starts_with("record 1 of the block's 1, at +"), "{message}");
        let wanted = "field `x`: its value goes on after the end of the block";
        assert!(records == 0 && message.ends_with(wanted), "{message}");
    }
}

#[test]
fn other_numbers_of_records() {
    for codec in ["null", "deflate"] {
        let schema = record(&field("x", "\"int\""));
        let head = header(&schema, codec);
        let file = |records| {
            let good = block(codec, 1, &long(9));
            [head.clone(), block(codec, records, &[2, 4, 6]), good].concat()
        };
        let (records, errors) = skipping(&file(4));
        assert_eq!((records, errors.len()), (4, 1), "{errors:?}");
        assert_eq!(errors[0].2, "expected record 4 of the block's 4, found the end of the block");
        let (records, errors) = skipping(&file(2));
        assert_eq!((records, errors.len()), (3, 1), "{errors:?}");
        assert_eq!(
            errors[0].2,
            "expected the end of a block after its 2 records, found more bytes"
        );
    }
}

#[test]
fn heads_that_are_not_valid() {
    let schema = record(&field("x", "\"int\""));
    let good = block("null", 1, &long(9));
    for (head, message) in [
        (
            [long(-3), long(2)].concat(),
            "expected a block, found one of -3 records and 2 bytes; the file is damaged here or before",
        ),
        (
            [long(3), long(-2)].concat(),
            "expected a block, found one of 3 records and -2 bytes; the file is damaged here or before",
        ),
        (
            vec![0xff; 12],
            "expected a block, found at +0: expected a varint of at most 64 bits, found a longer one",
        ),
    ] {
        let file = [&header(&schema, "null")[..], &head, &[0; 20], &SYNC, &good].concat();
        let (records, errors) = skipping(&file);
        assert_eq!((records, errors.len()), (1, 1), "{errors:?}");
        assert_eq!(errors[0].2, message);
    }
}

#[test]
fn markers_that_are_damaged() {
    let schema = record(&field("x", "\"int\""));
    for (codec, of_two) in [("null", 3), ("snappy", 2)] {
        let head = header(&schema, codec);
        let one = |number: i64| block(codec, 1, &long(number));
        let file = [head.clone(), one(1), one(2), one(3)].concat();
        let marker = head.len() + one(1).len() - SYNC.len();
        // Half of it is intact: the block after it is read.
        let mut damaged = file.clone();
        damaged[marker..marker + 8].fill(b'?');
        let (records, errors) = skipping(&damaged);
        assert_eq!((records, errors.len()), (of_two, 1), "{errors:?}");
        assert_eq!(
            errors[0].2,
            "expected the file's sync marker 3c2d2d207468652073796e63202d2d3e after a block, found \
             3f3f3f3f3f3f3f3f73796e63202d2d3e; the block's size or the marker is damaged"
        );
        // Nothing of it is intact: the block after it is lost, too.
        damaged[marker..marker + 16].fill(b'?');
        let (records, errors) = skipping(&damaged);
        assert_eq!((records, errors.len()), (1, 1), "{errors:?}");
    }
}

#[test]
fn blocks_that_can_not_be_decompressed() {
    let schema = record(&field("x", "\"int\""));
    for (codec, why) in [
        ("deflate", "the deflate data is"),
        ("snappy", "the snappy data is"),
        ("zstandard", "the zstd data is"),
    ] {
        let head = header(&schema, codec);
        let bad = [&long(2)[..], &string([0xff; 9]), &SYNC].concat();
        let file =
            [head.clone(), block(codec, 1, &long(1)), bad.clone(), block(codec, 1, &long(3))];
        let (records, errors) = skipping(&file.concat());
        assert_eq!((records, errors.len()), (2, 1), "{errors:?}");
        assert_eq!(errors[0].1, bad.len() as u64);
        let start =
            format!("record 1 of the block's 2 and those after it can't be decompressed: {why}");
        assert!(errors[0].2.starts_with(&start), "{:?}", errors[0].2);
    }
    let file = [&header(&schema, "snappy")[..], &long(1), &string("abc"), &SYNC].concat();
    let (_, errors) = skipping(&file);
    assert_eq!(
        errors[0].2,
        "expected a snappy block, which ends with a checksum of 4 bytes, found 3 bytes"
    );
}

#[test]
fn what_is_larger_than_max_record() {
    let schema = record(&[field("text", "\"string\""), field("x", "\"int\"")].join(","));
    let one = |size: usize| [string("a".repeat(size)), long(5)].concat();
    let small = Setup { max_record: 100, ..setup(&[]).skipping() };
    for (codec, read) in [("null", 3), ("deflate", 3)] {
        let blocks = [
            block(codec, 3, &[one(10), one(97), one(10)].concat()),
            block(codec, 3, &[one(10), one(98), one(10)].concat()),
        ];
        let file = [header(&schema, codec), blocks.concat()].concat();
        let outcome = outcome(&small, &file);
        assert_eq!((outcome.records.len(), outcome.errors.len()), (read + 1, 1));
        assert_eq!(
            outcome.errors[0].2,
            "record 2 of the block's 3 is larger than max_record (100 bytes), which its field `x` \
             exceeds; raise max_record if records may be that large"
        );
    }
    let noise: Vec<u8> = (0..200u32).map(|number| (number * number % 251) as u8 & 0x7f).collect();
    let large = block("deflate", 4, &[string(&noise), long(1)].concat());
    let file = [header(&schema, "deflate"), large, block("deflate", 1, &one(1))].concat();
    let outcome = outcome(&small, &file);
    assert_eq!((outcome.records.len(), outcome.errors.len()), (1, 1));
    let message = &outcome.errors[0].2;
    assert!(message.starts_with("a compressed block of "), "{message}");
    assert!(message.contains("bytes is larger than max_record (100 bytes); raise"), "{message}");
}

#[test]
fn files_that_end_too_early() {
    let schema = record(&field("x", "\"string\""));
    let inside =
        "the file ends inside a block, in record 1 of the block's 2 or after it; it was cut short";
    for codec in ["null", "deflate"] {
        let head = header(&schema, codec);
        let two = block(codec, 2, &[string("abc"), string("defg".repeat(9))].concat());
        let file = [head.clone(), two.clone(), two.clone()].concat();
        for (size, message) in [
            (1, "expected a block, found the end of the file after 1 bytes; it was cut short"),
            (17, "expected a block, found the end of the file after 17 bytes; it was cut short"),
            (18, inside),
            (two.len() - 1, inside),
        ] {
            let end = head.len() + two.len() + size;
            let (records, errors) = skipping(&file[..end]);
            let skipped = (head.len() + two.len()) as u64;
            assert_eq!(records, 2);
            assert_eq!(errors, [(skipped, size as u64, message.to_owned())]);
        }
    }
    // A block that is not small is read before it is completely in the chunk.
    let setup = Setup { max_record: 100, ..setup(&[]).skipping() };
    let three = block("null", 3, &string("x".repeat(70)).repeat(3));
    let file = [header(&schema, "null"), three].concat();
    for (missing, records, message) in [
        (100, 1, inside.replace("record 1 of the block's 2", "record 2 of the block's 3")),
        (17, 2, inside.replace("record 1 of the block's 2", "record 3 of the block's 3")),
        (16, 2, inside.replace("record 1 of the block's 2", "record 3 of the block's 3")),
        (
            15,
            3,
            "expected a sync marker of 16 bytes after a block, found the end of the file after 1 bytes; \
             it was cut short"
                .to_owned(),
        ),
    ] {
        let outcome = outcome(&setup, &file[..file.len() - missing]);
        assert_eq!((outcome.records.len(), outcome.errors.len()), (records, 1));
        assert_eq!(outcome.errors[0].2, message);
    }
}

/// A size that is too large hides the blocks after it only until the input ends.
#[test]
fn a_damaged_size_at_the_end() {
    let schema = record(&field("x", "\"int\""));
    for codec in ["null", "deflate"] {
        for size in [100, 100_000, 1 << 25] {
            let good = block(codec, 1, &long(9));
            let mut bad = block(codec, 1, &long(9));
            bad.splice(1..2, long(size));
            let file = [header(&schema, codec), good.clone(), bad, good.clone(), good].concat();
            let (records, errors) = skipping(&file);
            // The record of a block that is not small is read before the end of the block.
            let wanted = if codec == "null" && size == 1 << 25 { 4 } else { 3 };
            assert_eq!((records, errors.len()), (wanted, 1), "{errors:?}");
        }
    }
}

#[test]
fn a_file_is_read_to_its_first_error_unless_errors_are_skipped() {
    let schema = record(&field("x", "\"boolean\""));
    let file = one_block(&schema, "null", &[vec![1], vec![5], vec![0]]);
    let outcome = outcome(&setup(&[]), &file);
    assert_eq!((outcome.records.len(), outcome.errors.len(), outcome.refused), (1, 1, false));
}
