//! Tests with files that TensorFlow wrote: see `fixtures/make.py`.

use std::io::Read;

use pipemill_parsing::testing::read_plain;
use pipemill_plugin::testing::{Setup, assert_all_splits};
use pipemill_tfrecord::TfRecord;

fn assert_same_as_tensorflow(setup: &Setup, written: &[u8]) {
    let outcome = assert_all_splits::<TfRecord>(setup, written);
    assert_eq!(outcome.errors, []);
    let wanted = read_plain(include_bytes!("../fixtures/records.plain"));
    let wanted: Vec<_> = wanted.into_iter().map(|record| vec![Some(record)]).collect();
    assert_eq!(wanted.len(), 17);
    assert_eq!(outcome.records, wanted);
}

#[test]
fn plain_file() {
    let written = include_bytes!("../fixtures/plain.tfrecord");
    assert_same_as_tensorflow(&Setup::new(&[]), written);
    assert_same_as_tensorflow(&Setup::new(&[("verify", "false")]), written);
}

#[test]
fn gzip_file() {
    let mut written = Vec::new();
    let file = &include_bytes!("../fixtures/gzip.tfrecord.gz")[..];
    flate2::read::GzDecoder::new(file).read_to_end(&mut written).expect("the fixture is gzip");
    assert_same_as_tensorflow(&Setup::new(&[]), &written);
}
