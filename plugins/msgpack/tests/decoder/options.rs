//! Tests of the options: the fields that they describe, and the values that are refused.

use pipemill_msgpack::Msgpack;
use pipemill_plugin::testing::{self, Setup};
use pipemill_plugin::{Decoder, Field, Scalar};

fn open(given: &[(&str, &str)]) -> Result<Vec<Field>, String> {
    let decoder = testing::open::<Msgpack>(&Setup::new(given))?;
    Ok(decoder.schema().expect("known at open"))
}

#[test]
fn fields_of_the_options() {
    assert_eq!(open(&[]), Ok(vec![Field::bytes("value")]));
    let wanted = vec![
        Field::new("id", Scalar::Int64),
        Field::utf8("text").nullable(),
        Field::new("vec", Scalar::Float32).shaped([128]),
        Field::new("any", Scalar::Float64).list(),
        Field::bytes("raw"),
        Field::new("ok", Scalar::Boolean),
        Field::utf8("tags").list().nullable(),
        Field::bytes("parts").shaped([2]),
        Field::new("taken", Scalar::Int64).logical("timestamp[ns]"),
        Field::new("1", Scalar::Bfloat16),
    ];
    let fields = "id=/meta/id:int64, text:utf8?, vec=embedding:float32[128], /x/any:float64[], \
                  raw=data:bytes, ok:bool, tags:utf8[]?, parts:bytes[2], taken:timestamp, 1:bfloat16";
    assert_eq!(open(&[("fields", fields)]), Ok(wanted));
}

#[test]
fn invalid_options_are_refused() {
    let fields = |list: &str| open(&[("fields", list)]).expect_err("the list is not valid");
    assert_eq!(
        fields("/a/~2:int64"),
        "option `fields` takes keys, as \"text\", or JSON pointers, as \"/meta/id\" (in their keys, ~0 \
         stands for a tilde and ~1 for a slash), not \"/a/~2\""
    );
    assert_eq!(
        fields("v=meta/i~d:int64"),
        "option `fields`: `meta/i~d` may be a key or a path; write \"/meta/i~d\" for the path, or \
         \"/meta~1i~0d\" for the key"
    );
    assert_eq!(
        fields("/:int64"),
        "option `fields`: `/` gives no name; put one before it, as in \"name=/\""
    );
    assert_eq!(
        fields("text"),
        "option `fields`: `text` has no type; put one after it, as in \
         \"id=/meta/id:int64,text:utf8?,vec:float32[128]\"; there are bytes, utf8, bool, int8, int16, \
         int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64 and timestamp"
    );
    assert!(open(&[("fields", &format!("{}:int8", "/a".repeat(128)))]).is_ok());
    let long = "/a".repeat(129);
    assert_eq!(
        fields(&format!("{long}:int8")),
        format!("option `fields`: a pointer has at most 128 keys, and `{long}` has 129")
    );
    assert!(fields("a:bool[]").contains("brackets are for numbers, not for bool"));
    for word in ["int32", "utf8", "timestamp"] {
        assert_eq!(
            fields(&format!("a:{word}[2,2]")),
            "option `fields`: `a` can't be an array in rows; arrays have one size, as in \
             \"a:float32[128]\", or any, as in \"a:int64[]\""
        );
    }
    assert_eq!(fields("a:utf8,b=a:bytes"), "option `fields` has `a` twice");
    assert!(fields("/a/id:int32,/b/id:int32").contains("two fields called `id`"));
    assert!(fields("a:int32,/a:int64").contains("two fields called `a`"));
}
