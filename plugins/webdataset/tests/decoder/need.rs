//! `need` is exact, and a sample with long members is looked at once a member.

use pipemill_plugin::{Decoder, Host, Level, Options, Records, StreamInfo};
use pipemill_webdataset::WebDataset;

use crate::write::{end, file, pax};

struct Nowhere;

impl Host for Nowhere {
    fn emit(&mut self, _: &[u64], payload: &[u8], _: &[u32]) {
        assert!(payload.is_empty(), "something was copied");
    }
    fn check_crc32c(&mut self, _: &[u64], _: &[u32]) -> Option<usize> {
        None
    }
    fn log(&mut self, _: Level, _: &str) {}
}

fn open() -> (WebDataset, Records) {
    let given = [("fields".to_owned(), "a,b".to_owned())];
    let options = Options::new(&WebDataset::options(), &given).expect("known");
    let info = StreamInfo {
        channel: "test".into(),
        epoch: 0,
        object: "test".into(),
        max_record: 64 << 20,
    };
    let mut out = Records::new(Box::new(Nowhere), false);
    out.set_fields(3);
    (WebDataset::open(&options, &info).expect("opens"), out)
}

/// What `decode` says to these bytes: consumed, need.
fn told(bytes: &[u8]) -> (usize, usize) {
    let (mut decoder, mut out) = open();
    let progress = decoder.decode(bytes, false, &mut out).expect("nothing is wrong");
    (progress.consumed, progress.need)
}

#[test]
fn exact() {
    let file = [file("k.a", &[1; 1000]), file("k.b", &[2; 10]), file("l.a", b"")].concat();
    assert_eq!(told(b""), (0, 512));
    assert_eq!(told(&file[..511]), (0, 512));
    assert_eq!(told(&file[..512]), (0, 2048), "the member and the next header");
    assert_eq!(told(&file[..2047]), (0, 2048));
    assert_eq!(told(&file[..2048]), (0, 3072));
    assert_eq!(told(&file), (2560, 1024));
    let named = [pax(&[("path", "k.a")]), crate::write::file("x", b"")].concat();
    assert_eq!(told(&named[..512]), (0, 1536));
}

/// Members outside of samples are passed over however large they are, and never held.
#[test]
fn passing_over() {
    let file = [file("README", &[1; 5000]), file("k.a", b"")].concat();
    assert_eq!(told(&file[..512]), (0, 513));
    assert_eq!(told(&file[..513]), (512, 513));
    assert_eq!(told(&file[..5600]), (10 * 512, 1024));
    assert_eq!(told(&file[..11 * 512]), (10 * 512, 1024));
    assert_eq!(told(&file), (11 * 512, 1024));
}

#[test]
fn one_look_a_member() {
    let members: Vec<_> =
        ["k.a", "k.b", "k.c", "k.d"].iter().map(|name| file(name, &[1; 1 << 20])).collect();
    let file = [members.concat(), end()].concat();
    let (mut decoder, mut out) = open();
    let (mut shown, mut looks) = (0, 0);
    let consumed = loop {
        let progress = decoder.decode(&file[..shown], false, &mut out).expect("nothing is wrong");
        looks += 1;
        if progress.consumed > 0 {
            break progress.consumed;
        }
        assert!(progress.need > shown);
        shown = progress.need;
    };
    // At nothing, at each header, and at the two blocks of the end.
    assert_eq!((consumed, looks), (file.len(), 7));
    out.flush();
}
