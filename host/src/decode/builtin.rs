//! The decoders that come with the binary: components as any other, only embedded.

/// A decoder that comes with the binary.
pub struct Builtin {
    /// What an operator calls it.
    pub name: &'static str,
    /// One line on what it reads.
    pub about: &'static str,
    /// The component.
    pub wasm: &'static [u8],
    /// The same, compiled when the host was built; empty if that could not be done.
    pub(super) compiled: &'static [u8],
}

macro_rules! builtin {
    ($name:literal, $about:literal) => {
        Builtin {
            name: $name,
            about: $about,
            wasm: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".wasm")),
            compiled: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".compiled")),
        }
    };
}

/// All of them.
pub const BUILTINS: [Builtin; 11] = [
    builtin!("augmented-manifest", "SageMaker's augmented manifests: RecordIO records in groups"),
    builtin!("csv", "rows of delimited text, as fields, typed columns or dense float32"),
    builtin!("fixed", "records of a fixed size, as bytes or numbers, behind a header"),
    builtin!("jsonl", "JSON Lines, whole or by JSON pointer"),
    builtin!("length-prefixed", "records behind their lengths: integers or varints"),
    builtin!("lines", "lines of text"),
    builtin!("recordio", "MXNet RecordIO, both multi-part dialects"),
    builtin!("recordio-protobuf", "SageMaker's RecordIO-protobuf: tensors as typed fields"),
    builtin!("tf-example", "tf.train.Example in TFRecord: features as typed fields"),
    builtin!("tfrecord", "TensorFlow's TFRecord, checksums verified"),
    builtin!("webdataset", "samples of WebDataset's tar archives"),
];
