//! Each type of Avro: the field that it becomes, and its values.

use pipemill_plugin::testing::Record;
use pipemill_plugin::{Field, Scalar};

use crate::write::{items, long, one_block, string};
use crate::{at_once, error, field, fields, good, record};

/// Asserts the field that a type becomes, and the values that it has. The value is the second field
/// of three, so that those around it show where it ends.
fn assert_type(of: &str, wanted: Field, values: &[(Vec<u8>, Option<Vec<u8>>)]) {
    let schema = record(&[field("a", "\"int\""), field("x", of), field("z", "\"int\"")].join(","));
    let records: Vec<_> =
        values.iter().map(|(written, _)| [&long(1)[..], written, &long(-1)].concat()).collect();
    for codec in ["null", "deflate"] {
        let outcome = good(&[], &one_block(&schema, codec, &records));
        assert_eq!(fields(&outcome)[1], Field { name: "x".into(), ..wanted.clone() });
        let number = |number: i32| Some(number.to_le_bytes().to_vec());
        let records: Vec<Record> =
            values.iter().map(|(_, value)| vec![number(1), value.clone(), number(-1)]).collect();
        assert_eq!(outcome.records, records, "{of}");
        // Without the field, the others are the same.
        let outcome = good(&[("fields", "a,z")], &one_block(&schema, codec, &records_of(values)));
        assert_eq!(outcome.records, vec![vec![number(1), number(-1)]; values.len()], "{of}");
    }
}

fn records_of(values: &[(Vec<u8>, Option<Vec<u8>>)]) -> Vec<Vec<u8>> {
    values.iter().map(|(written, _)| [&long(1)[..], written, &long(-1)].concat()).collect()
}

/// A value as it is written, and as it is read.
fn value(written: impl AsRef<[u8]>, read: impl AsRef<[u8]>) -> (Vec<u8>, Option<Vec<u8>>) {
    (written.as_ref().to_vec(), Some(read.as_ref().to_vec()))
}

fn of(scalar: Scalar) -> Field {
    Field::new("", scalar)
}

#[test]
fn primitive_types() {
    let ints = [0, 1, -1, 63, -64, 64, i32::MAX, i32::MIN];
    let ints = ints.map(|number| value(long(number.into()), number.to_le_bytes()));
    assert_type("\"int\"", of(Scalar::Int32), &ints);
    let longs = [0, -1, 1 << 40, i64::MAX, i64::MIN];
    let longs = longs.map(|number| value(long(number), number.to_le_bytes()));
    assert_type("\"long\"", of(Scalar::Int64), &longs);
    let floats =
        [0.5f32, f32::NAN, -0.0].map(|number| value(number.to_le_bytes(), number.to_le_bytes()));
    assert_type("\"float\"", of(Scalar::Float32), &floats);
    let doubles =
        [0.5, f64::INFINITY].map(|number| value(number.to_le_bytes(), number.to_le_bytes()));
    assert_type("\"double\"", of(Scalar::Float64), &doubles);
    assert_type("\"boolean\"", of(Scalar::Boolean), &[value([0], [0]), value([1], [1])]);
    let bytes = [&b""[..], b"\0\xff", &[7; 300]].map(|bytes| value(string(bytes), bytes));
    assert_type("\"bytes\"", Field::bytes(""), &bytes);
    let texts = ["", "a", "äö€😀", "0123456789abcdef0123456789abcdefä"];
    assert_type("\"string\"", Field::utf8(""), &texts.map(|text| value(string(text), text)));
    assert_type("\"null\"", Field::bytes("").nullable(), &[(Vec::new(), None)]);
}

#[test]
fn named_types() {
    let of_fixed = r#"{"type": "fixed", "name": "f", "size": 3}"#;
    assert_type(of_fixed, of(Scalar::Uint8).shaped([3]), &[value(b"abc", b"abc")]);
    let empty = r#"{"type": "fixed", "name": "f", "size": 0}"#;
    assert_type(empty, Field::bytes(""), &[value(b"", b"")]);
    for (count, scalar) in [
        (1, Scalar::Uint8),
        (256, Scalar::Uint8),
        (257, Scalar::Uint16),
        (65_536, Scalar::Uint16),
        (65_537, Scalar::Uint32),
    ] {
        let symbols: Vec<_> = (0..count).map(|number| format!("s{number}")).collect();
        let list = symbols.join("\",\"");
        let of_enum = format!(r#"{{"type": "enum", "name": "e", "symbols": ["{list}"]}}"#);
        let last = count - 1;
        let read = |number: usize| (number as u64).to_le_bytes()[..scalar.size()].to_vec();
        let values = [0, last].map(|number| value(long(number as i64), read(number)));
        if count < 300 {
            assert_type(&of_enum, of(scalar).categories(symbols), &values);
        } else {
            let schema = record(&field("x", &of_enum));
            let file = one_block(&schema, "null", &[values[1].0.clone()]);
            let outcome = at_once(&[], &file);
            assert_eq!(fields(&outcome)[0].scalar, scalar);
            assert_eq!(outcome.records, [[values[1].1.clone()]]);
        }
    }
}

#[test]
fn unions_with_null() {
    let int = |number: i32| value(long(number.into()), number.to_le_bytes());
    for (of_union, null, other) in [(r#"["null", "int"]"#, 0, 1), (r#"["int", "null"]"#, 1, 0)] {
        let values = [
            (long(null), None),
            value([long(other), int(-7).0].concat(), int(-7).1.unwrap()),
            (long(null), None),
        ];
        assert_type(of_union, of(Scalar::Int32).nullable(), &values);
    }
    let text = value([long(1), string("ä")].concat(), "ä");
    assert_type(r#"["null", "string"]"#, Field::utf8("").nullable(), &[(vec![0], None), text]);
    let list = r#"["null", {"type": "array", "items": "float"}]"#;
    let floats = value([2, 2, 0, 0, 0x80, 0x3f, 0], 1f32.to_le_bytes());
    assert_type(list, of(Scalar::Float32).list().nullable(), &[(vec![0], None), floats]);
    assert_type(
        r#"["int"]"#,
        of(Scalar::Int32),
        &[value([&[0][..], &int(5).0].concat(), int(5).1.unwrap())],
    );
    assert_type(r#"["null"]"#, Field::bytes("").nullable(), &[(vec![0], None)]);
}

/// Spark writes each item of an array in a union with null.
#[test]
fn arrays_whose_items_may_be_null() {
    let case =
        |name: &str, items_of: &str, wanted: Field, each: &[(Vec<u8>, Vec<u8>)], other: u8| {
            for (per_block, sized) in [(9, false), (1, true)] {
                let of_array = format!(r#"["null", {{"type": "array", "items": [{items_of}]}}]"#);
                let of_array = of_array.replace("NAME", name);
                let in_union = each.iter().map(|(written, _)| [&[2 * other][..], written].concat());
                let written = items(&in_union.collect::<Vec<_>>(), per_block, sized);
                let read: Vec<_> = each.iter().flat_map(|(_, read)| read.clone()).collect();
                let values = [value([&[2][..], &written].concat(), read), (vec![0], None)];
                assert_type(&of_array, wanted.clone().nullable(), &values);
            }
        };
    let number = |written: &[u8], read: &[u8]| (written.to_vec(), read.to_vec());
    let floats = [0.5f32, 1.5].map(f32::to_le_bytes).map(|bytes| number(&bytes, &bytes));
    for (items_of, other) in [(r#""null", NAME"#, 1), (r#"NAME, "null""#, 0), ("NAME", 0)] {
        case("\"float\"", items_of, of(Scalar::Float32).list(), &floats, other);
        let ints = [7i32, -9].map(|n| number(&long(n.into()), &n.to_le_bytes()));
        case("\"int\"", items_of, of(Scalar::Int32).list(), &ints, other);
        let longs = [7i64, -9].map(|n| number(&long(n), &n.to_le_bytes()));
        case("\"long\"", items_of, of(Scalar::Int64).list(), &longs, other);
        let bools = [[0], [1]].map(|byte| number(&byte, &byte));
        case("\"boolean\"", items_of, of(Scalar::Boolean).list(), &bools, other);
    }
    let list = r#"{"type": "array", "items": ["null", "string"]}"#;
    let texts = ["a", "", "äb"].map(|text| [vec![2], string(text)].concat());
    let read = b"\x10\0\0\0\x11\0\0\0\x11\0\0\0\x14\0\0\0a\xc3\xa4b";
    assert_type(list, Field::utf8("").list(), &[value(items(&texts, 2, false), read)]);
    // An item that is null is an error.
    let schema = record(&field("x", list));
    let file = one_block(&schema, "null", &[items(&[vec![2, 2, b'a'], vec![0]], 9, false)]);
    let (message, _) = error(&[], &file);
    assert!(message.contains("field `x`: expected a value for each item of the array, found null"));
}

#[test]
fn arrays_of_numbers() {
    let numbers = [1i64, -2, 1 << 20, 0, -(1 << 30)];
    for (per_block, sized) in [(9, false), (2, false), (1, true), (9, true)] {
        let case =
            |scalar: Scalar, name: &str, write: fn(i64) -> Vec<u8>, read: fn(i64) -> Vec<u8>| {
                let of_array = format!(r#"{{"type": "array", "items": {name}}}"#);
                let values = [0, 1, 5].map(|count| {
                    let written: Vec<_> =
                        numbers[..count].iter().map(|number| write(*number)).collect();
                    let read: Vec<_> =
                        numbers[..count].iter().flat_map(|number| read(*number)).collect();
                    value(items(&written, per_block, sized), read)
                });
                assert_type(&of_array, of(scalar).list(), &values);
            };
        case(Scalar::Int32, "\"int\"", long, |n| (n as i32).to_le_bytes().to_vec());
        case(Scalar::Int64, "\"long\"", long, |n| n.to_le_bytes().to_vec());
        let float = |n| (n as f32).to_le_bytes().to_vec();
        case(Scalar::Float32, "\"float\"", float, float);
        let double = |n| (n as f64).to_le_bytes().to_vec();
        case(Scalar::Float64, "\"double\"", double, double);
        let boolean = |n| vec![(n & 1) as u8];
        case(Scalar::Boolean, "\"boolean\"", boolean, boolean);
    }
    let of_fixed = r#"{"type": "array", "items": {"type": "fixed", "name": "f", "size": 2}}"#;
    let pairs = value(items(&[b"ab".to_vec(), b"cd".to_vec()], 1, false), b"abcd");
    assert_type(of_fixed, of(Scalar::Uint8).shaped([0, 2]), &[pairs]);
    let millis = r#"{"type": "array", "items": {"type": "int", "logicalType": "time-millis"}}"#;
    let read = value(items(&[long(5)], 1, false), 5i64.to_le_bytes());
    assert_type(millis, of(Scalar::Int64).list().logical("time[ms]"), &[read]);
}

#[test]
fn arrays_of_text_and_bytes() {
    let list = |elements: &[&str]| {
        let mut offsets = vec![4 * (elements.len() + 1)];
        offsets.extend(elements.iter().scan(offsets[0], |at, element| {
            *at += element.len();
            Some(*at)
        }));
        let offsets = offsets.iter().flat_map(|offset| (*offset as u32).to_le_bytes());
        offsets.chain(elements.concat().into_bytes()).collect::<Vec<u8>>()
    };
    for (name, scalar) in [("string", Scalar::Utf8), ("bytes", Scalar::Bytes)] {
        let of_array = format!(r#"{{"type": "array", "items": "{name}"}}"#);
        for (per_block, sized) in [(9, false), (1, false), (2, true)] {
            let values = [&[][..], &["a"], &["", "bc", "ä", ""]].map(|elements: &[&str]| {
                let written: Vec<_> = elements.iter().map(string).collect();
                value(items(&written, per_block, sized), list(elements))
            });
            assert_type(&of_array, of(scalar).list(), &values);
        }
    }
}

#[test]
fn logical_types() {
    for (of_type, wanted) in [
        (r#""int", "logicalType": "date""#, of(Scalar::Int32).logical("date")),
        (r#""int", "logicalType": "time-millis""#, of(Scalar::Int64).logical("time[ms]")),
        (r#""long", "logicalType": "time-micros""#, of(Scalar::Int64).logical("time[us]")),
        (
            r#""long", "logicalType": "timestamp-millis""#,
            of(Scalar::Int64).logical("timestamp[ms]"),
        ),
        (
            r#""long", "logicalType": "timestamp-micros""#,
            of(Scalar::Int64).logical("timestamp[us]"),
        ),
        (r#""long", "logicalType": "timestamp-nanos""#, of(Scalar::Int64).logical("timestamp[ns]")),
        (
            r#""long", "logicalType": "local-timestamp-millis""#,
            of(Scalar::Int64)
                .logical("timestamp[ms]")
                .metadata("avro.logicalType", "local-timestamp-millis"),
        ),
        (
            r#""string", "logicalType": "uuid""#,
            Field::utf8("").metadata("avro.logicalType", "uuid"),
        ),
        (
            r#""bytes", "logicalType": "decimal", "precision": 10, "scale": 2"#,
            Field::bytes("")
                .metadata("avro.logicalType", "decimal")
                .metadata("avro.precision", "10")
                .metadata("avro.scale", "2"),
        ),
        (
            r#""fixed", "name": "f", "size": 4, "logicalType": "decimal", "precision": 9"#,
            of(Scalar::Uint8)
                .shaped([4])
                .metadata("avro.logicalType", "decimal")
                .metadata("avro.precision", "9"),
        ),
        (
            r#""fixed", "name": "f", "size": 16, "logicalType": "uuid""#,
            of(Scalar::Uint8).shaped([16]).logical("uuid"),
        ),
        (
            r#""fixed", "name": "f", "size": 12, "logicalType": "duration""#,
            of(Scalar::Uint8).shaped([12]).metadata("avro.logicalType", "duration"),
        ),
        // A logical type on another type than its own is ignored.
        (
            r#""long", "logicalType": "date""#,
            of(Scalar::Int64).metadata("avro.logicalType", "date"),
        ),
        (r#""int", "logicalType": "mine""#, of(Scalar::Int32).metadata("avro.logicalType", "mine")),
    ] {
        let schema = record(&field("x", &format!("{{\"type\": {of_type}}}")));
        let outcome = good(&[], &one_block(&schema, "null", &[]));
        assert_eq!(fields(&outcome), [Field { name: "x".into(), ..wanted }], "{of_type}");
    }
    let millis = r#"{"type": "int", "logicalType": "time-millis"}"#;
    let values = [value(long(86_399_999), 86_399_999i64.to_le_bytes())];
    assert_type(millis, of(Scalar::Int64).logical("time[ms]"), &values);
}

#[test]
fn nested_records() {
    let inner = r#"{"type": "record", "name": "p", "fields": [
        {"name": "x", "type": "int"}, {"name": "deep", "type": {"type": "record", "name": "q", "fields": [
            {"name": "y", "type": ["null", "string"]}]}}]}"#;
    let all = [
        field("a", inner),
        field("empty", r#"{"type": "record", "name": "e", "fields": []}"#),
        field("b", "\"p\""),
    ];
    let schema = record(&all.join(","));
    let one = |number: i64, text: &str| [&long(number)[..], &[2], &string(text)].concat();
    let file = one_block(&schema, "null", &[[one(1, "one"), one(2, "two")].concat()]);
    let outcome = good(&[], &file);
    let names: Vec<_> = fields(&outcome).iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["a.x", "a.deep.y", "b.x", "b.deep.y"]);
    let number = |number: i32| Some(number.to_le_bytes().to_vec());
    let text = |text: &str| Some(text.as_bytes().to_vec());
    assert_eq!(outcome.records, [[number(1), text("one"), number(2), text("two")]]);

    // A selector may name a field of a record, or a record. Fields keep the order of the schema.
    let outcome = good(&[("fields", "t=b.deep.y, a")], &file);
    let names: Vec<_> = fields(&outcome).iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["a.x", "a.deep.y", "t"]);
    assert_eq!(outcome.records, [[number(1), text("one"), text("two")]]);
}

#[test]
fn values_that_are_no_records() {
    let outcome = good(&[], &one_block("\"long\"", "deflate", &[long(1), long(-2)]));
    assert_eq!(fields(&outcome), [Field::new("value", Scalar::Int64)]);
    let number = |number: i64| vec![Some(number.to_le_bytes().to_vec())];
    assert_eq!(outcome.records, [number(1), number(-2)]);
    let file =
        one_block(r#"["null", "string"]"#, "null", &[vec![0], [&[2][..], &string("x")].concat()]);
    let outcome = good(&[("fields", "text=value")], &file);
    assert_eq!(fields(&outcome), [Field::utf8("text").nullable()]);
    assert_eq!(outcome.records, [[None], [Some(b"x".to_vec())]]);
    let outcome = good(&[], &one_block(r#"{"type": "array", "items": "int"}"#, "null", &[vec![0]]));
    assert_eq!(fields(&outcome), [Field::new("value", Scalar::Int32).list()]);
}

/// Values that become no field are skipped, whatever their type is.
#[test]
fn skipped_types() {
    let node = r#"{"type": "record", "name": "node", "fields": [
        {"name": "value", "type": "int"}, {"name": "next", "type": ["null", "node"]}]}"#;
    let of_map =
        r#"{"type": "map", "values": ["null", "int", {"type": "array", "items": "string"}]}"#;
    let of_records = r#"{"type": "array", "items": {"type": "record", "name": "i", "fields": [
        {"name": "a", "type": "double"}, {"name": "b", "type": {"type": "map", "values": "bytes"}},
        {"name": "c", "type": {"type": "enum", "name": "e", "symbols": ["A", "B"]}}]}}"#;
    let nulls = r#"{"type": "array", "items": "null"}"#;
    let pairs = r#"{"type": "array", "items": {"type": "record", "name": "pair", "fields": [
        {"name": "a", "type": "float"}, {"name": "b", "type": "boolean"}]}}"#;
    let schema = record(
        &[
            field("list", node),
            field("map", of_map),
            field("x", "\"int\""),
            field("records", of_records),
            field("nulls", nulls),
            field("nullable", r#"["null", "pair_of_none"]"#).replace("pair_of_none", "node"),
            field("pairs", pairs),
            field("y", "\"string\""),
        ]
        .join(","),
    );
    let entry = |key: &str, value: Vec<u8>| [string(key), value].concat();
    let item = |number: u8| {
        let map = items(&[entry("k", string([number; 5]))], 1, number & 1 == 1);
        [&[number; 8][..], &map, &[2 * (number & 1)]].concat()
    };
    for (per_block, sized) in [(9, false), (1, false), (1, true), (9, true)] {
        let map = items(
            &[
                entry("a", vec![0]),
                entry("b", [&[2][..], &long(1 << 30)].concat()),
                entry(
                    "c",
                    [&[4][..], &items(&[string("x"), string("yy")], per_block, sized)].concat(),
                ),
            ],
            per_block,
            sized,
        );
        let one = [
            [long(1), vec![2], long(2), vec![2], long(3), vec![0]].concat(),
            map,
            long(-5),
            items(&[item(0), item(1), item(2)], per_block, sized),
            [long(i64::MAX), vec![0]].concat(),
            vec![2, 2, 0],
            items(&[vec![7; 5], vec![8; 5]], per_block, sized),
            string("end"),
        ]
        .concat();
        for codec in ["null", "snappy"] {
            let file = one_block(&schema, codec, &vec![one.clone(); 3]);
            let outcome = good(&[("fields", "x,y")], &file);
            let wanted = vec![Some((-5i32).to_le_bytes().to_vec()), Some(b"end".to_vec())];
            assert_eq!(outcome.records, vec![wanted; 3]);
        }
    }
}

#[test]
fn names_of_types() {
    let schema = r#"{"type": "record", "name": "r", "namespace": "a.b", "fields": [
        {"name": "f", "type": {"type": "fixed", "name": "x.f", "size": 2}},
        {"name": "g", "type": {"type": "fixed", "name": "g", "size": 1, "aliases": ["old"]}, "doc": "…"},
        {"name": "s", "type": {"type": {"type": "string", "avro.java.string": "String"}}},
        {"name": "f2", "type": "x.f"}, {"name": "g2", "type": "g"}, {"name": "g3", "type": "a.b.g"},
        {"name": "n", "type": {"type": "record", "name": "n", "namespace": "", "fields": [
            {"name": "h", "type": {"type": "fixed", "name": "g", "size": 3}}, {"name": "h2", "type": "g"}]}},
        {"name": "g4", "type": {"type": "g"}}]}"#;
    let one = [&b"aab"[..], &string("t"), b"ccdefffgggh"].concat();
    let outcome = good(&[], &one_block(schema, "null", &[one]));
    let texts = outcome.records[0].iter().flatten().map(|field| String::from_utf8_lossy(field));
    assert_eq!(texts.collect::<Vec<_>>(), ["aa", "b", "t", "cc", "d", "e", "fff", "ggg", "h"]);
}

#[test]
fn types_that_can_not_be_fields() {
    let can = [field("id", "\"long\""), field("name", "\"string\"")].join(",");
    for (of, what) in [
        (r#"{"type": "map", "values": "int"}"#, "a map of int"),
        (r#"["int", "string"]"#, "a union of int, string"),
        (r#"["null", "int", "string"]"#, "a union of null, int, string"),
        (r#"["null", {"type": "map", "values": "int"}]"#, "a union of null, map"),
        (r#"["null", {"type": "record", "name": "q", "fields": []}]"#, "a union of null, record"),
        (r#"{"type": "array", "items": ["null", "int", "string"]}"#, "an array of union"),
        (r#"{"type": "array", "items": {"type": "array", "items": "int"}}"#, "an array of array"),
        (
            r#"{"type": "array", "items": {"type": "enum", "name": "e", "symbols": ["a"]}}"#,
            "an array of enum",
        ),
    ] {
        let schema = record(&format!("{can},{}", field("x", of)));
        let (message, refused) = error(&[], &one_block(&schema, "null", &[]));
        let wanted = format!(
            "the field `x` is {what}, which can't be a field of a record; leave it out by the option \
             `fields`, as in fields = \"id,name\""
        );
        assert_eq!((message, refused), (wanted, true));
        let records = [[&long(1)[..], &string("a")].concat()];
        let file = one_block(&schema, "null", &[]);
        assert_eq!(good(&[("fields", "id")], &file).records.len(), 0, "{records:?}");
    }
    let inside = r#"{"type": "record", "name": "p", "fields": [{"name": "m", "type": {"type": "map", "values": "int"}}]}"#;
    let (message, _) = error(&[], &one_block(&record(&field("a", inside)), "null", &[]));
    assert!(message.starts_with("the field `a.m` is a map of int"), "{message}");
    let (message, refused) =
        error(&[], &one_block(r#"{"type": "map", "values": "int"}"#, "null", &[]));
    assert!(refused && message.starts_with("the file's values are a map of int"), "{message}");

    let own = record(r#"{"name": "id", "type": "int"}, {"name": "next", "type": "r"}"#);
    let (message, refused) = error(&[], &one_block(&own, "null", &[]));
    assert!(
        refused && message.contains("the field `next` is a record `r` inside itself"),
        "{message}"
    );
    assert!(message.ends_with("fields = \"id\""), "{message}");
}

#[test]
fn records_without_fields_or_bytes_are_refused() {
    let empty = one_block(&record(""), "null", &[]);
    assert_eq!(error(&[], &empty), ("the file's records have no fields".to_owned(), true));
    let nulls = one_block(&record(&field("x", "\"null\"")), "null", &[]);
    let (message, refused) = error(&[], &nulls);
    assert!(refused && message.contains("have no bytes"), "{message}");
}

/// Many small types can make a schema that is huge when it is expanded.
#[test]
fn schemas_that_grow_when_they_are_resolved() {
    for leaf in ["", r#"{"name": "x", "type": "int"}"#] {
        let mut all = vec![field(
            "t0",
            &format!(r#"{{"type": "record", "name": "t0", "fields": [{leaf}]}}"#),
        )];
        for number in 1..40 {
            let before = number - 1;
            let two =
                [field("a", &format!("\"t{before}\"")), field("b", &format!("\"t{before}\""))];
            let of = format!(
                r#"{{"type": "record", "name": "t{number}", "fields": [{}]}}"#,
                two.join(",")
            );
            all.push(field(&format!("t{number}"), &of));
        }
        let file = one_block(&record(&all.join(",")), "null", &[]);
        let outcome = at_once(&[], &file);
        assert!(outcome.refused && outcome.errors[0].2.contains("more than 65536 fields"));
        if !leaf.is_empty() {
            assert_eq!(good(&[("fields", "t1.a.x")], &file).records.len(), 0);
        }
    }
}

/// A large enum that many fields use.
#[test]
fn symbols_that_are_used_often() {
    let symbols: Vec<_> = (0..20_000).map(|number| format!("\"symbol{number}\"")).collect();
    let of = format!(r#"{{"type": "enum", "name": "e", "symbols": [{}]}}"#, symbols.join(","));
    let mut all = vec![field("f", &of)];
    all.extend((0..200).map(|number| field(&format!("f{number}"), "\"e\"")));
    let file = one_block(&record(&all.join(",")), "null", &[]);
    let outcome = at_once(&[], &file);
    let message = "the names and symbols of the file's fields have more than 16 MiB";
    assert_eq!((outcome.errors[0].2.as_str(), outcome.refused), (message, true));
    let doc = format!(r#"{{"type": "long", "doc": "{}"}}"#, "x".repeat(1 << 20));
    let outcome = at_once(&[], &one_block(&doc, "null", &[]));
    assert!(outcome.refused && outcome.errors[0].2.ends_with("; 1048576 are supported"));
}

/// A schema may use names to nest types deeper than its JSON is nested.
#[test]
fn types_that_are_nested_deep() {
    let chain = |count: usize| {
        let mut all = vec![field(
            "t0",
            r#"{"type": "record", "name": "t0", "fields": [{"name": "x", "type": "int"}]}"#,
        )];
        for number in 1..count {
            let of = format!(
                r#"{{"type": "record", "name": "t{number}", "fields": [{}]}}"#,
                field("a", &format!("\"t{}\"", number - 1))
            );
            all.push(field(&format!("t{number}"), &of));
        }
        record(&all.join(","))
    };
    let one_file = |count: usize| {
        let one = (0..count).flat_map(|_| long(1)).collect();
        one_block(&chain(count), "null", &[one])
    };
    let decode = |options: &[(&str, &str)], count| at_once(options, &one_file(count));
    assert_eq!(decode(&[], 60).records[0].len(), 60);
    let outcome = decode(&[], 70);
    assert!(
        outcome.refused && outcome.errors[0].2.contains("inside 64 others"),
        "{:?}",
        outcome.errors
    );
    assert_eq!(decode(&[("fields", "t0.x")], 200).records.len(), 1);
    let outcome = decode(&[("fields", "t0.x")], 300);
    assert!(outcome.errors[0].2.contains("nested too deep"), "{:?}", outcome.errors);
}
