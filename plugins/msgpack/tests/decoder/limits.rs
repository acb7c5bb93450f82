//! Depth, `max_record`, and arrays that become larger as fields.

use pipemill_msgpack::Msgpack;
use pipemill_plugin::testing::{Setup, assert_any_split, decode_split};

use crate::outcome;
use crate::write::{Value, array, file, int, map};

/// Nested arrays or maps.
fn nested(depth: usize, map: bool) -> Vec<u8> {
    let level: &[u8] = if map { b"\x81\xa1a" } else { b"\x91" };
    [level.repeat(depth), vec![0xc0]].concat()
}

#[test]
fn depth() {
    for map in [false, true] {
        let options: [&[(&str, &str)]; 3] =
            [&[], &[("fields", "a:bytes?")], &[("fields", "/a/a/0:bytes?,v=/0/0:int8?")]];
        for options in options {
            let setup = Setup::new(options).skipping();
            let good = nested(1024, map);
            let outcome = assert_any_split::<Msgpack>(&setup, &good.repeat(2), &[300; 20]);
            // A map can't be a value of bytes, but it is complete.
            assert!(!options.is_empty() || outcome.records.len() == 2);
            for depth in [1025, 4000, 300_000] {
                let file = [&b"\x80"[..], &nested(depth, map)].concat();
                let outcome = assert_any_split::<Msgpack>(&setup, &file, &[100, 1700, 1025, 1, 1]);
                let place = 1024 * if map { 3 } else { 1 };
                let message = format!(
                    "expected no more than 1024 arrays and maps inside of each other, found one more at \
                     +{place}; the object is not MessagePack, or it is damaged here or before, and what \
                     follows can't be found"
                );
                assert_eq!(outcome.records.len(), 1);
                assert_eq!(outcome.errors, [(1, file.len() as u64 - 1, message)]);
            }
        }
    }
    // An empty array counts, too, even as a key.
    let empty = [b"\x91".repeat(1024), vec![0x90]].concat();
    assert_eq!(outcome(&Setup::new(&[]), &empty).1.len(), 1);
    let key = [b"\x91".repeat(1023), b"\x81\x90\xc0".to_vec()].concat();
    assert_eq!(outcome(&Setup::new(&[]), &key).1.len(), 1);
    let wide = file(&[Value::Array(vec![Value::Map(vec![], 0); 2000], 0)]);
    let whole = assert_any_split::<Msgpack>(&Setup::new(&[]), &wide, &[1000]);
    assert_eq!((whole.records.len(), whole.errors.len()), (1, 0));
}

#[test]
fn records_larger_than_max_record() {
    let message = |what: &str, at: usize, size: u64| {
        format!(
            "with {what} at +{at}, the record has at least {size} bytes: it is larger than max_record (8 \
             bytes); raise max_record if records may be that large, else the object is not MessagePack, \
             or it is damaged here or before, and what follows can't be found"
        )
    };
    let cases: [(&[u8], String); 10] = [
        (b"\xa81234567890", message("a str of 8 bytes", 0, 9)),
        (b"\xc4\x07abcdefghi", message("a bin of 7 bytes", 0, 9)),
        (
            b"\xdb\xff\xff\xff\xffabc",
            message("a str of 4294967295 bytes", 0, 5 + u64::from(u32::MAX)),
        ),
        (
            b"\xc9\xff\xff\xff\xff\x05abc",
            message("an ext of 4294967295 bytes", 0, 6 + u64::from(u32::MAX)),
        ),
        (
            b"\xdd\xff\xff\xff\xff\xc0",
            message("an array of 4294967295 values", 0, 5 + u64::from(u32::MAX)),
        ),
        (
            b"\xdf\xff\xff\xff\xff\xc0",
            message("a map of 4294967295 entries", 0, 5 + 2 * u64::from(u32::MAX)),
        ),
        (b"\x84\xc0", message("a map of 4 entries", 0, 9)),
        // Each value to come has at least a byte.
        (b"\x93\x01\x93\xa3abc\x01\x01\x01", message("a str of 3 bytes", 3, 10)),
        (b"\x93\x01\x01\xcb\x00\x00\x00\x00\x00\x00\x00\x00", message("a value of 9 bytes", 3, 12)),
        (b"\x92\xcd\x00\x01\xce\x00\x00\x00\x01", message("a value of 5 bytes", 4, 9)),
    ];
    for (record, message) in cases {
        for options in [&[][..], &[("fields", "a:int8?")]] {
            let setup = Setup { max_record: 8, ..Setup::new(options) }.skipping();
            let file = [b"\x80\x80", record, b"\x80"].concat();
            let (records, errors) = outcome(&setup, &file);
            assert_eq!(records.len(), 2);
            assert_eq!(errors, [(2, file.len() as u64 - 2, message.clone())]);
        }
    }
    // Exactly as large as allowed.
    let setup = Setup { max_record: 8, ..Setup::new(&[]) };
    let good =
        [&b"\xa71234567"[..], b"\xc4\x06abcdef", b"\x97\x01\x01\x01\x01\x01\x01\x01"].concat();
    let (records, errors) = outcome(&setup, &good);
    assert_eq!((records.len(), errors), (3, vec![]));
}

/// The error comes with the head of the value, before its data.
#[test]
fn lengths_are_checked_before_the_data_is_there() {
    let setup = Setup { max_record: 1000, ..Setup::new(&[]) };
    for head in [
        &b"\xc5\x04\x00"[..],
        b"\xda\x04\x00",
        b"\xdc\x04\x00",
        b"\xde\x02\x00",
        b"\xc8\x04\x00\x01",
    ] {
        let error = pipemill_plugin::testing::decode_once::<Msgpack>(&setup, head);
        assert!(
            error.is_err_and(|error| error.message.contains("larger than max_record")),
            "{head:?}"
        );
    }
}

/// An array of numbers of one byte has eight times as many bytes as a field.
#[test]
fn arrays_that_become_too_large() {
    let record = map([("v", Value::Array(vec![int(1); 100], 0))]).encoded();
    let decode = |spec: &str, max_record| {
        let setup = Setup { max_record, ..Setup::new(&[("fields", spec)]) }.skipping();
        let outcome =
            assert_any_split::<Msgpack>(&setup, &[&record[..], &record].concat(), &[9; 30]);
        (outcome.records.len(), outcome.errors)
    };
    assert_eq!(decode("v:int64[]", 800), (2, vec![]));
    assert_eq!(decode("v:uint8[]", 110), (2, vec![]));
    let message = "field `v` at \"v\": expected int64[], found an array of 100 values at +3, which as a \
                   field has 800 bytes; the arrays of a record may have no more than max_record (799 bytes)";
    let size = record.len() as u64;
    let wanted = [0, size].map(|at| (at, size, message.to_owned()));
    assert_eq!(decode("v:int64[]", 799), (0, wanted.into()));
    // All arrays of a record count together.
    assert_eq!(decode("v:int64[],w=/v:int32[]", 1200).0, 2);
    let (records, errors) = decode("v:int64[],w=/v:int32[]", 1199);
    assert!(records == 0 && errors.len() == 2 && errors[0].2.starts_with("field `w` at \"/v\""));
    let texts = file(&[map([("v", Value::Array(vec![Value::Str(vec![], 0); 100], 0))])]);
    let setup = Setup { max_record: 403, ..Setup::new(&[("fields", "v:utf8[]")]) };
    let (records, errors) = outcome(&setup, &texts);
    assert!(
        records.is_empty() && errors[0].2.contains("which as a field has 404 bytes"),
        "{errors:?}"
    );
}

/// The output of a call is limited, even if the chunk is large.
#[test]
fn large_chunks_of_small_numbers() {
    let record = map([("v", Value::Array(vec![int(1); 1000], 0))]);
    let file = file(&vec![record; 50]);
    let setup = Setup { max_record: 10_000, ..Setup::new(&[("fields", "v:int64[]")]) };
    let outcome = assert_any_split::<Msgpack>(&setup, &file, &[3000; 10]);
    assert_eq!((outcome.records.len(), outcome.errors), (50, vec![]));
    let progress =
        pipemill_plugin::testing::decode_once::<Msgpack>(&setup, &file).expect("no error");
    assert!(progress.more && progress.consumed < 4000, "{progress:?}");
    let whole = decode_split::<Msgpack>(&Setup::new(&[("fields", "v:int64[]")]), &file, &[]);
    assert_eq!(whole.records.len(), 50);
}

#[test]
fn an_empty_object_has_no_records() {
    for options in [&[][..], &[("fields", "a:int8")]] {
        assert_eq!(outcome(&Setup::new(options), b""), (vec![], vec![]));
    }
    assert_eq!(array([]).encoded(), [0x90]);
}
