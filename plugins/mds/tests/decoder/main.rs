//! Tests of the mds decoder: what shards may hold, errors, any split. Shards of the format's own
//! writer are compared with its reader in `tests/plugin/test_mds.py`.

mod splits;
mod write;

use pipemill_mds::Mds;
use pipemill_parsing::testing::assert_refuses_other_formats;
use pipemill_plugin::testing::{Outcome, Setup, assert_all_splits, decode_whole, open};
use pipemill_plugin::{Field, Scalar};
use write::{Column, array, description, list, sample, shard, shard_of};

const OBJECTS: &[u8] = include_bytes!("../fixtures/objects.mds");
const PAIR: [Column; 2] = [("id", "uint8", Some(1)), ("text", "str", None)];

fn outcome(options: &[(&str, &str)], shard: &[u8]) -> Outcome {
    assert_all_splits::<Mds>(&Setup::new(options).skipping(), shard)
}

/// The message of the only error.
#[track_caller]
fn message(options: &[(&str, &str)], shard: &[u8]) -> String {
    let outcome = outcome(options, shard);
    let [(.., message)] = &outcome.errors[..] else { panic!("{:?}", outcome.errors) };
    message.clone()
}

fn pairs(texts: &[&str]) -> Vec<Vec<Vec<u8>>> {
    let pair = |(number, text): (usize, &&str)| vec![vec![number as u8], text.as_bytes().to_vec()];
    texts.iter().enumerate().map(pair).collect()
}

#[test]
fn encodings_are_fields() {
    let columns: [Column; 8] = [
        ("array", "ndarray:int16:2,1", Some(4)),
        ("free", "ndarray:uint8", None),
        ("image", "jpeg", None),
        ("images", "jpegarray", None),
        ("json", "json", None),
        ("number", "int", Some(8)),
        ("price", "str_decimal", None),
        ("raw", "pil", None),
    ];
    let values = vec![
        vec![1, 0, 2, 0],
        array(&[1, 3], &[7, 8, 9]),
        b"\xff\xd8".to_vec(),
        list(&[b"a", b"bc"])[4..].to_vec(),
        b"{}".to_vec(),
        vec![5; 8],
        b"1.50".to_vec(),
        b"raw".to_vec(),
    ];
    let outcome = outcome(&[], &shard(&columns, &[values]));
    assert_eq!(outcome.errors, []);
    let key = "mds.encoding";
    let fields = [
        Field::new("array", Scalar::Int16).shaped([2, 1]),
        Field::new("free", Scalar::Uint8).list(),
        Field::new("free.shape", Scalar::Uint64).list(),
        Field::bytes("image").logical("image").metadata(key, "jpeg"),
        Field::bytes("images").list().metadata(key, "jpegarray"),
        Field::utf8("json").logical("json"),
        Field::new("number", Scalar::Int64),
        Field::utf8("price").metadata(key, "str_decimal"),
        Field::bytes("raw").metadata(key, "pil"),
    ];
    assert_eq!(outcome.schema.as_deref(), Some(&fields[..]));
    let shape = [1_u64, 3].map(u64::to_le_bytes).concat();
    let images = b"\x0c\0\0\0\x0d\0\0\0\x0f\0\0\0abc";
    let expected: [&[u8]; 9] =
        [&[1, 0, 2, 0], &[7, 8, 9], &shape, b"\xff\xd8", images, b"{}", &[5; 8], b"1.50", b"raw"];
    assert_eq!(outcome.records, [expected.map(|value| Some(value.to_vec())).to_vec()]);
}

#[test]
fn columns_are_selected_in_the_order_of_the_option() {
    let file = shard(&PAIR, &pairs(&["a", "b"]));
    let found = outcome(&[("columns", "text,number=id")], &file);
    let names: Vec<_> = found.schema.iter().flatten().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["text", "number"]);
    assert_eq!(found.records[1], [Some(b"b".to_vec()), Some(vec![1])]);
    let said = message(&[("columns", "nobody")], &file);
    assert!(said.contains("the shard has no column `nobody`; it has id, text"), "{said}");
    // A name with a dot is no group.
    let dotted: [Column; 2] = [("a", "uint8", Some(1)), ("a.b", "uint8", Some(1))];
    let found = outcome(&[("columns", "a")], &shard(&dotted, &[vec![vec![1], vec![2]]]));
    assert_eq!(found.records, [[Some(vec![1])]]);
    let said = open::<Mds>(&Setup::new(&[("columns", "a=id,a=text")])).expect_err("two names");
    assert!(said.contains("two fields called `a`"), "{said}");
}

#[test]
fn columns_that_can_not_be_fields_are_refused_and_can_be_left_out() {
    let said = message(&[], OBJECTS);
    let expected = "the column `any` is of arrays, each with a type of its own";
    assert!(said.contains(expected) && said.contains("columns = \"id\""), "{said}");
    let said = message(&[("columns", "id,object")], OBJECTS);
    assert!(said.contains("the column `object` is of Python objects (encoding `pkl`)"), "{said}");
    let found = outcome(&[("columns", "id")], OBJECTS);
    assert_eq!((found.records.len(), found.errors.len()), (2, 0));
    let wrong = shard(&[("id", "int32", Some(3))], &[vec![vec![0; 3]]]);
    let said = message(&[], &wrong);
    assert!(said.contains("of the encoding `int32` with 3 bytes, not 4"), "{said}");
}

/// The message of the second of three samples, which has these bytes. The others are read.
#[track_caller]
fn message_of(columns: &[Column], good: &[Vec<u8>], bad: Vec<u8>) -> String {
    let good = sample(columns, good);
    let bytes = bad.len() as u64;
    let file = shard_of(&description(columns), &[good.clone(), bad, good]);
    let outcome = outcome(&[], &file);
    let [(at, length, message)] = &outcome.errors[..] else { panic!("{:?}", outcome.errors) };
    let start = file.len() as u64 - bytes - (outcome.starts[1] - outcome.starts[0] - bytes);
    assert_eq!((*at, *length, outcome.records.len()), (start, bytes, 2), "{message}");
    assert!(message.starts_with("sample 1: "), "{message}");
    message.clone()
}

#[test]
fn a_damaged_sample_is_left_out() {
    let number = |number: u32| number.to_le_bytes();
    let pair = &[vec![1], b"good".to_vec()];
    for (bad, expected) in [
        (b"\x04\0".to_vec(), "expected the sizes of 1 values, found 2 bytes"),
        (b"\x04\0\0\0\x01abc".to_vec(), "column `text`: expected a value of at most 3 bytes"),
        (
            b"\x02\0\0\0\x01abc".to_vec(),
            "expected its end after the last value, found 1 bytes more",
        ),
        (
            b"\x02\0\0\0\x01a\xff".to_vec(),
            "column `text`: expected text, found bytes that are no UTF-8 at +1",
        ),
        (
            b"\0\0\0\0".to_vec(),
            "column `id`: expected a value of at most 0 bytes, found the size 1",
        ),
    ] {
        let said = message_of(&PAIR, pair, bad);
        assert!(said.contains(expected), "{said}");
    }
    let columns = &[("x", "ndarray:uint16", None)];
    for (value, expected) in [
        (&b""[..], "expected a shape, found no bytes"),
        (b"\x09\x01", "expected a shape of 5 bytes, found 2"),
        (b"\x04\x02\x01\x02\x03", "expected the elements of the shape [2], found 3 bytes"),
        (
            b"\x0b\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            "of the shape [18446744073709551615, ",
        ),
    ] {
        let said = message_of(columns, &[array(&[1], &[0; 2])], sample(columns, &[value.to_vec()]));
        assert!(said.contains(expected), "{said}");
    }
    let columns = &[("x", "list[png]", None)];
    for (value, expected) in [
        (vec![0; 7], "expected the length of a list, found the end"),
        (
            [&[0; 4], &number(2)[..], &number(0)].concat(),
            "expected a list of at most 1 elements, found 2",
        ),
        (
            [&[0; 4], &number(1)[..], &number(2), b"a"].concat(),
            "element 0: expected at most 1 bytes",
        ),
        (
            [&[0; 4], &number(1)[..], &number(1), b"ab"].concat(),
            "after the last element, found 1 bytes more",
        ),
    ] {
        let said = message_of(columns, &[list(&[])], sample(columns, &[value]));
        assert!(said.contains(expected), "{said}");
    }
    // The size of each value is said, though its encoding has one.
    let columns = &[("x", "int32", None)];
    let said = message_of(columns, &[vec![0; 4]], sample(columns, &[vec![0; 3]]));
    assert!(said.contains("column `x`: expected 4 bytes, found 3"), "{said}");
}

#[test]
fn damage_of_the_header_ends_the_shard() {
    let good = shard(&PAIR, &pairs(&["a", "bc"]));
    let with = |at: usize, bytes: &[u8]| {
        let mut bad = good.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        bad
    };
    let table = |at| with(at, &[0; 4]);
    let said = message(&[], &table(8));
    assert!(
        said.contains("expected the end of sample 0 after its start") && said.contains("at byte 8"),
        "{said}"
    );
    let said = message(&[], &with(16, b"["));
    assert!(
        said.contains("the description of the shard's columns, at byte 16: expected"),
        "{said}"
    );
    let said = message(&[], &[&good[..], b"more"].concat());
    assert!(said.contains("the end of the shard after its 2 samples, found more bytes"), "{said}");
    let said = message(&[], b"{\"shards\": []}");
    assert!(said.contains("name the shards, as in `*.mds`"), "{said}");
    let of = |text: &str| message(&[], &shard_of(text, &[]));
    let description = description(&PAIR);
    for (from, to, expected) in [
        ("\"mds\"", "\"mdt\"", "expected the format `mds` of version 2"),
        ("\"version\":2", "\"version\":3", "found `mds` of version 3"),
        ("\"column_names\"", "\"names\"", "expected a list `column_names`"),
        ("[\"id\",", "[", "of each of the 1 columns, found 2 encodings and 2 sizes"),
        ("[\"id\",", "[1,", "texts as the name and the encoding of column 0"),
        ("[\"id\",", "[\"text\",", "two fields are called `text`"),
    ] {
        let changed = description.replace(from, to);
        assert_ne!(changed, description);
        let said = of(&changed);
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn limits() {
    // The second sample is longer than the others.
    let file = shard(&PAIR, &pairs(&["a", "abcdefgh", "b"]));
    let few = |max_record| Setup { max_record, ..Setup::new(&[]).skipping() };
    let found = assert_all_splits::<Mds>(&few(8), &file);
    assert_eq!(found.records.len(), 2);
    assert!(found.errors[0].2.contains("sample 1 of 13 bytes is larger than max_record"));
    let long = "x".repeat(1 << 20);
    let name: &'static str = long.leak();
    let file = shard(&[(name, "str", None)], &[]);
    let found = decode_whole::<Mds>(&few(9), &file);
    assert!(found.refused && found.errors[0].2.contains("raise max_record"), "{:?}", found.errors);
    assert_eq!(decode_whole::<Mds>(&few(2 << 20), &file).errors, []);
}

#[test]
fn an_object_without_bytes_has_no_records() {
    let found = outcome(&[], b"");
    assert_eq!((found.records.len(), found.errors.len()), (0, 0));
}

#[test]
fn other_formats_are_refused() {
    assert_refuses_other_formats::<Mds>(&Setup::new(&[]), "decoder = \"mds\"");
}
