//! Tests of the decoder outside the sandbox, with the SDK's test host.

use pipemill_plugin::Map;
use pipemill_plugin::testing::{Setup, assert_any_split, decode_whole};
use with_size::WithSize;

const FILE: &[u8] = include_bytes!("../data/greetings.bin");

#[test]
fn each_record_has_its_size() {
    let outcome = decode_whole::<Map<WithSize>>(&Setup::new(&[]), FILE);
    assert_eq!(outcome.errors, []);
    for record in &outcome.records {
        let [data, size] = [0, 1].map(|field| record[field].as_ref().expect("no field is absent"));
        assert_eq!(**size, (data.len() as u64).to_le_bytes());
    }
    assert_eq!(outcome.records.len(), 4);
}

#[test]
fn every_split_gives_the_same_records() {
    for size in 1..=FILE.len() {
        let pieces = vec![size; FILE.len() / size];
        let outcome = assert_any_split::<Map<WithSize>>(&Setup::new(&[]), FILE, &pieces);
        assert_eq!(outcome.errors, []);
    }
}
