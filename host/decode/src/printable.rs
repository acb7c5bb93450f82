//! Makes the text of a decoder safe for a terminal and a log.

/// Bytes that are kept of a text.
const MAX_TEXT_BYTES: usize = 1000;

/// The text as one line without control characters. Text beyond 1,000 bytes is cut off, and `…` is
/// appended.
pub fn printable(text: &str) -> String {
    let mut line = String::new();
    for c in text.chars() {
        if line.len() >= MAX_TEXT_BYTES {
            line.push('…');
            break;
        }
        match c {
            '\n' | '\r' | '\t' => line.push(' '),
            c if c.is_control() => line.extend(c.escape_default()),
            c => line.push(c),
        }
    }
    line
}
