//! The fields that values become: types, optional fields, selectors, duplicate keys.

use pipemill_plugin::testing::Record;

use crate::records;
use crate::write::{Value, array, file, int, map, str};

/// The field of a record with one field.
fn field(spec: &str, value: &Value) -> Option<Vec<u8>> {
    let records = records(spec, &value.encoded());
    assert_eq!(records.len(), 1, "{value:?}");
    records[0][0].clone()
}

/// The field of a map with one entry.
fn value(word: &str, value: Value) -> Option<Vec<u8>> {
    field(&format!("v:{word}"), &map([("v", value)]))
}

#[test]
fn text_and_bytes() {
    for text in ["", "plain", "äöü €", "\u{1f600}", &"ä".repeat(20_000), &"x".repeat(70_000)]
    {
        for size in [0, 1, 2, 4] {
            let data = Some(text.as_bytes().to_vec());
            let written = Value::Str(text.into(), size);
            // Every split takes long with long texts.
            if text.len() < 100 {
                assert_eq!(value("utf8", written.clone()), data);
                assert_eq!(value("bytes", written), data);
                assert_eq!(value("bytes", Value::Bin(text.into(), size)), data);
            } else {
                let setup = pipemill_plugin::testing::Setup::new(&[("fields", "v:utf8")]);
                let bytes = map([("v", written)]).encoded();
                let outcome = pipemill_plugin::testing::assert_any_split::<pipemill_msgpack::Msgpack>(
                    &setup,
                    &bytes,
                    &[1, 2, 3, 30_000, 5],
                );
                assert_eq!(outcome.records, [[data]]);
            }
        }
    }
    assert_eq!(value("bytes", Value::Str(vec![0xff, 0], 0)), Some(vec![0xff, 0]));
}

#[test]
fn booleans_and_nil() {
    assert_eq!(value("bool", Value::Bool(true)), Some(vec![1]));
    assert_eq!(value("bool", Value::Bool(false)), Some(vec![0]));
    for word in ["bool", "bytes", "utf8", "int8", "float64", "int16[]", "utf8[]", "timestamp"] {
        assert_eq!(value(&format!("{word}?"), Value::Nil), None);
        assert_eq!(field(&format!("x:{word}?"), &map([("v", int(1))])), None);
    }
}

#[test]
fn timestamps() {
    let of = |data: &[u8]| {
        let time = value("timestamp", Value::Ext(-1, data.to_vec(), 0)).expect("never absent");
        i64::from_le_bytes(time.try_into().expect("eight bytes"))
    };
    assert_eq!(of(&[0, 0, 0, 1]), 1_000_000_000);
    assert_eq!(of(&[0xff; 4]), 4_294_967_295_000_000_000);
    assert_eq!(of(&((500_000_000u64 << 34) | 3).to_be_bytes()), 3_500_000_000);
    assert_eq!(of(&((1u64 << 34) - 1 - (1 << 33)).to_be_bytes()), 8_589_934_591_000_000_000);
    let long = |nanoseconds: u32, seconds: i64| {
        of(&[&nanoseconds.to_be_bytes()[..], &seconds.to_be_bytes()].concat())
    };
    assert_eq!(long(999_999_999, -1), -1);
    assert_eq!(long(854_775_807, 9_223_372_036), i64::MAX);
    assert_eq!(long(145_224_192, -9_223_372_037), i64::MIN);
    let two = array([Value::Ext(-1, vec![0, 0, 0, 1], 0), Value::Ext(-1, vec![0, 0, 0, 2], 4)]);
    let wanted = [1_000_000_000i64, 2_000_000_000].map(i64::to_le_bytes).concat();
    assert_eq!(value("timestamp[2]", two), Some(wanted));
}

#[test]
fn lists() {
    let list = |elements: &[&[u8]]| {
        let mut offset = 4 * (elements.len() as u32 + 1);
        let mut value = offset.to_le_bytes().to_vec();
        for element in elements {
            offset += element.len() as u32;
            value.extend(offset.to_le_bytes());
        }
        Some([value, elements.concat()].concat())
    };
    assert_eq!(value("utf8[]", array([])), list(&[]));
    let three = array([str("a"), Value::Str("äö".into(), 4), str("")]);
    assert_eq!(value("utf8[]", three.clone()), list(&[b"a", "äö".as_bytes(), b""]));
    assert_eq!(value("utf8[3]", three), list(&[b"a", "äö".as_bytes(), b""]));
    let mixed = array([str("a"), Value::Bin(vec![0xff], 0)]);
    assert_eq!(value("bytes[]", mixed), list(&[b"a", &[0xff]]));
}

#[test]
fn selectors() {
    let record = map([
        ("a", map([("b", array([map([("c", int(1))]), map([("c", int(2))])]))])),
        ("0", int(3)),
        ("", int(4)),
        ("x/y~", int(5)),
    ]);
    let select = |selector: &str| field(&format!("v={selector}:uint8"), &record);
    for (selector, wanted) in
        [("/a/b/0/c", 1), ("/a/b/1/c", 2), ("/0", 3), ("0", 3), ("/", 4), ("/x~1y~0", 5)]
    {
        assert_eq!(select(selector), Some(vec![wanted]), "{selector}");
    }
    for missing in ["/a/b/2/c", "/a/b/01/c", "/a/b/-/c", "/a/c", "/a/0", "/0/a", "b", "c"] {
        assert_eq!(field(&format!("v={missing}:uint8?"), &record), None, "{missing}");
    }
    // A record that is an array.
    let row = array([str("x"), int(7), array([int(8), int(9)])]);
    let fields = "name=0:utf8,label=1:int32,second=/2/1:uint8,pair=/2:uint8[2]";
    let wanted: Record =
        vec![Some(b"x".to_vec()), Some(vec![7, 0, 0, 0]), Some(vec![9]), Some(vec![8, 9])];
    assert_eq!(records(fields, &file(&[row.clone(), row])), [wanted.clone(), wanted]);
    // A record that is one value.
    let words = file(&[str("a"), str("b")]);
    let wanted: [Record; 2] = [b"a", b"b"].map(|word| vec![Some(word.to_vec())]);
    assert_eq!(records("word=:utf8", &words), wanted);
    assert_eq!(
        records("whole=:uint8[],first=0:int8", &array([int(1)]).encoded()),
        [[Some(vec![1]), Some(vec![1])]]
    );
}

#[test]
fn keys_of_all_kinds() {
    let of = |key: Value| field("v=5:uint8", &Value::Map(vec![(key, int(1))], 0));
    for key in [str("5"), Value::Bin(b"5".to_vec(), 0), int(5), Value::Int(5, 8)] {
        assert_eq!(of(key), Some(vec![1]));
    }
    // d3: an integer with a sign.
    let signed = b"\x81\xd3\x00\x00\x00\x00\x00\x00\x00\x05\x01";
    assert_eq!(records("v=5:uint8", signed), [[Some(vec![1])]]);
    for key in [
        Value::Nil,
        Value::Bool(true),
        int(-5),
        Value::Float64(5.0),
        array([int(5)]),
        map([("5", int(5))]),
        // Not UTF-8.
        Value::Str(vec![0xff], 0),
        Value::Str(vec![b'5', 0xc3], 0),
        Value::Bin(vec![0xff, 0xfe], 0),
        // This key is too long to be remembered.
        Value::Str(vec![0xff; 32], 0),
    ] {
        let record = Value::Map(vec![(key.clone(), int(1)), (str("w"), int(2))], 0);
        let found = records("v=5:uint8?,w:uint8", &file(&[record.clone(), record]));
        assert_eq!(found, [[None, Some(vec![2])], [None, Some(vec![2])]], "{key:?}");
    }
}

#[test]
fn fields_have_the_order_of_the_option() {
    let record = map([("a", int(1)), ("b", int(2)), ("c", map([("d", int(7))]))]);
    let wanted: Record = vec![Some(vec![7]), None, Some(vec![1]), Some(vec![2, 0])];
    assert_eq!(records("/c/d:int8,x:utf8?,a:int8,b:uint16", &record.encoded()), [wanted]);
}

#[test]
fn the_last_of_equal_keys_counts() {
    let nested = |key: &str, value: i128| (str("a"), map([(key, int(value))]));
    let of = |spec: &str, entries: Vec<(Value, Value)>| {
        let record = Value::Map(entries, 0).encoded();
        let found = records(spec, &record.repeat(3));
        assert!(found.iter().all(|record| *record == found[0]), "{found:?}");
        found[0][0].clone()
    };
    assert_eq!(of("a:int8", vec![(str("a"), int(1)), (str("a"), int(2))]), Some(vec![2]));
    assert_eq!(of("a:int8?", vec![(str("a"), int(1)), (str("a"), Value::Nil)]), None);
    assert_eq!(of("/a/b:int8", vec![nested("b", 1), nested("b", 2)]), Some(vec![2]));
    // The values inside the earlier one are removed, too.
    assert_eq!(of("/a/b:int8?", vec![nested("b", 1), nested("c", 2)]), None);
    assert_eq!(of("/a/b:int8?", vec![nested("b", 1), (str("a"), int(2))]), None);
    // The same is true if the key has two notations.
    let long = |value| (Value::Str("a".into(), 1), value);
    assert_eq!(of("/a/b:int8?", vec![nested("b", 1), long(int(2))]), None);
    assert_eq!(of("/a/b:int8?", vec![nested("b", 1), long(map([("b", int(3))]))]), Some(vec![3]));
    assert_eq!(of("/a/b:int8?", vec![long(map([("b", int(3))])), (str("a"), int(2))]), None);
}

#[test]
fn no_value_of_the_record_before_is_left() {
    let file = file(&[map([("a", int(1))]), map([]), map([("a", int(2))])]);
    let wanted = [Some(vec![1]), None, Some(vec![2])].map(|field| vec![field]);
    assert_eq!(records("a:int8?", &file), wanted);
}

/// Keys in any order, missing, new, and long: the remembered order must not matter.
#[test]
fn keys_in_any_order() {
    let keys = ["a", "bc", "a key of 16 chars", "a-key-of-15-char", "k14-0123456789", "é", "z"];
    let fields: Vec<_> = keys.iter().map(|key| format!("{key}:int8?")).collect();
    let mut file = Vec::new();
    let mut wanted: Vec<Record> = Vec::new();
    for round in 0..60usize {
        let mut present: Vec<usize> =
            (0..keys.len()).filter(|key| (round * 37 % 101) >> key & 1 == 0).collect();
        let turn = round % present.len().max(1);
        present.rotate_left(turn);
        let entries =
            present.iter().map(|key| (str(keys[*key]), int((round + key) as i128 % 100))).collect();
        Value::Map(entries, 0).write(&mut file);
        let field = |key: usize| present.contains(&key).then(|| vec![((round + key) % 100) as u8]);
        wanted.push((0..keys.len()).map(field).collect());
    }
    let setup = pipemill_plugin::testing::Setup::new(&[("fields", &fields.join(","))]);
    let pieces = vec![7; file.len() / 7];
    let outcome = pipemill_plugin::testing::assert_any_split::<pipemill_msgpack::Msgpack>(
        &setup, &file, &pieces,
    );
    assert_eq!(outcome.records, wanted);
}

/// There are more keys than can be remembered.
#[test]
fn maps_of_many_keys() {
    let key = |index: usize| format!("key{index}");
    let record = |shift: usize| {
        let entries =
            (0..300).map(|index| (str(&key((index + shift) % 300)), Value::Int(index as i128, 0)));
        Value::Map(entries.collect(), 0)
    };
    let file = file(&[record(0), record(0), record(17), record(299)]);
    let wanted = [7u16, 7, 290, 8].map(|value| vec![Some(value.to_le_bytes().to_vec())]);
    let setup = pipemill_plugin::testing::Setup::new(&[("fields", "key7:uint16")]);
    let outcome = pipemill_plugin::testing::assert_any_split::<pipemill_msgpack::Msgpack>(
        &setup, &file, &[1000; 9],
    );
    assert_eq!(outcome.records, wanted);
}
