//! Lengths that are refused: the message, and that nothing after them is decoded.

use pipemill_length_prefixed::LengthPrefixed;
use pipemill_plugin::testing::{Setup, assert_all_splits, assert_any_split};

/// The one error of a valid record `ab` followed by `then`.
fn error_after_a_record(options: &[(&str, &str)], record: &[u8], then: &[u8], max: u64) -> String {
    let file = [record, then].concat();
    let setup = Setup { max_record: max, ..Setup::new(options) }.skipping();
    let whole = assert_all_splits::<LengthPrefixed>(&setup, &file);
    assert_eq!(whole.records, [[Some(b"ab".to_vec())]]);
    let [(at, length, message)] = &whole.errors[..] else { panic!("{:?}", whole.errors) };
    assert_eq!((*at, *length), (record.len() as u64, then.len() as u64));
    message.clone()
}

#[test]
fn varints_of_more_than_64_bits() {
    let varint = [("prefix", "varint")];
    let message = "expected a length as a varint of 64 bits (option `prefix`), found ff ff ff ff ff \
                   ff ff ff ff 02; this is not of that format, or it is damaged here or before, and \
                   what follows can't be found";
    let nine = [0xff; 9];
    for then in [&[&nine[..], &[2]].concat(), &[&nine[..], &[2, 1, 1]].concat()] {
        assert_eq!(error_after_a_record(&varint, b"\x02ab", then, u64::MAX), message);
    }
    let never_ends = [0x80; 30];
    let message = error_after_a_record(&varint, b"\x02ab", &never_ends, u64::MAX);
    assert!(message.contains("found 80 80 80 80 80 80 80 80 80 80;"), "{message}");
}

#[test]
fn varints_with_leading_zeros_are_valid() {
    let setup = Setup::new(&[("prefix", "varint")]);
    let outcome =
        assert_any_split::<LengthPrefixed>(&setup, b"\x82\x80\x80\x00ab\x80\x00", &[1; 8]);
    assert_eq!(outcome.errors, []);
    assert_eq!(outcome.records, [[Some(b"ab".to_vec())], [Some(Vec::new())]]);
}

#[test]
fn records_larger_than_max_record() {
    let message = "record of 3 bytes is larger than max_record (2 bytes); raise max_record if \
                   records may be that large, or set prefix if lengths are not u16be";
    let options = [("prefix", "u16be")];
    assert_eq!(error_after_a_record(&options, b"\0\x02ab", b"\0\x03abc", 2), message);
    // The error comes before the bytes of the record arrive, and no offset overflows.
    for (prefix, record, then) in [
        ("u64le", &b"\x02\0\0\0\0\0\0\0ab"[..], &[0xff; 8][..]),
        ("u64be", b"\0\0\0\0\0\0\0\x02ab", &[0xff; 8]),
        ("varint", b"\x02ab", &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
    ] {
        let message = error_after_a_record(&[("prefix", prefix)], record, then, 1 << 20);
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
    assert_eq!(error_after_a_record(&options, b"\x06\0\0\0ab", b"\x03\0\0\0xyz", 2), message);
}
