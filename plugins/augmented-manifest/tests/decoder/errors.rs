//! A group with an error is dropped as a whole: attributes of two lines are never mixed.

use pipemill_augmented_manifest::AugmentedManifest;
use pipemill_parsing::testing::{recordio_file, write_recordio_part as part};
use pipemill_plugin::testing::{Outcome, Setup, assert_all_splits};

fn setup() -> Setup {
    Setup::new(&[("attributes", "image-ref,label,box")])
}

fn outcome(setup: &Setup, file: &[u8]) -> Outcome {
    assert_all_splits::<AugmentedManifest>(setup, file)
}

/// The first field of each record.
fn images(outcome: &Outcome) -> Vec<&[u8]> {
    outcome.records.iter().map(|record| record[0].as_deref().expect("never absent")).collect()
}

/// Three groups of three records; each record has 12 bytes.
fn three() -> Vec<u8> {
    recordio_file(&[&b"one"[..], b"1", b"a", b"two", b"2", b"b", b"tre", b"3", b"c"])
}

#[test]
fn an_input_that_ends_inside_a_group() {
    let file = three();
    for length in 0..=file.len() {
        for setup in [setup(), setup().skipping()] {
            let outcome = outcome(&setup, &file[..length]);
            assert_eq!(outcome.records.len(), length / 36);
            let start = length / 36 * 36;
            let next = ["image-ref", "label", "box"][(length - start) / 12 % 3];
            let message = format!(
                "expected a group of 3 records (image-ref, label, box), found the end of the input \
                 before the end of `{next}`; the input is cut short, or `attributes` is not what the \
                 channel has"
            );
            let rest = if setup.skip { (length - start) as u64 } else { 0 };
            let cut = vec![(start as u64, rest, message)];
            assert_eq!(outcome.errors, if length == start { vec![] } else { cut });
        }
    }
}

/// The group with the damage is lost, and all groups after it.
#[test]
fn a_damaged_header() {
    for record in 0..9 {
        let mut file = three();
        file[record * 12] ^= 1;
        let outcome = outcome(&setup().skipping(), &file);
        assert_eq!(images(&outcome), [&b"one"[..], b"two", b"tre"][..record / 3]);
        let group = record / 3 * 36;
        let message = format!(
            "record of `{}`, {} bytes after the start of its group: expected the RecordIO magic 0a \
             23 d7 ce at +0, found 0b 23 d7 ce; this is not RecordIO, or it is damaged here or just \
             before; nothing tells where the next group starts",
            ["image-ref", "label", "box"][record % 3],
            record % 3 * 12
        );
        assert_eq!(outcome.errors, [(group as u64, (file.len() - group) as u64, message)]);
    }
}

/// The length of a group that is too large is known, so the next group is found by counting
/// records.
#[test]
fn groups_with_a_record_larger_than_max_record() {
    let setup = Setup { max_record: 8, ..setup() }.skipping();
    for (large, size, at) in [(0, 9, 20), (1, 12, 32), (2, 13, 44)] {
        let mut records: [&[u8]; 9] = [b"one", b"1", b"a", b"two", b"2", b"b", b"tre", b"3", b"c"];
        records[3 + large] = b"123456789";
        let file = recordio_file(&records);
        let outcome = outcome(&setup, &file);
        assert_eq!(images(&outcome), [b"one", b"tre"]);
        assert_eq!(outcome.records[1][2].as_deref(), Some(&b"c"[..]));
        let message = format!(
            "group of {size} bytes or more, counted up to `{}`, is larger than max_record (8 bytes); \
             raise max_record if groups may be that large",
            ["image-ref", "label", "box"][large]
        );
        assert_eq!(outcome.errors, [(36, at, message)]);
    }
}

/// No single record of the group is too large.
#[test]
fn groups_larger_than_max_record() {
    let setup = Setup { max_record: 8, ..setup() }.skipping();
    let file = recordio_file(&[&b"1234"[..], b"4321", b"!", b"two", b"2", b"b"]);
    let outcome = outcome(&setup, &file);
    assert_eq!(images(&outcome), [b"two"]);
    assert_eq!((outcome.errors[0].0, outcome.errors[0].1), (0, 36));
}

/// After a bad record, other records of the same group may be bad, too.
#[test]
fn several_bad_records_of_a_group() {
    let setup = Setup { max_record: 8, ..setup() }.skipping();
    let nine: &[u8] = b"123456789";
    let file = recordio_file(&[nine, nine, b"a", b"two", b"2", b"b", nine, nine, nine]);
    let outcome = outcome(&setup, &file);
    assert_eq!(images(&outcome), [b"two"]);
    let places: Vec<_> = outcome.errors.iter().map(|(at, ..)| *at).collect();
    assert_eq!(places, [0, 20, 88, 108, 128]);
}

/// If a record in parts is too large, its end is not known.
#[test]
fn records_in_parts_larger_than_max_record() {
    let setup = Setup { max_record: 8, ..setup() }.skipping();
    let mut file = recordio_file(&[&b"one"[..], b"1", b"a"]);
    part(&mut file, 1, b"1234");
    part(&mut file, 3, b"56789");
    file.extend(recordio_file(&[&b"2"[..], b"b", b"tre", b"3", b"c"]));
    let outcome = outcome(&setup, &file);
    assert_eq!(images(&outcome), [b"one"]);
    assert_eq!((outcome.errors[0].0, outcome.errors[0].1), (36, (file.len() - 36) as u64));
}
