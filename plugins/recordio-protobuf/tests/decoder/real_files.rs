//! Files that the SageMaker Python SDK wrote. The decoder must read the same records as the SDK:
//! see `fixtures/make.py`.

use pipemill_plugin::testing::{Record, Setup, assert_all_splits};
use pipemill_plugin::{Field, Scalar};
use pipemill_recordio_protobuf::RecordIoProtobuf;
use serde_json::Value;

fn read(text: &str) -> Vec<Value> {
    let records: Vec<Value> = serde_json::from_str(text).expect("JSON");
    assert!(!records.is_empty());
    records
}

/// The numbers of a tensor, little-endian. In the fixture, floats are their bits.
fn numbers(tensor: &Value) -> Vec<u8> {
    let width = if tensor["type"] == "float64" { 8 } else { 4 };
    let one = |value: &Value| {
        let bits = value.as_i64().map(|value| value as u64).or(value.as_u64());
        bits.expect("a whole number").to_le_bytes()[..width].to_vec()
    };
    tensor["values"].as_array().expect("a list").iter().flat_map(one).collect()
}

fn int64s(list: &Value) -> Vec<u8> {
    let one = |value: &Value| value.as_i64().expect("int64").to_le_bytes();
    list.as_array().expect("a list").iter().flat_map(one).collect()
}

fn text(value: &Value) -> Option<Vec<u8>> {
    value.as_str().map(|text| text.as_bytes().to_vec())
}

/// Asserts that the file has the records that `wanted` makes from the SDK's.
fn assert_same(
    written: &[u8],
    read_back: &str,
    options: &[(&str, &str)],
    fields: &[Field],
    wanted: impl Fn(&Value) -> Record,
) {
    let setup = Setup::new(options);
    let outcome = assert_all_splits::<RecordIoProtobuf>(&setup, written);
    assert_eq!(outcome.errors, []);
    assert_eq!(outcome.schema.as_deref(), Some(fields));
    assert_eq!(outcome.records, read(read_back).iter().map(wanted).collect::<Vec<_>>());
}

fn usual(record: &Value) -> Record {
    let of = |map: &str| Some(numbers(&record[map]["values"]));
    vec![of("features"), of("label")]
}

fn dense(features: Scalar, size: u32, label: Scalar) -> [Field; 2] {
    [Field::new("features", features).shaped([size]), Field::new("label", label)]
}

#[test]
fn float32() {
    let written = include_bytes!("../fixtures/float32.rec");
    let read_back = include_str!("../fixtures/float32.json");
    let fields = dense(Scalar::Float32, 31, Scalar::Float32);
    assert_same(written, read_back, &[], &fields, usual);
    let typed = [("features", "values:float32[31]"), ("label", "values:float32")];
    assert_same(written, read_back, &typed, &fields, usual);
}

#[test]
fn float64() {
    let written = include_bytes!("../fixtures/float64.rec");
    let fields = dense(Scalar::Float64, 9, Scalar::Int32);
    assert_same(written, include_str!("../fixtures/float64.json"), &[], &fields, usual);
}

#[test]
fn int32() {
    let written = include_bytes!("../fixtures/int32.rec");
    let fields = dense(Scalar::Int32, 9, Scalar::Float64);
    assert_same(written, include_str!("../fixtures/int32.json"), &[], &fields, usual);
}

#[test]
fn unlabelled() {
    let written = include_bytes!("../fixtures/unlabelled.rec");
    let fields = [Field::new("features", Scalar::Float32).shaped([4])];
    assert_same(written, include_str!("../fixtures/unlabelled.json"), &[], &fields, |record| {
        vec![Some(numbers(&record["features"]["values"]))]
    });
}

#[test]
fn sparse_as_fields() {
    let written = include_bytes!("../fixtures/sparse.rec");
    let fields = [
        Field::new("features.keys", Scalar::Int64).shaped([0]),
        Field::new("features.values", Scalar::Float32).shaped([0]),
        Field::new("features.shape", Scalar::Int64).shaped([0]),
        Field::new("label", Scalar::Float32),
    ];
    assert_same(written, include_str!("../fixtures/sparse.json"), &[], &fields, |record| {
        let tensor = &record["features"]["values"];
        let parts = [int64s(&tensor["keys"]), numbers(tensor), int64s(&tensor["shape"])];
        parts.into_iter().map(Some).chain([usual(record)[1].clone()]).collect()
    });
}

#[test]
fn sparse_as_dense() {
    let written = include_bytes!("../fixtures/sparse.rec");
    let read_back = include_str!("../fixtures/sparse.json");
    let wanted = |record: &Value| {
        let tensor = &record["features"]["values"];
        let mut row = vec![0; 300 * 4];
        let keys = tensor["keys"].as_array().expect("a list").iter();
        for (key, value) in keys.zip(numbers(tensor).chunks(4)) {
            let at = key.as_u64().expect("a key") as usize * 4;
            row[at..at + 4].copy_from_slice(value);
        }
        vec![Some(row), usual(record)[1].clone()]
    };
    let fields = dense(Scalar::Float32, 300, Scalar::Float32);
    assert_same(written, read_back, &[("sparse", "dense")], &fields, wanted);
    let typed = [("sparse", "dense"), ("features", "values:float32[300]")];
    assert_same(written, read_back, &typed, &fields, wanted);
}

#[test]
fn all_parts_of_a_record() {
    let written = include_bytes!("../fixtures/parts.rec");
    let options = [
        ("features", "grid, ids:int32[], image"),
        ("label", "weight:float32?, values"),
        ("uid", "true"),
        ("metadata", "true"),
    ];
    let fields = [
        Field::new("grid", Scalar::Float64).shaped([2, 3]),
        Field::new("ids", Scalar::Int32).shaped([0]),
        Field::bytes("image"),
        Field::new("weight", Scalar::Float32).nullable(),
        Field::new("label", Scalar::Int32),
        Field::utf8("uid").nullable(),
        Field::utf8("metadata").nullable(),
    ];
    assert_same(written, include_str!("../fixtures/parts.json"), &options, &fields, |record| {
        let (features, label) = (&record["features"], &record["label"]);
        let image = features["image"]["values"][0].as_str().expect("hex");
        let byte = |at| u8::from_str_radix(&image[at..at + 2], 16).expect("hex");
        vec![
            Some(numbers(&features["grid"])),
            Some(numbers(&features["ids"])),
            Some((0..image.len()).step_by(2).map(byte).collect()),
            label.get("weight").map(numbers),
            Some(numbers(&label["values"])),
            text(&record["uid"]),
            text(&record["metadata"]),
        ]
    });
}
