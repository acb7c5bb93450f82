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
    let list = "cls:int64,s=score.txt:float32?,x.npy:uint8[0,3],m.npy:bool[2,2]?,json/meta/label:int32,\
                v=json/v:float64[],json:bytes,whole=meta.json:bool,t=json/t:utf8?";
    let members = vec![
        Field::new("cls", Scalar::Int64),
        Field::new("s", Scalar::Float32).nullable(),
        Field::new("x.npy", Scalar::Uint8).shaped([0, 3]),
        Field::new("m.npy", Scalar::Boolean).shaped([2, 2]).nullable(),
        Field::new("label", Scalar::Int32),
        Field::new("v", Scalar::Float64).list(),
        Field::bytes("json"),
        Field::new("whole", Scalar::Boolean),
        Field::utf8("t").nullable(),
    ];
    assert_eq!(open(&[("fields", list), ("key", "false")]), Ok(members));
}

#[test]
fn invalid_options_are_refused() {
    assert_eq!(
        open(&[]),
        Err("which members of a sample are wanted must be said: set the option `fields`, as in \
             fields = \"jpg,cls:int64,json?\""
            .to_owned())
    );
    let fields = |list: &str| open(&[("fields", list)]).expect_err("the list is not valid");
    for list in ["jpg;", ".", "a/b.jpg"] {
        assert!(fields(list).starts_with("option `fields` takes extensions, as in"), "{list}");
    }
    for list in ["txt/a:int32", "x.npy/a:int32", "json/~2:int32"] {
        assert!(fields(list).starts_with("option `fields` takes extensions, as in"), "{list}");
    }
    let refused = |list: &str| {
        let error = fields(list);
        error.strip_prefix("option `fields`: ").expect("the option").to_owned()
    };
    assert_eq!(
        refused("cls:uint8"),
        "`cls` is text, for which there are bytes, utf8, int32, int64, float32 and float64"
    );
    assert_eq!(
        refused("json/a:float16"),
        "`json/a` is a value of JSON, for which there are bytes, utf8, bool, int32, int64, float32 and float64"
    );
    assert_eq!(
        refused("cls:int32[3]"),
        "`cls` is text, which is one number; arrays are in members of the extensions npy and json"
    );
    for list in ["x=npy;txt:int32", "x=json;txt:int32", "x=json;npy:int32"] {
        assert!(refused(list).contains("has extensions of several formats"), "{list}");
    }
    assert!(refused("json/a").contains("has no type; put one after it"));
    assert_eq!(
        refused("json/:int32"),
        "`json/` gives no name; put one before it, as in \"name=json/\""
    );
    assert!(refused("json/a:utf8[2,2]").contains("can't be lists in a list"));
    for list in ["txt:utf8[]", "x.npy:bytes[]"] {
        assert!(
            refused(list).contains("is one text; lists of text are in members of JSON"),
            "{list}"
        );
    }
    assert_eq!(
        refused("json/a:bool[2]"),
        "`json/a` can't be an array of bool; arrays are of numbers"
    );
    assert_eq!(fields("a=json/a:int32,b=JSON/a:utf8"), "option `fields` has `JSON/a` twice");
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
