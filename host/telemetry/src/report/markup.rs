//! Escapes text for HTML. Text from outside, such as names of objects, always stays text.

use std::fmt::{self, Display, Write};

use pipemill_types::is_hidden;

/// Displays a value, escaped for HTML text and for attributes in quotes. Line breaks, and
/// characters that are invisible or change the direction of text, are shown as escapes.
pub(super) struct Escaped<T>(pub(super) T);

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping { out: f, keeps_lines: false }, "{}", self.0)
    }
}

/// Displays a text of several lines like [`Escaped`]. Its lines stay lines.
pub(super) struct Lines<'a>(pub(super) &'a str);

impl Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping { out: f, keeps_lines: true }, "{}", self.0)
    }
}

struct Escaping<'a, 'b> {
    out: &'a mut fmt::Formatter<'b>,
    keeps_lines: bool,
}

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for char in text.chars() {
            match char {
                '&' => self.out.write_str("&amp;")?,
                '<' => self.out.write_str("&lt;")?,
                '>' => self.out.write_str("&gt;")?,
                '"' => self.out.write_str("&quot;")?,
                '\'' => self.out.write_str("&#39;")?,
                '\n' if self.keeps_lines => self.out.write_char(char)?,
                _ if is_hidden(char) => write!(self.out, "{}", char.escape_default())?,
                _ => self.out.write_char(char)?,
            }
        }
        Ok(())
    }
}

/// Displays a sentence like [`Escaped`], with text between backticks as code.
pub(super) struct Prose<'a>(pub(super) &'a str);

impl Display for Prose<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some((before, code, after)) = first_code(rest) {
            write!(f, "{}<code>{}</code>", Escaped(before), Escaped(code))?;
            rest = after;
        }
        Escaped(rest).fmt(f)
    }
}

/// The text before the first pair of backticks, between them, and after them.
fn first_code(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('`')?;
    let (code, after) = rest.split_once('`')?;
    Some((before, code, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_text_is_escaped() {
        let hostile = "</td><script>alert('1')</script>\" onload=\"x & \u{202e}txt.\0\u{7f}";
        assert_eq!(
            Escaped(hostile).to_string(),
            "&lt;/td&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot; onload=&quot;x &amp; \
             \\u{202e}txt.\\u{0}\\u{7f}"
        );
        assert_eq!(
            Prose("see `<a>` and `b`, not `c").to_string(),
            "see <code>&lt;a&gt;</code> and <code>b</code>, not `c"
        );
        assert_eq!(Escaped("äöü\t数据 🙂\n").to_string(), "äöü\\t数据 🙂\\n");
        assert_eq!(Lines("a\n\u{1b}<b>").to_string(), "a\n\\u{1b}&lt;b&gt;");
    }
}
