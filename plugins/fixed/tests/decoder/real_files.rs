//! Tests with files that numpy wrote: see `fixtures/make.py`.

use pipemill_fixed::Fixed;
use pipemill_plugin::testing::{Record, Setup, assert_any_split};
use serde_json::Value;

fn expected() -> Value {
    serde_json::from_str(include_str!("../fixtures/expected.json")).expect("the fixture is JSON")
}

fn records(options: &[(&str, &str)], file: &[u8]) -> Vec<Record> {
    let outcome = assert_any_split::<Fixed>(&Setup::new(options), file, &vec![1; file.len()]);
    assert_eq!(outcome.errors, []);
    outcome.records
}

fn numbers<const N: usize>(field: &Option<Vec<u8>>, number: fn([u8; N]) -> f64) -> Vec<f64> {
    let (numbers, rest) = field.as_ref().expect("never absent").as_chunks::<N>();
    assert!(rest.is_empty());
    numbers.iter().map(|bytes| number(*bytes)).collect()
}

#[test]
fn a_file_of_numpy_save() {
    let expected = expected();
    let header = expected["header"].to_string();
    let options = [("type", "float32"), ("shape", "2,3"), ("header", &*header)];
    let found: Vec<Vec<f64>> = records(&options, include_bytes!("../fixtures/images.npy"))
        .iter()
        .map(|record| numbers(&record[0], |bytes| f32::from_le_bytes(bytes).into()))
        .collect();
    assert_eq!(serde_json::to_value(found).expect("finite"), expected["images"]);
}

#[test]
fn a_file_of_tofile() {
    let options = [("fields", "label:int32,image:bytes[3],weight:float64")];
    let found: Vec<_> = records(&options, include_bytes!("../fixtures/pairs.bin"))
        .iter()
        .map(|record| {
            let label = numbers(&record[0], |bytes| i32::from_le_bytes(bytes).into())[0] as i32;
            let weight = numbers(&record[2], f64::from_le_bytes)[0];
            serde_json::json!([label, record[1], weight])
        })
        .collect();
    assert_eq!(Value::from(found), expected()["pairs"]);
}
