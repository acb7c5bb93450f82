//! Tests of the array-record decoder: the format's own writer, any split, damage, the end of files.

mod damage;
mod real_files;
mod splits;
mod trailers;
mod write;

use pipemill_array_record::ArrayRecord;
use pipemill_plugin::Codec;
use pipemill_plugin::testing::{Outcome, Setup, decode_whole};

/// A setup whose host can decompress.
fn setup() -> Setup {
    Setup::new(&[]).decompressing(decompress)
}

/// Decompresses a block as the host does.
fn decompress(codec: Codec, block: &[u8]) -> Result<Vec<u8>, String> {
    const WINDOW: usize = 64 << 10;
    let codec = pipemill_codecs::Codec::from_word(codec.word()).expect("the host has the codec");
    let mut reader = pipemill_codecs::BlockReader::new(codec, block, 64 << 20)?;
    let mut bytes = Vec::new();
    loop {
        let (window, last) = reader.window(bytes.len() as u64, WINDOW, || true)?;
        bytes.extend_from_slice(window);
        if last {
            return Ok(bytes);
        }
    }
}

/// The values of the records.
fn payloads(outcome: &Outcome) -> Vec<Vec<u8>> {
    let value = |record: &Vec<Option<Vec<u8>>>| record[0].clone().expect("it has a value");
    outcome.records.iter().map(value).collect()
}

/// The records of a file without errors.
fn good(file: &[u8]) -> Vec<Vec<u8>> {
    let outcome = decode_whole::<ArrayRecord>(&setup(), file);
    assert_eq!(outcome.errors, []);
    payloads(&outcome)
}

/// The records of a file, and the message of its only error.
fn bad(file: &[u8]) -> (Vec<Vec<u8>>, String) {
    let outcome = decode_whole::<ArrayRecord>(&setup(), file);
    assert_eq!(outcome.errors.len(), 1, "{:?}", outcome.errors);
    (payloads(&outcome), outcome.errors[0].2.clone())
}
