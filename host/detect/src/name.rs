//! Classifies the ending of an object's name.

use super::Format;

/// The format that a name shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NameSays {
    /// The format of this ending.
    Format(Format, String),
    /// An ending that many formats use, and decoders that may fit.
    Ambiguous(String, &'static [&'static str]),
    /// An unknown ending, or none.
    Nothing,
}

/// Endings of compressed objects. They say nothing about the compressed format.
const COMPRESSED: &[&str] = &[".gz", ".gzip", ".zst", ".zstd", ".zz"];

/// The endings, without their compression.
fn known(ending: &str) -> Option<Format> {
    Some(match ending {
        ".csv" => Format::Csv { delimiter: None },
        ".tsv" => Format::Csv { delimiter: Some(b'\t') },
        ".jsonl" | ".ndjson" => Format::JsonLines,
        ".txt" | ".log" => Format::Lines,
        ".tfrecord" | ".tfrecords" => Format::TfRecord,
        ".rec" | ".recordio" => Format::RecordIo,
        ".pbr" => Format::RecordIoProtobuf,
        ".tar" | ".tgz" | ".tzst" => Format::Tar,
        ".npy" => Format::Npy,
        ".npz" => Format::Npz,
        ".array_record" | ".arrayrecord" | ".riegeli" => Format::ArrayRecord,
        ".mds" => Format::Mds,
        ".arrow" | ".arrows" | ".feather" | ".ipc" => Format::Arrow,
        ".avro" => Format::Avro,
        ".parquet" | ".parq" => Format::Parquet,
        ".msgpack" => Format::MessagePack,
        _ => return None,
    })
}

/// The format that the name of an object shows.
pub(super) fn by_name(name: &str) -> NameSays {
    let Some(ending) = ending(name) else { return NameSays::Nothing };
    match (known(&ending), ending.as_str()) {
        (Some(format), _) => NameSays::Format(format, ending),
        (None, ".bin") => NameSays::Ambiguous(ending, &["fixed", "tokens", "length-prefixed"]),
        (None, ".json") => NameSays::Ambiguous(ending, &["jsonl"]),
        (None, _) => NameSays::Nothing,
    }
}

/// Whether a name ends in the ending of a compression.
pub(super) fn is_compressed(name: &str) -> bool {
    let name = file_name(name);
    COMPRESSED.iter().chain(&[".tgz", ".tzst"]).any(|ending| name.ends_with(ending))
}

/// The last ending of a name in lower case, with its dot, without the ending of a compression.
pub(super) fn ending(name: &str) -> Option<String> {
    let name = file_name(name);
    let plain = COMPRESSED.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(&name);
    let at = plain.rfind('.').filter(|at| *at > 0)?;
    Some(plain[at..].to_owned())
}

/// The part after the last slash, in lower case.
fn file_name(name: &str) -> String {
    name.rsplit('/').next().unwrap_or(name).to_lowercase()
}
