//! Lengths that are refused: the message, and that nothing behind them is decoded.

use pipemill_length_prefixed::LengthPrefixed;
use pipemill_plugin::testing::{Setup, assert_any_split, decode_split};

/// A sound record `ab`, then this. Records, and the one error.
fn behind_a_record(options: &[(&str, &str)], record: &[u8], then: &[u8], max: u64) -> String {
    let file = [record, then].concat();
    let setup = Setup { max_record: max, ..Setup::new(options) }.skipping();
    let whole = assert_any_split::<LengthPrefixed>(&setup, &file, &vec![1; file.len()]);
    for split in 1..file.len() {
        assert_eq!(whole, decode_split::<LengthPrefixed>(&setup, &file, &[split]), "at {split}");
    }
    assert_eq!(whole.records, [[Some(b"ab".to_vec())]]);
    let [(at, length, message)] = &whole.errors[..] else { panic!("{:?}", whole.errors) };
    assert_eq!((*at, *length), (record.len() as u64, then.len() as u64));
    message.clone()
}

#[test]
fn varints_that_are_none() {
    let varint = [("prefix", "varint")];
    let message = "expected a length as a varint of 64 bits (option `prefix`), found ff ff ff ff ff \
                   ff ff ff ff 02; this is not of that format, or it is damaged here or before, and \
                   what follows can't be found";
    let nine = [0xff; 9];
    for then in [&[&nine[..], &[2]].concat(), &[&nine[..], &[2, 1, 1]].concat()] {
        assert_eq!(behind_a_record(&varint, b"\x02ab", then, u64::MAX), message);
    }
    let never_ends = [0x80; 30];
    let message = behind_a_record(&varint, b"\x02ab", &never_ends, u64::MAX);
    assert!(message.contains("found 80 80 80 80 80 80 80 80 80 80;"), "{message}");
}

#[test]
fn zeros_at_the_top_of_a_varint_are_no_error() {
    let setup = Setup::new(&[("prefix", "varint")]);
    let outcome =
        assert_any_split::<LengthPrefixed>(&setup, b"\x82\x80\x80\x00ab\x80\x00", &[1; 8]);
    assert_eq!(outcome.errors, []);
    assert_eq!(outcome.records, [[Some(b"ab".to_vec())], [Some(Vec::new())]]);
}

#[test]
fn larger_than_the_channel_takes() {
    let message = "record of 3 bytes is larger than max_record (2 bytes); raise max_record if \
                   records may be that large, or set prefix if lengths are not u16be";
    let options = [("prefix", "u16be")];
    assert_eq!(behind_a_record(&options, b"\0\x02ab", b"\0\x03abc", 2), message);
    // The bytes of the record never have to arrive, and no place overflows.
    for (prefix, record, then) in [
        ("u64le", &b"\x02\0\0\0\0\0\0\0ab"[..], &[0xff; 8][..]),
        ("u64be", b"\0\0\0\0\0\0\0\x02ab", &[0xff; 8]),
        ("varint", b"\x02ab", &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
    ] {
        let message = behind_a_record(&[("prefix", prefix)], record, then, 1 << 20);
        let start =
            "record of 18446744073709551615 bytes is larger than max_record (1048576 bytes)";
        assert!(message.starts_with(start), "{message}");
    }
}

#[test]
fn a_length_that_does_not_count_itself() {
    let options = [("prefix", "u32le"), ("includes_prefix", "true")];
    let message = "expected a length that counts its own 4 bytes (option `includes_prefix`), found 3; \
                   set includes_prefix = false if lengths do not, or prefix if it is not u32le";
    assert_eq!(behind_a_record(&options, b"\x06\0\0\0ab", b"\x03\0\0\0xyz", 2), message);
}
