//! Tests of the options: the fields that they describe, and the values that are refused.

use pipemill_fixed::Fixed;
use pipemill_plugin::testing::{self, Setup};
use pipemill_plugin::{Decoder, Field, Scalar};

fn open(given: &[(&str, &str)]) -> Result<Vec<Field>, String> {
    let setup = Setup { max_record: 1 << 20, ..Setup::new(given) };
    Ok(testing::open::<Fixed>(&setup)?.schema().expect("known at open"))
}

fn assert_data(given: &[(&str, &str)], field: Field) {
    assert_eq!(open(given), Ok(vec![field]), "{given:?}");
}

#[test]
fn one_field() {
    let float = || Field::new("data", Scalar::Float32);
    assert_data(&[("size", "7")], Field::bytes("data"));
    assert_data(&[("size", "7"), ("type", "bytes")], Field::bytes("data"));
    assert_data(&[("shape", "28,28")], Field::bytes("data"));
    assert_data(&[("shape", "28,28"), ("size", "784")], Field::bytes("data"));
    assert_data(&[("type", "float32")], float());
    assert_data(&[("type", "float32"), ("size", "4")], float());
    assert_data(&[("type", "float32"), ("size", "8")], float().shaped([2]));
    assert_data(&[("type", "float32"), ("shape", "28, 28")], float().shaped([28, 28]));
    assert_data(
        &[("type", "int64"), ("shape", "1")],
        Field::new("data", Scalar::Int64).shaped([1]),
    );
    assert_data(&[("type", "float64"), ("size", "8")], Field::new("data", Scalar::Float64));
}

#[test]
fn every_type() {
    for (word, scalar, width) in [
        ("int8", Scalar::Int8, 1),
        ("int16", Scalar::Int16, 2),
        ("int32", Scalar::Int32, 4),
        ("int64", Scalar::Int64, 8),
        ("uint8", Scalar::Uint8, 1),
        ("uint16", Scalar::Uint16, 2),
        ("uint32", Scalar::Uint32, 4),
        ("uint64", Scalar::Uint64, 8),
        ("float16", Scalar::Float16, 2),
        ("bfloat16", Scalar::Bfloat16, 2),
        ("float32", Scalar::Float32, 4),
        ("float64", Scalar::Float64, 8),
    ] {
        assert_data(&[("type", word)], Field::new("data", scalar));
        assert_data(&[("type", word), ("shape", "3")], Field::new("data", scalar).shaped([3]));
        let (one, six) = (width.to_string(), (6 * width).to_string());
        assert_data(&[("type", word), ("size", &one)], Field::new("data", scalar));
        assert_data(&[("type", word), ("size", &six)], Field::new("data", scalar).shaped([6]));
        let spec = format!("a:{word},b:{word}[2,3]");
        let wanted = vec![Field::new("a", scalar), Field::new("b", scalar).shaped([2, 3])];
        assert_eq!(open(&[("fields", &spec), ("size", &(7 * width).to_string())]), Ok(wanted));
    }
}

#[test]
fn several_fields() {
    let wanted = vec![
        Field::new("label", Scalar::Int32),
        Field::bytes("image"),
        Field::new("x", Scalar::Float64).shaped([2, 3]),
    ];
    let fields = "label:int32, image:bytes[28,28], x:float64[2,3]";
    assert_eq!(open(&[("fields", fields)]), Ok(wanted.clone()));
    assert_eq!(open(&[("fields", fields), ("size", "836")]), Ok(wanted));
}

#[test]
fn invalid_options_are_refused() {
    let refused = |given: &[(&str, &str)]| open(given).expect_err("the options are not valid");
    assert_eq!(
        refused(&[]),
        "how long a record is must be said: set the option `size`, `shape` with `type`, or `fields`"
    );
    assert_eq!(
        refused(&[("type", "bool")]),
        "option `type` knows bytes, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32 and \
         float64, not \"bool\""
    );
    assert_eq!(
        refused(&[("type", "float32"), ("size", "7")]),
        "option `size` is 7, which is no number of float32 (4 bytes each)"
    );
    assert_eq!(
        refused(&[("type", "float32"), ("shape", "2,2"), ("size", "15")]),
        "option `size` is 15, but the fields have 16 bytes together; leave it out, or make them agree"
    );
    assert_eq!(
        refused(&[("fields", "a:int32"), ("shape", "2")]),
        "option `shape` is for the field `data` and has no meaning with `fields`, where each field \
         has its own, as in \"x:float32[28,28]\""
    );
    assert_eq!(
        refused(&[("size", "2000000")]),
        "records of 2000000 bytes are larger than max_record (1048576 bytes); raise max_record"
    );
    for given in [("size", "0"), ("size", "4294967296"), ("shape", "65536,65536,65536,65536,65536")]
    {
        assert!(refused(&[given]).ends_with("a record has 1 to 4294967295 bytes"), "{given:?}");
    }
    for list in ["a:int32?", "b=a:int32", "a:bytes", "a:bytes[]", "a:int32[]", "a:int32[0,3]"] {
        let message = refused(&[("fields", list)]);
        assert!(message.starts_with("option `fields` takes names with types of a fixed"), "{list}");
    }
    assert_eq!(
        refused(&[("fields", "a")]),
        "option `fields`: `a` has no type; put one after it, as in \
         \"label:int32,x:float32[28,28],image:bytes[784]\"; there are bytes, int8, int16, \
         int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32 and float64"
    );
    assert_eq!(
        refused(&[("fields", "a:bool")]),
        "option `fields`, `a:bool`: expected bytes, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32 or \
         float64, found \"bool\""
    );
    assert_eq!(refused(&[("fields", "a:int32,a:int64")]), "option `fields` has `a` twice");
    assert!(refused(&[("shape", "28,0")]).starts_with("option `shape` takes sizes from 1"));
}
