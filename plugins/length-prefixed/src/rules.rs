//! The valid lengths, according to the options and limits of the channel.

/// The valid lengths.
#[derive(Debug)]
pub(crate) struct Rules {
    /// The value of the option `prefix`, for messages.
    pub(crate) kind: String,
    /// Whether a length counts its own bytes.
    pub(crate) includes_prefix: bool,
    /// Largest record in bytes.
    pub(crate) max_record: u64,
}
