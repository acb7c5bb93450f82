//! JSON that a person may look at in a terminal: the characters that are [hidden](is_hidden) are
//! escaped in strings, so the text stays what it was.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use crate::is_hidden;

/// Formats JSON as [`serde_json::to_writer`] does, with hidden characters escaped.
#[derive(Debug, Clone, Copy, Default)]
pub struct Escaping;

impl Formatter for Escaping {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        // Most strings are plain.
        if fragment.bytes().all(|byte| (b' '..0x7f).contains(&byte)) {
            return writer.write_all(fragment.as_bytes());
        }
        writer.write_all(escape(fragment).as_bytes())
    }
}

/// Writes a value as JSON.
///
/// # Errors
/// `writer` can't be written, or the value has no form in JSON.
pub fn to_writer<T: Serialize + ?Sized>(writer: impl Write, value: &T) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(writer, Escaping))
}

/// A value as JSON.
///
/// # Errors
/// The value has no form in JSON.
pub fn to_string<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<String> {
    let mut text = Vec::new();
    to_writer(&mut text, value)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Escapes hidden characters in a text that is JSON already. White space stays.
pub fn escape(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if is_hidden(c) && !matches!(c, '\n' | '\r' | '\t') {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to memory can't fail.
                let _ = write!(text, "\\u{unit:04x}");
            }
        } else {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_escaped_and_read_back() {
        let text = "a \"b\" \\ \n\r\u{1b}[1m\u{0}\u{7f}\u{9b}\u{202e}\u{200b}\u{e0041}ä🙂";
        let json = to_string(text).unwrap();
        assert_eq!(
            json,
            r#""a \"b\" \\ \n\r\u001b[1m\u0000\u007f\u009b\u202e\u200b\udb40\udc41ä🙂""#
        );
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }

    #[test]
    fn json_of_others_is_escaped_and_stays_the_same() {
        let value = serde_json::json!({ "a\u{9b}": ["\u{202e}", 1] });
        let raw = serde_json::to_string_pretty(&value).unwrap();
        let escaped = escape(&raw);
        assert!(!escaped.chars().any(|c| is_hidden(c) && c != '\n'), "{escaped:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
    }
}
