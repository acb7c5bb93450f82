//! The search for a record from any position: it finds the next one, and is not misled by records
//! inside others.

use pipemill_parsing::testing::write_tfrecord;
use pipemill_plugin::{Decoder, Options, Resync, StreamInfo};
use pipemill_tfrecord::TfRecord;
use proptest::prelude::*;

/// A search in these bytes; `end` says that no others follow.
fn search(bytes: &[u8], end: bool, max_record: u64) -> Resync {
    let options = Options::new(&TfRecord::options(), &[]).expect("the defaults");
    let info = StreamInfo { max_record, ..StreamInfo::default() };
    TfRecord::open(&options, &info).expect("it opens").resync(bytes, end)
}

/// A file, and the positions at which its records start.
fn file(payloads: &[Vec<u8>]) -> (Vec<u8>, Vec<usize>) {
    let (mut file, mut starts) = (Vec::new(), Vec::new());
    for payload in payloads {
        starts.push(file.len());
        write_tfrecord(&mut file, payload);
    }
    (file, starts)
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    let plain = || prop::collection::vec(prop_oneof![Just(0), any::<u8>()], 0..60);
    let nested = prop::collection::vec(plain(), 1..6).prop_map(|payloads| file(&payloads).0);
    let twice = nested.clone().prop_map(|inner| file(&[inner.clone(), inner]).0);
    prop_oneof![2 => plain(), 1 => nested, 1 => twice]
}

proptest! {
    #[test]
    fn the_next_record_is_found_from_any_place(
        payloads in prop::collection::vec(payload(), 2..12),
        from in any::<prop::sample::Index>(),
    ) {
        let (file, starts) = file(&payloads);
        let last = *starts.last().expect("two or more");
        let from = from.index(last + 1);
        let next = starts.iter().find(|start| **start >= from).expect("the last");
        // After the last record there are no bytes that distinguish it from a record inside it.
        if from <= starts[starts.len() - 2] {
            let found = search(&file[from..], true, 1 << 20);
            prop_assert_eq!(found, Resync { consumed: next - from, found: true });
        }
    }

    #[test]
    fn a_record_that_was_shown_in_part_is_not_passed_over(
        payloads in prop::collection::vec(payload(), 1..6),
        to in any::<prop::sample::Index>(),
        from in any::<prop::sample::Index>(),
    ) {
        let (file, starts) = file(&payloads);
        let to = to.index(file.len() + 1);
        let from = from.index(to + 1);
        let Resync { consumed, found } = search(&file[from..to], false, 1 << 20);
        if !found && let Some(next) = starts.iter().find(|start| **start >= from) {
            prop_assert!(from + consumed <= *next);
        }
    }
}

#[test]
fn a_length_of_more_than_max_record_is_none() {
    let (file, starts) = file(&[vec![1; 50], vec![2; 9], vec![3; 9]]);
    let found = search(&file[1..], true, 9);
    assert_eq!(found, Resync { consumed: starts[1] - 1, found: true });
    assert_eq!(search(&file, true, 9), Resync { consumed: starts[1], found: true });
}

#[test]
fn bytes_without_a_record_have_none() {
    for bytes in [vec![0; 5_000], vec![255; 5_000], Vec::new(), vec![0; 11]] {
        let len = bytes.len();
        assert_eq!(search(&bytes, true, u64::MAX), Resync { consumed: len, found: false });
        let kept = len.saturating_sub(11);
        assert_eq!(search(&bytes, false, u64::MAX), Resync { consumed: kept, found: false });
    }
}
