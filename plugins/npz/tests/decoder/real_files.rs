//! Files that numpy and Python's zipfile wrote: see `fixtures/make.py`.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use crate::{outcome, records, setup};

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    fs::read(path).expect("the fixture is there")
}

fn expected(name: &str) -> Map<String, Value> {
    let all: Value = serde_json::from_str(include_str!("../fixtures/expected.json")).expect("JSON");
    all[name].as_object().expect("arrays").clone()
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

/// All readable forms of a fixture.
const WAYS: [&str; 3] = ["stored-file", "stored-pipe", "deflated-file"];

#[test]
fn rows_of_the_only_array() {
    for way in WAYS {
        for (name, array) in [("one", "x"), ("unnamed", "arr_0")] {
            let found = records(&[], &fixture(&format!("{name}-{way}.npz"))).concat();
            assert!(found.iter().all(|row| row.len() == 12));
            assert_eq!(found.concat(), bytes(&expected(name)[array]), "{name} {way}");
        }
    }
    let rows = records(&[], &fixture("large-deflated-file.npz")).concat().concat();
    let numbers: Vec<u8> = (0..6000).flat_map(|n| (n as f32 / 8.0).to_le_bytes()).collect();
    assert!(rows == numbers);
}

#[test]
fn rows_of_an_array() {
    for way in WAYS {
        for array in ["x", "y", "no-rows"] {
            let found = records(&[("array", array)], &fixture(&format!("two-{way}.npz"))).concat();
            assert_eq!(found.concat(), bytes(&expected("two")[array]), "{array} {way}");
        }
        let found = records(&[], &fixture(&format!("members-{way}.npz")));
        assert_eq!(found.len(), 2);
        assert_eq!(found[1], [3i64.to_le_bytes().to_vec(), 4.5f32.to_le_bytes().to_vec()]);
    }
    let rows = records(&[("array", "x")], &fixture("others.npz")).concat().concat();
    assert_eq!(rows.len(), 48);
}

#[test]
fn all_arrays_of_an_archive() {
    let fields = "image,boxes:float32[0,4],label,name,tags,ok";
    let wanted: Vec<_> = ["image", "boxes", "label", "name", "tags", "ok"]
        .iter()
        .map(|name| field(&expected("sample")[*name]))
        .collect();
    for way in WAYS {
        let file = fixture(&format!("sample-{way}.npz"));
        assert_eq!(records(&[("fields", fields)], &file), std::slice::from_ref(&wanted), "{way}");
    }
    let both = [fixture("sample-stored-pipe.npz"), fixture("sample-deflated-file.npz")].concat();
    assert_eq!(records(&[("fields", fields)], &both), [wanted.clone(), wanted]);
}

#[test]
fn empty_archives() {
    for way in WAYS {
        let outcome = outcome(&setup(&[]), &fixture(&format!("empty-{way}.npz")));
        let message = "expected an array, found none in the archive".to_owned();
        assert_eq!((outcome.records.len(), outcome.errors), (0, vec![(0, 0, message)]));
    }
}

#[test]
fn refused_files() {
    for (options, file, part) in [
        (
            &[][..],
            "two-stored-file.npz",
            "expected one array in the archive, found `x` and `y`; name the one",
        ),
        (
            &[],
            "one-deflated-pipe.npz",
            "found it after deflated data, whose end can't be seen: it was written to a pipe",
        ),
        (
            &[("array", "bzip2")],
            "others.npz",
            "expected data that is stored or deflated, found bzip2",
        ),
        (
            &[("array", "z")],
            "two-stored-file.npz",
            "expected an array `z`, found only: x, y, no-rows; correct the option",
        ),
        (&[("fields", "x")], "sample-deflated-pipe.npz", "found it after deflated data"),
    ] {
        let outcome = outcome(&setup(options).skipping(), &fixture(file));
        assert!(outcome.refused, "{file}: {:?}", outcome.errors);
        assert!(outcome.errors[0].2.contains(part), "{file}: {}", outcome.errors[0].2);
    }
}
