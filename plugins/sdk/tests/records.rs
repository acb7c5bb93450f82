//! A record has one value for each field of the schema. A decoder that forgets one is stopped before
//! its records mix.

use pipemill_plugin::{Field, Host, Level, Records};

/// A host that takes all.
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
    records.set_schema(&[Field::bytes("key"), Field::bytes("value")]);
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
    // A record that was not ended is left out.
    out.field(0..1);
    out.flush();
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
