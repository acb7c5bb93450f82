//! Hints for rows in which quotes, escapes or line ends seem to mean something else than in the
//! options. They name the option that reads such rows.

use crate::dialect::Dialect;

const LONE_CR: &str = "if lines end at CR in this file, set lone_cr = true";

/// The hint for text after a closing quote. `row` is the row up to the first byte of that text.
#[cold]
pub(crate) fn of_text_after_quote(dialect: &Dialect, row: &[u8]) -> String {
    match row.last() {
        Some(b'\r') => format!("; {LONE_CR}"),
        _ => of_open_quote(dialect, row),
    }
}

/// The hint for a quote that is not closed where it should be.
#[cold]
pub(crate) fn of_open_quote(dialect: &Dialect, row: &[u8]) -> String {
    if escapes_quotes(dialect, row) {
        "; if a backslash makes the next byte text, set escape = \"\\\\\"".to_owned()
    } else {
        "; if quotes are part of the text in this file, set quote = \"none\"".to_owned()
    }
}

/// The hint for a row that is longer than a record may be. `row` is its beginning.
#[cold]
pub(crate) fn of_long_row(dialect: &Dialect, row: &[u8]) -> String {
    if !row.contains(&b'\n') && has_lone_cr(dialect, row) {
        return LONE_CR.to_owned();
    }
    let open = "a quote may have been left open";
    match dialect.quote.filter(|quote| row.contains(quote)) {
        Some(_) => format!("{open}{}", of_open_quote(dialect, row)),
        None => open.to_owned(),
    }
}

/// The hint for a row with a wrong number of fields; empty if nothing suggests another dialect.
/// `columns` is the expected number.
#[cold]
pub(crate) fn of_row(dialect: &Dialect, row: &[u8], columns: usize) -> String {
    if has_lone_cr(dialect, row) {
        return format!("; {LONE_CR}");
    }
    let lines = 1 + row.iter().filter(|byte| **byte == b'\n').count();
    if lines > 1 {
        let option = match escapes_quotes(dialect, row) {
            true => "a backslash makes the next byte text, set escape = \"\\\\\"",
            false => "quotes are part of the text in this file, set quote = \"none\"",
        };
        return format!("; the row goes over {lines} lines, because of its quotes: if {option}");
    }
    let escaped = row.windows(2).filter(|pair| *pair == [b'\\', dialect.delimiter]).count();
    let fields = row.iter().filter(|byte| **byte == dialect.delimiter).count() + 1;
    match dialect.escape {
        Some(b'\\') => String::new(),
        _ if escaped > 0 && fields - escaped == columns => {
            "; if a backslash makes the next byte text, set escape = \"\\\\\"".to_owned()
        }
        _ => String::new(),
    }
}

/// Whether the bytes contain a CR without LF that does not end a row.
pub(crate) fn has_lone_cr(dialect: &Dialect, bytes: &[u8]) -> bool {
    let is_alone = |pair: &[u8]| pair[0] == b'\r' && pair[1] != b'\n';
    !dialect.lone_cr && (bytes.windows(2).any(is_alone) || bytes.ends_with(b"\r"))
}

/// Whether there are backslashes before quotes that are not escapes according to the options.
fn escapes_quotes(dialect: &Dialect, row: &[u8]) -> bool {
    let Some(quote) = dialect.quote else { return false };
    dialect.escape != Some(b'\\') && row.windows(2).any(|pair| pair == [b'\\', quote])
}
