//! Tests of the options: the field that they describe, and the values that are refused.

use pipemill_plugin::testing::{self, Setup};
use pipemill_plugin::{Decoder, Field, Scalar};
use pipemill_tokens::Tokens;

fn open(given: &[(&str, &str)]) -> Result<Vec<Field>, String> {
    let setup = Setup { max_record: 1 << 20, ..Setup::new(given) };
    Ok(testing::open::<Tokens>(&setup)?.schema().expect("known at open"))
}

#[test]
fn the_field() {
    let field =
        |scalar, length| Ok(vec![Field::new("tokens", scalar).shaped([length]).logical("tokens")]);
    assert_eq!(open(&[("length", "1024")]), field(Scalar::Uint16, 1024));
    for (word, scalar) in [
        ("uint16", Scalar::Uint16),
        ("uint32", Scalar::Uint32),
        ("int32", Scalar::Int32),
        ("int64", Scalar::Int64),
    ] {
        assert_eq!(open(&[("length", "7"), ("type", word)]), field(scalar, 7));
        assert_eq!(open(&[("length", "7"), ("type", word), ("format", "llm.c")]), field(scalar, 7));
    }
}

#[test]
fn invalid_options_are_refused() {
    let refused = |given: &[(&str, &str)]| open(given).expect_err("the options are not valid");
    assert_eq!(refused(&[]), "option `length` must be set: tokens of a record");
    for length in ["0", "4294967296"] {
        assert_eq!(
            refused(&[("length", length)]),
            format!("option `length` takes a number from 1 to 4294967295, not {length}")
        );
    }
    assert_eq!(
        refused(&[("length", "1"), ("type", "float32")]),
        "option `type` takes one of uint16, uint32, int32, int64, not \"float32\""
    );
    assert_eq!(
        refused(&[("length", "1"), ("format", "llm.c"), ("header", "1024")]),
        "option `header` has no meaning with format = \"llm.c\", whose header has a size of its own"
    );
    assert_eq!(
        refused(&[("length", "524289")]),
        "records of 1048578 bytes are larger than max_record (1048576 bytes); raise max_record"
    );
    assert!(refused(&[("length", "4294967295"), ("type", "int64")]).starts_with("records of "));
}
