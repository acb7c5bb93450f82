//! Members that are decoded: arrays of NumPy, numbers as text, values of JSON texts.

use pipemill_plugin::testing::{Record, Setup, assert_any_split};
use pipemill_webdataset::WebDataset;
use proptest::prelude::*;

use crate::outcome;
use crate::write::{end, file, npy};

/// The records of an archive without errors, without the key.
fn records(fields: &str, file: &[u8]) -> Vec<Record> {
    let outcome = outcome(&Setup::new(&[("fields", fields), ("key", "false")]), file);
    assert_eq!(outcome.errors, []);
    outcome.records
}

/// A sample of these members, and another one after it.
fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let members = members.iter().flat_map(|(name, data)| file(&format!("k.{name}"), data));
    members.chain(end()).collect()
}

/// The only record.
fn record(fields: &str, members: &[(&str, &[u8])]) -> Record {
    let records = records(fields, &archive(members));
    let [record] = &records[..] else { panic!("{records:?}") };
    record.clone()
}

#[test]
fn arrays() {
    let cases: [(&str, &str, &str, &[u8]); 10] = [
        ("float32[2,3]", "'<f4'", "(2, 3)", &[1; 24]),
        ("float32[0,3]", "'<f4'", "(2, 3)", &[1; 24]),
        ("float32[0,3]", "'<f4'", "(0, 3)", b""),
        ("float64[]", "'<f8'", "(3,)", &[2; 24]),
        ("float16", "'<f2'", "()", b"ab"),
        ("bool[2,2]", "'|b1'", "(2, 2)", &[0, 1, 1, 0]),
        ("uint8[1]", "'|u1'", "(1,)", b"x"),
        ("int8", "'|i1'", "()", b"x"),
        ("int64[1,1]", "'<i8'", "(1, 1)", b"12345678"),
        ("uint16[2]", "'<u2'", "(2,)", b"1234"),
    ];
    for (kind, descr, shape, data) in cases {
        let array = npy(descr, shape, data);
        let found = record(&format!("x.npy:{kind}"), &[("X.npy", &array)]);
        assert_eq!(found, [Some(data.to_vec())], "{kind}");
        // As bytes it has its header.
        assert_eq!(record("x.npy", &[("X.npy", &array)]), [Some(array)]);
    }
}

#[test]
fn numbers_as_text() {
    for (kind, text, number) in [
        ("int64", "7", 7i64.to_le_bytes().to_vec()),
        ("int64", " -9223372036854775808\r\n", i64::MIN.to_le_bytes().to_vec()),
        ("int32", "\t+12\n", 12i32.to_le_bytes().to_vec()),
        ("float32", "0.1", 0.1f32.to_le_bytes().to_vec()),
        ("float64", "-1e300", (-1e300f64).to_le_bytes().to_vec()),
        ("float64", "inf", f64::INFINITY.to_le_bytes().to_vec()),
    ] {
        let found = record(&format!("n=cls;score.txt:{kind}"), &[("score.txt", text.as_bytes())]);
        assert_eq!(found, [Some(number)], "{kind}");
    }
}

#[test]
fn values_of_json() {
    let text = "{\"meta\": {\"label\": 7, \"scores\": [0.5,\n 1, 2e0], \"name\": \"a\\u00e4\\n\", \"ok\": true},\n \
                \"list\": [1, [2, 3]], \"null\": null, \"a/b\": -1}\n";
    let fields = "json/meta/label:int64, scores=json/meta/scores:float32[3], json/meta/name:utf8, \
                  json/meta/ok:bool, first=json/list/0:int32, rest=json/list/1:int64[], raw=json/list:bytes, \
                  json/null:int32?, none=json/meta/x/y:utf8?, json/a~1b:int32, json";
    let found = record(fields, &[("json", text.as_bytes())]);
    let bytes = |all: &[f32]| all.iter().flat_map(|one| one.to_le_bytes()).collect::<Vec<_>>();
    let wanted = [
        Some(7i64.to_le_bytes().to_vec()),
        Some(bytes(&[0.5, 1.0, 2.0])),
        Some("aä\n".as_bytes().to_vec()),
        Some(vec![1]),
        Some(1i32.to_le_bytes().to_vec()),
        Some([2i64.to_le_bytes(), 3i64.to_le_bytes()].concat()),
        Some(b"[1, [2, 3]]".to_vec()),
        None,
        None,
        Some((-1i32).to_le_bytes().to_vec()),
        Some(text.as_bytes().to_vec()),
    ];
    assert_eq!(found, wanted);
}

#[test]
fn a_whole_json_text() {
    for (kind, text, value) in [
        ("int64", " 7 ", 7i64.to_le_bytes().to_vec()),
        ("float32[]", "[1,2]\n", [1f32.to_le_bytes(), 2f32.to_le_bytes()].concat()),
        ("bool", "true", vec![1]),
        ("utf8[]", "[\"a\", \"bc\"]", b"\x0c\0\0\0\x0d\0\0\0\x0f\0\0\0abc".to_vec()),
        // Text and bytes are the member unchanged.
        ("utf8", "\"a\"", b"\"a\"".to_vec()),
        ("bytes", "{", b"{".to_vec()),
    ] {
        assert_eq!(record(&format!("json:{kind}"), &[("json", text.as_bytes())]), [Some(value)]);
    }
}

#[test]
fn members_and_values_that_may_be_missing() {
    let fields =
        "n.npy:int8?,cls:int64?,a=json;meta.json/a:utf8?,json;meta.json/b:int32?,txt:utf8?";
    let array = npy("'|i1'", "()", b"x");
    let one: &[(&str, &[u8])] = &[("txt", b"t")];
    let two: &[(&str, &[u8])] = &[("n.npy", &array), ("cls", b"1"), ("meta.json", b"{\"b\":2}")];
    assert_eq!(record(fields, one), [None, None, None, None, Some(b"t".to_vec())]);
    let b = Some(2i32.to_le_bytes().to_vec());
    let cls = Some(1i64.to_le_bytes().to_vec());
    assert_eq!(record(fields, two), [Some(b"x".to_vec()), cls, None, b, None]);
    // Nothing of the previous sample is left.
    let both = [&archive(two)[..], &file("l.txt", b"t"), &end()].concat();
    assert_eq!(records(fields, &both)[1], [None, None, None, None, Some(b"t".to_vec())]);
}

/// The message for a sample with this member, between two good ones. The bad sample is skipped.
fn message(fields: &str, good: (&str, &[u8]), bad: &[(&str, &[u8])]) -> String {
    let members = |key: &str, all: &[(&str, &[u8])]| {
        all.iter().flat_map(|(name, data)| file(&format!("{key}.{name}"), data)).collect::<Vec<_>>()
    };
    let bad = members("bad", bad);
    let first = members("one", &[good]);
    let file = [&first[..], &bad, &members("two", &[good]), &end()].concat();
    let outcome = outcome(&Setup::new(&[("fields", fields)]).skipping(), &file);
    assert_eq!(outcome.records.len(), 2, "{:?}", outcome.errors);
    let [(at, length, text)] = &outcome.errors[..] else { panic!("{:?}", outcome.errors) };
    assert_eq!((*at, *length), (first.len() as u64, bad.len() as u64));
    text.strip_prefix("sample `bad`: ").expect("the key").to_owned()
}

#[test]
fn arrays_that_are_not_as_wanted() {
    let good = npy("'<f4'", "(2, 3)", &[0; 24]);
    let array = |bad: &[u8]| {
        let text = message("x=a.npy;b.npy:float32[0,3]", ("b.npy", &good), &[("b.npy", bad)]);
        text.strip_prefix("member `a.npy;b.npy`: ").expect("the member").to_owned()
    };
    let expected = "expected float32[0,3], found";
    for (descr, shape, data, found) in [
        ("'<f8'", "(2, 3)", 48, "float64[2,3]"),
        ("'<f4'", "(2, 4)", 32, "float32[2,4]"),
        ("'<f4'", "(3,)", 12, "float32[3]"),
        ("'<f4'", "()", 4, "float32"),
        ("'|S4'", "()", 4, "bytes"),
        ("'|S4'", "(1,)", 4, "bytes[]"),
        ("'<M8[us]'", "(3,)", 24, "int64[3] (timestamp[us])"),
    ] {
        assert_eq!(array(&npy(descr, shape, &vec![0; data])), format!("{expected} {found}"));
    }
    let start = "expected an array that can be a field, found one with ";
    for (descr, found) in [
        (
            "'>f4'",
            "big-endian numbers (`>f4`); save the array as x.astype(x.dtype.newbyteorder('<'))",
        ),
        ("'<U1'", "text in UTF-32 (`<U1`); save the array as np.char.encode(x, 'utf-8')"),
        (
            "[('a', '<f4')]",
            "members (a structured type), which can't be one field; save an array for each member",
        ),
    ] {
        assert_eq!(array(&npy(descr, "(1,)", &[0; 4])), format!("{start}{found}"));
    }
    let mut fortran = good.clone();
    let at = fortran.windows(5).position(|five| five == b"False").expect("the order");
    fortran[at..at + 5].copy_from_slice(b"True ");
    assert!(array(&fortran).contains("the order of Fortran"), "{}", array(&fortran));
    assert_eq!(array(b""), "expected an array, whose header has at least 6 bytes, found 0 bytes");
    assert_eq!(
        array(b"not an array"),
        "expected an array of NumPy, which starts with `\\x93NUMPY`, found `not an`"
    );
    let size = good.len();
    assert_eq!(
        array(&good[..size - 1]),
        format!("expected {size} bytes for an array of shape (2, 3), found {}", size - 1)
    );
    assert_eq!(
        array(&[&good[..], b"x"].concat()),
        format!("expected {size} bytes for an array of shape (2, 3), found {}", size + 1)
    );
    let mut version = good.clone();
    version[6] = 9;
    assert_eq!(array(&version), "expected version 1.0, 2.0 or 3.0 of the format, found 9.0");
    let bools = |byte| npy("'|b1'", "(2,)", &[1, byte]);
    assert_eq!(
        message("m.npy:bool[2]", ("m.npy", &bools(0)), &[("m.npy", &bools(2))]),
        "member `m.npy`: expected booleans, 0 or 1, found 2 at byte 1 of the data"
    );
}

#[test]
fn texts_that_are_no_numbers() {
    let number = |kind: &str, text: &[u8]| {
        let fields = format!("cls:{kind}");
        let message = message(&fields, ("cls", b"1"), &[("cls", text)]);
        message.strip_prefix("member `cls`: ").expect("the member").to_owned()
    };
    assert_eq!(number("int64", b"cat\n"), "expected int64 as text, found `cat\\n`");
    assert_eq!(number("int64", b""), "expected int64 as text, found nothing");
    assert_eq!(number("int64", b"1.5"), "expected int64 as text, found `1.5`");
    assert_eq!(number("int32", b"2147483648"), "expected int32 as text, found `2147483648`");
    assert_eq!(number("float32", b"1 2"), "expected float32 as text, found `1 2`");
    assert_eq!(number("float64", b"\xff"), "expected float64 as text, found `\\xff`");
    assert_eq!(
        number("int32", b"0123456789012345678901234567890"),
        "expected int32 as text, found `012345678901234567890123…`"
    );
}

#[test]
fn json_that_is_not_as_wanted() {
    let good: (&str, &[u8]) = ("json", b"{\"a\": {\"b\": 1}, \"v\": [1, 2]}");
    let json = |text: &[u8]| {
        message("json/a/b:int32,json/v:float32[2]", good, &[("txt", b"t"), ("json", text)])
    };
    let missing = "mark it with `?` if samples may lack it";
    assert_eq!(
        json(b"{\"a\": {\"b\": \"cat\"}, \"v\": [1, 2]}"),
        "`json/a/b`: expected int32, found `\\\"cat\\\"` at +12"
    );
    assert_eq!(
        json(b"{\"v\": [1, 2]}"),
        format!("`json/a/b`: expected int32, found no such value; {missing}")
    );
    assert_eq!(
        json(b"{\"a\":{\"b\":null},\"v\":[1,2]}"),
        format!("`json/a/b`: expected int32, found null at +10; {missing}")
    );
    assert_eq!(
        json(b"{\"a\":{\"b\":1},\"v\":[1]}"),
        "`json/v`: expected float32[2], found 1 numbers; set fields to \"json/v:float32[]\" if they may be any number"
    );
    assert_eq!(
        json(b"{\"a\":{\"b\":1e-1},\"v\":[1]}"),
        "`json/a/b`: expected int32, found `1e-1` at +10"
    );
    assert_eq!(
        json(b"{\"a\":{\"b\":2147483648},\"v\":[1]}"),
        "`json/a/b`: expected int32, found `2147483648` at +10, which is out of its range"
    );
    assert_eq!(
        json(b"{\"a\": 1,}"),
        "member `json`: expected a key in quotes, found `}` at +8; it is not JSON"
    );
    assert_eq!(json(b""), "member `json`: expected a value, found the end at +0; it is not JSON");
    assert_eq!(
        json(b"{} {}"),
        "member `json`: expected nothing after the value, found `{}` at +3; it is not JSON"
    );
    assert_eq!(
        message("json/a/b:int32", good, &[("txt", b"t")]),
        "expected a member `json`, found only: txt; mark it with `?` if samples may lack it; if \
         the member stands in another place of the archive, sort the archive by name"
    );
}

/// A sample of typed members, as a record or not.
fn typed(number: usize) -> impl Strategy<Value = (Vec<u8>, Record)> {
    (any::<[u8; 6]>(), any::<i32>(), prop::collection::vec(any::<i32>(), 0..9), 0u8..4).prop_map(
        move |(pixels, class, list, which)| {
            let key = format!("{number:04}");
            let bytes = file(&format!("{key}.x.npy"), &npy("'|u1'", "(2, 3)", &pixels));
            let mut bytes =
                [bytes, file(&format!("{key}.cls"), class.to_string().as_bytes())].concat();
            let mut record =
                vec![Some(pixels.to_vec()), Some(class.to_le_bytes().to_vec()), None, None];
            if which & 1 == 1 {
                let text = format!("{{\"list\": {list:?}, \"name\": \"n\\u0020{class}\"}}");
                bytes.extend(file(&format!("{key}.json"), text.as_bytes()));
                record[2] = Some(list.iter().flat_map(|one| one.to_le_bytes()).collect());
                record[3] = Some(format!("n {class}").into_bytes());
            }
            (bytes, record)
        },
    )
}

const TYPED: &str = "x.npy:uint8[2,3],cls:int32,json/list:int32[]?,json/name:utf8?";

proptest! {
    #[test]
    fn any_split(
        samples in (1usize..8).prop_flat_map(|count| (0..count).map(typed).collect::<Vec<_>>()),
        pieces in crate::splits::pieces(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 0..3),
        skip: bool,
    ) {
        let (files, records): (Vec<_>, Vec<_>) = samples.into_iter().unzip();
        let mut file = [files.concat(), end()].concat();
        let is_sound = flips.is_empty();
        for (at, flip) in flips {
            let at = at.index(file.len());
            file[at] ^= flip;
        }
        let options = [("fields", TYPED), ("key", "false")];
        let setup = Setup { skip, ..Setup::new(&options) };
        let outcome = assert_any_split::<WebDataset>(&setup, &file, &pieces);
        if is_sound {
            prop_assert_eq!(outcome.errors, []);
            prop_assert_eq!(outcome.records, records);
        }
    }

    /// Damage of a member's data causes an error of its sample only, or another value.
    #[test]
    fn damaged_data(at in any::<prop::sample::Index>(), flip in 1u8.., member in 0usize..3, pieces in crate::splits::pieces()) {
        let sample = |key: &str| {
            let members: [(&str, Vec<u8>); 3] = [
                ("x.npy", npy("'|u1'", "(2, 3)", b"abcdef")),
                ("cls", b"12".to_vec()),
                ("json", b"{\"list\": [1, 2], \"name\": \"n\"}".to_vec()),
            ];
            members.map(|(name, data)| (file(&format!("{key}.{name}"), &data), data.len()))
        };
        let bytes = |key| sample(key).map(|(bytes, _)| bytes).concat();
        let mut damaged = sample("b");
        let data = damaged[member].1;
        damaged[member].0[512 + at.index(data)] ^= flip;
        let damaged = damaged.map(|(bytes, _)| bytes).concat();
        let file = [bytes("a"), damaged, bytes("c"), end()].concat();
        let outcome = assert_any_split::<WebDataset>(&Setup::new(&[("fields", TYPED)]).skipping(), &file, &pieces);
        prop_assert_eq!(outcome.records.len() + outcome.errors.len(), 3);
        prop_assert_eq!(&outcome.records[0][1..], &outcome.records[outcome.records.len() - 1][1..]);
    }
}
