//! Bytes of the input in messages.

/// Number of bytes of the input that a message shows.
const MAX_SHOWN: usize = 24;

/// The bytes for a message: escaped and shortened; `nothing` if there are none.
pub fn shown(text: &[u8], nothing: &str) -> String {
    match text {
        [] => nothing.to_owned(),
        text if text.len() > MAX_SHOWN => format!("`{}…`", text[..MAX_SHOWN].escape_ascii()),
        text => format!("`{}`", text.escape_ascii()),
    }
}
