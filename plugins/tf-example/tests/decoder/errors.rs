//! Records without the features that the operator named: the message, and that decoding continues
//! after them.

use pipemill_plugin::testing::{Setup, assert_all_splits, assert_any_split};
use pipemill_tf_example::TfExample;

use crate::write::{self, Value, entry, example, field};

/// The error message for a bad record between two good ones.
fn message_for(features: &str, bad: Vec<u8>) -> String {
    let good = example(&[
        ("image", Value::Bytes(vec![b"jpeg".to_vec()])),
        ("label", Value::Int64(vec![7])),
        ("weights", Value::Float(vec![1.0, 2.0])),
    ]);
    let start = good.len() as u64 + 16;
    let file = write::file(&[good.clone(), bad.clone(), good]);
    let setup = Setup::new(&[("features", features)]);
    let whole = assert_all_splits::<TfExample>(&setup, &file);
    assert_eq!((whole.records.len(), whole.errors.len()), (1, 1));
    let skipped = assert_any_split::<TfExample>(&setup.skipping(), &file, &vec![1; file.len()]);
    assert_eq!(skipped.records, [&whole.records[..], &whole.records].concat());
    let (at, length, message) = skipped.errors[0].clone();
    assert_eq!((at, length), (start, bad.len() as u64 + 16));
    assert_eq!(whole.errors, [(at, 0, message.clone())]);
    message
}

#[test]
fn a_missing_feature() {
    let bad = example(&[
        ("image", Value::Bytes(vec![b"jpeg".to_vec()])),
        ("wei\nghts", Value::Float(vec![1.0, 2.0])),
        ("ids", Value::Int64(vec![1])),
        ("none", Value::Nothing),
        ("words", Value::Bytes(vec![vec![]; 3])),
    ]);
    assert_eq!(
        message_for("label:int64", bad),
        "feature `label` is missing; the record has image:bytes, wei\\nghts:float32[2], ids:int64, \
         none:no value, words:bytes[3]; put a ? after `label` in the option `features` if \
         records may be without it"
    );
    let many: Vec<_> = (0..30).map(|n| format!("f{n}")).collect();
    let many: Vec<_> = many.iter().map(|key| (key.as_str(), Value::Int64(vec![]))).collect();
    assert!(message_for("label:int64", example(&many)).contains("f19:int64[], …; put"));
    assert_eq!(
        message_for("label:int64", Vec::new()),
        "feature `label` is missing, and so is any other; the record is empty, or no \
         tf.train.Example"
    );
    let nothing = example(&[("label", Value::Nothing)]);
    assert!(
        message_for("label:int64", nothing).starts_with("feature `label` is missing; the record")
    );
}

#[test]
fn a_feature_of_another_type() {
    let label = |value| example(&[("label", value)]);
    assert_eq!(
        message_for("label:int64", label(Value::Float(vec![1.0, 2.0]))),
        "feature `label`: expected int64, found float32[2]; write `label:float32[2]` in the option \
         `features` if that is right"
    );
    assert_eq!(
        message_for("label:int64[1]", label(Value::Bytes(vec![vec![]; 2]))),
        "feature `label`: expected int64[1], found bytes[2]; write `label:bytes[2]` in the \
         option `features` if that is right"
    );
}

#[test]
fn another_number_of_values() {
    let weights = |count| example(&[("weights", Value::Float(vec![0.5; count]))]);
    assert_eq!(
        message_for("weights:float32[2]", weights(3)),
        "feature `weights`: expected float32[2], found 3 values; write `weights:float32[3]`, or \
         `weights:float32[]` for any number, in the option `features`"
    );
    assert_eq!(
        message_for("weights:float32[2]", weights(0)),
        "feature `weights`: expected float32[2], found 0 values; write `weights:float32[]` for any \
         number, in the option `features`"
    );
    assert!(
        message_for("label:int64", example(&[("label", Value::Int64(vec![1, 2]))]))
            .contains("2 values")
    );
    assert!(
        message_for("weights:float32[0,2]", weights(3)).contains("expected float32[0,2], found 3")
    );
}

#[test]
fn lists_of_bytes_without_one_value() {
    let jpegs = |count| example(&[("image", Value::Bytes(vec![b"jpeg".to_vec(); count]))]);
    assert_eq!(
        message_for("image:bytes", jpegs(2)),
        "feature `image`: expected bytes, found 2 values; write `image:bytes[2]`, or \
         `image:bytes[]` for any number, in the option `features`"
    );
    assert!(message_for("image:utf8", jpegs(0)).contains("write `image:utf8[]` for any number"));
    assert!(message_for("image:bytes[1]", jpegs(2)).contains("expected bytes[1], found 2 values"));
    let words = example(&[("image", Value::Bytes(vec![b"a".to_vec(), b"\xff".to_vec()]))]);
    assert!(message_for("image:utf8[]", words).contains("expected UTF-8, found byte ff at its +0"));
}

#[test]
fn text_that_is_not_utf8() {
    let bad = example(&[("image", Value::Bytes(vec![b"jp\xffeg".to_vec()]))]);
    assert_eq!(
        message_for("image:utf8", bad),
        "feature `image`: expected UTF-8, found byte ff at its +2; write `image:bytes` in the option \
         `features` if it is no text"
    );
}

#[test]
fn records_that_are_no_message() {
    let invalid = |at, found| {
        format!(
            "expected a tf.train.Example, found at +{at} {found}; the record is damaged, or of \
             another type"
        )
    };
    let cases = [
        (b"\x0b".to_vec(), invalid(13, "the end of its message inside group 1")),
        (b"\x0c".to_vec(), invalid(12, "the end of group 1, which is not the last one that began")),
        (b"\x0f".to_vec(), invalid(12, "wire type 7, which protobuf does not have")),
        (b"\x02\x00".to_vec(), invalid(12, "field number 0, which protobuf does not have")),
        (
            b"\x0a\x05ab".to_vec(),
            invalid(13, "a length of 5 bytes where 2 are left of its message"),
        ),
        (b"\x0a\xff".to_vec(), invalid(13, "the end of its message inside a varint")),
        (vec![0xff; 11], invalid(12, "a varint of more than 64 bits")),
        (b"\x15\0\0\0".to_vec(), invalid(12, "a value of 4 bytes where 3 are left of its message")),
        (
            b"\x08\x01".to_vec(),
            invalid(12, "field 1 as a varint where bytes with a length must stand"),
        ),
        (
            field(1, &entry("label", &field(3, &field(1, b"\xff")))),
            invalid(27, "the end of its message inside a varint"),
        ),
        (
            field(1, &entry("label", &field(3, &field(1, &[0xff; 10])))),
            invalid(27, "the end of its message inside a varint"),
        ),
        (
            field(
                1,
                &entry("label", &field(3, &field(1, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"))),
            ),
            invalid(29, "a varint of more than 64 bits"),
        ),
    ];
    for (bad, message) in cases {
        assert_eq!(message_for("label:int64", bad), message);
    }
    let odd = field(1, &entry("weights", &field(2, &field(1, b"12345"))));
    assert_eq!(
        message_for("weights:float32[]", odd),
        invalid(29, "5 bytes of packed numbers of 4 bytes each")
    );
}

#[test]
fn records_larger_than_max_record() {
    let one = example(&[("label", Value::Int64(vec![1]))]);
    let large =
        example(&[("label", Value::Int64(vec![1])), ("image", Value::Bytes(vec![vec![0; 99]]))]);
    let file = write::file(&[one.clone(), large.clone(), one.clone()]);
    let max_record = one.len() as u64;
    let setup = Setup { max_record, ..Setup::new(&[("features", "label:int64")]) }.skipping();
    let outcome = assert_any_split::<TfExample>(&setup, &file, &vec![1; file.len()]);
    assert_eq!(outcome.records.len(), 2);
    let message = format!(
        "record of {} bytes is larger than max_record ({max_record} bytes); raise max_record if \
         records may be that large",
        large.len()
    );
    assert_eq!(outcome.errors, [(max_record + 16, large.len() as u64 + 16, message)]);
}
