//! `need` is exact, and the host is asked for checksums once a call.

use std::cell::Cell;
use std::rc::Rc;

use pipemill_plugin::{Decoder, Host, Level, Options, Records, StreamInfo};
use pipemill_tfrecord::TfRecord;

use crate::write::record;

/// Believes every checksum and counts how often it is asked.
struct Counting(Rc<Cell<usize>>);

impl Host for Counting {
    fn emit(&mut self, _: &[u64], _: &[u8], _: &[u32]) {}
    fn check_crc32c(&mut self, _: &[u64], _: &[u32]) -> Option<usize> {
        self.0.set(self.0.get() + 1);
        None
    }
    fn log(&mut self, _: Level, _: &str) {}
}

/// What `decode` says to these bytes: consumed, need, and how often it asked for checksums.
fn told(bytes: &[u8]) -> (usize, usize, usize) {
    let options = Options::new(&TfRecord::options(), &[]).expect("defaults");
    let info = StreamInfo {
        channel: "test".into(),
        epoch: 0,
        object: "test".into(),
        max_record: 64 << 20,
    };
    let mut decoder = TfRecord::open(&options, &info).expect("opens");
    let asked = Rc::new(Cell::new(0));
    let mut out = Records::new(Box::new(Counting(asked.clone())), false);
    let progress = decoder.decode(bytes, false, &mut out).expect("nothing is wrong");
    (progress.consumed, progress.need, asked.get())
}

#[test]
fn exact() {
    let mut file = Vec::new();
    record(&mut file, b"good");
    record(&mut file, &[7; 1000]);
    assert_eq!(told(b""), (0, 16, 0));
    assert_eq!(told(&file[..15]), (0, 16, 0));
    assert_eq!(told(&file[..16]), (0, 20, 1));
    assert_eq!(told(&file[..20]), (20, 16, 1));
    assert_eq!(told(&file[..35]), (20, 16, 1));
    assert_eq!(told(&file[..36]), (20, 1016, 1));
    assert_eq!(told(&file[..1035]), (20, 1016, 1));
    assert_eq!(told(&file), (1036, 16, 1));
}
