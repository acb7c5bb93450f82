//! `need` is exact, and each call of `decode` asks the host for checksums at most once.

use std::cell::Cell;
use std::rc::Rc;

use pipemill_parsing::testing::write_tfrecord;
use pipemill_plugin::testing::{self, Setup};
use pipemill_plugin::{Decoder, Host, Level, Records};
use pipemill_tfrecord::TfRecord;

/// A host that accepts every checksum and counts the calls.
struct Counting(Rc<Cell<usize>>);

impl Host for Counting {
    fn emit(&mut self, _: usize, _: &[u64], _: &[u8], _: &[u32]) {}
    fn check_crc32c(&mut self, _: &[u64], _: &[u32]) -> Option<usize> {
        self.0.set(self.0.get() + 1);
        None
    }
    fn log(&mut self, _: Level, _: &str) {}
}

/// `consumed` and `need` for these bytes, and how often the decoder asked the host for checksums.
fn progress(bytes: &[u8]) -> (usize, usize, usize) {
    let mut decoder = testing::open::<TfRecord>(&Setup::new(&[])).expect("opens");
    let calls = Rc::new(Cell::new(0));
    let mut out = Records::new(Box::new(Counting(calls.clone())), false);
    out.set_schema(&decoder.schema().expect("known at open"));
    let progress = decoder.decode(bytes, false, &mut out).expect("no error");
    (progress.consumed, progress.need, calls.get())
}

#[test]
fn need_is_exact() {
    let mut file = Vec::new();
    write_tfrecord(&mut file, b"good");
    write_tfrecord(&mut file, &[7; 1000]);
    assert_eq!(progress(b""), (0, 16, 0));
    assert_eq!(progress(&file[..15]), (0, 16, 0));
    assert_eq!(progress(&file[..16]), (0, 20, 1));
    assert_eq!(progress(&file[..20]), (20, 16, 1));
    assert_eq!(progress(&file[..35]), (20, 16, 1));
    assert_eq!(progress(&file[..36]), (20, 1016, 1));
    assert_eq!(progress(&file[..1035]), (20, 1016, 1));
    assert_eq!(progress(&file), (1036, 16, 1));
}
