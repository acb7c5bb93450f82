//! Tests of the options: the fields that they describe, and the values that are refused.

use pipemill_plugin::testing::{self, Setup, assert_any_split};
use pipemill_plugin::{Decoder, Field, Scalar};
use pipemill_tf_example::TfExample;

use crate::write::{self, Value, example};

fn open(given: &[(&str, &str)]) -> Result<Vec<Field>, String> {
    let decoder = testing::open::<TfExample>(&Setup::new(given))?;
    Ok(decoder.schema().expect("known at open"))
}

#[test]
fn fields_of_the_option() {
    let features = "image/encoded:bytes,t=text:utf8 , label:int64?, w : float32[28, 28], any:int64[], a:b:float32[0,3]";
    let fields = [
        Field::bytes("image/encoded"),
        Field::new("t", Scalar::Utf8),
        Field::new("label", Scalar::Int64).nullable(),
        Field::new("w", Scalar::Float32).shaped([28, 28]),
        Field::new("any", Scalar::Int64).shaped([0]),
        Field::new("a:b", Scalar::Float32).shaped([0, 3]),
    ];
    assert_eq!(open(&[("features", features)]), Ok(fields.to_vec()));
}

#[test]
fn invalid_options_are_refused() {
    let missing = "option `features` is missing; write the features to read and as what, as in \
                   features = \"image:bytes, label:int64, weights:float32[10]\"; the types are bytes, \
                   utf8, int64 and float32";
    let example = "\"image:bytes, label:int64, weights:float32[10]\"";
    let cases = [
        (" ", missing.to_owned()),
        (
            "image",
            format!(
                "option `features`: `image` has no type; put one after it, as in {example}; there are \
                 bytes, utf8, int64 and float32"
            ),
        ),
        (
            "a:int32",
            "option `features`, `a:int32`: expected bytes, utf8, int64 or float32, found \"int32\""
                .into(),
        ),
        ("a:int64,a:bytes", "option `features` has `a` twice".into()),
        (
            "a:int64,a=b:bytes",
            "option `features`: there are two fields called `a`; put another name before one, as in \
             \"other=b\""
                .into(),
        ),
        (
            "a:bytes[3,2]",
            "option `features`: `a` can't have several dimensions; a list of bytes has one".into(),
        ),
        (
            "a:int64[x]",
            "option `features`, `a:int64[x]`: expected numbers between brackets, found [x]".into(),
        ),
        (
            "a:int64[0,0]",
            "option `features`, `a:int64[0,0]`: expected at most one size of 0, which is for any, \
             found [0,0]"
                .into(),
        ),
        (
            "a:int64[65536,65536]",
            "option `features`, `a:int64[65536,65536]`: expected at most 1073741824 elements, found \
             [65536,65536]"
                .into(),
        ),
        (
            "a:int64,,b:int64",
            format!(
                "option `features` takes fields with a comma between them, as in {example}, not \
                 \"a:int64,,b:int64\""
            ),
        ),
        (
            "a[3]",
            "option `features`, `a[3]`: brackets belong after a type, as in \"x:float32[10]\"".into(),
        ),
    ];
    for (features, message) in cases {
        assert_eq!(open(&[("features", features)]), Err(message), "{features}");
    }
    assert_eq!(open(&[]), Err(missing.to_owned()));
}

#[test]
fn without_verify_checksums_are_not_checked() {
    let mut file = write::file(&[example(&[("label", Value::Int64(vec![7]))])]);
    let last = file.len() - 1;
    file[last] ^= 1;
    let outcome = |verify| {
        let setup = Setup::new(&[("features", "label:int64"), ("verify", verify)]);
        assert_any_split::<TfExample>(&setup, &file, &vec![1; file.len()])
    };
    assert_eq!(outcome("false").records, [[Some(7i64.to_le_bytes().to_vec())]]);
    assert!(outcome("true").errors[0].2.contains("masked CRC-32C"));
}
