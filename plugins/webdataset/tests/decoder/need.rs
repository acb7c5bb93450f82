//! `need` is exact, and a sample with long members is read once per member.

use pipemill_plugin::testing::{self, Setup};
use pipemill_plugin::{Decoder, Host, Level, Records};
use pipemill_webdataset::WebDataset;

use crate::write::{end, file, pax};

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

fn open() -> (WebDataset, Records) {
    let decoder = testing::open::<WebDataset>(&Setup::new(&[("fields", "a,b")])).expect("opens");
    let mut out = Records::new(Box::new(NoCopies), false);
    out.set_schema(&decoder.schema().expect("known at open"));
    (decoder, out)
}

/// `consumed` and `need` for these bytes.
fn progress(bytes: &[u8]) -> (usize, usize) {
    let (mut decoder, mut out) = open();
    let progress = decoder.decode(bytes, false, &mut out).expect("no error");
    (progress.consumed, progress.need)
}

#[test]
fn need_is_exact() {
    let file = [file("k.a", &[1; 1000]), file("k.b", &[2; 10]), file("l.a", b"")].concat();
    assert_eq!(progress(b""), (0, 512));
    assert_eq!(progress(&file[..511]), (0, 512));
    assert_eq!(progress(&file[..512]), (0, 2048), "the member and the next header");
    assert_eq!(progress(&file[..2047]), (0, 2048));
    assert_eq!(progress(&file[..2048]), (0, 3072));
    assert_eq!(progress(&file), (2560, 1024));
    let named = [pax(&[("path", "k.a")]), crate::write::file("x", b"")].concat();
    assert_eq!(progress(&named[..512]), (0, 1536));
}

/// Members that belong to no sample are skipped in pieces, so they may have any size.
#[test]
fn need_of_a_member_that_is_skipped() {
    let file = [file("README", &[1; 5000]), file("k.a", b"")].concat();
    assert_eq!(progress(&file[..512]), (0, 513));
    assert_eq!(progress(&file[..513]), (512, 513));
    assert_eq!(progress(&file[..5600]), (10 * 512, 1024));
    assert_eq!(progress(&file[..11 * 512]), (10 * 512, 1024));
    assert_eq!(progress(&file), (11 * 512, 1024));
}

#[test]
fn a_sample_is_read_once_per_member() {
    let members: Vec<_> =
        ["k.a", "k.b", "k.c", "k.d"].iter().map(|name| file(name, &[1; 1 << 20])).collect();
    let file = [members.concat(), end()].concat();
    let (mut decoder, mut out) = open();
    let (mut shown, mut calls) = (0, 0);
    let consumed = loop {
        let progress = decoder.decode(&file[..shown], false, &mut out).expect("no error");
        calls += 1;
        if progress.consumed > 0 {
            break progress.consumed;
        }
        assert!(progress.need > shown);
        shown = progress.need;
    };
    // Cuts: no bytes, each of four headers, and each of the two blocks of the end mark.
    assert_eq!((consumed, calls), (file.len() - end().len(), 7));
    out.flush();
}

/// A decoder that wraps this one assumes that all bytes that a call consumes after a sample belong
/// to it.
#[test]
fn the_end_mark_is_consumed_by_another_call_than_the_sample_before_it() {
    let members = [file("k.a", b""), file("k.b", b"")].concat();
    assert_eq!(progress(&[&members[..], &end()].concat()), (members.len(), 1));
    assert_eq!(progress(&end()), (end().len(), 512));
}
