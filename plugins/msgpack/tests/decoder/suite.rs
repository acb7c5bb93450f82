//! The public test suite of MessagePack: see `fixtures/README.md`. Each case has a value and all ways
//! to encode it.

use pipemill_plugin::testing::Setup;
use serde_json::Value;

use crate::write::map;
use crate::{outcome, records};

fn bytes(text: &str) -> Vec<u8> {
    let bytes = text.split('-').filter(|byte| !byte.is_empty());
    bytes.map(|byte| u8::from_str_radix(byte, 16).expect("hexadecimal")).collect()
}

/// The field `v` of a map that has the encoded value.
fn field(word: &str, encoded: &[u8]) -> Option<Vec<u8>> {
    let record = [b"\x81\xa1v", encoded].concat();
    let found = records(&format!("v:{word}?"), &record.repeat(2));
    assert_eq!(found[0], found[1]);
    found[0][0].clone()
}

fn number<const N: usize>(word: &str, encoded: &[u8]) -> [u8; N] {
    field(word, encoded).expect("a number").try_into().expect("the size of the type")
}

/// Compares the values of an array or a map with those of the case, by pointers.
fn same_values(pointer: &str, wanted: &Value, encoded: &[u8]) {
    let take = |word: &str| {
        let found = records(&format!("v=/v{pointer}:{word}?"), &[b"\x81\xa1v", encoded].concat());
        found[0][0].clone()
    };
    match wanted {
        Value::Null => assert_eq!(take("int8"), None),
        Value::Number(number) => {
            let found = take("float64").expect("a number").try_into().expect("eight bytes");
            assert_eq!(Some(f64::from_le_bytes(found)), number.as_f64());
        }
        Value::String(text) => assert_eq!(take("utf8"), Some(text.clone().into_bytes())),
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                same_values(&format!("{pointer}/{index}"), value, encoded);
            }
            let beyond = format!("v=/v{pointer}/{}:bytes?", values.len());
            assert_eq!(records(&beyond, &[b"\x81\xa1v", encoded].concat())[0][0], None);
        }
        Value::Object(entries) => {
            for (key, value) in entries {
                same_values(&format!("{pointer}/{key}"), value, encoded);
            }
        }
        Value::Bool(_) => unreachable!("no case has one inside"),
    }
}

fn check(kind: &str, wanted: &Value, encoded: &[u8]) {
    let text = || wanted.as_str().expect("text");
    let first = encoded[0];
    match kind {
        "nil" => assert_eq!(field("utf8", encoded), None),
        "bool" => assert_eq!(field("bool", encoded), Some(vec![u8::from(*wanted == true)])),
        "binary" => assert_eq!(field("bytes", encoded), Some(bytes(text()))),
        "string" => assert_eq!(field("utf8", encoded), Some(text().as_bytes().to_vec())),
        "number" => {
            let found = f64::from_le_bytes(number("float64", encoded));
            assert_eq!(Some(found), wanted.as_f64());
            if let Some(wanted) = wanted.as_i64().filter(|_| !matches!(first, 0xca | 0xcb)) {
                assert_eq!(i64::from_le_bytes(number("int64", encoded)), wanted);
            }
        }
        "bignum" => match text().parse::<i64>() {
            Ok(wanted) if !matches!(first, 0xca | 0xcb) => {
                assert_eq!(i64::from_le_bytes(number("int64", encoded)), wanted)
            }
            _ if matches!(first, 0xca | 0xcb) => {
                let found = f64::from_le_bytes(number("float64", encoded));
                assert_eq!(Ok(found), text().parse::<f64>());
            }
            _ => {
                let found = u64::from_le_bytes(number("uint64", encoded));
                assert_eq!(Ok(found), text().parse::<u64>());
            }
        },
        "array" | "map" => same_values("", wanted, encoded),
        "timestamp" => {
            let [seconds, nanoseconds] =
                [0, 1].map(|part| wanted[part].as_i64().expect("a number"));
            let time = i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
            match i64::try_from(time) {
                Ok(time) => assert_eq!(i64::from_le_bytes(number("timestamp", encoded)), time),
                Err(_) => {
                    let setup = Setup::new(&[("fields", "v:timestamp")]);
                    let errors = outcome(&setup, &[b"\x81\xa1v", encoded].concat()).1;
                    assert!(errors[0].2.ends_with("which is out of its range"), "{errors:?}");
                }
            }
        }
        "ext" => {
            let (kind, data) =
                (wanted[0].as_i64().expect("a type"), bytes(wanted[1].as_str().expect("data")));
            let setup = Setup::new(&[("fields", "v:bytes")]);
            let errors = outcome(&setup, &[b"\x81\xa1v", encoded].concat()).1;
            let found = format!("found an ext of type {kind} with {} bytes at +3", data.len());
            assert!(errors[0].2.ends_with(&found), "{errors:?}");
        }
        other => panic!("the suite has a kind `{other}`"),
    }
}

#[test]
fn all_cases() {
    let suite: Value = serde_json::from_str(include_str!("../fixtures/msgpack-test-suite.json"))
        .expect("valid JSON");
    let (mut all, mut file, mut count) = (Vec::new(), Vec::new(), 0);
    for case in suite
        .as_object()
        .expect("groups")
        .values()
        .flat_map(|cases| cases.as_array().expect("cases"))
    {
        let case = case.as_object().expect("a case");
        // A case of large numbers has the nearest float, too.
        let kinds: Vec<_> = case.keys().filter(|key| *key != "msgpack").collect();
        let kind = if kinds.len() == 1 { kinds[0] } else { "bignum" };
        for encoded in case["msgpack"].as_array().expect("encodings") {
            let encoded = bytes(encoded.as_str().expect("text"));
            check(kind, &case[kind], &encoded);
            file.extend_from_slice(&encoded);
            all.push(vec![Some(encoded)]);
            count += 1;
        }
    }
    assert!(count > 200, "{count}");
    assert_eq!(outcome(&Setup::new(&[]), &file), (all, vec![]));
    assert_eq!(map([]).encoded(), [0x80]);
}
