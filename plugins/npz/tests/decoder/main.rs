//! Tests of the npz decoder: forms of zip, rows, samples, errors, any split, damage, files that numpy
//! wrote.

mod damage;
mod errors;
mod forms;
mod need;
mod options;
mod other_formats;
mod real_files;
mod samples;
mod splits;
mod write;

use std::io::Read;

use flate2::read::DeflateDecoder;
use pipemill_npz::Npz;
use pipemill_plugin::Codec;
use pipemill_plugin::testing::{Outcome, Setup, assert_any_split, decode_split};

/// These options, with a host that decompresses.
fn setup(options: &[(&str, &str)]) -> Setup {
    Setup::new(options).decompressing(inflate)
}

fn inflate(codec: Codec, block: &[u8]) -> Result<Vec<u8>, String> {
    assert_eq!(codec, Codec::Deflate);
    let (mut bytes, mut decoder) = (Vec::new(), DeflateDecoder::new(block));
    decoder
        .read_to_end(&mut bytes)
        .map_err(|error| format!("the deflate data is damaged: {error}"))?;
    match block.len() as u64 - decoder.total_in() {
        0 => Ok(bytes),
        left => Err(format!("{left} bytes follow the end of the deflate data")),
    }
}

/// The outcome, which is the same for small pieces and for many splits in two.
fn outcome(setup: &Setup, file: &[u8]) -> Outcome {
    let whole = assert_any_split::<Npz>(setup, file, &vec![1; file.len()]);
    for split in (1..file.len()).step_by(1 + file.len() / 400) {
        assert_eq!(whole, decode_split::<Npz>(setup, file, &[split]), "split at {split}");
    }
    whole
}

/// The records of a file without errors; all fields must be present.
fn records(options: &[(&str, &str)], file: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let outcome = outcome(&setup(options), file);
    assert_eq!(outcome.errors, []);
    let record = |record: &Vec<Option<Vec<u8>>>| {
        record.iter().map(|field| field.clone().expect("not absent")).collect()
    };
    outcome.records.iter().map(record).collect()
}
