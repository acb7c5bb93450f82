//! The built-in decoders as WebAssembly modules. Their sources are in `plugins/`; the build script
//! compiles them.

#![forbid(unsafe_code)]

use pipemill_decode::Builtin;

/// The decoder of this name, whose records have this version, from the files that the build script wrote.
macro_rules! builtin {
    ($name:literal, $version:literal, $about:literal) => {
        Builtin {
            name: $name,
            about: $about,
            records_version: $version,
            wasm: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".wasm")),
            code: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".code.zst")),
        }
    };
}

/// The built-in decoders, in the order of `docs/decoders.md`.
pub static BUILTINS: [Builtin; 16] = [
    builtin!(
        "augmented-manifest",
        1,
        "SageMaker's augmented manifests: RecordIO records in groups"
    ),
    builtin!("avro", 1, "Avro object container files: the fields of the writer's schema"),
    builtin!("csv", 1, "rows of delimited text, as fields, typed columns or dense float32"),
    builtin!("fixed", 1, "records of a fixed size after a header, as bytes or numbers"),
    builtin!("jsonl", 1, "JSON Lines, whole or by JSON pointer"),
    builtin!("length-prefixed", 1, "records that each follow their length: an integer or a varint"),
    builtin!("lines", 1, "lines of text"),
    builtin!("msgpack", 1, "MessagePack values, whole or by key or JSON pointer"),
    builtin!("npy", 1, "NumPy's .npy files: the rows of an array"),
    builtin!("npz", 1, "NumPy's .npz archives: the rows of an array, or an archive as a record"),
    builtin!("recordio", 1, "MXNet RecordIO, both multi-part dialects"),
    builtin!("recordio-protobuf", 1, "SageMaker's RecordIO-protobuf: tensors as typed fields"),
    builtin!("tf-example", 1, "tf.train.Example in TFRecord: features as typed fields"),
    builtin!("tfrecord", 1, "TensorFlow's TFRecord, checksums verified"),
    builtin!("tokens", 1, "tokens for language models: windows of raw integers"),
    builtin!("webdataset", 1, "samples of WebDataset's tar archives"),
];
