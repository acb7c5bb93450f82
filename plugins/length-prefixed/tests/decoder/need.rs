//! `need` is exact.

use pipemill_length_prefixed::LengthPrefixed;
use pipemill_plugin::testing::{Setup, decode_once};

/// `consumed` and `need` for these bytes.
fn progress(prefix: &str, bytes: &[u8]) -> (usize, usize) {
    let setup = Setup::new(&[("prefix", prefix)]);
    let progress = decode_once::<LengthPrefixed>(&setup, bytes).expect("no error");
    (progress.consumed, progress.need)
}

#[test]
fn need_is_exact() {
    let file = b"\x02\0\0\0ab\xe8\x03\0\0abc";
    assert_eq!(progress("u32le", b""), (0, 4));
    assert_eq!(progress("u32le", &file[..3]), (0, 4));
    assert_eq!(progress("u32le", &file[..4]), (0, 6));
    assert_eq!(progress("u32le", &file[..6]), (6, 4));
    assert_eq!(progress("u32le", &file[..10]), (6, 1004));
    assert_eq!(progress("u32le", file), (6, 1004));
    assert_eq!(progress("varint", b""), (0, 1));
    assert_eq!(progress("varint", b"\x80"), (0, 2));
    assert_eq!(progress("varint", b"\x80\x80"), (0, 3));
    assert_eq!(progress("varint", b"\x80\x01"), (0, 130));
}
