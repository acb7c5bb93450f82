//! Tests of the avro decoder: types, headers, codecs, parts of blocks, damage, any split, real files.

mod blocks;
mod damage;
mod errors;
mod headers;
mod need;
mod options;
mod other_formats;
mod real_files;
mod splits;
mod types;
mod write;

use pipemill_avro::Avro;
use pipemill_plugin::testing::{Outcome, Setup, assert_any_split, decode_split, decode_whole};
use pipemill_plugin::{Codec, Field};

/// A setup with these options, whose host can decompress.
fn setup(options: &[(&str, &str)]) -> Setup {
    Setup::new(options).decompressing(decompress)
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

/// The outcome, which is the same for many splits into two and for small pieces.
fn outcome(setup: &Setup, file: &[u8]) -> Outcome {
    let whole = assert_any_split::<Avro>(setup, file, &vec![1; file.len().min(3000)]);
    assert_eq!(whole, decode_split::<Avro>(setup, file, &vec![7; file.len().min(30_000) / 7]));
    for split in (1..file.len()).step_by(1 + file.len() / 300) {
        assert_eq!(whole, decode_split::<Avro>(setup, file, &[split]), "split at {split}");
    }
    whole
}

/// The outcome of a file that is passed at once: for a file that takes long to decode.
fn at_once(options: &[(&str, &str)], file: &[u8]) -> Outcome {
    decode_whole::<Avro>(&setup(options), file)
}

/// The outcome of a file without errors.
fn good(options: &[(&str, &str)], file: &[u8]) -> Outcome {
    let outcome = outcome(&setup(options), file);
    assert_eq!(outcome.errors, []);
    outcome
}

/// The message of the only error, and whether the file is refused.
fn error(options: &[(&str, &str)], file: &[u8]) -> (String, bool) {
    let outcome = outcome(&setup(options), file);
    assert_eq!(outcome.errors.len(), 1, "{:?}", outcome.errors);
    (outcome.errors[0].2.clone(), outcome.refused)
}

/// A record schema with these fields, which are in JSON.
fn record(fields: &str) -> String {
    format!(r#"{{"type": "record", "name": "r", "fields": [{fields}]}}"#)
}

/// A field of a schema. The type is in JSON.
fn field(name: &str, of: &str) -> String {
    format!(r#"{{"name": "{name}", "type": {of}}}"#)
}

/// The fields of a schema.
fn fields(outcome: &Outcome) -> &[Field] {
    outcome.schema.as_deref().expect("the header was read")
}
