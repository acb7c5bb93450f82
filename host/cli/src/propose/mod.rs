//! Proposes the option `fields` of decoders that can't find the fields of their records: for
//! `schema` and `init`. `json` reads the first lines for `jsonl`, `tar` the first members of
//! archives for `webdataset`.

mod json;
mod tar;

pub(super) use json::JsonFields;
pub(super) use tar::{SHOWN_BYTES as TAR_BYTES, fields as tar_fields};

/// The value of the option `fields`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Proposal {
    /// The value.
    pub(super) fields: String,
    /// Whether the sample was decoded with it, because the decoder needs it.
    pub(super) is_used: bool,
}

/// Whether a key or an extension can be written in a field spec, which separates its parts by
/// signs.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
}
