//! Headers, metadata for the consumers, and files after each other.

use pipemill_plugin::testing::Outcome;

use crate::write::{SYNC, block, file, header, header_of, items, long, one_block, string};
use crate::{at_once, error, field, fields, good, record};

const SCHEMA: &str =
    r#"{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}"#;

fn ids(outcome: &Outcome) -> Vec<i64> {
    let id = |record: &Vec<Option<Vec<u8>>>| {
        i64::from_le_bytes(record[0].as_deref().unwrap().try_into().unwrap())
    };
    outcome.records.iter().map(id).collect()
}

/// An object without bytes has no records, as for other decoders.
#[test]
fn an_empty_object() {
    let outcome = good(&[], b"");
    assert_eq!((outcome.records.len(), outcome.schema), (0, None));
}

#[test]
fn a_file_without_blocks() {
    let outcome = good(&[], &header(SCHEMA, "deflate"));
    assert_eq!((outcome.records.len(), fields(&outcome).len()), (0, 1));
}

#[test]
fn blocks_without_records() {
    for codec in crate::write::CODECS {
        let none = [long(0), long(0), SYNC.to_vec()].concat();
        let file = [header(SCHEMA, codec), none.clone(), block(codec, 1, &long(5)), none].concat();
        assert_eq!(ids(&good(&[], &file)), [5]);
    }
}

#[test]
fn metadata_for_the_consumers() {
    for codec in crate::write::CODECS {
        let outcome = good(&[], &header(SCHEMA, codec));
        let metadata: Vec<_> = outcome.metadata.iter().collect();
        let wanted = [("avro.codec", codec), ("avro.schema", SCHEMA)];
        assert_eq!(
            metadata,
            wanted.map(|(k, v)| (k.to_owned(), v.to_owned())).each_ref().map(|(k, v)| (k, v))
        );
    }
    // A schema that is too large for metadata is left out.
    let doc = format!(r#"{{"type": "long", "doc": "{}"}}"#, "x".repeat(65_536));
    let file = one_block(&doc, "null", &[long(1)]);
    let outcome = at_once(&[], &file);
    assert_eq!((outcome.records.len(), outcome.errors.len()), (1, 0));
    assert_eq!(outcome.metadata.keys().collect::<Vec<_>>(), ["avro.codec"]);
}

#[test]
fn forms_of_a_header() {
    let entry = |key: &str, value: &str| [string(key), string(value)].concat();
    let entries = [
        entry("avro.schema", "\"int\""),
        entry("made.by", "a test"),
        entry("", ""),
        entry("avro.schema", SCHEMA),
        entry("avro.codec", "deflate"),
    ];
    for (per_block, sized) in [(9, false), (2, false), (1, true), (9, true)] {
        let header = [b"Obj\x01", &items(&entries, per_block, sized)[..], &SYNC].concat();
        let file = [header, block("deflate", 1, &long(7))].concat();
        assert_eq!(ids(&good(&[], &file)), [7]);
    }
    // Without a codec, blocks are not compressed.
    let file =
        [header_of(&[("avro.schema", SCHEMA.as_bytes())]), block("null", 1, &long(8))].concat();
    let outcome = good(&[], &file);
    assert_eq!((ids(&outcome), &*outcome.metadata["avro.codec"]), (vec![8], "null"));
}

#[test]
fn what_is_no_header() {
    for (file, message) in [
        (
            &b"PAR1 and more"[..],
            "expected an Avro file, which starts with \"Obj\\x01\", found \"PAR1\"",
        ),
        (b"Obj\x02", "expected an Avro file, which starts with \"Obj\\x01\", found \"Obj\\x02\""),
        (b"Obj", "the file ends inside its header; it was cut short, or is no Avro file"),
        (b"Obj\x01\x02", "the file ends inside its header; it was cut short, or is no Avro file"),
        (b"Obj\x01\x02\x01", "the file's header, at +5: expected a size from 0 on, found -1"),
        (
            b"Obj\x01\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02",
            "the file's header, at +4: expected a varint of at most 64 bits, found a longer one",
        ),
        (
            &[b"Obj\x01", &long(1)[..], &long(1 << 40)].concat(),
            "the file's header is damaged, or has more than 67108864 bytes; raise max_record if \
             headers may be that large",
        ),
        (&[b"Obj\x01\0", &SYNC[..]].concat(), "the file's header has no `avro.schema`"),
    ] {
        assert_eq!(error(&[], file), (message.to_owned(), false));
    }
}

#[test]
fn codecs_that_are_not_supported() {
    for codec in ["bzip2", "xz", "Deflate", "\u{1}"] {
        let (message, refused) = error(&[], &header(SCHEMA, codec));
        let wanted =
            format!("the file's codec is \"{}\", which is not supported", codec.escape_debug());
        let wanted = wanted.replace("\\u{1}", "\\x01");
        assert!(refused && message.starts_with(&wanted), "{message}");
    }
}

#[test]
fn schemas_that_are_not_valid() {
    for (schema, why) in [
        ("{", "expected a key, found the end at +1 of its JSON"),
        ("3", "expected a type, found a number, a boolean or null"),
        ("\"number\"", "there is no type `number`"),
        ("[]", "a union has no branches"),
        ("{\"name\": \"x\"}", "a type has no `type`"),
        (
            r#"{"type": "enum", "name": "e", "symbols": []}"#,
            "an enum has no symbols, or one that is no text",
        ),
        (r#"{"type": "enum", "name": "e", "symbols": "a"}"#, "expected a list `symbols` in a type"),
        (
            r#"{"type": "fixed", "name": "f", "size": -1}"#,
            "a fixed has no `size`, or one that is no number",
        ),
        (r#"{"type": "fixed", "size": 1}"#, "a named type has no name"),
        (r#"{"type": "array"}"#, "an array has no `items`"),
        (r#"{"type": "map"}"#, "a map has no `values`"),
        (r#"{"type": "record", "name": "r"}"#, "expected a list `fields` in a type"),
    ] {
        let (message, refused) = error(&[], &header(schema, "null"));
        let wanted = format!("the file's schema is not valid: {why}");
        assert_eq!((message, refused), (wanted, false), "{schema}");
    }
    let twice = record(&[field("a", "\"int\""), field("a", "\"int\"")].join(","));
    assert!(error(&[], &header(&twice, "null")).0.contains("has two fields `a`"));
    let of = r#"{"type": "fixed", "name": "f", "size": 1}"#;
    let twice = record(&[field("a", of), field("b", of)].join(","));
    assert!(error(&[], &header(&twice, "null")).0.contains("the type `f` is defined twice"));
    let none = record(r#"{"name": "a"}"#);
    assert!(error(&[], &header(&none, "null")).0.contains("has no type"));
    let none = record(r#"{"type": "int"}"#);
    assert!(error(&[], &header(&none, "null")).0.contains("has no name"));
}

#[test]
fn files_after_each_other() {
    let one = |codec: &str, id: i64| file(SCHEMA, codec, &[(1, long(id)), (1, long(id + 1))]);
    let other_sync = |file: Vec<u8>| {
        let mut file = file;
        for at in 0..file.len() - 15 {
            if file[at..at + 16] == SYNC {
                file[at..at + 16].copy_from_slice(b"another marker..");
            }
        }
        file
    };
    let files =
        [one("null", 1), other_sync(one("deflate", 3)), one("snappy", 5), header(SCHEMA, "null")];
    let outcome = good(&[], &files.concat());
    assert_eq!(ids(&outcome), [1, 2, 3, 4, 5, 6]);
    assert_eq!(outcome.metadata["avro.codec"], "null");

    // The fields must be the same, and not the text of the schema.
    let documented = SCHEMA.replace("\"name\": \"r\"", "\"name\": \"s\", \"doc\": \"text\"");
    let next = one_block(&documented, "null", &[long(9)]);
    assert_eq!(ids(&good(&[], &[one("null", 1), next].concat())), [1, 2, 9]);
    let next = one_block(&record(&field("id", "\"int\"")), "null", &[long(9)]);
    let outcome = crate::outcome(&crate::setup(&[]).skipping(), &[one("null", 1), next].concat());
    assert_eq!((ids(&outcome), outcome.refused), (vec![1, 2], true));
    assert!(
        outcome.errors[0].2.starts_with("another file follows, whose records have other fields")
    );
}
