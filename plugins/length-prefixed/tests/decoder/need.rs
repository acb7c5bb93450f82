//! `need` is exact.

use pipemill_length_prefixed::LengthPrefixed;
use pipemill_plugin::{Decoder, Host, Level, Options, Records, StreamInfo};

struct Nowhere;

impl Host for Nowhere {
    fn emit(&mut self, _: &[u64], _: &[u8], _: &[u32]) {}
    fn check_crc32c(&mut self, _: &[u64], _: &[u32]) -> Option<usize> {
        None
    }
    fn log(&mut self, _: Level, _: &str) {}
}

/// What `decode` says to these bytes: consumed, need.
fn told(prefix: &str, bytes: &[u8]) -> (usize, usize) {
    let given = [("prefix".to_owned(), prefix.to_owned())];
    let options = Options::new(&LengthPrefixed::options(), &given).expect("known");
    let info = StreamInfo {
        channel: "test".into(),
        epoch: 0,
        object: "test".into(),
        max_record: 64 << 20,
    };
    let mut decoder = LengthPrefixed::open(&options, &info).expect("opens");
    let mut out = Records::new(Box::new(Nowhere), false);
    out.set_fields(1);
    let progress = decoder.decode(bytes, false, &mut out).expect("nothing is wrong");
    (progress.consumed, progress.need)
}

#[test]
fn exact() {
    let file = b"\x02\0\0\0ab\xe8\x03\0\0abc";
    assert_eq!(told("u32le", b""), (0, 4));
    assert_eq!(told("u32le", &file[..3]), (0, 4));
    assert_eq!(told("u32le", &file[..4]), (0, 6));
    assert_eq!(told("u32le", &file[..6]), (6, 4));
    assert_eq!(told("u32le", &file[..10]), (6, 1004));
    assert_eq!(told("u32le", file), (6, 1004));
    assert_eq!(told("varint", b""), (0, 1));
    assert_eq!(told("varint", b"\x80"), (0, 2));
    assert_eq!(told("varint", b"\x80\x80"), (0, 3));
    assert_eq!(told("varint", b"\x80\x01"), (0, 130));
}
