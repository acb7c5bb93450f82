//! Text for people: one line without control characters and invisible characters.
//!
//! Names and messages come from files, servers and decoders, which may be hostile. Code that writes
//! to a terminal, a log or a file for people displays them through [`Printable`]. Text for programs
//! keeps its characters: it is [JSON](crate::json), which can escape them.

use std::fmt::{self, Display, Write};

/// Largest length of a line in bytes. The rest is cut off.
const MAX_LINE_BYTES: usize = 64 << 10;
/// Largest length of a name in bytes: the longest path on Linux. The rest is cut off.
const MAX_NAME_BYTES: usize = 4096;
/// Bytes that [`printable`] keeps of a text.
const MAX_TEXT_BYTES: usize = 1000;

/// Displays a value as one line. Line breaks and [hidden](is_hidden) characters are shown as
/// escapes, such as `\n` and `\u{1b}`. A long value is cut off, and `…` is appended.
#[derive(Debug, Clone, Copy)]
pub struct Printable<T> {
    value: T,
    max_bytes: usize,
}

impl<T: Display> Printable<T> {
    /// A whole line, of up to 64 KiB.
    pub fn line(value: T) -> Self {
        Self { value, max_bytes: MAX_LINE_BYTES }
    }

    /// A name in a line, of up to 4,096 bytes: a longer one leaves room for the rest of the line.
    pub fn name(value: T) -> Self {
        Self { value, max_bytes: MAX_NAME_BYTES }
    }
}

impl<T: Display> Display for Printable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(EscapedWriter { out: f, left: Some(self.max_bytes) }, "{}", self.value)
    }
}

/// Escapes the text that is written to it.
struct EscapedWriter<'a, 'b> {
    out: &'a mut fmt::Formatter<'b>,
    /// Bytes that may still be written; `None` after the cut.
    left: Option<usize>,
}

impl Write for EscapedWriter<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            let Some(left) = self.left else { return Ok(()) };
            let size = if is_hidden(c) { c.escape_default().len() } else { c.len_utf8() };
            self.left = left.checked_sub(size);
            match self.left {
                None => self.out.write_char('…')?,
                Some(_) if is_hidden(c) => write!(self.out, "{}", c.escape_default())?,
                Some(_) => self.out.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// A text of several lines as one line, of up to 1,000 bytes: line breaks and tabs become spaces,
/// [hidden](is_hidden) characters become escapes. It is for the messages of decoders and servers.
pub fn printable(text: &str) -> String {
    // One character beyond the limit, so that the cut is marked.
    let start: String = text.chars().take(MAX_TEXT_BYTES + 1).collect();
    let line = start.replace(['\n', '\r', '\t'], " ");
    Printable { value: line, max_bytes: MAX_TEXT_BYTES }.to_string()
}

/// Whether a character is not shown as itself: a control character, one that changes the direction
/// of text, or one that is invisible. Selectors of variants are not hidden: they are in many names
/// with emoji, and only choose how the character before them looks.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_terminal_obeys_or_nobody_sees_is_escaped() {
        let text = "a\n\r\t\u{0}\u{1b}[31m\u{7f}\u{9b}2J\u{202e}\u{2066}\u{200b}\u{feff}\u{e0041}";
        assert_eq!(
            Printable::line(text).to_string(),
            "a\\n\\r\\t\\u{0}\\u{1b}[31m\\u{7f}\\u{9b}2J\\u{202e}\\u{2066}\\u{200b}\\u{feff}\
             \\u{e0041}"
        );
        for plain in ["part-3.csv", "a b\\n", "äöü 数据 🙂 ❤\u{fe0f} العربية"] {
            assert_eq!(Printable::name(plain).to_string(), plain);
        }
    }

    #[test]
    fn long_values_are_cut_off() {
        let long = "ä\u{1b}".repeat(1 << 20);
        let [name, line] = [Printable::name(&long), Printable::line(&long)].map(|p| p.to_string());
        for (cut, limit) in [(name, MAX_NAME_BYTES), (line, MAX_LINE_BYTES)] {
            assert!(cut.ends_with('…') && cut.matches('…').count() == 1);
            assert!(cut.len() <= limit + '…'.len_utf8() && cut.len() > limit - 8);
        }
        let exact = "x".repeat(MAX_NAME_BYTES);
        assert_eq!(Printable::name(&exact).to_string(), exact);
    }

    #[test]
    fn messages_become_one_line() {
        assert_eq!(printable("no,\n\x1b[31mI\twon't"), "no, \\u{1b}[31mI won't");
        let shown = printable(&"é\n".repeat(1 << 20));
        assert!(shown.len() <= MAX_TEXT_BYTES + '…'.len_utf8() && shown.ends_with(" …"), "{shown}");
        assert_eq!(printable(&"x".repeat(MAX_TEXT_BYTES)), "x".repeat(MAX_TEXT_BYTES));
    }

    proptest! {
        #[test]
        fn nothing_is_hidden_and_a_second_pass_changes_nothing(text in ".{0,200}|\\PC{0,200}") {
            let once = Printable::line(&text).to_string();
            prop_assert!(!once.chars().any(is_hidden), "{once:?}");
            prop_assert_eq!(Printable::line(&once).to_string(), once);
            prop_assert!(!printable(&text).chars().any(is_hidden));
        }
    }
}
