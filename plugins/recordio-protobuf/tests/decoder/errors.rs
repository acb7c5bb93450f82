//! Records without the fields that the options or the first record require: the message, and that
//! decoding continues after them.

use pipemill_plugin::testing::{Setup, assert_all_splits, assert_any_split};
use pipemill_recordio_protobuf::RecordIoProtobuf;

use crate::write::{self, bytes, entry, field, float32, int32, sparse, tensor, usual};

/// The error message for a bad record between two good ones.
fn message_between(good: Vec<u8>, options: &[(&str, &str)], bad: Vec<u8>) -> String {
    let start = 8 + good.len().next_multiple_of(4) as u64;
    let file = write::file(&[good.clone(), bad.clone(), good]);
    let setup = Setup::new(options);
    let whole = assert_all_splits::<RecordIoProtobuf>(&setup, &file);
    assert_eq!((whole.records.len(), whole.errors.len()), (1, 1), "{:?}", whole.errors);
    let setup = setup.skipping();
    let skipped = assert_any_split::<RecordIoProtobuf>(&setup, &file, &vec![1; file.len()]);
    assert_eq!(skipped.records, [&whole.records[..], &whole.records].concat());
    let (at, length, message) = skipped.errors[0].clone();
    assert_eq!((at, length), (start, 8 + bad.len().next_multiple_of(4) as u64));
    assert_eq!(whole.errors, [(at, 0, message.clone())]);
    message
}

/// The same, for good records with two features and a label.
fn message_for(options: &[(&str, &str)], bad: Vec<u8>) -> String {
    message_between(usual(&float32(&[1.0, 2.0]), &int32(&[3])), options, bad)
}

const LABEL: [u8; 0] = [];

#[test]
fn a_missing_feature() {
    let bad = [entry(1, "value\n", &float32(&[1.0])), entry(2, "values", &int32(&[1]))].concat();
    assert_eq!(
        message_for(&[], bad.clone()),
        "feature `values` is missing; the record has feature `value\\n`, label `values`; put a ? \
         after `values` in the option `features` if records may be without it"
    );
    assert_eq!(
        message_for(&[], entry(1, "values", &float32(&[1.0, 2.0]))),
        "label `values` is missing; the record has feature `values`; put a ? after `values` in the \
         option `label` if records may be without it"
    );
    assert!(message_for(&[], Vec::new()).contains("has no features and no labels;"));
    assert!(
        message_for(&[], usual(&LABEL, &int32(&[1]))).starts_with("feature `values` is missing")
    );
}

#[test]
fn a_label_that_the_first_record_lacks() {
    let message = message_between(
        entry(1, "values", &float32(&[1.0, 2.0])),
        &[],
        usual(&float32(&[1.0, 2.0]), &int32(&[3])),
    );
    assert_eq!(
        message,
        "label `values`: expected no value, as in the first record, found int32; write label = \
         \"values:int32[]?\", or label = \"\" to leave it out"
    );
}

#[test]
fn another_type() {
    let bad = usual(&tensor(3, &[0; 16], &[], &[]), &int32(&[1]));
    assert_eq!(
        message_for(&[], bad.clone()),
        "feature `values`: expected float32[2], as in the first record, found float64[2]; the \
         records of an object must be of one type"
    );
    let typed = [("features", "values:float32[2]")];
    assert_eq!(
        message_for(&typed, bad),
        "feature `values`: expected float32[2], found float64[2]; write `values:float64[]` in the \
         option `features` if that is right"
    );
    assert_eq!(
        message_for(&typed, usual(&bytes(&[b"jpeg"]), &int32(&[1]))),
        "feature `values`: expected float32[2], found bytes; write `values:bytes` in the option \
         `features` if that is right"
    );
    let message = message_between(
        usual(&bytes(&[b"jpeg"]), &int32(&[1])),
        &[("features", "values:bytes")],
        usual(&float32(&[1.0]), &int32(&[1])),
    );
    assert!(message.starts_with("feature `values`: expected bytes, found float32[1]; write"));
}

#[test]
fn another_shape() {
    let bad = |features: &[u8]| usual(features, &int32(&[1]));
    assert_eq!(
        message_for(&[], bad(&float32(&[1.0; 3]))),
        "feature `values`: expected float32[2], as in the first record, found float32[3]; write \
         `values:float32[3]`, or `values:float32[]` for any number, in the option `features`"
    );
    assert!(message_for(&[], bad(&float32(&[]))).contains("found float32[];"));
    assert!(
        message_for(&[], bad(&tensor(2, &[0; 8], &[], &[1, 2])))
            .contains("found float32[1,2]; write")
    );
    assert_eq!(
        message_for(&[], bad(&tensor(2, &[0; 8], &[], &[3]))),
        "feature `values`: expected float32[2], as in the first record, found 2 values of float32 \
         with the shape [3]; the record contradicts itself"
    );
    let label = usual(&float32(&[1.0, 2.0]), &int32(&[1, 2]));
    assert!(message_for(&[], label).starts_with(
        "label `values`: expected int32, as in the first record, found int32[2]; write"
    ));
}

#[test]
fn sparse_among_dense() {
    let bad = usual(&sparse(&[1.0], &[1], &[2]), &int32(&[1]));
    let found = "found a sparse tensor of float32, 1 values in the shape [2]";
    assert_eq!(
        message_for(&[], bad.clone()),
        format!(
            "feature `values`: expected float32[2], as in the first record, {found}; sparse = \
             \"dense\" writes out the zeros of such a shape"
        )
    );
    assert_eq!(
        message_for(&[("features", "values:float32[2]")], bad.clone()),
        format!(
            "feature `values`: expected float32[2], {found}; sparse = \"dense\" writes out the zeros \
             of such a shape, `values` without a type gives keys and values"
        )
    );
    let dense = usual(&float32(&[1.0, 2.0]), &int32(&[1]));
    assert_eq!(
        message_between(bad, &[], dense),
        "feature `values`: expected a sparse tensor of float32, as in the first record, found \
         float32[2]; sparse = \"dense\" takes both, and writes out the zeros"
    );
}

#[test]
fn invalid_sparse_tensors() {
    let good = usual(&sparse(&[1.0], &[1], &[2]), &int32(&[1]));
    let message = |options: &[(&str, &str)], tensor: &[u8]| {
        message_between(good.clone(), options, usual(tensor, &int32(&[1])))
    };
    let dense = [("sparse", "dense")];
    let keys = "feature `values`: expected as many keys as values, found 2 keys and 1 values; the \
                record is damaged";
    assert_eq!(message(&[], &sparse(&[1.0], &[0, 1], &[2])), keys);
    assert_eq!(message(&dense, &sparse(&[1.0], &[0, 1], &[2])), keys);
    assert_eq!(
        message(&dense, &sparse(&[1.0], &[2], &[2])),
        "feature `values`: expected keys below 2, the size of the tensor, found 2; the record is \
         damaged, or its shape is wrong"
    );
    assert!(message(&dense, &sparse(&[1.0], &[2], &[3])).contains("in the shape [3]; sparse ="));
    // Fields are int64.
    let found = message(&[], &sparse(&[1.0], &[u64::MAX], &[1 << 63]));
    assert!(found.contains("expected keys below 9223372036854775808"), "{found}");
    let found = message(&[], &sparse(&[1.0], &[1], &[1 << 63]));
    assert!(found.contains("expected a shape below 2^63, found 9223372036854775808"), "{found}");
    let any = [("sparse", "dense"), ("features", "values:float32[]")];
    assert_eq!(
        message(&any, &sparse(&[1.0], &[1], &[])),
        "feature `values`: expected a sparse tensor with a shape, found none; write it, as in \
         features = \"values:float32[1000]\""
    );
    for shape in [&[1 << 40][..], &[u64::MAX, u64::MAX, 2]] {
        let text = message(&any, &sparse(&[1.0], &[1], shape));
        assert!(text.contains("is larger than max_record (67108864 bytes)"), "{text}");
    }
}

#[test]
fn several_values_of_bytes() {
    let good = usual(&bytes(&[b"jpeg"]), &int32(&[1]));
    for values in [&[][..], &[&b"a"[..], b"b"]] {
        let bad = usual(&bytes(values), &int32(&[1]));
        assert_eq!(
            message_between(good.clone(), &[], bad),
            format!(
                "feature `values`: expected one value of bytes, found {}; a list of such values is \
                 no field: take whole records with the decoder `recordio`",
                values.len()
            )
        );
    }
}

#[test]
fn a_first_record_without_type_and_shape() {
    let first = |options: &[(&str, &str)], payload: Vec<u8>| {
        let file = write::file(&[payload]);
        let setup = Setup::new(options);
        let outcome = assert_any_split::<RecordIoProtobuf>(&setup, &file, &vec![1; file.len()]);
        assert_eq!((outcome.records.len(), outcome.errors.len(), outcome.schema), (0, 1, None));
        outcome.errors[0].2.clone()
    };
    assert_eq!(
        first(&[], usual(&float32(&[]), &int32(&[1]))),
        "feature `values`: expected a tensor that tells type and shape, as this is the first record, \
         found float32[]; write them, as in features = \"values:float32[10]\""
    );
    assert!(
        first(&[("label", "w?")], usual(&float32(&[1.0]), &[])).contains("found nothing; write")
    );
    let dense = [("sparse", "dense")];
    assert!(
        first(&dense, usual(&sparse(&[1.0], &[1], &[]), &[])).contains("found a sparse tensor")
    );
    assert!(first(&[], b"".to_vec()).starts_with("feature `values` is missing; the record has no"));
}

#[test]
fn texts_that_are_not_utf8() {
    let bad = [usual(&float32(&[1.0, 2.0]), &int32(&[3])), field(3, b"ab\xff")].concat();
    assert_eq!(
        message_for(&[("uid", "true")], bad),
        "`uid`: expected UTF-8, found byte ff at its +2; leave out uid = true if it is no text"
    );
}

#[test]
fn records_that_are_no_message() {
    let invalid = |at, found| {
        format!(
            "expected an aialgs.data.Record, found at +{at} {found}; the record is damaged, or of \
             another type"
        )
    };
    let cases = [
        (b"\x0b".to_vec(), invalid(9, "the end of its message inside group 1")),
        (b"\x0c".to_vec(), invalid(8, "the end of group 1, which is not the last one that began")),
        (b"\x0a\x05ab".to_vec(), invalid(9, "a length of 5 bytes where 2 are left of its message")),
        (
            b"\x0d\0\0\0\0".to_vec(),
            invalid(8, "field 1 as 4 bytes where bytes with a length must stand"),
        ),
        (
            usual(&tensor(2, &[0; 6], &[], &[]), &int32(&[1])),
            invalid(22, "6 bytes of packed numbers of 4 bytes each"),
        ),
        (
            usual(&float32(&[1.0, 2.0]), &tensor(7, b"\xff", &[], &[])),
            invalid(46, "the end of its message inside a varint"),
        ),
    ];
    for (bad, message) in cases {
        assert_eq!(message_for(&[], bad), message);
    }
}

/// The error of a record in parts counts its offset in the joined parts.
#[test]
fn a_record_in_parts_that_is_no_message() {
    let mut file = Vec::new();
    write::part(&mut file, 1, b"\x0a\x05ab");
    write::part(&mut file, 3, b"");
    let setup = Setup::new(&[("multipart", "concat")]);
    let outcome = assert_any_split::<RecordIoProtobuf>(&setup, &file, &vec![1; file.len()]);
    let message = "expected an aialgs.data.Record, found at +1 of its joined parts a length of 5 bytes \
                   where 2 are left of its message; the record is damaged, or of another type";
    assert_eq!(outcome.errors, [(0, 0, message.to_owned())]);
}

#[test]
fn records_larger_than_max_record() {
    let (small, large) = (float32(&[1.0]), float32(&[1.0; 9]));
    let payloads = [&small, &large, &small].map(|features| usual(features, &int32(&[1])));
    let max_record = payloads[0].len() as u64;
    let file = write::file(&payloads);
    let setup = Setup { max_record, ..Setup::new(&[]) }.skipping();
    let outcome = assert_any_split::<RecordIoProtobuf>(&setup, &file, &vec![1; file.len()]);
    assert_eq!((outcome.records.len(), outcome.errors.len()), (2, 1));
    assert!(outcome.errors[0].2.starts_with("record of 69 bytes is larger than max_record"));
}
