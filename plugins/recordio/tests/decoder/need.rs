//! `need` is exact: a host that shows just the bytes asked for gets every record, and in as few calls
//! as there are headers and records.

use crate::write::part;
use pipemill_plugin::{Decoder, Host, Level, Options, Records, StreamInfo};
use pipemill_recordio::RecordIo;

struct Nowhere;

impl Host for Nowhere {
    fn emit(&mut self, _: &[u64], _: &[u8], _: &[u32]) {}
    fn check_crc32c(&mut self, _: &[u64], _: &[u32]) -> Option<usize> {
        None
    }
    fn log(&mut self, _: Level, _: &str) {}
}

/// What `decode` says to these bytes: consumed, need.
fn told(bytes: &[u8]) -> (usize, usize) {
    let options = Options::new(&RecordIo::options(), &[]).expect("defaults");
    let info = StreamInfo {
        channel: "test".into(),
        epoch: 0,
        object: "test".into(),
        max_record: 64 << 20,
    };
    let mut decoder = RecordIo::open(&options, &info).expect("opens");
    let mut out = Records::new(Box::new(Nowhere), false);
    let progress = decoder.decode(bytes, false, &mut out).expect("nothing is wrong");
    (progress.consumed, progress.need)
}

#[test]
fn a_record_in_one_part() {
    let mut file = Vec::new();
    part(&mut file, 0, b"good");
    part(&mut file, 0, &[7; 1001]);
    assert_eq!(told(b""), (0, 8));
    assert_eq!(told(&file[..7]), (0, 8));
    assert_eq!(told(&file[..8]), (0, 12));
    assert_eq!(told(&file[..12]), (12, 8));
    assert_eq!(told(&file[..20]), (12, 1012));
    assert_eq!(told(&file[..1023]), (12, 1012));
    assert_eq!(told(&file), (1024, 8));
}

#[test]
fn a_record_in_parts() {
    let mut file = Vec::new();
    part(&mut file, 1, &[1; 100]);
    part(&mut file, 2, &[2; 40]);
    part(&mut file, 3, &[3; 5]);
    assert_eq!(told(&file[..8]), (0, 116), "the part and the next header");
    assert_eq!(told(&file[..108]), (0, 116));
    assert_eq!(told(&file[..116]), (0, 164));
    assert_eq!(told(&file[..164]), (0, 172));
    assert_eq!(told(&file[..171]), (0, 172));
    assert_eq!(told(&file), (172, 8));
}
