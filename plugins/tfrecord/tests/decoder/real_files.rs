//! Files that TensorFlow wrote: see `fixtures/make.py`.

use std::io::Read;

use pipemill_plugin::testing::{Setup, assert_any_split, decode_split};
use pipemill_tfrecord::TfRecord;

/// The records of a `.plain` file: each behind its length.
fn plain(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (record, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        records.push(record.to_vec());
        bytes = rest;
    }
    records
}

fn same_as_tensorflow(setup: &Setup, written: &[u8]) {
    let outcome = assert_any_split::<TfRecord>(setup, written, &vec![1; written.len()]);
    assert_eq!(outcome.errors, []);
    let wanted = plain(include_bytes!("../fixtures/records.plain"));
    let wanted: Vec<_> = wanted.into_iter().map(|record| vec![Some(record)]).collect();
    assert_eq!(wanted.len(), 17);
    assert_eq!(outcome.records, wanted);
    for split in 1..written.len() {
        assert_eq!(outcome, decode_split::<TfRecord>(setup, written, &[split]), "at {split}");
    }
}

#[test]
fn plain_file() {
    let written = include_bytes!("../fixtures/plain.tfrecord");
    same_as_tensorflow(&Setup::new(&[]), written);
    same_as_tensorflow(&Setup::new(&[("verify", "false")]), written);
}

#[test]
fn gzip_file() {
    let mut written = Vec::new();
    let file = &include_bytes!("../fixtures/gzip.tfrecord.gz")[..];
    flate2::read::GzDecoder::new(file).read_to_end(&mut written).expect("the fixture is gzip");
    same_as_tensorflow(&Setup::new(&[]), &written);
}
