//! Lists of bytes and text: a table of offsets, then the elements.

use pipemill_plugin::testing::{Setup, assert_all_splits, decode_whole};
use pipemill_tf_example::TfExample;

use crate::write::{self, Value, example};

/// The value of a list.
fn list(words: &[&str]) -> Vec<u8> {
    let mut end = 4 * (words.len() as u32 + 1);
    let mut value = end.to_le_bytes().to_vec();
    for word in words {
        end += word.len() as u32;
        value.extend(end.to_le_bytes());
    }
    [value, words.concat().into_bytes()].concat()
}

#[test]
fn lists_of_any_length() {
    let lists: [&[&str]; 3] = [&["one", "", "zwölf"], &[], &["x"]];
    let bytes = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let records = lists.map(|words| example(&[("w", Value::Bytes(bytes(words)))]));
    let setup = Setup::new(&[("features", "w:utf8[]")]);
    let outcome = assert_all_splits::<TfExample>(&setup, &write::file(&records));
    assert_eq!(outcome.errors, []);
    assert_eq!(outcome.records, lists.map(|words| vec![Some(list(words))]));
}

/// TensorFlow wrote this feature with three values.
#[test]
fn a_list_that_tensorflow_wrote() {
    let setup = Setup::new(&[("features", "unused:bytes[3]")]);
    let outcome =
        decode_whole::<TfExample>(&setup, include_bytes!("../fixtures/examples.tfrecord"));
    assert_eq!(outcome.errors, []);
    assert!(!outcome.records.is_empty());
    let expected = vec![Some(list(&["of", "no", "use"]))];
    assert!(outcome.records.iter().all(|record| *record == expected));
}
