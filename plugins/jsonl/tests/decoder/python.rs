//! A file that CPython's `json` wrote. The decoder must read the same values: see
//! `fixtures/make.py`.

use pipemill_jsonl::Jsonl;
use pipemill_plugin::testing::{Setup, assert_any_split};
use serde_json::{Value, json};

#[test]
fn same_as_python() {
    let file = include_bytes!("../fixtures/nasty.jsonl");
    let expected = include_str!("../fixtures/nasty.expected.json");
    let expected: Vec<Value> = serde_json::from_str(expected).expect("the fixture is JSON");
    let fields = "/id:int64,/text:utf8,/meta/tag:utf8?,/number:float64?,/list:float64[]?";
    let setup = Setup::new(&[("fields", fields)]);
    let outcome = assert_any_split::<Jsonl>(&setup, file, &[100; 60]);
    assert_any_split::<Jsonl>(&setup, file, &vec![1; file.len()]);
    assert_eq!(outcome.errors, []);
    assert_eq!(outcome.records.len(), expected.len());
    for (record, expected) in outcome.records.iter().zip(&expected) {
        let text = |at: usize| record[at].as_ref().map(|text| str::from_utf8(text).expect("utf8"));
        let words = |at: usize| {
            let words = record[at].as_ref().map(|bytes| bytes.as_chunks().0);
            words
                .map(|words| words.iter().map(|word| u64::from_le_bytes(*word)).collect::<Vec<_>>())
        };
        let found = json!({
            "id": words(0).expect("never absent")[0],
            "text": text(1),
            "tag": text(2),
            "number": words(3).map(|words| words[0]),
            "list": words(4),
        });
        assert_eq!(found, *expected);
    }
}
