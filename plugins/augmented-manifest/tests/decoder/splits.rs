//! Every split gives the groups that were written, or an error, and never a mixed group.

use pipemill_augmented_manifest::AugmentedManifest;
use pipemill_parsing::testing::write_recordio_part as part;
use pipemill_plugin::testing::{Record, Setup, assert_any_split};
use proptest::prelude::*;
use proptest::sample::Index;

/// The records of a group: their payloads, and where each is split into two parts, if it is.
type Group = Vec<(Vec<u8>, Option<Index>)>;

fn group(size: usize) -> impl Strategy<Value = Group> {
    let payload = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..24),
        1 => prop::collection::vec(any::<u8>(), 0..600),
    ];
    let cut = prop_oneof![3 => Just(None), 1 => any::<Index>().prop_map(Some)];
    prop::collection::vec((payload, cut), size)
}

fn groups() -> impl Strategy<Value = (usize, Vec<Group>)> {
    (1usize..5).prop_flat_map(|size| (Just(size), prop::collection::vec(group(size), 0..12)))
}

fn file(groups: &[Group]) -> Vec<u8> {
    let mut file = Vec::new();
    for (payload, cut) in groups.iter().flatten() {
        match cut {
            Some(cut) => {
                let (head, tail) = payload.split_at(cut.index(payload.len() + 1));
                part(&mut file, 1, head);
                part(&mut file, 3, tail);
            }
            None => part(&mut file, 0, payload),
        }
    }
    file
}

fn records(groups: &[Group]) -> Vec<Record> {
    let record = |group: &Group| group.iter().map(|(payload, _)| Some(payload.clone())).collect();
    groups.iter().map(record).collect()
}

fn setup(size: usize) -> Setup {
    let attributes = ["a", "b", "c", "d", "e"][..size].join(",");
    Setup::new(&[("attributes", &attributes), ("multipart", "concat")])
}

fn pieces() -> impl Strategy<Value = Vec<usize>> {
    let piece = prop_oneof![4 => 1usize..20, 2 => 1usize..200, 1 => 200usize..3000];
    prop::collection::vec(piece, 0..60)
}

proptest! {
    #[test]
    fn written_groups_are_read((size, groups) in groups(), pieces in pieces()) {
        let outcome = assert_any_split::<AugmentedManifest>(&setup(size), &file(&groups), &pieces);
        prop_assert_eq!(outcome.errors, []);
        prop_assert_eq!(outcome.records, records(&groups));
    }

    /// Some groups are too large. The others are read, in order.
    #[test]
    fn groups_that_are_too_large(
        (size, groups) in groups(),
        max_record in 0u64..60,
        pieces in pieces(),
    ) {
        let setup = Setup { max_record, ..setup(size) }.skipping();
        let outcome = assert_any_split::<AugmentedManifest>(&setup, &file(&groups), &pieces);
        let written = records(&groups);
        let mut rest = written.iter();
        for record in &outcome.records {
            prop_assert!(rest.any(|written| written == record), "mixed or invented");
        }
        let small = |group: &&Group| {
            group.iter().map(|(payload, _)| payload.len() as u64).sum::<u64>() <= max_record
        };
        let in_one_part = groups.iter().flatten().all(|(_, cut)| cut.is_none());
        if in_one_part {
            prop_assert_eq!(outcome.records.len(), groups.iter().filter(small).count());
        }
    }

    #[test]
    fn damaged_and_cut_files(
        (size, groups) in groups(),
        flips in prop::collection::vec((any::<Index>(), 1u8..), 0..4),
        end in any::<Index>(),
        max_record in prop_oneof![Just(64u64 << 20), 0u64..300],
        pieces in pieces(),
        skip in any::<bool>(),
    ) {
        let mut bytes = file(&groups);
        for (place, flip) in flips {
            if !bytes.is_empty() {
                let place = place.index(bytes.len());
                bytes[place] ^= flip;
            }
        }
        bytes.truncate(end.index(bytes.len() + 1));
        let setup = Setup { skip, max_record, ..setup(size) };
        assert_any_split::<AugmentedManifest>(&setup, &bytes, &pieces);
    }
}
