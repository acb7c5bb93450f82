//! Files that fastavro and Apache's package wrote. The decoder must read the same values as they
//! do: see `fixtures/make.py`.

use pipemill_avro::Avro;
use pipemill_plugin::testing::{Outcome, assert_all_splits, assert_any_split, decode_split};
use pipemill_plugin::{Field, Scalar};
use serde_json::Value;

use crate::{fields, setup};

/// The fields of the test files that can be fields.
const FIELDS: &str = "null,boolean,int,long,float,double,bytes,string,fixed,kind,first,second,\
                      other_kind,nested,ints,longs,doubles,strings,blobs,date,time,micros,stamp,\
                      precise,local,uuid,price,last";

const FILES: [(&str, &[u8]); 8] = [
    ("fastavro, null", include_bytes!("../fixtures/fastavro-null.avro")),
    ("fastavro, deflate", include_bytes!("../fixtures/fastavro-deflate.avro")),
    ("fastavro, snappy", include_bytes!("../fixtures/fastavro-snappy.avro")),
    ("fastavro, zstandard", include_bytes!("../fixtures/fastavro-zstandard.avro")),
    ("apache, null", include_bytes!("../fixtures/apache-null.avro")),
    ("apache, deflate", include_bytes!("../fixtures/apache-deflate.avro")),
    ("apache, snappy", include_bytes!("../fixtures/apache-snappy.avro")),
    ("apache, zstandard", include_bytes!("../fixtures/apache-zstandard.avro")),
];

fn hex(bytes: &[u8]) -> Value {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

/// One element of a field, in the form of the fixture.
fn element(field: &Field, bytes: &[u8]) -> Value {
    let mut word = [0; 8];
    if field.scalar.size() == bytes.len() {
        word[..bytes.len()].copy_from_slice(bytes);
    }
    match field.scalar {
        Scalar::Utf8 => String::from_utf8(bytes.to_vec()).expect("the decoder checked it").into(),
        Scalar::Boolean => (bytes[0] == 1).into(),
        Scalar::Int32 => i32::from_le_bytes(bytes.try_into().expect("4 bytes")).into(),
        Scalar::Int64 => i64::from_le_bytes(word).into(),
        Scalar::Float32 => {
            let number = f32::from_le_bytes(bytes.try_into().expect("4 bytes"));
            f64::from(number).to_bits().into()
        }
        Scalar::Float64 => u64::from_le_bytes(word).into(),
        Scalar::Uint8 if !field.categories.is_empty() => {
            field.categories[usize::from(bytes[0])].clone().into()
        }
        _ => hex(bytes),
    }
}

/// A field of a record, in the form of the fixture.
fn plain(field: &Field, value: &Option<Vec<u8>>) -> Value {
    let Some(bytes) = value else { return Value::Null };
    let is_text = matches!(field.scalar, Scalar::Bytes | Scalar::Utf8);
    if field.shape != [0] {
        return element(field, bytes);
    }
    if !is_text {
        return bytes.chunks(field.scalar.size()).map(|bytes| element(field, bytes)).collect();
    }
    let offset =
        |at: usize| u32::from_le_bytes(bytes[4 * at..][..4].try_into().expect("4")) as usize;
    let count = offset(0) / 4 - 1;
    (0..count).map(|at| element(field, &bytes[offset(at)..offset(at + 1)])).collect()
}

/// The records in the form of the fixture.
fn records(outcome: &Outcome) -> Vec<Value> {
    let record = |record: &Vec<Option<Vec<u8>>>| {
        let all = fields(outcome).iter().zip(record);
        all.map(|(field, value)| (field.name.clone(), plain(field, value))).collect()
    };
    outcome.records.iter().map(record).collect()
}

fn everything() -> Vec<Value> {
    serde_json::from_str(include_str!("../fixtures/everything.json")).expect("the fixture is JSON")
}

#[test]
fn same_as_fastavro() {
    let expected = everything();
    for (name, file) in FILES {
        let setup = setup(&[("fields", FIELDS)]);
        let outcome = assert_any_split::<Avro>(&setup, file, &vec![1; file.len()]);
        assert_eq!(outcome.errors, []);
        assert_eq!(records(&outcome), expected, "{name}");
        for split in (1..file.len()).step_by(37) {
            assert_eq!(outcome, decode_split::<Avro>(&setup, file, &[split]), "split at {split}");
        }
    }
}

#[test]
fn some_fields_of_a_file() {
    let names = ["long", "last", "nested.deep.y"];
    let expected = everything();
    for (name, file) in FILES {
        let outcome = assert_any_split::<Avro>(&setup(&[("fields", &names.join(","))]), file, &[]);
        assert_eq!(outcome.errors, []);
        for (record, expected) in records(&outcome).iter().zip(&expected) {
            for field in names {
                assert_eq!(record[field], expected[field], "{name}, {field}");
            }
        }
    }
}

/// The records of a file with the fields `id` and `text`.
fn small(outcome: &Outcome) -> Vec<(u64, String)> {
    assert_eq!(outcome.errors, []);
    let one = |record: Value| {
        (record["id"].as_u64().expect("id"), record["text"].as_str().expect("text").to_owned())
    };
    records(outcome).into_iter().map(one).collect()
}

#[test]
fn a_file_without_blocks() {
    let file = include_bytes!("../fixtures/empty.avro");
    let outcome = assert_all_splits::<Avro>(&setup(&[]), file);
    assert_eq!((small(&outcome).len(), fields(&outcome).len()), (0, 2));
}

#[test]
fn many_small_blocks() {
    let file = include_bytes!("../fixtures/many-blocks.avro");
    let outcome = assert_any_split::<Avro>(&setup(&[]), file, &[1000, 1, 500, 777]);
    let wanted = (0..400).map(|id| (id, format!("text {}", id % 10)));
    assert!(small(&outcome).into_iter().eq(wanted));
}

#[test]
fn a_large_block() {
    let file = include_bytes!("../fixtures/large-block.avro");
    let outcome = assert_any_split::<Avro>(&setup(&[]), file, &[1000, 1]);
    assert_eq!((outcome.records.len(), outcome.errors.len()), (100_000, 0));
    for (number, record) in outcome.records.iter().enumerate() {
        assert_eq!(record[0].as_deref(), Some(format!("text {}", number % 10).as_bytes()));
    }
}

#[test]
fn large_texts() {
    for file in [
        &include_bytes!("../fixtures/large-texts-deflate.avro")[..],
        include_bytes!("../fixtures/large-texts-snappy.avro"),
        include_bytes!("../fixtures/large-texts-zstandard.avro"),
    ] {
        let outcome = assert_any_split::<Avro>(&setup(&[]), file, &[100, 20]);
        let wanted =
            [1, 50_000, 10, 100_000, 2].map(|size| (size, "large ä ".repeat(size as usize)));
        assert!(small(&outcome).into_iter().eq(wanted));
    }
}
