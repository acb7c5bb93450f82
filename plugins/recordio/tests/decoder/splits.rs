//! Every split gives the same records, and damage loses no record before it.

use pipemill_plugin::testing::{Outcome, Record, Setup, assert_any_split, decode_split};
use pipemill_recordio::RecordIo;
use proptest::prelude::*;

use crate::write;
use pipemill_parsing::testing::RECORDIO_MAGIC;

/// A file in one of the two dialects. Each record has its start and end.
#[derive(Debug, Clone)]
struct File {
    setup: Setup,
    bytes: Vec<u8>,
    records: Vec<(usize, usize, Vec<u8>)>,
}

fn file(records: usize) -> impl Strategy<Value = File> {
    let sizes = prop::collection::vec(0usize..40, 0..4);
    let record = (write::payload(), sizes);
    (any::<bool>(), prop::collection::vec(record, 0..records)).prop_map(|(dmlc, drawn)| {
        let setup = Setup::new(&[("multipart", if dmlc { "dmlc" } else { "concat" })]);
        let mut file = File { setup, bytes: Vec::new(), records: Vec::new() };
        for (payload, sizes) in drawn {
            let start = file.bytes.len();
            if dmlc {
                write::dmlc(&mut file.bytes, &payload);
            } else {
                write::concat(&mut file.bytes, &payload, &sizes);
            }
            file.records.push((start, file.bytes.len(), payload));
        }
        file
    })
}

fn pieces() -> impl Strategy<Value = Vec<usize>> {
    let piece = prop_oneof![4 => 1usize..12, 2 => 1usize..200, 1 => 200usize..3000];
    prop::collection::vec(piece, 0..60)
}

fn as_record(payload: &[u8]) -> Record {
    vec![Some(payload.to_vec())]
}

/// Asserts that the records before `place` come first, unchanged.
fn assert_intact_before(place: usize, file: &File, outcome: &Outcome) {
    let before = file.records.iter().take_while(|(_, end, _)| *end <= place);
    for (index, (start, _, payload)) in before.enumerate() {
        assert_eq!(outcome.records.get(index), Some(&as_record(payload)), "record {index}");
        assert_eq!(outcome.starts[index], *start as u64);
    }
}

proptest! {
    #[test]
    fn written_records_are_read(file in file(40), pieces in pieces()) {
        let outcome = assert_any_split::<RecordIo>(&file.setup, &file.bytes, &pieces);
        prop_assert_eq!(outcome.errors, []);
        let starts: Vec<_> = file.records.iter().map(|(start, ..)| *start as u64).collect();
        prop_assert_eq!(outcome.starts, starts);
        let records: Vec<_> = file.records.iter().map(|(.., data)| as_record(data)).collect();
        prop_assert_eq!(outcome.records, records);
    }

    #[test]
    fn every_split_of_a_small_file(file in file(4)) {
        let ones = vec![1; file.bytes.len()];
        let whole = assert_any_split::<RecordIo>(&file.setup, &file.bytes, &ones);
        let length = file.bytes.len();
        for split in (1..length).step_by(1 + length / 300) {
            prop_assert_eq!(&whole, &decode_split::<RecordIo>(&file.setup, &file.bytes, &[split]));
        }
    }

    #[test]
    fn damaged_files(
        file in file(20),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..4),
        max_record in prop_oneof![Just(64u64 << 20), 0u64..200],
        pieces in pieces(),
        skip in any::<bool>(),
    ) {
        prop_assume!(!file.bytes.is_empty());
        let mut bytes = file.bytes.clone();
        let mut first = bytes.len();
        for (place, flip) in flips {
            let place = place.index(bytes.len());
            bytes[place] ^= flip;
            first = first.min(place);
        }
        let setup = Setup { skip, max_record, ..file.setup.clone() };
        let outcome = assert_any_split::<RecordIo>(&setup, &bytes, &pieces);
        if max_record > bytes.len() as u64 {
            assert_intact_before(first, &file, &outcome);
        }
    }

    #[test]
    fn cut_short(file in file(12), cut in any::<prop::sample::Index>(), skip in any::<bool>()) {
        let cut = cut.index(file.bytes.len() + 1);
        let setup = Setup { skip, ..file.setup.clone() };
        let ones = vec![1; cut];
        let outcome = assert_any_split::<RecordIo>(&setup, &file.bytes[..cut], &ones);
        assert_intact_before(cut, &file, &outcome);
        let whole = file.records.iter().filter(|(_, end, _)| *end <= cut).count();
        prop_assert_eq!(outcome.records.len(), whole);
        let at_a_seam = cut == 0 || file.records.iter().any(|(_, end, _)| *end == cut);
        prop_assert_eq!(outcome.errors.is_empty(), at_a_seam);
    }

    #[test]
    fn any_words(
        words in prop::collection::vec(
            prop_oneof![Just(RECORDIO_MAGIC), any::<[u8; 4]>(), (0u8..8, 0u8..32).prop_map(|(f, n)| [n, 0, 0, f << 5])],
            0..60,
        ),
        tail in prop::collection::vec(any::<u8>(), 0..4),
        dialect in prop_oneof![Just("dmlc"), Just("concat")],
        max_record in 0u64..64,
        pieces in pieces(),
    ) {
        let bytes = [words.concat(), tail].concat();
        let setup = Setup { max_record, ..Setup::new(&[("multipart", dialect)]).skipping() };
        let outcome = assert_any_split::<RecordIo>(&setup, &bytes, &pieces);
        // No offset has both a record and an error.
        let mut places: Vec<u64> = outcome.errors.iter().map(|(at, ..)| *at).collect();
        places.extend(&outcome.starts);
        places.sort_unstable();
        let before = places.len();
        places.dedup();
        prop_assert_eq!(places.len(), before, "a place is both good and bad");
    }
}
