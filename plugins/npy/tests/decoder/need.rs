//! `need` is exact, and rows of plain arrays are not copied.

use pipemill_npy::Npy;
use pipemill_plugin::testing::{Setup, decode_once, open};
use pipemill_plugin::{Decoder, Host, Level, Records};

use crate::write::array;

#[test]
fn need_is_exact() {
    let file = array("'<i4'", "(3, 2)", &[7; 24]);
    let data = file.len() - 24;
    let progress = |length: usize| {
        let progress = decode_once::<Npy>(&Setup::new(&[]), &file[..length]).expect("no error");
        (progress.consumed, progress.need)
    };
    for (length, wanted) in [
        (0, (0, 6)),
        (5, (0, 6)),
        (6, (0, 8)),
        (8, (0, 10)),
        (10, (0, data)),
        (data, (0, data + 1)),
        (data + 1, (data, 9)),
        (data + 8, (data, 9)),
        (data + 9, (data + 8, 9)),
        (data + 17, (data + 16, 8)),
        (data + 23, (data + 16, 8)),
        (data + 24, (data + 24, 6)),
    ] {
        assert_eq!(progress(length), wanted, "{length}");
    }
}

/// A host that asserts that all fields are spans of the chunk.
struct NoCopies;

impl Host for NoCopies {
    fn emit(&mut self, _: usize, _: &[u64], payload: &[u8], _: &[u32]) {
        assert!(payload.is_empty(), "bytes were copied");
    }
    fn check_crc32c(&mut self, _: &[u64], _: &[u32]) -> Option<usize> {
        None
    }
    fn log(&mut self, _: Level, _: &str) {}
}

#[test]
fn rows_are_spans() {
    for descr in
        ["'<f4'", "'|b1'", "'|S4'", "[('a', '|u1', (3,)), ('b', '|i1'), ('c', '|S9'), ('', '|V3')]"]
    {
        let mut decoder = open::<Npy>(&Setup::new(&[])).expect("opens");
        let mut out = Records::new(Box::new(NoCopies), false);
        let file = array(descr, "(8,)", &[1; 128]);
        decoder.decode(&file, false, &mut out).ok();
        out.flush();
    }
}
