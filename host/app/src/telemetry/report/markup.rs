//! Escapes text for HTML. Text from outside, such as names of objects, always stays text.

use std::fmt::{self, Display, Write};

use pipemill_types::is_hidden;

/// Displays a value, escaped for HTML text and for attributes in quotes. Characters that are
/// invisible or change the direction of text are shown as their code points.
pub(super) struct Escaped<T>(pub(super) T);

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for char in text.chars() {
            match char {
                '&' => self.0.write_str("&amp;")?,
                '<' => self.0.write_str("&lt;")?,
                '>' => self.0.write_str("&gt;")?,
                '"' => self.0.write_str("&quot;")?,
                '\'' => self.0.write_str("&#39;")?,
                '\n' | '\t' => self.0.write_char(char)?,
                _ if is_hidden(char) => write!(self.0, "\\u{{{:x}}}", u32::from(char))?,
                _ => self.0.write_char(char)?,
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
        assert_eq!(Escaped("äöü 数据 🙂\n").to_string(), "äöü 数据 🙂\n");
    }
}
