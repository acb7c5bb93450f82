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

/// A number of this type, as the fixture has it in text.
fn text(word: &str, bytes: &[u8]) -> String {
    fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
        bytes.try_into().expect("the size of the type")
    }
    // A number of 2 bytes whose exponent has this many bits.
    let widened = |exponent_bits: u32| {
        let bits = u16::from_le_bytes(array(bytes));
        let fraction_bits = 15 - exponent_bits;
        let bias = (1 << (exponent_bits - 1)) - 1;
        let exponent = i32::from(bits & 0x7fff) >> fraction_bits;
        let fraction = f64::from(bits & ((1 << fraction_bits) - 1)) / f64::from(1 << fraction_bits);
        assert!(exponent != 0, "the fixture has no subnormal");
        let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
        sign * (1.0 + fraction) * 2f64.powi(exponent - bias)
    };
    let float = match word {
        "int8" => return i8::from_le_bytes(array(bytes)).to_string(),
        "int16" => return i16::from_le_bytes(array(bytes)).to_string(),
        "int32" => return i32::from_le_bytes(array(bytes)).to_string(),
        "int64" => return i64::from_le_bytes(array(bytes)).to_string(),
        "uint8" => return u8::from_le_bytes(array(bytes)).to_string(),
        "uint16" => return u16::from_le_bytes(array(bytes)).to_string(),
        "uint32" => return u32::from_le_bytes(array(bytes)).to_string(),
        "uint64" => return u64::from_le_bytes(array(bytes)).to_string(),
        "float16" => widened(5),
        "bfloat16" => widened(8),
        "float32" => f64::from(f32::from_le_bytes(array(bytes))),
        _ => f64::from_le_bytes(array(bytes)),
    };
    serde_json::json!(float).to_string()
}

/// A file with a number of every type: in records of all of them, and of one at a time.
#[test]
fn every_type() {
    let words = [
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
        "float32", "float64", "bfloat16",
    ];
    let file = include_bytes!("../fixtures/types.bin");
    let specs: Vec<_> = words.iter().map(|word| format!("{word}:{word}")).collect();
    let found = records(&[("fields", &specs.join(","))], file);
    assert_eq!(found.len(), 3);
    let expected = &expected()["types"];
    for (column, word) in words.iter().enumerate() {
        let values: Vec<_> =
            found.iter().map(|record| record[column].clone().expect("never absent")).collect();
        for (value, wanted) in values.iter().zip(expected[word].as_array().expect("three")) {
            let (found, wanted) = (text(word, value), wanted.as_str().expect("text"));
            if word.contains("float") {
                // They may have different notations.
                assert_eq!(found.parse::<f64>(), wanted.parse::<f64>(), "{word}");
            } else {
                assert_eq!(found, wanted, "{word}");
            }
        }
        // The same numbers as the field `data`.
        let data = records(&[("type", word)], &values.concat());
        assert_eq!(data, values.iter().map(|value| vec![Some(value.clone())]).collect::<Vec<_>>());
    }
}
