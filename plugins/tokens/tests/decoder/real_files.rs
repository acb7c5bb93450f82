//! Tests with files as nanoGPT and llm.c write them: see `fixtures/make.py`.

use pipemill_plugin::testing::{Setup, assert_any_split};
use pipemill_tokens::Tokens;
use serde_json::Value;

/// The tokens of a file, in records of 30.
fn tokens(options: &[(&str, &str)], file: &[u8]) -> Vec<u64> {
    let options = [&[("length", "30")], options].concat();
    let outcome = assert_any_split::<Tokens>(&Setup::new(&options), file, &vec![1; file.len()]);
    assert_eq!(outcome.errors, []);
    let width = if options.contains(&("type", "uint32")) { 4 } else { 2 };
    let records = outcome.records.iter().flat_map(|record| record[0].as_ref().expect("present"));
    let bytes: Vec<u8> = records.copied().collect();
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |high, low| high << 8 | u64::from(*low));
    bytes.chunks(width).map(number).collect()
}

#[test]
fn files_of_their_writers() {
    let expected: Value =
        serde_json::from_str(include_str!("../fixtures/expected.json")).expect("valid JSON");
    let same = |tokens: Vec<u64>, name: &str| assert_eq!(Value::from(tokens), expected[name]);
    same(tokens(&[], include_bytes!("../fixtures/train.bin")), "gpt2");
    let gpt2 = include_bytes!("../fixtures/gpt2.bin");
    same(tokens(&[("format", "llm.c")], gpt2), "gpt2");
    same(tokens(&[("header", "1024")], gpt2), "gpt2");
    let llama3 = include_bytes!("../fixtures/llama3.bin");
    same(tokens(&[("format", "llm.c"), ("type", "uint32")], llama3), "llama3");
}
