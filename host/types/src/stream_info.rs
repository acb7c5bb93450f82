//! What a decoder learns of an object before it decodes it.

/// Context passed to the decoder's `open`.
#[derive(Debug, Clone)]
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
}
