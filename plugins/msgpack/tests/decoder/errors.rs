//! Records that are refused: the message, and where decoding continues.

use pipemill_plugin::testing::Setup;

use crate::outcome;
use crate::write::{Value, array, int, map, str};

/// The message for a record between two good ones, which is skipped.
fn message_for(fields: &str, good: &Value, bad: &Value) -> String {
    let (good, bad) = (good.encoded(), bad.encoded());
    let file = [&good[..], &bad, &good].concat();
    let (records, errors) = outcome(&Setup::new(&[("fields", fields)]).skipping(), &file);
    assert_eq!(records.len(), 2, "{}", bad.escape_ascii());
    let [(at, length, message)] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!((*at, *length), (good.len() as u64, bad.len() as u64));
    let (records, errors) = outcome(&Setup::new(&[("fields", fields)]), &file);
    assert_eq!((records.len(), errors), (1, vec![(*at, 0, message.clone())]));
    message.clone()
}

#[test]
fn the_byte_that_starts_no_value() {
    let message = |at: usize| {
        format!(
            "expected a MessagePack value, found 0xc1 at +{at}; the object is not MessagePack, or it is \
             damaged here or before, and what follows can't be found"
        )
    };
    let cases: [(&[u8], usize); 6] = [
        (b"\xc1", 0),
        (b"\x92\x01\xc1", 2),
        (b"\x81\xc1\x01", 1),
        (b"\x81\xa1a\xc1", 3),
        (b"\x81\xa1a\x81\xa1b\x93\x01\xc1\x01", 8),
        (b"\x82\xa1a\x01\xa1b\xc1", 6),
    ];
    for (bad, at) in cases {
        for options in [&[][..], &[("fields", "a:int8?,/a/b/1:int8?")]] {
            let file = [b"\x81\xa1x\x05", bad, b"\x80\x80"].concat();
            let (records, errors) = outcome(&Setup::new(options).skipping(), &file);
            assert_eq!(records.len(), 1);
            assert_eq!(errors, [(4, file.len() as u64 - 4, message(at))]);
            let (records, errors) = outcome(&Setup::new(options), &file);
            assert_eq!((records.len(), errors), (1, vec![(4, 0, message(at))]));
        }
    }
}

#[test]
fn values_of_another_type() {
    let one = map([("a", int(1))]);
    let of = |value: Value| map([("a", value)]);
    assert_eq!(
        message_for("a:int32", &one, &map([("b", int(1))])),
        "field `a` at \"a\": expected int32, found no such value; mark it with `?` if records may lack it"
    );
    assert_eq!(
        message_for("n=/a:int32", &one, &of(Value::Nil)),
        "field `n` at \"/a\": expected int32, found nil at +3; mark it with `?` if records may lack it"
    );
    assert_eq!(
        message_for("a:int32", &one, &of(int(1 << 31))),
        "field `a` at \"a\": expected int32, found 2147483648 at +3, which is out of its range"
    );
    for (word, bad, found) in [
        ("int32", Value::Float64(1.0), "a float64 at +3"),
        ("int64", Value::Float32(1e20), "a float32 of about 2^66 at +3"),
        ("int64", str("1"), "\"1\" at +3"),
        ("int64", Value::Str(vec![b'x'; 25], 0), "a str of 25 bytes at +3"),
        ("float32", array([int(1)]), "an array of 1 values at +3"),
        ("int64", Value::Float64(-1024.0), "a float64 at +3"),
        ("int64", Value::Float64(2048.0), "a float64 of about 2^11 at +3"),
        ("int64", Value::Float64(f64::MAX), "a float64 of about 2^1024 at +3"),
        ("int64", Value::Float32(f32::NAN), "a float32 at +3"),
        ("int64", Value::Float64(f64::NEG_INFINITY), "a float64 at +3"),
        ("float64", Value::Bool(true), "true at +3"),
        ("float64", map([("x", int(1))]), "a map of 1 entries at +3"),
        ("int64", int(1 << 63), "9223372036854775808 at +3, which is out of its range"),
        ("uint64", int(-1), "-1 at +3, which is out of its range"),
        ("int8", int(128), "128 at +3, which is out of its range"),
        ("uint8", int(256), "256 at +3, which is out of its range"),
        (
            "float32",
            Value::Float64(1e39),
            "a float64 of about 2^129 at +3, which is out of its range",
        ),
        (
            "float16",
            Value::Float64(-1e6),
            "a float64 of about -2^20 at +3, which is out of its range",
        ),
        (
            "bfloat16",
            Value::Float64(3.4e38),
            "a float64 of about 2^128 at +3, which is out of its range",
        ),
        ("int8", Value::Ext(5, vec![0; 3], 0), "an ext of type 5 with 3 bytes at +3"),
        ("int8", Value::Ext(-1, vec![0; 4], 0), "an ext of type -1 with 4 bytes at +3"),
        ("int8", Value::Bin(vec![0; 3], 0), "a bin of 3 bytes at +3"),
    ] {
        let wanted = format!("field `a` at \"a\": expected {word}, found {found}");
        assert_eq!(message_for(&format!("a:{word}"), &one, &of(bad.clone())), wanted);
        // Optional fields are checked, too.
        assert_eq!(message_for(&format!("a:{word}?"), &one, &of(bad)), wanted);
    }
    let text = of(str("x"));
    for (word, bad, found) in [
        ("utf8", int(1), "1 at +3"),
        ("utf8", Value::Bin(b"x".to_vec(), 0), "a bin of 1 bytes at +3"),
        ("bytes", int(1), "1 at +3"),
        ("bytes", map([]), "a map of 0 entries at +3"),
        (
            "utf8",
            Value::Str(b"ab\xff".to_vec(), 0),
            "a str at +3 that is not UTF-8 from its byte 2 on",
        ),
        (
            "utf8",
            Value::Str("ä".repeat(20).as_bytes()[..39].to_vec(), 0),
            "a str at +3 that is not UTF-8 from its byte 38 on",
        ),
    ] {
        let wanted = format!("field `a` at \"a\": expected {word}, found {found}");
        assert_eq!(message_for(&format!("a:{word}"), &text, &of(bad)), wanted);
    }
    let message = message_for("a:bool", &of(Value::Bool(true)), &one);
    assert_eq!(message, "field `a` at \"a\": expected bool, found 1 at +3");
}

#[test]
fn timestamps() {
    let of = |data: &[u8]| map([("t", Value::Ext(-1, data.to_vec(), 0))]);
    let good = of(&[0; 4]);
    let message = |bad: Value| {
        let message = message_for("t:timestamp", &good, &bad);
        message
            .strip_prefix("field `t` at \"t\": expected timestamp, found ")
            .expect("so it starts")
            .to_owned()
    };
    let ext = |size| format!("an ext of type -1 with {size} bytes at +3");
    let range = |size| format!("{}, which is out of its range", ext(size));
    assert_eq!(message(of(&[0; 5])), ext(5));
    assert_eq!(message(map([("t", int(5))])), "5 at +3");
    assert_eq!(
        message(map([("t", Value::Ext(1, vec![0; 4], 0))])),
        "an ext of type 1 with 4 bytes at +3"
    );
    assert_eq!(message(of(&(1_000_000_000u64 << 34).to_be_bytes())), range(8));
    assert_eq!(message(of(&((1u64 << 34) - 1).to_be_bytes())), range(8));
    let long = |nanoseconds: u32, seconds: i64| {
        of(&[&nanoseconds.to_be_bytes()[..], &seconds.to_be_bytes()].concat())
    };
    assert_eq!(message(long(1_000_000_000, 0)), range(12));
    assert_eq!(message(long(854_775_808, 9_223_372_036)), range(12));
    assert_eq!(message(long(145_224_191, -9_223_372_037)), range(12));
}

#[test]
fn arrays_with_other_elements() {
    let said = |word: &str, bad: Value| {
        let good = match word.split('[').next() {
            Some("utf8") => array([array([str("a"), str("b")])]),
            Some("timestamp") => array([array([Value::Ext(-1, vec![0; 4], 0)])]),
            _ => array([array([int(1), int(2)])]),
        };
        let message = message_for(&format!("v=0:{word}"), &good, &array([bad]));
        message.strip_prefix("field `v` at \"0\": ").expect("so it starts").to_owned()
    };
    assert_eq!(
        said("int32[2]", array([int(1)])),
        "expected int32[2], found 1 values; set fields to \"0:int32[]\" if they may be any number"
    );
    assert_eq!(
        said("utf8[2]", array([])),
        "expected utf8[2], found 0 values; set fields to \"0:utf8[]\" if they may be any number"
    );
    assert_eq!(said("int32[]", array([int(1), str("2")])), "expected int32[], found \"2\" at +3");
    assert_eq!(said("int32[]", array([int(1), Value::Nil])), "expected int32[], found nil at +3");
    assert_eq!(
        said("float32[]", array([array([])])),
        "expected float32[], found an array of 0 values at +2"
    );
    assert_eq!(said("int32[]", int(3)), "expected int32[], found 3 at +1");
    assert_eq!(
        said("float32[]", array([Value::Float64(1e99)])),
        "expected float32[], found a float64 of about 2^329 at +2, which is out of its range"
    );
    assert_eq!(said("utf8[]", array([str("a"), int(5)])), "expected utf8[], found 5 at +4");
    assert_eq!(
        said("utf8[]", array([Value::Str(vec![0xff], 0)])),
        "expected utf8[], found a str at +2 that is not UTF-8 from its byte 0 on"
    );
    assert_eq!(said("timestamp[]", array([int(1)])), "expected timestamp[], found 1 at +2");
}

#[test]
fn records_without_fields() {
    let good = map([("a", int(1))]);
    for (bad, found) in [
        (int(5), "5"),
        (str("abc"), "\"abc\""),
        (Value::Nil, "nil"),
        (Value::Bool(false), "false"),
        (Value::Ext(3, vec![0; 4], 0), "an ext of type 3 with 4 bytes"),
    ] {
        let message = message_for("a:int8?", &good, &bad);
        assert_eq!(
            message,
            format!("expected a map or an array with the option `fields`, found {found}")
        );
    }
}

#[test]
fn an_input_that_ends_inside_a_value() {
    let file = [map([("a", int(1))]).encoded(), b"\x81\xa1a".to_vec()].concat();
    for options in [&[][..], &[("fields", "a:int8")]] {
        let (records, errors) = outcome(&Setup::new(options), &file);
        assert_eq!(records.len(), 1);
        assert_eq!(errors, [(4, 0, "the input ends inside a record".to_owned())]);
    }
}
