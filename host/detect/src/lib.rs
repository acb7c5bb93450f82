//! Finds the decoder of a channel that names none: by the names of its objects and by their first
//! bytes.
//!
//! `name` classifies the ending of a name, `bytes` and `text` classify the first bytes, for tables
//! by the options of `dialect`, `obstacle` names the option that a table lacks, `choice` decides
//! and explains, `source` examines the objects of a channel while they are read. The rule is: the
//! right decoder or a refusal. Nothing is chosen if name and bytes disagree, or if several decoders
//! fit. Only the start of an object is examined, never its middle.

#![forbid(unsafe_code)]

mod bytes;
mod choice;
mod dialect;
mod name;
mod obstacle;
mod source;
#[cfg(test)]
mod tests;
mod text;

use std::fmt;

pub use source::{DetectError, detect, expecting};

/// A format that a decoder reads.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Format {
    /// Delimited text. The delimiter is absent if nothing shows it.
    Csv {
        delimiter: Option<u8>,
    },
    JsonLines,
    Lines,
    TfRecord,
    /// RecordIO, read as its payloads.
    RecordIo,
    /// RecordIO with SageMaker's protobuf messages in it.
    RecordIoProtobuf,
    Tar,
    Npy,
    Npz,
    ArrayRecord,
    Mds,
    Arrow,
    Avro,
    Parquet,
    MessagePack,
    /// A plugin of the lock file or on the plugin path, by its name.
    Plugin(String),
}

impl Format {
    /// The name of the decoder.
    fn decoder(&self) -> &str {
        match self {
            Self::Csv { .. } => "csv",
            Self::JsonLines => "jsonl",
            Self::Lines => "lines",
            Self::TfRecord => "tfrecord",
            Self::RecordIo => "recordio",
            Self::RecordIoProtobuf => "recordio-protobuf",
            Self::Tar => "webdataset",
            Self::Npy => "npy",
            Self::Npz => "npz",
            Self::ArrayRecord => "array-record",
            Self::Mds => "mds",
            Self::Arrow => "arrow",
            Self::Avro => "avro",
            Self::Parquet => "parquet",
            Self::MessagePack => "msgpack",
            Self::Plugin(name) => name,
        }
    }

    /// Whether it is text.
    fn is_text(&self) -> bool {
        matches!(self, Self::Csv { .. } | Self::JsonLines | Self::Lines)
    }

    /// Whether an object of `other` can follow an object of `self` in one channel.
    fn agrees_with(&self, other: &Format) -> bool {
        match (self, other) {
            (Self::Csv { delimiter: Some(one) }, Self::Csv { delimiter: Some(other) }) => {
                one == other
            }
            (Self::Csv { .. }, Self::Csv { .. }) => true,
            (one, other) => one == other,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Csv { delimiter: Some(b'\t') } => f.write_str("text delimited by tabs"),
            Self::Csv { delimiter: Some(delimiter) } => {
                write!(f, "text delimited by `{}`", *delimiter as char)
            }
            Self::Csv { delimiter: None } => f.write_str("delimited text"),
            Self::JsonLines => f.write_str("JSON Lines"),
            Self::Lines => f.write_str("lines of text"),
            Self::TfRecord => f.write_str("TFRecord"),
            Self::RecordIo => f.write_str("RecordIO"),
            Self::RecordIoProtobuf => f.write_str("RecordIO with protobuf"),
            Self::Tar => f.write_str("a tar archive"),
            Self::Npy => f.write_str("a NumPy array (.npy)"),
            Self::Npz => f.write_str("NumPy arrays in a zip archive (.npz)"),
            Self::ArrayRecord => f.write_str("ArrayRecord or Riegeli"),
            Self::Mds => f.write_str("a shard of MosaicML's streaming datasets (.mds)"),
            Self::Arrow => f.write_str("Arrow IPC"),
            Self::Avro => f.write_str("Avro"),
            Self::Parquet => f.write_str("Parquet"),
            Self::MessagePack => f.write_str("MessagePack"),
            Self::Plugin(name) => write!(f, "what the plugin `{name}` reads"),
        }
    }
}
