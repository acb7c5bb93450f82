//! The option `fields`.

use pipemill_avro::Avro;
use pipemill_plugin::testing::{self, Setup};
use pipemill_plugin::{Field, Scalar};

use crate::write::{long, one_block, string};
use crate::{error, field, fields, good, record};

fn refused(text: &str) -> String {
    testing::open::<Avro>(&Setup::new(&[("fields", text)])).expect_err("the list is not valid")
}

fn file() -> Vec<u8> {
    let user = r#"{"type": "record", "name": "u", "fields": [{"name": "name", "type": "string"}]}"#;
    let schema = record(
        &[
            field("id", "\"int\""),
            field("user", user),
            field("m", r#"["null", {"type": "map", "values": "int"}]"#),
        ]
        .join(","),
    );
    let one = [&long(7)[..], &string("Eve"), &[0]].concat();
    one_block(&schema, "null", &[one])
}

#[test]
fn fields_with_and_without_names() {
    let outcome = good(&[("fields", "name = user.name , id")], &file());
    assert_eq!(fields(&outcome), [Field::new("id", Scalar::Int32), Field::utf8("name")]);
    let outcome = good(&[("fields", "user")], &file());
    assert_eq!(fields(&outcome), [Field::utf8("user.name")]);
    assert_eq!(outcome.records, [[Some(b"Eve".to_vec())]]);
}

#[test]
fn lists_that_are_not_valid() {
    for (text, sign) in [("id:int32", ':'), ("id?", '?'), ("id[3]", '[')] {
        let wanted = format!(
            "option `fields` takes names of fields, as in \"id,name=user.name\", and no `{sign}`: their \
             types are in the file's schema"
        );
        assert_eq!(refused(text), wanted);
    }
    assert!(refused("").starts_with("option `fields` takes fields with a comma between them"));
    assert_eq!(refused("a,x=a"), "option `fields` has `a` twice");
    assert!(refused("a,a=b").contains("two fields called `a`"));
    assert_eq!(refused("a="), "option `fields`: `a=` names no field of the file");
}

#[test]
fn fields_that_the_file_does_not_have() {
    for name in ["name", "user.id", "id.x", "user.name.x", "."] {
        let (message, refused) = error(&[("fields", name)], &file());
        let wanted = format!(
            "option `fields`: the file's records have no field `{name}`; they have id, user, m"
        );
        assert_eq!((message, refused), (wanted, true));
    }
    let (message, _) = error(&[("fields", "m.key")], &file());
    assert!(message.starts_with("the field `m` is a union of null, map"), "{message}");
    let (message, _) = error(&[("fields", "u=user")], &file());
    assert_eq!(
        message,
        "option `fields`: `user` is a record, which gets no other name: name its fields"
    );
    let (message, _) = error(&[("fields", "x=id,x.y=user")], &file());
    assert!(message.contains("gets no other name"), "{message}");
    let (message, _) = error(&[("fields", "user.name=id,user")], &file());
    assert!(message.contains("two fields are called `user.name`"), "{message}");
    let (message, _) = error(&[("fields", "id")], &one_block("\"int\"", "null", &[]));
    assert_eq!(
        message,
        "option `fields`: a file without records have no field `id`; they have value"
    );
}
