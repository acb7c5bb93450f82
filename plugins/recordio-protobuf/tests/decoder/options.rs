//! Tests of the options: the fields that they describe, and the values that are refused.

use pipemill_plugin::testing::{self, Setup};
use pipemill_plugin::{Decoder, Field, Scalar};
use pipemill_recordio_protobuf::RecordIoProtobuf;

/// The fields, if they are known before the first record.
fn open(given: &[(&str, &str)]) -> Result<Option<Vec<Field>>, String> {
    Ok(testing::open::<RecordIoProtobuf>(&Setup::new(given))?.schema())
}

#[test]
fn fields_of_the_options() {
    let float32 = |name: &str| Field::new(name, Scalar::Float32);
    let given = [("features", "values:float32[28,28]"), ("label", "values:int32")];
    let fields = vec![float32("features").shaped([28, 28]), Field::new("label", Scalar::Int32)];
    assert_eq!(open(&given), Ok(Some(fields)));
    let given = [
        ("features", "x=values:float64[], image:bytes?"),
        ("label", ""),
        ("uid", "true"),
        ("metadata", "true"),
    ];
    let fields = vec![
        Field::new("x", Scalar::Float64).shaped([0]),
        Field::bytes("image").nullable(),
        Field::utf8("uid").nullable(),
        Field::utf8("metadata").nullable(),
    ];
    assert_eq!(open(&given), Ok(Some(fields)));
}

#[test]
fn fields_that_must_be_learned() {
    assert_eq!(open(&[]), Ok(None));
    assert_eq!(open(&[("features", "values:float32[3]")]), Ok(None), "there may be a label");
    assert_eq!(open(&[("features", "values"), ("label", "")]), Ok(None));
}

#[test]
fn invalid_options_are_refused() {
    let cases = [
        (
            vec![("features", "values:int64")],
            "option `features`, `values:int64`: expected bytes, int32, float32 or float64, found \"int64\"",
        ),
        (vec![("label", "a,a")], "option `label` has `a` twice"),
        (
            vec![("features", "a"), ("label", "a")],
            "option `label`: there are two fields called `a`; put another name before one, as in \
             \"other=a\"",
        ),
        (
            vec![("features", "label=values")],
            "option `label`: there are two fields called `label`; put another name before one, as in \
             \"other=values\"",
        ),
        (
            vec![("features", "uid"), ("uid", "true")],
            "option `features`: there are two fields called `uid`; put another name before one, as in \
             \"other=uid\"",
        ),
        (
            vec![("features", ""), ("label", "")],
            "options `features` and `label` leave no field; name a key in one",
        ),
        (vec![("sparse", "auto")], "option `sparse` takes one of fields, dense, not \"auto\""),
    ];
    for (given, message) in cases {
        assert_eq!(open(&given), Err(message.to_owned()), "{given:?}");
    }
}
