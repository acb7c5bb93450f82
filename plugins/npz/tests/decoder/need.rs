//! `need` is exact, and stored arrays are not copied.

use pipemill_npz::Npz;
use pipemill_plugin::testing::{decode_once, open};
use pipemill_plugin::{Decoder, Host, Level, Records};

use crate::setup;
use crate::write::{Member, archive, array, member, numbers};

#[test]
fn need_is_exact() {
    let x = member("x.npy", &array("'<i2'", "(3, 2)", &numbers(6)));
    let check = |member: &Member, options: &[(&str, &str)], cases: &[(usize, (usize, usize))]| {
        let file = archive(std::slice::from_ref(member));
        for (length, wanted) in cases {
            let progress = decode_once::<Npz>(&setup(options), &file[..*length]).expect("no error");
            assert_eq!((progress.consumed, progress.need), *wanted, "{length}");
        }
    };
    let npy = x.data.len() - 12;
    let data = 35 + npy;
    let entry = 46 + 5 + 2;
    check(
        &x,
        &[],
        &[
            (0, (0, 4)),
            (4, (0, 30)),
            (30, (0, 35)),
            (35, (0, 41)),
            (41, (0, 43)),
            (45, (0, data)),
            (data, (0, data + 1)),
            (data + 1, (data, 5)),
            (data + 5, (data + 4, 5)),
            (data + 9, (data + 8, 5)),
            (data + 12, (data + 8, 5)),
            (data + 13, (data + 12, 4)),
            (data + 16, (data + 12, 46)),
            (data + 12 + 46, (data + 12, entry)),
            (data + 12 + entry, (data + 12, entry + 1)),
            (data + 13 + entry, (data + 12 + entry, 4)),
        ],
    );
    // With a descriptor after it.
    let streamed = Member { descriptor: Some(true), ..x.clone() };
    check(
        &streamed,
        &[],
        &[
            (data + 9, (data + 8, 8)),
            (data + 16, (data + 8, 4 + 16)),
            (data + 28, (data + 8, 4 + 17)),
            (data + 29, (data + 28, 4)),
        ],
    );
    // A member that is skipped.
    check(
        &x,
        &[("array", "other")],
        &[
            (35, (0, 36)),
            (36, (35, 2)),
            (data, (data - 1, 2)),
            (data + 12, (data + 11, 2)),
            (data + 13, (data + 12, 4)),
        ],
    );
    // A member of a sample: all of them, and the bytes after them.
    check(
        &x,
        &[("fields", "x")],
        &[(4, (0, 30)), (35, (0, data + 13)), (data + 13, (0, data + 16))],
    );
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
    fn check_crc32(&mut self, _: &[u64], _: &[u32]) -> Option<usize> {
        None
    }
    fn log(&mut self, _: Level, _: &str) {}
}

#[test]
fn stored_arrays_are_spans() {
    for options in [&[][..], &[("fields", "x:int16[3,2]")]] {
        let mut decoder = open::<Npz>(&setup(options)).expect("opens");
        let mut out = Records::new(Box::new(NoCopies), false);
        if let Some(fields) = decoder.schema() {
            out.set_schema(&fields);
        }
        let file = archive(&[member("x.npy", &array("'<i2'", "(3, 2)", &numbers(6)))]);
        let progress = decoder.decode(&file, true, &mut out).expect("no error");
        out.flush();
        assert_eq!(progress.consumed, file.len());
    }
}
