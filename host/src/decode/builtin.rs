//! The decoders that come with the binary: components as any other, only embedded.

/// A decoder that comes with the binary.
pub struct Builtin {
    /// What an operator calls it.
    pub name: &'static str,
    /// One line on what it reads.
    pub about: &'static str,
    /// The component.
    pub wasm: &'static [u8],
}

macro_rules! builtin {
    ($name:literal, $about:literal) => {
        Builtin {
            name: $name,
            about: $about,
            wasm: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".wasm")),
        }
    };
}

/// All of them.
pub const BUILTINS: [Builtin; 8] = [
    builtin!("csv", "rows of delimited text, as fields, typed columns or dense float32"),
    builtin!("fixed", "records of a fixed size, as bytes or numbers, behind a header"),
    builtin!("jsonl", "JSON Lines, whole or by JSON pointer"),
    builtin!("length-prefixed", "records behind their lengths: integers or varints"),
    builtin!("lines", "lines of text"),
    builtin!("recordio", "MXNet RecordIO, both multi-part dialects"),
    builtin!("tfrecord", "TensorFlow's TFRecord, checksums verified"),
    builtin!("webdataset", "samples of WebDataset's tar archives"),
];
