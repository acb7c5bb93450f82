//! The built-in decoders as WebAssembly modules. Their sources are in `plugins/`; the build script
//! compiles them.

#![forbid(unsafe_code)]

use pipemill_decode::Builtin;

/// The decoder of this name, from the files that the build script wrote.
macro_rules! builtin {
    ($name:literal, $about:literal) => {
        Builtin {
            name: $name,
            about: $about,
            wasm: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".wasm")),
            code: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".code.zst")),
        }
    };
}

/// The built-in decoders, in the order of `docs/decoders.md`.
pub static BUILTINS: [Builtin; 16] = [
    builtin!("augmented-manifest", "SageMaker's augmented manifests: RecordIO records in groups"),
    builtin!("avro", "Avro object container files: the fields of the writer's schema"),
    builtin!("csv", "rows of delimited text, as fields, typed columns or dense float32"),
    builtin!("fixed", "records of a fixed size after a header, as bytes or numbers"),
    builtin!("jsonl", "JSON Lines, whole or by JSON pointer"),
    builtin!("length-prefixed", "records that each follow their length: an integer or a varint"),
    builtin!("lines", "lines of text"),
    builtin!("msgpack", "MessagePack values, whole or by key or JSON pointer"),
    builtin!("npy", "NumPy's .npy files: the rows of an array"),
    builtin!("npz", "NumPy's .npz archives: the rows of an array, or an archive as a record"),
    builtin!("recordio", "MXNet RecordIO, both multi-part dialects"),
    builtin!("recordio-protobuf", "SageMaker's RecordIO-protobuf: tensors as typed fields"),
    builtin!("tf-example", "tf.train.Example in TFRecord: features as typed fields"),
    builtin!("tfrecord", "TensorFlow's TFRecord, checksums verified"),
    builtin!("tokens", "tokens for language models: windows of raw integers"),
    builtin!("webdataset", "samples of WebDataset's tar archives"),
];
