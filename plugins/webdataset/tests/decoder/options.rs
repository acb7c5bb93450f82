//! Tests of the options: the fields that they describe, and the values that are refused.

use pipemill_plugin::testing::{self, Setup};
use pipemill_plugin::{Decoder, Field, Scalar};
use pipemill_webdataset::WebDataset;

fn open(given: &[(&str, &str)]) -> Result<Vec<Field>, String> {
    let decoder = testing::open::<WebDataset>(&Setup::new(given))?;
    Ok(decoder.schema().expect("known at open"))
}

#[test]
fn fields_of_the_options() {
    let key = || Field::new("__key__", Scalar::Utf8);
    let list = "JPG;png, .cls:utf8, meta.json?, x=npy:bytes";
    let members = vec![
        Field::bytes("jpg"),
        Field::new("cls", Scalar::Utf8),
        Field::bytes("meta.json").nullable(),
        Field::bytes("x"),
    ];
    assert_eq!(open(&[("fields", list), ("key", "false")]), Ok(members.clone()));
    assert_eq!(open(&[("fields", list)]), Ok([vec![key()], members].concat()));
}

#[test]
fn invalid_options_are_refused() {
    assert_eq!(
        open(&[]),
        Err("which members of a sample are wanted must be said: set the option `fields`, as in \
             fields = \"jpg,cls:utf8,json?\""
            .to_owned())
    );
    let fields = |list: &str| open(&[("fields", list)]).expect_err("the list is not valid");
    for list in ["jpg;", ".", "a/b.jpg"] {
        assert!(fields(list).starts_with("option `fields` takes extensions, as in"), "{list}");
    }
    assert_eq!(
        fields("jpg,cls:int32"),
        "option `fields`, `cls:int32`: expected bytes or utf8, found \"int32\""
    );
    for list in ["jpg,png,jpg", "jpg,x=.JPG", "jpg,a=png;jpg", "x=jpg;jpg"] {
        assert_eq!(fields(list), "option `fields` has `jpg` twice", "{list}");
    }
    assert!(fields("a=jpg,a=png").contains("two fields called `a`"));
    assert_eq!(
        fields("__key__"),
        "option `fields`: there are two fields called `__key__`; put another name before one, as in \
         \"other=__key__\""
    );
}
