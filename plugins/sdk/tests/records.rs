//! A record has one value for each field of the schema. A decoder that forgets one is stopped before
//! its records mix.

use std::cell::RefCell;
use std::rc::Rc;

use pipemill_plugin::{Codec, Field, Host, Level, Records, unpack};

/// A host that accepts everything.
struct Anything;

impl Host for Anything {
    fn emit(&mut self, records: usize, spans: &[u64], _: &[u8], _: &[u32]) {
        assert_eq!(spans.len(), 2 * records);
    }
    fn check_crc32c(&mut self, _: &[u64], _: &[u32]) -> Option<usize> {
        None
    }
    fn log(&mut self, _: Level, _: &str) {}
}

fn records() -> Records {
    let mut records = Records::new(Box::new(Anything), true);
    records.set_schema(&[Field::bytes("key"), Field::bytes("value").nullable()]);
    records
}

#[test]
fn whole_records_are_passed_on() {
    let mut out = records();
    for at in 0..10_000 {
        out.field(at..at + 1);
        out.absent();
        out.end_record(at);
    }
    // An unfinished record is dropped.
    out.field(0..1);
    out.flush();
}

/// A host that keeps what it receives: the spans, and the starts of records.
struct KeptPlaces(Rc<RefCell<(Vec<u64>, Vec<u32>)>>);

impl Host for KeptPlaces {
    fn emit(&mut self, records: usize, spans: &[u64], _: &[u8], starts: &[u32]) {
        assert_eq!((spans.len(), starts.len()), (2 * records, records));
        self.0.borrow_mut().0.extend_from_slice(spans);
        self.0.borrow_mut().1.extend_from_slice(starts);
    }
    fn check_crc32c(&mut self, _: &[u64], _: &[u32]) -> Option<usize> {
        None
    }
    fn log(&mut self, _: Level, _: &str) {}
}

#[test]
fn many_records_at_once() {
    let kept = Rc::default();
    let mut out = Records::new(Box::new(KeptPlaces(Rc::clone(&kept))), true);
    out.set_schema(&[Field::bytes("key"), Field::bytes("value")]);
    out.field(0..1);
    out.field(1..3);
    out.end_record(0);
    let starts: Vec<u32> = (2..10_002).collect();
    let ends: Vec<u32> = (2..10_002).map(|at| at + at % 3).collect();
    let records: Vec<u32> = (0..5_000).collect();
    out.spans(&records, &starts, &ends);
    out.spans(&[], &[], &[]);
    assert_eq!(out.fields_so_far(), 0);
    out.flush();
    let (spans, of_records) = &*kept.borrow();
    let expected = starts.iter().zip(&ends).map(|(start, end)| *start as usize..*end as usize);
    assert_eq!(
        spans[2..].iter().map(|span| unpack(*span)).collect::<Vec<_>>(),
        expected.collect::<Vec<_>>()
    );
    assert_eq!(of_records[1..], records);
}

#[test]
#[should_panic(expected = "a record has one place for each field")]
fn records_at_once_that_lack_a_field() {
    records().spans(&[0, 1], &[0, 1, 2], &[1, 2, 3]);
}

#[test]
#[should_panic(expected = "a record has one place for each field")]
fn records_at_once_inside_of_a_record() {
    let mut out = records();
    out.field(0..1);
    out.spans(&[0], &[0, 1], &[1, 2]);
}

#[test]
#[should_panic(expected = "a record was ended after 1 of its 2 fields: `value` is missing")]
fn a_field_that_is_missing() {
    let mut out = records();
    out.field(0..1);
    out.end_record(0);
}

#[test]
#[should_panic(expected = "a record was ended after 3 values, but the schema has 2 fields")]
fn a_value_too_many() {
    let mut out = records();
    (0..3).for_each(|at| out.field(at..at + 1));
    out.end_record(0);
}

#[test]
#[should_panic(expected = "a record was ended after 1 of its 2 fields: `value` is missing")]
fn a_record_of_one_field_where_there_are_two() {
    records().span(0, 0..1);
}

#[test]
#[should_panic(expected = "a record was emitted before the schema was set")]
fn a_record_without_a_schema() {
    Records::new(Box::new(Anything), true).span(0, 0..1);
}

#[test]
#[should_panic(expected = "the field `key` is absent, but it is not declared nullable")]
fn an_absent_field_that_is_not_nullable() {
    records().absent();
}

/// A host that keeps what it receives, and that has a payload before the decoder's.
#[derive(Clone, Default)]
struct Kept(Rc<RefCell<Vec<EmittedLists>>>);

/// The spans and the payload of a call.
type EmittedLists = (Vec<u64>, Vec<u8>);

impl Host for Kept {
    fn emit(&mut self, _: usize, spans: &[u64], payload: &[u8], _: &[u32]) {
        self.0.borrow_mut().push((spans.to_vec(), payload.to_vec()));
    }
    fn check_crc32c(&mut self, _: &[u64], _: &[u32]) -> Option<usize> {
        None
    }
    fn decompress(
        &mut self,
        _: Codec,
        span: u64,
        skip: u64,
        max: usize,
    ) -> Result<(Vec<u8>, bool), String> {
        assert_eq!(unpack(span), 3..8);
        let left = 10 - skip as usize;
        let size = left.min(max).min(4);
        Ok((vec![b'd'; size], size == left))
    }
    fn log(&mut self, _: Level, _: &str) {}
}

#[test]
fn spans_count_in_the_payload_of_the_call() {
    let kept = Kept::default();
    let mut out = Records::new(Box::new(kept.clone()), false);
    out.set_schema(&[Field::bytes("a"), Field::bytes("b").list()]);
    let payload = |span: u64| (span >> 63 == 1).then(|| unpack(span));
    for _ in 0..2 {
        out.begin_call();
        out.field_bytes(b"one");
        out.list(["x", "yz"]);
        out.end_record(0);
        let block = out.decompress(Codec::Zstd, 3..8).unwrap();
        assert_eq!((block.bytes.len(), block.last), (10, true));
        out.field_in(&block, 2..6);
        out.list([""; 0]);
        out.end_record(0);
        out.flush();
    }
    let list = b"\x0c\0\0\0\x0d\0\0\0\x0f\0\0\0xyz";
    let calls = kept.0.borrow();
    assert_eq!(calls.len(), 4);
    for call in calls.chunks(2) {
        assert_eq!(call[0].1, [b"one", &list[..]].concat());
        let spans: Vec<_> = call[0].0.iter().map(|span| payload(*span)).collect();
        assert_eq!(spans, [Some(0..3), Some(3..18)]);
        let spans: Vec<_> = call[1].0.iter().map(|span| payload(*span)).collect();
        // The block lies after the first record: at 18, with 10 bytes.
        assert_eq!(spans, [Some(20..24), Some(28..32)]);
    }
}

#[test]
fn a_part_of_a_block() {
    let mut out = Records::new(Box::new(Kept::default()), false);
    out.set_schema(&[Field::bytes("a")]);
    let part = out.decompress_part(Codec::Zstd, 3..8, 1, 6).unwrap();
    assert_eq!((part.bytes.len(), part.last), (6, false));
    let part = out.decompress_part(Codec::Zstd, 3..8, 7, 6).unwrap();
    assert_eq!((part.bytes.len(), part.last), (3, true));
}
