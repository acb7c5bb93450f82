//! Files of array_record's writer, which its reader has read.

use std::io::Read as _;

use pipemill_array_record::ArrayRecord;
use pipemill_plugin::testing::{assert_any_split, decode_split};

use crate::{bad, good, payloads, setup};

/// A record of `make.py`.
fn record(n: usize) -> Vec<u8> {
    let size = if n == 0 { 0 } else { [0, 1, 33, 500, 3000][n % 5] + n };
    (0..size).map(|i| ((n + i * i / 3) % 256) as u8).collect()
}

fn short() -> Vec<Vec<u8>> {
    (0..24).map(record).collect()
}

fn fixture(name: &str) -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/").to_owned() + name;
    let bytes = std::fs::read(&path).unwrap_or_else(|why| panic!("{path}: {why}"));
    if !name.ends_with(".gz") {
        return bytes;
    }
    let mut content = Vec::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut content).expect("it is gzip");
    content
}

#[test]
fn files_have_the_records_that_were_written() {
    for codec in ["none", "zstd", "brotli", "snappy"] {
        for group in ["1", "7", "65536"] {
            let name = format!("{codec}-{group}.array_record.gz");
            assert_eq!(good(&fixture(&name)), short(), "{name}");
        }
    }
    assert_eq!(good(&fixture("padded.array_record.gz")), short());
    assert!(good(&fixture("empty.array_record.gz")).is_empty());
    assert!(good(&[]).is_empty());
}

#[test]
fn block_headers_interrupt_records() {
    for name in ["long-none.array_record.gz", "long-zstd.array_record.gz"] {
        let file = fixture(name);
        let found = good(&file);
        let sizes: Vec<_> = found.iter().map(Vec::len).collect();
        assert_eq!(sizes, [0, 70_000, 1, 5 * record(19).len()]);
        assert_eq!(found[2], b"x");
        assert_eq!(found[3], record(19).repeat(5));
        let other = good(&fixture("long-none.array_record.gz"));
        assert!(found == other, "the random bytes are the same in both files");
        let split = decode_split::<ArrayRecord>(&setup(), &file, &[30_000, 35_535, 1, 1, 40_000]);
        assert!(payloads(&split) == found);
    }
}

#[test]
fn any_split_of_a_file_gives_its_records() {
    for name in ["none", "zstd", "brotli", "snappy"] {
        let file = fixture(&format!("{name}.riegeli"));
        for pieces in [vec![1; 300], vec![97; 200], vec![64, 1, 39, 1, 3000]] {
            let outcome = assert_any_split::<ArrayRecord>(&setup(), &file, &pieces);
            assert_eq!(payloads(&outcome), short(), "{name}");
        }
    }
}

#[test]
fn files_may_follow_each_other() {
    let files = ["zstd-7", "none-1", "empty", "brotli-65536"];
    let all = files.map(|name| fixture(&format!("{name}.array_record.gz"))).concat();
    assert_eq!(good(&all), [short(), short(), short()].concat());
}

#[test]
fn transposed_records_are_refused() {
    let (records, why) = bad(&fixture("transposed.array_record.gz"));
    assert!(records.is_empty());
    assert!(why.contains("without the option `transpose`"), "{why}");
}
