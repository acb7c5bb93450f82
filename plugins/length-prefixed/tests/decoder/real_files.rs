//! Tests with files by other writers of such formats: see `fixtures/make.py`.

use pipemill_length_prefixed::LengthPrefixed;
use pipemill_plugin::testing::{Setup, assert_any_split};
use serde_json::Value;

fn expected() -> Value {
    serde_json::from_str(include_str!("../fixtures/expected.json")).expect("the fixture is JSON")
}

fn lengths(expected: &Value) -> Vec<usize> {
    serde_json::from_value(expected.clone()).expect("the fixture has lengths")
}

fn records(prefix: &str, file: &[u8]) -> Vec<Vec<u8>> {
    let setup = Setup::new(&[("prefix", prefix)]);
    let outcome = assert_any_split::<LengthPrefixed>(&setup, file, &vec![1; file.len()]);
    assert_any_split::<LengthPrefixed>(&setup, file, &[1000; 16]);
    assert_eq!(outcome.errors, []);
    let field = |mut record: Vec<Option<Vec<u8>>>| record.remove(0).expect("never absent");
    outcome.records.into_iter().map(field).collect()
}

#[test]
fn delimited_messages_of_protobuf() {
    let (expected, records) =
        (expected(), records("varint", include_bytes!("../fixtures/delimited.pb")));
    let sizes: Vec<_> = records.iter().map(Vec::len).collect();
    assert_eq!(sizes, lengths(&expected["delimited_lengths"]));
    let hex =
        |record: &Vec<u8>| record.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let first: Vec<String> =
        serde_json::from_value(expected["delimited"].clone()).expect("the fixture has hex");
    assert_eq!(records.iter().map(hex).take(first.len()).collect::<Vec<_>>(), first);
}

#[test]
fn messages_of_a_connection() {
    let records = records("u32be", include_bytes!("../fixtures/connection.bin"));
    let lengths = lengths(&expected()["connection_lengths"]);
    let wanted: Vec<_> = lengths.into_iter().map(|n| vec![(n % 251) as u8; n]).collect();
    assert_eq!(records, wanted);
}
