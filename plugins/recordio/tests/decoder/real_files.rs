//! Files that MXNet wrote: see `fixtures/make.py`.

use pipemill_plugin::testing::{Setup, assert_any_split, decode_split};
use pipemill_recordio::RecordIo;

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

fn same_as_mxnet(written: &[u8], wanted: &[u8]) {
    let setup = Setup::new(&[]);
    let outcome = assert_any_split::<RecordIo>(&setup, written, &vec![1; written.len()]);
    assert_eq!(outcome.errors, []);
    let wanted: Vec<_> = plain(wanted).into_iter().map(|record| vec![Some(record)]).collect();
    assert!(!wanted.is_empty());
    assert_eq!(outcome.records, wanted);
    for split in 1..written.len() {
        assert_eq!(outcome, decode_split::<RecordIo>(&setup, written, &[split]), "at {split}");
    }
}

#[test]
fn payloads_with_and_without_magics() {
    let written = include_bytes!("../fixtures/raw.rec");
    same_as_mxnet(written, include_bytes!("../fixtures/raw.plain"));
}

#[test]
fn records_with_labels() {
    let written = include_bytes!("../fixtures/packed.rec");
    same_as_mxnet(written, include_bytes!("../fixtures/packed.plain"));
}

/// Records start where the index that MXNet wrote says.
#[test]
fn indexed_images() {
    let written = include_bytes!("../fixtures/images.rec");
    same_as_mxnet(written, include_bytes!("../fixtures/images.plain"));
    let index = include_str!("../fixtures/images.idx").lines().map(|line| {
        let (_, start) = line.split_once('\t').expect("number, tab, place");
        start.parse().expect("a place")
    });
    let outcome = decode_split::<RecordIo>(&Setup::new(&[]), written, &[]);
    assert_eq!(outcome.starts, index.collect::<Vec<u64>>());
}
