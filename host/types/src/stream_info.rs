//! What a decoder learns of an object before it decodes it.

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
    /// What the source knows of the object.
    pub facts: ObjectFacts,
    /// More facts about the stream, as keys and values.
    pub extensions: Vec<(String, String)>,
}

/// What a source knows of an object before it reads it. A decoder may use it, but can't rely on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectFacts {
    /// Stored size in bytes. The decoder gets more if the object is compressed.
    pub size: Option<u64>,
    /// Content type, if the object's store has one.
    pub content_type: Option<String>,
    /// Entity tag, if the object's store has one.
    pub etag: Option<String>,
}
