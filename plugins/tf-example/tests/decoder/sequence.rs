//! `SequenceExample`s: features of the context, and the steps of feature lists.

use pipemill_plugin::testing::{Outcome, Setup, assert_all_splits};
use pipemill_tf_example::TfExample;

use crate::write::{self, Value, entry, example, field};

/// The message of type `SequenceExample`.
fn sequence(context: &[(&str, Value)], lists: &[(&str, &[Value])]) -> Vec<u8> {
    let list = |(key, steps): &(&str, &[Value])| {
        let steps: Vec<_> = steps.iter().flat_map(|step| field(1, &step.feature())).collect();
        entry(key, &steps)
    };
    let lists: Vec<_> = lists.iter().flat_map(list).collect();
    [example(context), field(2, &lists)].concat()
}

fn outcome(features: &str, record: &[u8]) -> Outcome {
    let setup = Setup::new(&[("features", features)]);
    assert_all_splits::<TfExample>(&setup, &write::file(&[record]))
}

fn message(features: &str, record: &[u8]) -> String {
    let outcome = outcome(features, record);
    assert_eq!(outcome.records, [[]; 0]);
    outcome.errors.into_iter().map(|(.., message)| message).next().expect("an error")
}

fn floats(numbers: &[f32]) -> Option<Vec<u8>> {
    Some(numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
}

fn frames() -> [Value; 2] {
    [Value::Float(vec![1.0, 2.0]), Value::Float(vec![3.0, 4.0])]
}

#[test]
fn feature_lists_become_arrays() {
    let label = Value::Int64(vec![7]);
    let words = [b"a".to_vec(), b"bc".to_vec()].map(|word| Value::Bytes(vec![word]));
    let ids = [5, -1, 300].map(|number| Value::Int64(vec![number]));
    let lists = [("frames", &frames()[..]), ("words", &words), ("ids", &ids), ("none", &[])];
    let record = sequence(&[("label", label)], &lists);
    for shape in ["0,2", "2,2", "2,0"] {
        let features = format!(
            "label:int64,frames:float32[{shape}],words:utf8[],ids:int64[],none:float32[0,3],no:bytes?"
        );
        let found = outcome(&features, &record);
        assert_eq!(found.errors, []);
        let ids = [5i64, -1, 300].map(i64::to_le_bytes).concat();
        let wanted = vec![
            Some(7i64.to_le_bytes().to_vec()),
            floats(&[1.0, 2.0, 3.0, 4.0]),
            Some(b"\x0c\0\0\0\x0d\0\0\0\x0f\0\0\0abc".to_vec()),
            Some(ids),
            Some(Vec::new()),
            None,
        ];
        assert_eq!(found.records, [wanted], "{shape}");
    }
}

#[test]
fn no_list_of_the_record_before_is_left() {
    let with = sequence(&[], &[("frames", &frames())]);
    let records = [with, example(&[("label", Value::Int64(vec![1]))])];
    let setup = Setup::new(&[("features", "frames:float32[0,2]?")]);
    let outcome = assert_all_splits::<TfExample>(&setup, &write::file(&records));
    assert_eq!(outcome.records, [[floats(&[1.0, 2.0, 3.0, 4.0])], [None]]);
}

#[test]
fn feature_lists_that_do_not_fit() {
    let record = sequence(&[("id", Value::Int64(vec![1]))], &[("frames", &frames())]);
    assert_eq!(
        message("frames:float32[]", &record),
        "feature list `frames`: expected 1 values in each step, as a field of one dimension has, \
         found 2 in step 0; write `frames:float32[0,2]` in the option `features` if each step has 2"
    );
    assert_eq!(
        message("frames:float32[3,2]", &record),
        "feature list `frames`: expected float32[3,2], found 2 steps; write `frames:float32[0,2]` \
         for any number, in the option `features`"
    );
    assert!(message("frames:float32", &record).contains("expected 1 values in each step"));
    assert!(message("frames:int64[0,2]", &record).contains("found float32[2]"));
    assert!(
        message("x:int64", &record)
            .starts_with("feature `x` is missing; the record has id:int64, frames:float32[0,2];")
    );
    let uneven = [Value::Float(vec![1.0, 2.0]), Value::Float(vec![3.0])];
    let record = sequence(&[], &[("frames", &uneven)]);
    for shape in ["0,2", "2,0"] {
        let message = message(&format!("frames:float32[{shape}]"), &record);
        assert!(message.contains("found 1 in step 1"), "{message}");
    }
    let record = sequence(&[("frames", frames()[0].clone())], &[("frames", &frames())]);
    assert!(
        message("frames:float32[0,2]", &record).contains("in its context and in its feature lists")
    );
}
