//! A damaged file never gives a wrong record, and loses only what is damaged.

use pipemill_array_record::ArrayRecord;
use pipemill_plugin::testing::{Setup, assert_any_split, decode_whole};
use proptest::prelude::*;

use crate::splits::{file_of, parts};
use crate::write::{File, simple, varint};
use crate::{bad, payloads, setup};

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_byte_costs_its_chunk_or_nothing(
        parts in parts(),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u32,
        pieces in prop::collection::vec(prop_oneof![1_usize..90, 1_usize..70_000], 0..20),
    ) {
        let (mut file, records) = file_of(&parts);
        let at = at.index(file.bytes.len());
        file.bytes[at] ^= 1 << bit;
        let outcome = assert_any_split::<ArrayRecord>(&setup().skipping(), &file.bytes, &pieces);
        let found = payloads(&outcome);
        let mut left = records.iter();
        prop_assert!(found.iter().all(|one| left.any(|other| other == one)), "no other record");
        prop_assert!(!outcome.errors.is_empty() || found == records, "none is lost silently");
        // Damage in data costs the records of the chunk.
        let chunk = file.chunks.iter().rposition(|begin| *begin <= at).unwrap_or(0);
        let lost = records.len() - found.len();
        if at - file.chunks[chunk] >= 64 {
            prop_assert!(lost <= file.records[chunk]);
        }
    }

    #[test]
    fn a_file_that_is_cut_short_has_the_records_before(
        parts in parts(),
        at in any::<prop::sample::Index>(),
        pieces in prop::collection::vec(prop_oneof![1_usize..90, 1_usize..70_000], 0..20),
    ) {
        let (mut file, records) = file_of(&parts);
        file.bytes.truncate(at.index(file.bytes.len()));
        let outcome = assert_any_split::<ArrayRecord>(&setup(), &file.bytes, &pieces);
        let is_whole = file.bytes.is_empty() || file.chunks.contains(&file.bytes.len());
        prop_assert_eq!(outcome.errors.is_empty(), is_whole, "{:?}", outcome.errors);
        prop_assert!(records.starts_with(&payloads(&outcome)));
    }
}

/// Two chunks of a record each, with a chunk between them.
fn with_chunk(add: impl Fn(&mut File)) -> File {
    let mut file = File::new();
    file.records(0, &[b"before".to_vec()]);
    add(&mut file);
    file.records(0, &[b"after".to_vec()]);
    file
}

#[test]
fn what_is_in_a_chunk_must_fit_its_header() {
    let sizes = [varint(2), varint(3)].concat();
    let data = simple(0, &sizes, b"abcde");
    for (data, records, values, expected) in [
        (&data[..], 3, 5, "expected 3 records of 5 bytes, found 2 sizes of 5 bytes"),
        (&data[..], 2, 6, "expected 2 records of 6 bytes, found 2 sizes of 5 bytes"),
        (&data[..4], 2, 5, "expected 5 bytes of values, found 0"),
        (&data[..3], 2, 5, "expected the length of the sizes"),
        (&[], 2, 5, "expected data, found none"),
        (&[0, 1, 0x80], 1, 0, "found no number"),
        (b"z\x01\x02", 2, 5, "can't"),
        (&simple(b'z', &sizes, b"abcd"), 2, 5, "expected 5 bytes of values, found 4"),
    ] {
        let file = with_chunk(|file| file.chunk(b'r', data, records, values));
        let (found, why) = bad(&file.bytes);
        assert_eq!(found, [b"before"]);
        if expected != "can't" {
            assert!(why.contains(expected), "{why}");
        }
        let skipped = decode_whole::<ArrayRecord>(&setup().skipping(), &file.bytes);
        assert_eq!(payloads(&skipped), [b"before".to_vec(), b"after".to_vec()]);
        let begin = file.chunks[2] as u64;
        let length = file.chunks[3] as u64 - begin;
        assert_eq!((skipped.errors[0].0, skipped.errors[0].1), (begin, length));
    }
}

#[test]
fn what_is_not_known_is_refused() {
    let data = simple(0, &varint(1), b"x");
    let other = [&b"?"[..], &data[1..]].concat();
    for (kind, data, expected) in
        [(b'r', &other, "the chunk's compression is `?`"), (b'?', &data, "is `?`")]
    {
        let file = with_chunk(|file| file.chunk(kind, data, 1, 1));
        let outcome = decode_whole::<ArrayRecord>(&setup().skipping(), &file.bytes);
        assert!(outcome.refused && outcome.errors[0].2.contains(expected), "{:?}", outcome.errors);
    }
    let (found, why) =
        bad(b"PAR1\x15\x04\x15\x10\x15\x14\x4c\x15\x02 and more bytes than a header has");
    assert!(found.is_empty() && why.contains("a Parquet file"), "{why}");
    let (found, why) = bad(&[7; 100]);
    assert!(found.is_empty() && why.contains("the signature of an ArrayRecord"), "{why}");
}

#[test]
fn large_records_and_chunks_are_errors() {
    let small = || Setup { max_record: 1000, ..setup().skipping() };
    let large = [b"one".to_vec(), vec![1; 1001], b"three".to_vec()];
    for (codec, expected, kept) in [
        (0, "raise max_record, or write the file", &[][..]),
        (b'z', "record 1 of the chunk", &["one"]),
    ] {
        let file = with_chunk(|file| file.records(codec, &large));
        let outcome = decode_whole::<ArrayRecord>(&small(), &file.bytes);
        let kept: Vec<_> = [&["before"], kept, &["after"]].concat();
        assert_eq!(payloads(&outcome), kept.iter().map(|it| it.as_bytes()).collect::<Vec<_>>());
        assert!(outcome.errors[0].2.contains(expected), "{:?}", outcome.errors);
    }
}
