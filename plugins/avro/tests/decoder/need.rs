//! `need` is exact, text and bytes are not copied, and a call produces a limited amount.

use std::cell::RefCell;
use std::rc::Rc;

use pipemill_avro::Avro;
use pipemill_plugin::testing::{self, Setup, decode_once};
use pipemill_plugin::{Codec, Decoder, Field, Host, Level, Progress, Records};

use crate::write::{SYNC, compress, file, header, long, string};
use crate::{decompress, field, record, setup};

/// The results that a host got.
#[derive(Debug, Default)]
struct Given {
    /// The chunk of the call.
    chunk: Vec<u8>,
    records: usize,
    spans: usize,
    payload: usize,
    decompressed: usize,
    /// Largest sum of payload, spans and decompressed bytes in a call.
    most: usize,
}

impl Given {
    fn total(&mut self) {
        self.most = self.most.max(self.payload + 8 * self.spans + self.decompressed);
    }
}

struct Counting(Rc<RefCell<Given>>);

impl Host for Counting {
    fn set_schema(&mut self, _: &[Field]) {}
    fn set_metadata(&mut self, _: &str, _: &str) {}
    fn emit(&mut self, records: usize, spans: &[u64], payload: &[u8], _: &[u32]) {
        let mut given = self.0.borrow_mut();
        given.records += records;
        given.spans += spans.len();
        given.payload += payload.len();
        given.total();
    }
    fn check_crc32c(&mut self, _: &[u64], _: &[u32]) -> Option<usize> {
        None
    }
    fn decompress(
        &mut self,
        codec: Codec,
        span: u64,
        skip: u64,
        max: usize,
    ) -> Result<(Vec<u8>, bool), String> {
        let mut given = self.0.borrow_mut();
        let bytes = decompress(codec, &given.chunk[pipemill_plugin::unpack(span)])?;
        let rest = &bytes[skip as usize..];
        let size = rest.len().min(max);
        given.decompressed += size;
        given.total();
        Ok((rest[..size].to_vec(), size == rest.len()))
    }
    fn log(&mut self, _: Level, _: &str) {}
}

/// Decodes a file that is passed at once. Returns what the host received, and the number of calls.
fn decode(file: &[u8], max_record: u64) -> (Given, usize) {
    let setup = Setup { max_record, ..setup(&[]) };
    let mut decoder = testing::open::<Avro>(&setup).expect("opens");
    let given = Rc::<RefCell<Given>>::default();
    let mut out = Records::new(Box::new(Counting(given.clone())), false);
    let (mut at, mut calls) = (0, 0);
    loop {
        {
            let mut given = given.borrow_mut();
            given.chunk = file[at..].to_vec();
            (given.payload, given.spans, given.decompressed) = (0, 0, 0);
        }
        out.begin_call();
        calls += 1;
        let Progress { consumed, more, .. } =
            decoder.decode(&file[at..], false, &mut out).expect("no error");
        out.flush();
        at += consumed;
        if !more {
            assert_eq!(at, file.len());
            drop(out);
            return (Rc::try_unwrap(given).expect("the only one").into_inner(), calls);
        }
    }
}

fn schema() -> String {
    record(
        &[field("id", "\"long\""), field("text", "\"string\""), field("x", "\"double\"")].join(","),
    )
}

#[test]
fn text_and_floats_are_not_copied() {
    let one = [long(5), string("x".repeat(1000)), vec![0; 8]].concat();
    let file = file(&schema(), "null", &[(10, one.repeat(10))]);
    let (given, calls) = decode(&file, 64 << 20);
    assert_eq!((given.records, given.payload, calls), (10, 80, 1));
}

#[test]
fn need_is_exact() {
    let one = [long(5), string("x".repeat(1000)), vec![0; 8]].concat();
    let file = file(&schema(), "null", &[(2, one.repeat(2))]);
    let head = header(&schema(), "null").len();
    let progress_with = |max_record: u64, size: usize| {
        let setup = Setup { max_record, ..setup(&[]) };
        let Progress { consumed, need, .. } = decode_once::<Avro>(&setup, &file[..size]).unwrap();
        (consumed, need)
    };
    // The block is not small: it is larger than a record may be.
    let progress = |size: usize| progress_with(2000, size);
    assert_eq!(progress(0), (0, 4));
    assert_eq!(progress(5), (0, 6));
    // The schema's length is known.
    let to_schema = 4 + 1 + 12 + 2 + schema().len();
    assert_eq!(progress(20), (0, to_schema));
    assert_eq!(progress(head - 1), (0, head));
    assert_eq!(progress(head), (head, 18));
    // The block's head, the record and the byte after it.
    let (block, size) = (head + 3, one.len());
    assert_eq!(progress(head + 18), (head, 3 + size - 8 + 1));
    assert_eq!(progress(block + size - 8 + 1), (head, 3 + size + 1));
    assert_eq!(progress(block + size), (head, 3 + size + 1));
    assert_eq!(progress(block + size + 1), (block + size, 2));
    assert_eq!(progress(file.len() - SYNC.len()), (block + size, size + 1));
    assert_eq!(progress(file.len() - SYNC.len() + 1), (file.len() - SYNC.len(), SYNC.len()));
    assert_eq!(progress(file.len()), (file.len(), 18));
    // A small block must be complete first.
    let size = file.len() - head;
    assert_eq!(progress_with(64 << 20, head + 18), (head, size));
    assert_eq!(progress_with(64 << 20, file.len() - 1), (head, size));
    assert_eq!(progress_with(64 << 20, file.len()), (file.len(), 18));

    let file = crate::write::file(&schema(), "deflate", &[(2, one.repeat(2))]);
    let head = header(&schema(), "deflate").len();
    let size = 2 + compress("deflate", &one.repeat(2)).len() + SYNC.len();
    let progress = decode_once::<Avro>(&setup(&[]), &file[..head + 18]).unwrap();
    assert_eq!((progress.consumed, progress.need), (head, size));
    assert_eq!(file.len(), head + size);
}

/// A call ends before it has produced too much, and the next one continues.
#[test]
fn the_output_of_a_call_is_bounded() {
    let schema = record(&field("n", "\"long\""));
    let records = 400_000;
    for codec in ["null", "deflate", "zstandard"] {
        let file = file(&schema, codec, &[(records, vec![2; records as usize])]);
        let (given, calls) = decode(&file, 1 << 20);
        assert_eq!(given.records as i64, records);
        assert!(calls > 4 && given.most < 2 << 20, "{codec}: {calls} calls, {} bytes", given.most);
    }
}

/// One element of an array is one byte, but makes eight.
#[test]
fn arrays_count_as_output() {
    let schema = record(&field("n", r#"{"type": "array", "items": "long"}"#));
    let one = [long(1000), vec![2; 1000], vec![0]].concat();
    for codec in ["null", "deflate"] {
        let file = file(&schema, codec, &[(1000, one.repeat(1000))]);
        let (given, calls) = decode(&file, 1 << 20);
        assert_eq!(given.records, 1000);
        assert!(calls > 4 && given.most < 2 << 20, "{codec}: {calls} calls, {} bytes", given.most);
    }
}
