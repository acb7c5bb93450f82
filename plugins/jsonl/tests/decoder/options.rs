//! Tests of the options: the fields that they describe, and the values that are refused.

use pipemill_jsonl::Jsonl;
use pipemill_plugin::testing::{self, Setup};
use pipemill_plugin::{Decoder, Field, Scalar};

fn open(given: &[(&str, &str)]) -> Result<Vec<Field>, String> {
    let decoder = testing::open::<Jsonl>(&Setup::new(given))?;
    Ok(decoder.schema().expect("known at open"))
}

#[test]
fn fields_of_the_options() {
    let wanted = vec![
        Field::new("id", Scalar::Int64),
        Field::utf8("text").nullable(),
        Field::new("vec", Scalar::Float32).shaped([128]),
        Field::new("any", Scalar::Float64).shaped([0]),
        Field::new("boxes", Scalar::Float32).shaped([0, 4]),
        Field::bytes("raw"),
        Field::new("ok", Scalar::Boolean),
    ];
    let fields = "id=/meta/id:int64, /text:utf8?, vec=/embedding:float32[128], /x/any:float64[], \
                  /boxes:float32[0,4], raw=:bytes, /ok:bool";
    assert_eq!(open(&[("fields", fields)]), Ok(wanted));
}

#[test]
fn invalid_options_are_refused() {
    let fields = |list: &str| open(&[("fields", list)]).expect_err("the list is not valid");
    assert_eq!(
        fields("id:int64"),
        "option `fields` takes JSON pointers, as \"/text\" or \"/meta/id\" (in keys, ~0 stands for a \
         tilde and ~1 for a slash), not \"id\""
    );
    assert_eq!(
        fields("/:int64"),
        "option `fields`: `/` gives no name; put one before it, as in \"name=/\""
    );
    assert_eq!(
        fields("/text"),
        "option `fields`: `/text` has no type; put one after it, as in \
         \"id=/meta/id:int64,/text:utf8?,/vec:float32[128]\"; there are bytes, utf8, bool, int32, \
         int64, float32 and float64"
    );
    assert!(fields("/a:bool[]").contains("brackets are for numbers, not for bool"));
    assert_eq!(
        fields("/a:bytes[3]"),
        "option `fields`: `/a` as bytes is the JSON text of the value, so it can't be a list; leave \
         the brackets out, or take \"/a:utf8[]\""
    );
    assert_eq!(
        fields("/a:utf8[2,2]"),
        "option `fields`: `/a` can't be lists in a list; lists of text are \"/a:utf8[]\""
    );
    assert_eq!(
        fields("/a:int32[1,1,1,1,1,1,1,1,1]"),
        "option `fields`: `/a` has 9 sizes; there may be 8"
    );
    assert_eq!(fields("/a:utf8,b=/a:bytes"), "option `fields` has `/a` twice");
    assert!(fields("/a/id:int32,/b/id:int32").contains("two fields called `id`"));
    assert_eq!(
        open(&[("fields", "/a:utf8"), ("validate", "false")]),
        Err("validate = false has no meaning with `fields`: what is chosen from a line is found by \
             checking it"
            .to_owned())
    );
}
