//! The facts of an object that its decoder gets before it decodes it.

use std::sync::Arc;

use super::{Field, PlanParts};

/// Context passed to the decoder's `open`.
#[derive(Debug, Clone, Default)]
pub struct StreamInfo {
    /// Name of the channel.
    pub channel: String,
    /// Number of the epoch, from 0.
    pub epoch: u32,
    /// Path or URL of the object.
    pub object: String,
    /// Size limit of a record in bytes (`max_record`).
    pub max_record: u64,
    /// Whether the decoder must report the offset in the input at which each record starts.
    pub offsets: bool,
    /// The source's facts about the object.
    pub facts: ObjectFacts,
    /// More facts about the stream, as keys and values.
    pub extensions: Vec<(String, String)>,
}

/// The fields of the channel's records so far, for decoders that would learn them again from each
/// object: the extension `schema`. Each line of its value has the type of a field, its shape in
/// brackets if it has one, a space and its name, as in `float32[2,3] image`. `None` if a name has a
/// line end, which this format can't express.
pub fn schema_extension(fields: &[Field]) -> Option<(String, String)> {
    let mut text = String::new();
    for field in fields {
        if field.name.contains('\n') {
            return None;
        }
        text += field.scalar.word();
        if !field.shape.is_empty() {
            let sizes: Vec<_> = field.shape.iter().map(u32::to_string).collect();
            text += &format!("[{}]", sizes.join(","));
        }
        text += &format!(" {}\n", field.name);
    }
    Some(schema_extension_of(text))
}

/// The extension `schema` with this value.
pub fn schema_extension_of(value: String) -> (String, String) {
    ("schema".to_owned(), value)
}

/// The context of a stream that begins inside of an object: the extension `restart`. It is shown
/// the first `header` bytes, and then the bytes from `place` on.
pub fn restart_extension(header: u64, place: u64) -> (String, String) {
    ("restart".to_owned(), format!("{header} {place}"))
}

/// Tells a stream that it is shown the parts of a plan: the extension `planned`.
pub fn planned_extension() -> (String, String) {
    ("planned".to_owned(), String::new())
}

/// Tells the decoder that makes a plan the size of each companion of the object, in bytes: the
/// extension `companions`, with a space between two of them.
pub fn companions_extension(sizes: &[u64]) -> (String, String) {
    let sizes: Vec<_> = sizes.iter().map(u64::to_string).collect();
    ("companions".to_owned(), sizes.join(" "))
}

/// The facts that a source knows of an object before it reads it. A decoder may use it, but can't
/// rely on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectFacts {
    /// Stored size in bytes. The decoder gets more if the object is compressed.
    pub size: Option<u64>,
    /// Content type, if the object's store has one.
    pub content_type: Option<String>,
    /// Entity tag, if the object's store has one.
    pub etag: Option<String>,
    /// Whether its decoder has a plan of it. The size is then that of the plan's parts.
    pub is_planned: bool,
    /// The parts of the plan. The host compares the numbers of their records.
    pub parts: Arc<PlanParts>,
}
