//! Files that TensorFlow wrote. The decoder must read the same records as TensorFlow: see
//! `fixtures/make.py`.

use pipemill_plugin::testing::{Record, Setup, assert_all_splits};
use pipemill_tf_example::TfExample;
use serde_json::Value;

const FEATURES: &str = "image/encoded:bytes, name:utf8, label:int64, weights:float32[4], ids:int64[], \
                        sometimes:float32[]?";

fn from_hex(text: &Value) -> Vec<u8> {
    let text = text.as_str().expect("hex");
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
    (0..text.len()).step_by(2).map(byte).collect()
}

fn list<T: AsRef<[u8]>>(values: &Value, bytes: impl Fn(&Value) -> T) -> Vec<u8> {
    let values = values.as_array().expect("a list");
    values.iter().flat_map(|value| bytes(value).as_ref().to_vec()).collect()
}

/// The fields of a record, from TensorFlow's values.
fn wanted(record: &Value) -> Record {
    let bits = |value: &Value| (value.as_u64().expect("bits") as u32).to_le_bytes();
    let int64 = |value: &Value| value.as_i64().expect("int64").to_le_bytes();
    let sometimes = &record["sometimes"];
    vec![
        Some(list(&record["image/encoded"], from_hex)),
        Some(list(&record["name"], from_hex)),
        Some(list(&record["label"], int64)),
        Some(list(&record["weights"], bits)),
        Some(list(&record["ids"], int64)),
        sometimes.is_array().then(|| list(sometimes, bits)),
    ]
}

fn assert_same_as_tensorflow(written: &[u8], wanted_text: &str) {
    let wanted_records: Vec<Value> = serde_json::from_str(wanted_text).expect("JSON");
    assert!(!wanted_records.is_empty());
    let wanted_records: Vec<_> = wanted_records.iter().map(wanted).collect();
    let setup = Setup::new(&[("features", FEATURES)]);
    let outcome = assert_all_splits::<TfExample>(&setup, written);
    assert_eq!(outcome.errors, []);
    assert_eq!(outcome.records, wanted_records);
}

#[test]
fn files_of_tensorflow() {
    let written = include_bytes!("../fixtures/examples.tfrecord");
    assert_same_as_tensorflow(written, include_str!("../fixtures/examples.json"));
}

#[test]
fn messages_that_only_protobuf_allows() {
    let written = include_bytes!("../fixtures/odd.tfrecord");
    assert_same_as_tensorflow(written, include_str!("../fixtures/odd.json"));
}
