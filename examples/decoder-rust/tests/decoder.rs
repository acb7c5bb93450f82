//! Tests of the decoder outside the sandbox, with the SDK's test host.

use pascal::Strings;
use pipemill_plugin::testing::{Setup, assert_any_split, decode_whole};

const FILE: &[u8] = include_bytes!("../data/greetings.pstr");

/// The fields of all records, as text.
fn strings(setup: &Setup, input: &[u8]) -> Vec<String> {
    let outcome = decode_whole::<Strings>(setup, input);
    let text = |field: &Option<Vec<u8>>| {
        String::from_utf8_lossy(field.as_ref().expect("no field is absent")).into_owned()
    };
    outcome.records.iter().map(|record| text(&record[0])).collect()
}

#[test]
fn a_file_gives_its_strings() {
    assert_eq!(strings(&Setup::new(&[]), FILE), ["Hello", "", "Grüezi", "こんにちは"]);
}

#[test]
fn every_split_gives_the_same_records() {
    for size in 1..=FILE.len() {
        let pieces = vec![size; FILE.len() / size];
        let outcome = assert_any_split::<Strings>(&Setup::new(&[("text", "true")]), FILE, &pieces);
        assert_eq!(outcome.errors, []);
    }
}

#[test]
fn a_wrong_magic_ends_the_file() {
    let outcome = decode_whole::<Strings>(&Setup::new(&[]).skipping(), b"\x89PNG\r\n");
    let message = "expected the magic [50, 53, 54, 52], found [89, 50, 4e, 47]".to_owned();
    assert_eq!(outcome.errors, [(0, 6, message)]);
}

#[test]
fn a_string_that_is_not_utf8_can_be_skipped() {
    let input = b"PSTR\x01\0a\x02\0\xff\xff\x01\0b";
    assert_eq!(strings(&Setup::new(&[]), input).len(), 3);
    let text = Setup::new(&[("text", "true")]);
    assert_eq!(strings(&text, input), ["a"]);
    assert_eq!(strings(&text.skipping(), input), ["a", "b"]);
}

#[test]
fn a_file_that_ends_inside_a_string_is_an_error() {
    let outcome = decode_whole::<Strings>(&Setup::new(&[]), &FILE[..FILE.len() - 1]);
    assert_eq!(outcome.records.len(), 3);
    assert_eq!(outcome.errors.len(), 1);
}
