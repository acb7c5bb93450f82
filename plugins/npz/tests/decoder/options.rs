//! Tests of the options: the fields that they describe, and the values that are refused.

use pipemill_npz::Npz;
use pipemill_plugin::testing::{self, Setup};
use pipemill_plugin::{Decoder, Field, Scalar};

fn open(given: &[(&str, &str)]) -> Result<Option<Vec<Field>>, String> {
    Ok(testing::open::<Npz>(&Setup::new(given))?.schema())
}

#[test]
fn fields_of_the_options() {
    assert_eq!(open(&[]), Ok(None));
    assert_eq!(open(&[("array", "x")]), Ok(None));
    assert_eq!(open(&[("fields", "x,y:int64")]), Ok(None));
    let fields = vec![
        Field::new("x", Scalar::Float16).shaped([0, 3]),
        Field::new("n", Scalar::Int64).nullable(),
        Field::bytes("a/b"),
        Field::new("ok", Scalar::Boolean),
        Field::bytes("tags").list(),
    ];
    assert_eq!(
        open(&[("fields", "x:float16[0,3], n=label:int64?, a/b:bytes, ok.npy:bool, tags:bytes[]")]),
        Ok(Some(fields))
    );
}

#[test]
fn invalid_options_are_refused() {
    assert_eq!(
        open(&[("array", "x"), ("fields", "x")]),
        Err("option `array` makes a record of each row, and `fields` one of each archive; set one of them"
            .to_owned())
    );
    let fields = |list: &str| open(&[("fields", list)]).expect_err("the list is not valid");
    assert_eq!(fields("x,a=x.npy"), "option `fields` has `x` twice");
    assert!(fields("a=x,a=y").contains("two fields called `a`"));
    assert!(fields("x:utf8").contains("expected bytes, bool, int8, int16"));
}
