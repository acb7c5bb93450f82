//! Every split gives the same records. Damage loses no record before it, and makes no record that
//! was never written.

use pipemill_parsing::testing::write_tfrecord;
use pipemill_plugin::testing::{Record, Setup, assert_any_split, decode_split};
use pipemill_tfrecord::TfRecord;
use proptest::prelude::*;

/// The bytes of a file, and each record with its start and end.
#[derive(Debug, Clone)]
struct File {
    bytes: Vec<u8>,
    records: Vec<(usize, usize, Record)>,
}

fn file(records: usize) -> impl Strategy<Value = File> {
    let payload = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..24),
        1 => prop::collection::vec(any::<u8>(), 0..600),
        // Records inside a record: after damage they must not be read as records.
        1 => prop::collection::vec(any::<u8>(), 0..24).prop_map(|inner| {
            let mut nested = Vec::new();
            write_tfrecord(&mut nested, &inner);
            write_tfrecord(&mut nested, &inner);
            nested
        }),
    ];
    prop::collection::vec(payload, 0..records).prop_map(|payloads| {
        let mut file = File { bytes: Vec::new(), records: Vec::new() };
        for payload in payloads {
            let start = file.bytes.len();
            write_tfrecord(&mut file.bytes, &payload);
            file.records.push((start, file.bytes.len(), vec![Some(payload)]));
        }
        file
    })
}

fn pieces() -> impl Strategy<Value = Vec<usize>> {
    let piece = prop_oneof![4 => 1usize..20, 2 => 1usize..200, 1 => 200usize..3000];
    prop::collection::vec(piece, 0..60)
}

fn setup(verify: bool, skip: bool) -> Setup {
    Setup { skip, ..Setup::new(&[("verify", if verify { "true" } else { "false" })]) }
}

proptest! {
    #[test]
    fn written_records_are_read(file in file(40), pieces in pieces(), verify in any::<bool>()) {
        let outcome = assert_any_split::<TfRecord>(&setup(verify, false), &file.bytes, &pieces);
        prop_assert_eq!(outcome.errors, []);
        let starts: Vec<_> = file.records.iter().map(|(start, ..)| *start as u64).collect();
        prop_assert_eq!(outcome.starts, starts);
        let records: Vec<_> = file.records.into_iter().map(|(.., record)| record).collect();
        prop_assert_eq!(outcome.records, records);
    }

    #[test]
    fn every_split_of_a_small_file(file in file(4), verify in any::<bool>()) {
        let setup = setup(verify, false);
        let length = file.bytes.len();
        let whole = assert_any_split::<TfRecord>(&setup, &file.bytes, &vec![1; length]);
        for split in (1..length).step_by(1 + length / 300) {
            prop_assert_eq!(&whole, &decode_split::<TfRecord>(&setup, &file.bytes, &[split]));
        }
    }

    #[test]
    fn damaged_files(
        file in file(20),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..4),
        max_record in prop_oneof![Just(64u64 << 20), 0u64..100],
        pieces in pieces(),
        verify in any::<bool>(),
        skip in any::<bool>(),
    ) {
        prop_assume!(!file.bytes.is_empty());
        let mut bytes = file.bytes.clone();
        for (place, flip) in flips {
            let place = place.index(bytes.len());
            bytes[place] ^= flip;
        }
        let first = bytes.iter().zip(&file.bytes).position(|(a, b)| a != b);
        let setup = Setup { max_record, ..setup(verify, skip) };
        let outcome = assert_any_split::<TfRecord>(&setup, &bytes, &pieces);
        if max_record > bytes.len() as u64 {
            let first = first.unwrap_or(bytes.len());
            let before = file.records.iter().take_while(|(_, end, _)| *end <= first);
            for (index, (.., record)) in before.enumerate() {
                prop_assert_eq!(outcome.records.get(index), Some(record));
            }
        }
        if verify {
            for (start, record) in outcome.starts.iter().zip(&outcome.records) {
                let written = file.records.iter().find(|(from, ..)| *from as u64 == *start);
                prop_assert_eq!(written.map(|(.., record)| record), Some(record), "invented");
            }
        }
    }

    #[test]
    fn cut_short(file in file(12), cut in any::<prop::sample::Index>(), skip in any::<bool>()) {
        let cut = cut.index(file.bytes.len() + 1);
        let outcome =
            assert_any_split::<TfRecord>(&setup(true, skip), &file.bytes[..cut], &vec![1; cut]);
        let whole: Vec<_> = file.records.iter().filter(|(_, end, _)| *end <= cut).collect();
        let records: Vec<_> = whole.iter().map(|(.., record)| record.clone()).collect();
        prop_assert_eq!(outcome.records, records);
        let at_a_seam = whole.last().map_or(0, |(_, end, _)| *end) == cut;
        prop_assert_eq!(outcome.errors.is_empty(), at_a_seam);
    }

    #[test]
    fn any_bytes(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        zeros in 0usize..40,
        pieces in pieces(),
        verify in any::<bool>(),
    ) {
        // The length begins with zeros, because random bytes rarely give a small length.
        let bytes = [vec![0; zeros], bytes].concat();
        let outcome = assert_any_split::<TfRecord>(&setup(verify, true), &bytes, &pieces);
        if verify {
            prop_assert_eq!(outcome.records, Vec::<Record>::new());
        }
    }
}

/// One chunk has more records than a batch, with damage on both sides of the end of a batch.
#[test]
fn damage_around_the_end_of_a_batch() {
    let mut file = Vec::new();
    for number in 0..5000u32 {
        write_tfrecord(&mut file, &number.to_le_bytes());
    }
    let whole = assert_any_split::<TfRecord>(&setup(true, false), &file, &[50_000, 30_000]);
    assert_eq!(whole.records.len(), 5000);
    assert_eq!(whole.errors, []);
    for bad in [0, 2046, 2047, 2048, 2049, 4095, 4096, 4999] {
        let mut damaged = file.clone();
        damaged[bad * 20 + 12] ^= 1;
        let outcome = assert_any_split::<TfRecord>(&setup(true, true), &damaged, &[50_000]);
        let mut wanted = whole.records.clone();
        wanted.remove(bad);
        assert!(outcome.records == wanted, "record {bad}");
        assert_eq!(outcome.errors.len(), 1);
        assert_eq!(outcome.errors[0].0, bad as u64 * 20);
    }
}
