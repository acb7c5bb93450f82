//! Bytes after an end mark that are not tar blocks.

use std::sync::{Arc, Mutex};

use pipemill_plugin::testing::{self, Setup, assert_any_split};
use pipemill_plugin::{Decoder, Host, Level, Records};
use pipemill_webdataset::WebDataset;
use proptest::prelude::*;

use crate::write::{BLOCK, end, file};
use crate::{outcome, texts};

/// Largest number of bytes that are ignored.
const MAX: usize = 64 << 10;

/// Two archives with these bytes after them.
fn archives(trailing: &[u8]) -> Vec<u8> {
    let end = end();
    [&file("one.a", b"1")[..], &end, &file("two.a", b"2"), &end, &end, trailing].concat()
}

fn setup() -> Setup {
    Setup::new(&[("fields", "a"), ("key", "false")])
}

#[test]
fn bytes_that_are_no_tar_are_ignored() {
    let wanted = [["1"], ["2"]];
    let text = [&[0; BLOCK][..], b"text"].concat();
    for trailing in [&[b'x'; BLOCK][..], &[1; 3 * BLOCK + 7], &[0xff; MAX], &text.repeat(20)] {
        let outcome = outcome(&setup(), &archives(trailing));
        assert_eq!(outcome.errors, []);
        assert_eq!(texts(&outcome), wanted);
    }
}

#[test]
fn more_than_the_limit_is_an_error() {
    let outcome = outcome(&setup().skipping(), &archives(&[1; MAX + 1]));
    assert_eq!(texts(&outcome), [["1"], ["2"]]);
    let [(at, length, message)] = &outcome.errors[..] else { panic!("{:?}", outcome.errors) };
    assert_eq!((*at, *length), (archives(b"").len() as u64, MAX as u64 + 1));
    assert!(message.starts_with("at +0: expected a tar header, found a block"), "{message}");
}

/// The third archive has lost the header of its first member.
#[test]
fn a_damaged_archive_is_an_error() {
    let lost = &file("three.a", b"3")[BLOCK..];
    let rest = [lost, &file("four.a", b"4"), &file("five.a", b"5"), &end()].concat();
    let outcome = outcome(&setup().skipping(), &archives(&rest));
    // Four was found first, so it may have lost members.
    assert_eq!(texts(&outcome), [["1"], ["2"], ["5"]]);
    let [(at, 1536, _)] = &outcome.errors[..] else { panic!("{:?}", outcome.errors) };
    assert_eq!(*at, archives(b"").len() as u64);
}

/// An incomplete header is not the start of other bytes.
#[test]
fn a_cut_header_is_an_error() {
    let outcome = outcome(&setup().skipping(), &archives(&file("three.a", b"3")[..400]));
    assert_eq!(texts(&outcome), [["1"], ["2"]]);
    assert_eq!(outcome.errors.len(), 1);
}

/// A host that keeps what the decoder logs.
struct Log(Arc<Mutex<Vec<(Level, String)>>>);

impl Host for Log {
    fn emit(&mut self, _: usize, _: &[u64], _: &[u8], _: &[u32]) {}
    fn check_crc32c(&mut self, _: &[u64], _: &[u32]) -> Option<usize> {
        None
    }
    fn log(&mut self, level: Level, message: &str) {
        self.0.lock().expect("not poisoned").push((level, message.to_owned()));
    }
}

/// The log of the decoder for this input, the number of consumed bytes, and the last `need`. The
/// decoder asks for another call with the same bytes after the last sample of an archive.
fn log(input: &[u8], end: bool) -> (Vec<(Level, String)>, usize, usize) {
    logged(&setup(), input, end)
}

/// The same for this setup.
pub fn logged(setup: &Setup, input: &[u8], end: bool) -> (Vec<(Level, String)>, usize, usize) {
    let mut decoder = testing::open::<WebDataset>(setup).expect("opens");
    let lines = Arc::default();
    let mut out = Records::new(Box::new(Log(Arc::clone(&lines))), false);
    out.set_schema(&decoder.schema().expect("known at open"));
    let (mut consumed, mut need) = (0, 1);
    while need == 1 {
        let progress = decoder.decode(&input[consumed..], end, &mut out).expect("no error");
        (consumed, need) = (consumed + progress.consumed, progress.need);
    }
    drop(out);
    let lines = lines.lock().expect("not poisoned").clone();
    (lines, consumed, need)
}

#[test]
fn a_warning_says_how_many_were_ignored() {
    let input = archives(&[1; 1000]);
    let warning = "1000 bytes after the end of the archive are no tar; they are ignored".to_owned();
    assert_eq!(log(&input, true).0, [(Level::Warn, warning)]);
    assert_eq!(log(&archives(b""), true).0, []);
    // Whether they are ignored is known at the end, or after the limit.
    assert_eq!(log(&input, false), (vec![], archives(b"").len(), MAX + 1));
}

proptest! {
    #[test]
    fn any_split(
        length in prop_oneof![0usize..5000, MAX - 600..MAX + 600],
        byte in any::<u8>(),
        header in prop::option::of(0usize..140),
        pieces in crate::splits::pieces(),
        skip: bool,
    ) {
        let mut trailing = vec![byte; length];
        if let Some(block) = header
            && let Some(place) = trailing.get_mut(block * BLOCK..(block + 2) * BLOCK)
        {
            place.copy_from_slice(&file("three.a", b"3"));
        }
        let setup = Setup { skip, ..setup() };
        let outcome = assert_any_split::<WebDataset>(&setup, &archives(&trailing), &pieces);
        prop_assert_eq!(&texts(&outcome)[..2], [["1"], ["2"]]);
    }
}
