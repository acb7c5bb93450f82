//! Files that numpy wrote: see `fixtures/make.py`. The rows must be the same as numpy's.

use std::fs;
use std::path::Path;

use pipemill_plugin::testing::Setup;
use serde_json::{Map, Value};

use crate::{outcome, read};

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    fs::read(path).expect("the fixture is there")
}

fn bytes(hex: &Value) -> Vec<u8> {
    let hex = hex.as_str().expect("hexadecimal").as_bytes();
    let digits = hex.chunks(2).map(|two| str::from_utf8(two).expect("ASCII"));
    digits.map(|two| u8::from_str_radix(two, 16).expect("a byte")).collect()
}

/// A field, in the form in which the decoder emits it.
fn field(value: &Value) -> Vec<u8> {
    let Value::Array(texts) = value else { return bytes(value) };
    let texts: Vec<_> = texts.iter().map(bytes).collect();
    let mut at = 4 * (texts.len() + 1);
    let mut list = (at as u32).to_le_bytes().to_vec();
    for text in &texts {
        at += text.len();
        list.extend_from_slice(&(at as u32).to_le_bytes());
    }
    list.extend(texts.concat());
    list
}

#[test]
fn same_rows_as_numpy() {
    let expected: Map<String, Value> =
        serde_json::from_str(include_str!("../fixtures/expected.json")).expect("JSON");
    assert_eq!(expected.len(), 32);
    for (name, rows) in expected {
        let rows = rows.as_array().expect("rows").iter();
        let wanted: Vec<Vec<_>> =
            rows.map(|row| row.as_array().expect("fields").iter().map(field).collect()).collect();
        assert_eq!(read(&fixture(&name)).1, wanted, "{name}");
    }
}

#[test]
fn names_of_members() {
    let names =
        |file| read(&fixture(file)).0.into_iter().map(|field| field.name).collect::<Vec<_>>();
    assert_eq!(names("titles.npy"), ["it's", "\"q\""]);
    assert_eq!(names("unicode.npy"), ["größe"]);
    assert_eq!(names("japanese.npy"), ["日本"]);
    assert_eq!(names("aligned.npy"), ["flag", "x", "name", "ok", "when"]);
}

#[test]
fn refused_files() {
    let parts = [
        ("big-endian", "big-endian numbers (`>i4`)"),
        ("big-endian-member", "member `a` with big-endian numbers (`>f4`)"),
        ("fortran", "the order of Fortran"),
        ("objects", "Python objects (`|O`)"),
        ("text", "text in UTF-32 (`<U2`)"),
        ("complex", "complex numbers (`<c16`)"),
        ("days", "dates and times in another unit than s, ms, us or ns (`<M8[D]`)"),
        ("durations", "durations (`<m8[s]`)"),
        ("void", "bytes of a type that NumPy does not know (`|V2`)"),
        ("nested", "member `a` with members of its own"),
    ];
    for (name, part) in parts {
        let outcome = outcome(&Setup::new(&[]), &fixture(&format!("refused-{name}.npy")));
        assert!(outcome.refused && outcome.records.is_empty(), "{name}");
        assert!(outcome.errors[0].2.contains(part), "{name}: {}", outcome.errors[0].2);
    }
}
