//! Types and shapes that are learned from the first record, and the ways in which protobuf allows a
//! record to be written.

use pipemill_plugin::testing::{
    Outcome, Setup, assert_all_splits, assert_any_split, assert_restarts,
};
use pipemill_plugin::{Field, Scalar};
use pipemill_recordio_protobuf::RecordIoProtobuf;

use crate::write::{
    self, bytes, entry, field, float32, int32, part, sparse, tensor, usual, varints,
};

fn outcome(options: &[(&str, &str)], file: &[u8]) -> Outcome {
    let setup = Setup::new(options);
    let whole = assert_all_splits::<RecordIoProtobuf>(&setup, file);
    assert_eq!(whole.errors, []);
    whole
}

fn le(values: &[f32]) -> Option<Vec<u8>> {
    Some(values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

/// The shapes that are learned from a record with these features and this label.
fn shapes(features: &[u8], label: &[u8]) -> Vec<Vec<u32>> {
    let outcome = outcome(&[], &write::file(&[usual(features, label)]));
    outcome.schema.expect("learned").into_iter().map(|field| field.shape).collect()
}

#[test]
fn shapes_of_the_first_record() {
    assert_eq!(shapes(&float32(&[1.0]), &float32(&[1.0])), [vec![1], vec![]]);
    assert_eq!(shapes(&float32(&[1.0, 2.0]), &int32(&[1, 2, 3])), [[2], [3]]);
    let grid = tensor(2, &[0; 24], &[], &[2, 3]);
    assert_eq!(shapes(&grid, &tensor(3, &[0; 8], &[], &[1])), [vec![2, 3], vec![]]);
    assert_eq!(shapes(&grid, &tensor(7, &[0; 1], &[], &[1, 1])), [vec![2, 3], vec![1, 1]]);
}

/// The schema comes from the first valid record, not from one that is refused.
#[test]
fn nothing_is_learned_from_a_refused_record() {
    let bad = [usual(&float32(&[1.0, 2.0]), &float32(&[0.0])), field(3, b"\xff")].concat();
    let good = [usual(&int32(&[1, 2, 3]), &int32(&[4])), field(3, b"uid")].concat();
    let file = write::file(&[b"\x0a\x7f".to_vec(), bad, good]);
    let setup = Setup::new(&[("uid", "true")]).skipping();
    let outcome = assert_any_split::<RecordIoProtobuf>(&setup, &file, &vec![1; file.len()]);
    assert_eq!((outcome.errors.len(), outcome.records.len()), (2, 1));
    let schema = outcome.schema.expect("learned");
    assert_eq!(schema[0], Field::new("features", Scalar::Int32).shaped([3]));
}

/// The same is true if the first record that it sees has another form.
#[test]
fn a_stream_that_begins_again_has_the_form_of_the_first_record() {
    let one = usual(&float32(&[1.0, 2.0]), &int32(&[3]));
    let forms = [
        one.clone(),
        usual(&float32(&[1.0, 2.0, 3.0]), &int32(&[3])),
        usual(&sparse(&[1.0], &[5], &[9]), &int32(&[3])),
        entry(1, "values", &float32(&[1.0, 2.0])),
        usual(&bytes(&[b"image"]), &float32(&[3.0])),
    ];
    for first in &forms {
        let records = [std::slice::from_ref(first), &forms, std::slice::from_ref(&one)].concat();
        for options in [&[("uid", "true")][..], &[("sparse", "dense")], &[("features", "w=values")]]
        {
            let file = write::file(&records);
            let setup = Setup::new(options).skipping();
            let places = assert_restarts::<RecordIoProtobuf>(&setup, &file, &vec![1; file.len()]);
            assert!(places.len() >= 2, "{options:?}: begins again at {places:?}");
        }
    }
}

#[test]
fn an_empty_file_has_no_schema() {
    assert_eq!(outcome(&[], b"").schema, None);
}

/// If a key, a case of a value or a uid occurs twice, the last one counts.
#[test]
fn the_last_one_counts() {
    let value = [int32(&[1]), float32(&[1.0]), int32(&[2]), float32(&[2.0, 3.0])].concat();
    let record = [
        field(3, b"first"),
        entry(1, "values", &float32(&[9.0])),
        usual(&value, &float32(&[4.0])),
        field(3, b"last"),
        field(99, b"unknown"),
    ];
    let outcome = outcome(&[("uid", "true")], &write::file(&[record.concat()]));
    assert_eq!(outcome.records, [[le(&[2.0, 3.0]), le(&[4.0]), Some(b"last".to_vec())]]);
}

/// A tensor that occurs twice is merged, in one value or in two.
#[test]
fn tensors_in_pieces() {
    let (one, two) = (float32(&[1.0]), float32(&[2.0, 3.0]));
    let in_one_value = [entry(1, "values", &[one.clone(), two.clone()].concat())].concat();
    let in_two =
        field(1, &[field(2, &one), field(1, b"values"), field(2, &two), varints([80, 7])].concat());
    // The floats and the shape are not packed.
    let unpacked = b"\x0d\0\0\x80\x3f\x18\x01\x0d\0\0\0\x40\x18\x03\x0d\0\0\x40\x40";
    let unpacked = entry(1, "values", &field(2, unpacked));
    let options = [("features", "values:float32[1,3]"), ("label", "")];
    let outcome = outcome(&options, &write::file(&[in_one_value, in_two, unpacked.clone()]));
    assert_eq!(outcome.records, vec![[le(&[1.0, 2.0, 3.0])]; 3]);
}

/// Records in parts are joined with the magic between them, or without it.
#[test]
fn records_in_parts() {
    let magic = f32::from_bits(0xced7_230a);
    let record = usual(&float32(&[1.0, magic, 2.0]), &float32(&[3.0]));
    let at = record
        .windows(4)
        .position(|bytes| bytes == magic.to_le_bytes())
        .expect("the record has the magic");
    let mut dmlc = Vec::new();
    part(&mut dmlc, 0, &record);
    part(&mut dmlc, 1, &record[..at]);
    part(&mut dmlc, 3, &record[at + 4..]);
    let mut concat = Vec::new();
    part(&mut concat, 1, &record[..7]);
    part(&mut concat, 2, &record[7..at + 2]);
    part(&mut concat, 3, &record[at + 2..]);
    let wanted = [le(&[1.0, magic, 2.0]), le(&[3.0])];
    // dmlc splits only at a multiple of 4 bytes.
    assert!(at.is_multiple_of(4), "{at}");
    assert_eq!(outcome(&[], &dmlc).records, [wanted.clone(), wanted.clone()]);
    let options = [("multipart", "concat")];
    assert_eq!(outcome(&options, &concat).records, std::slice::from_ref(&wanted));
}

/// Dense and sparse records are mixed, and keys are in any order.
#[test]
fn zeros_are_written_out() {
    let label = float32(&[0.0]);
    let tensors = [
        sparse(&[1.0, 2.0], &[3, 0], &[2, 2]),
        sparse(&[], &[], &[2, 2]),
        float32(&[1.0, 2.0, 3.0, 4.0]),
        sparse(&[5.0], &[1], &[]),
    ];
    let rows = [[2.0, 0.0, 0.0, 1.0], [0.0; 4], [1.0, 2.0, 3.0, 4.0], [0.0, 5.0, 0.0, 0.0]];
    let file = write::file(&tensors.map(|tensor| usual(&tensor, &label)));
    let outcome = outcome(&[("sparse", "dense")], &file);
    assert_eq!(outcome.records, rows.map(|row| [le(&row), le(&[0.0])]));
    assert_eq!(outcome.schema.expect("learned")[0].shape, [2, 2]);
}

/// If the field has any length, each sparse row is as long as its own shape.
#[test]
fn zeros_of_any_length() {
    let tensors = [sparse(&[1.0], &[1], &[3]), float32(&[1.0]), sparse(&[], &[], &[2])];
    let file = write::file(&tensors.map(|tensor| entry(1, "values", &tensor)));
    let options = [("sparse", "dense"), ("features", "values:float32[]"), ("label", "")];
    let rows = [vec![0.0, 1.0, 0.0], vec![1.0], vec![0.0, 0.0]];
    assert_eq!(outcome(&options, &file).records, rows.map(|row| [le(&row)]));
}
