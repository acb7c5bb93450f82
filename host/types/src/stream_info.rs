//! The context of one object that is to be decoded.

/// Context passed to the decoder's `open`.
#[derive(Debug, Clone)]
pub struct StreamInfo {
    /// Name of the channel.
    pub channel: String,
    /// Number of the epoch, from 0.
    pub epoch: u32,
    /// Path or URL of the object.
    pub object: String,
    /// Size of the largest record, in bytes.
    pub max_record: u64,
    /// Whether the decoder is to say where in the input each record starts.
    pub offsets: bool,
}
