//! Files that pandas, PyArrow and CPython wrote. The decoder must read the same as the library that
//! wrote the file: see `fixtures/make.py`.

use std::path::Path;

use pipemill_csv::Csv;
use pipemill_plugin::testing::{Outcome, Record, Setup, assert_any_split};
use serde_json::Value;

/// Decodes a file of `expected.json` with the options listed there and with `more`.
fn decode(expected: &Value, more: &[(&str, &str)]) -> Outcome {
    let name = expected["file"].as_str().expect("a name");
    let fixtures = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures"));
    let file = std::fs::read(fixtures.join(name)).expect("the fixture is there");
    let options = expected["options"].as_object().expect("options").iter();
    let mut options: Vec<_> =
        options.map(|(name, value)| (name.as_str(), value.as_str().expect("text"))).collect();
    options.extend(more);
    let setup = Setup::new(&options);
    let outcome = assert_any_split::<Csv>(&setup, &file, &[100; 60]);
    assert_any_split::<Csv>(&setup, &file, &vec![1; file.len()]);
    assert_eq!(outcome.errors, [], "{name}");
    outcome
}

fn expected() -> Vec<Value> {
    serde_json::from_str(include_str!("../fixtures/expected.json")).expect("the fixture is JSON")
}

/// The bits of a float; `None` for NaN and for an absent value.
fn bits<const SIZE: usize>(bytes: &[u8]) -> Option<u64> {
    let mut whole = [0; 8];
    whole[..SIZE].copy_from_slice(bytes);
    let bits = u64::from_le_bytes(whole);
    let nan = if SIZE == 4 {
        f32::from_bits(bits as u32).is_nan()
    } else {
        f64::from_bits(bits).is_nan()
    };
    (!nan).then_some(bits)
}

#[test]
fn texts_of_all_files() {
    for expected in expected() {
        if expected.get("dense").is_some() {
            continue;
        }
        let outcome = decode(&expected, &[("types", "utf8")]);
        let schema = outcome.schema.expect("known");
        let names: Vec<_> = schema.iter().map(|field| field.name.as_str()).collect();
        let text = |field: &Option<Vec<u8>>| {
            String::from_utf8(field.clone().expect("never absent")).expect("UTF-8")
        };
        let row = |record: &Record| record.iter().map(text).collect();
        let rows: Vec<Vec<_>> = outcome.records.iter().map(row).collect();
        assert_eq!(Value::from(names), expected["names"], "{}", expected["file"]);
        assert_eq!(Value::from(rows), expected["rows"], "{}", expected["file"]);
    }
}

#[test]
fn numbers_of_all_files() {
    for expected in expected() {
        for (column, numbers) in expected["floats"].as_object().into_iter().flatten() {
            let types = format!("{column}:float64");
            let outcome = decode(&expected, &[("types", &types), ("columns", column)]);
            let number = |record: &Record| record[0].as_deref().and_then(bits::<8>);
            let found: Vec<_> = outcome.records.iter().map(number).collect();
            assert_eq!(Value::from(found), *numbers, "{}", expected["file"]);
        }
    }
}

#[test]
fn a_tensor() {
    for expected in expected() {
        let Some(rows) = expected.get("dense") else { continue };
        let outcome = decode(&expected, &[]);
        let row = |record: &Record| {
            let numbers = record.iter().flatten().flat_map(|field| field.chunks_exact(4));
            numbers.map(bits::<4>).collect::<Vec<_>>()
        };
        let found: Vec<_> = outcome.records.iter().map(row).collect();
        assert_eq!(Value::from(found), *rows);
    }
}
