//! Tests with files that MXNet wrote: see `fixtures/make.py`.

use pipemill_parsing::testing::read_plain;
use pipemill_plugin::testing::{Setup, assert_all_splits, decode_whole};
use pipemill_recordio::RecordIo;

fn assert_same_as_mxnet(written: &[u8], wanted: &[u8]) {
    let setup = Setup::new(&[]);
    let outcome = assert_all_splits::<RecordIo>(&setup, written);
    assert_eq!(outcome.errors, []);
    let wanted: Vec<_> = read_plain(wanted).into_iter().map(|record| vec![Some(record)]).collect();
    assert!(!wanted.is_empty());
    assert_eq!(outcome.records, wanted);
}

#[test]
fn payloads_with_and_without_magics() {
    let written = include_bytes!("../fixtures/raw.rec");
    assert_same_as_mxnet(written, include_bytes!("../fixtures/raw.plain"));
}

#[test]
fn records_with_labels() {
    let written = include_bytes!("../fixtures/packed.rec");
    assert_same_as_mxnet(written, include_bytes!("../fixtures/packed.plain"));
}

/// Records start at the offsets in the index that MXNet wrote.
#[test]
fn indexed_images() {
    let written = include_bytes!("../fixtures/images.rec");
    assert_same_as_mxnet(written, include_bytes!("../fixtures/images.plain"));
    let index = include_str!("../fixtures/images.idx").lines().map(|line| {
        let (_, start) = line.split_once('\t').expect("number, tab, offset");
        start.parse().expect("an offset")
    });
    let outcome = decode_whole::<RecordIo>(&Setup::new(&[]), written);
    assert_eq!(outcome.starts, index.collect::<Vec<u64>>());
}
