//! Classifies the first lines of a text: JSON Lines, a table, or plain lines.

use serde::de::IgnoredAny;

use super::dialect::{Dialect, Rows};
use super::obstacle::{self, Obstacle};

/// Largest number of lines that are examined.
const MAX_LINES: usize = 64;
/// Largest number of bytes that are examined.
pub(super) const MAX_BYTES: usize = 64 << 10;
/// The delimiters that are searched for.
const DELIMITERS: [u8; 4] = *b",\t;|";

/// The facts of the first lines of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text {
    /// The kind of JSON in the lines.
    pub(super) json: Json,
    /// The delimiters that cut every row into the same number of fields, at least two, and that
    /// number.
    pub(super) tables: Vec<(u8, usize)>,
    /// The obstacle, if no delimiter makes a table; or if tabs do, but text follows closing quotes.
    pub(super) obstacle: Option<Obstacle>,
    /// Whether commas are only inside of numbers.
    pub(super) decimal_commas: bool,
    /// Whether lines end at CR, and no line at LF.
    pub(super) lone_cr: bool,
    /// The delimiter that was given.
    pub(super) given_delimiter: Option<u8>,
    /// The delimiter that the first line names, as Excel writes it: `sep=;`.
    pub(super) named_delimiter: Option<u8>,
    /// The first row, without its line end.
    pub(super) first_row: Vec<u8>,
    /// Whether the text is complete, and has no other row.
    pub(super) is_one_row: bool,
    /// Whether the text is complete, and ends inside quotes. The decoder reports where they begin.
    pub(super) is_open: bool,
}

/// The kind of JSON in the lines of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Json {
    /// Each line is an object.
    Objects,
    /// Each line is a value, and one of them an array.
    Arrays,
    /// No line is complete, and the first begins like an object or an array.
    Cut,
    /// An array or an object over several lines.
    Document,
    /// Something else.
    No,
}

/// The bytes of a text that are examined: the first lines. `None` if more bytes are needed.
pub(super) fn window(head: &[u8], ended: bool) -> Option<&[u8]> {
    let bytes = &head[..head.len().min(MAX_BYTES)];
    let line_ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    match line_ends.map(|(at, _)| at + 1).nth(MAX_LINES - 1) {
        Some(end) => Some(&bytes[..end]),
        None if ended || head.len() >= MAX_BYTES => Some(bytes),
        None => None,
    }
}

/// Whether the bytes are text in an encoding that contains ASCII: they have no control codes except
/// those of texts.
pub(super) fn is_text(bytes: &[u8]) -> bool {
    !bytes.iter().any(is_odd)
}

/// Whether a byte is a control code that no text contains.
fn is_odd(byte: &u8) -> bool {
    matches!(byte, 0..=8 | 11 | 14..=26 | 28..=31 | 127)
}

/// The first byte that no text contains, its offset, and its line, from 1.
pub(super) fn odd_byte(bytes: &[u8]) -> Option<(u8, usize, usize)> {
    let at = bytes.iter().position(is_odd)?;
    let lines = bytes[..at].iter().filter(|byte| **byte == b'\n').count();
    Some((bytes[at], at, lines + 1))
}

/// The bytes of a complete text, without the end-of-file byte of DOS.
pub(super) fn without_dos_end(bytes: &[u8]) -> &[u8] {
    const DOS_END: u8 = 0x1a;
    let text = bytes.iter().rposition(|byte| *byte != DOS_END);
    text.map_or(bytes, |last| &bytes[..=last])
}

/// A page or document in a markup language: its name, and what to do about it.
pub(super) fn markup(text: &[u8]) -> Option<(&'static str, &'static str)> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii_start();
    let starts = |word: &str| {
        text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
    };
    if starts("version https://git-lfs.github.com/spec/") {
        let remedy = "`git lfs pull` gets the data";
        return Some(("a pointer of Git LFS, not the data", remedy));
    }
    if starts("<!doctype html") || starts("<html") {
        let remedy = "it may be the error page of a server: look into it, and get the data again";
        return Some(("an HTML page", remedy));
    }
    if starts("<?xml") {
        let remedy =
            "it may be the error message of a server: look into it, and get the data again";
        return Some(("an XML document", remedy));
    }
    None
}

impl Text {
    /// Examines the first lines of a text, as `csv` would read them with this dialect. `whole` says
    /// that they are the complete text.
    pub(super) fn of(window: &[u8], whole: bool, given: &Dialect) -> Self {
        let window = window.strip_prefix(b"\xef\xbb\xbf").unwrap_or(window);
        let json = json(window, whole);
        let lone_cr = given.lone_cr || has_only_crs(window);
        let (named_delimiter, table) = match named_delimiter(window) {
            Some((delimiter, end)) if given.skip_rows == 0 => (Some(delimiter), &window[end..]),
            _ => (None, window),
        };
        let dialect =
            Dialect { lone_cr, delimiter: given.delimiter.or(named_delimiter), ..given.clone() };
        let delimiters = match &dialect.delimiter {
            Some(delimiter) => std::slice::from_ref(delimiter),
            None => &DELIMITERS,
        };
        let all: Vec<_> = delimiters
            .iter()
            .map(|delimiter| (*delimiter, Rows::of(table, whole, *delimiter, &dialect)))
            .collect();
        let of_delimiter = |(delimiter, rows): &(u8, Rows)| Some((*delimiter, rows.table()?));
        let tables: Vec<_> = all
            .iter()
            .filter(|(_, rows)| !(whole && rows.is_open))
            .filter_map(of_delimiter)
            .collect();
        let first = &all[0].1;
        let obstacle = match tables.is_empty() {
            true => obstacle::find(table, whole, &all, &dialect),
            false => obstacle::text_with_quotes(table, whole, &all, &dialect),
        };
        Self {
            json,
            obstacle,
            tables,
            decimal_commas: has_decimal_commas(table),
            lone_cr,
            given_delimiter: given.delimiter,
            named_delimiter,
            first_row: table[first.first.clone()].trim_ascii_end().to_vec(),
            is_one_row: whole && !first.is_open && first.widths.len() == 1,
            is_open: whole && all.iter().any(|(_, rows)| rows.is_open),
        }
    }
}

/// Whether lines end at CR, and no line at LF.
fn has_only_crs(text: &[u8]) -> bool {
    let inside = text.split_last().map_or(&[][..], |(_, inside)| inside);
    !text.contains(&b'\n') && inside.contains(&b'\r')
}

/// The delimiter that the first line names, and the end of this line.
fn named_delimiter(text: &[u8]) -> Option<(u8, usize)> {
    let end = text.iter().position(|byte| matches!(byte, b'\n' | b'\r'))?;
    let line = &text[..end];
    let plain = line.strip_prefix(b"\"").and_then(|line| line.strip_suffix(b"\"")).unwrap_or(line);
    let &[delimiter] = plain.strip_prefix(b"sep=")? else { return None };
    let line_end = if text[end..].starts_with(b"\r\n") { 2 } else { 1 };
    Some((delimiter, end + line_end))
}

/// The complete lines, without blank ones.
fn lines(window: &[u8], whole: bool) -> Vec<&[u8]> {
    let mut lines: Vec<_> = window.split(|byte| *byte == b'\n').collect();
    if !whole {
        lines.pop();
    }
    lines.into_iter().map(|line| line.trim_ascii()).filter(|line| !line.is_empty()).collect()
}

fn json(window: &[u8], whole: bool) -> Json {
    let opens = |line: &[u8]| matches!(line.first(), Some(b'{' | b'['));
    let begins = opens(window.trim_ascii_start());
    let lines = lines(window, whole);
    if lines.is_empty() {
        return if begins { Json::Cut } else { Json::No };
    }
    let is_value = |line: &&[u8]| serde_json::from_slice::<IgnoredAny>(line).is_ok();
    if lines.iter().all(is_value) {
        return match lines.iter().all(|line| line[0] == b'{') {
            true => Json::Objects,
            false if lines.iter().any(|line| opens(line)) => Json::Arrays,
            false => Json::No,
        };
    }
    // The start of a document is not a value, but its content begins with a quote or a bracket.
    let inside = lines.get(1).and_then(|line| line.first());
    let first_is_open = matches!(lines[0], [b'{' | b'['] | [b'[', b'{', ..]);
    let is_document = first_is_open
        && matches!(inside, None | Some(b'"' | b'{' | b'[' | b'0'..=b'9' | b'-' | b']' | b'}'));
    match (begins && is_document, opens(lines[0]) && is_value(&lines[0])) {
        (true, _) => Json::Document,
        // A later line is incomplete, or has something that JSON does not have, such as NaN.
        (false, true) => Json::Cut,
        (false, false) => Json::No,
    }
}

/// Whether every comma lies between two digits, and there is one.
fn has_decimal_commas(window: &[u8]) -> bool {
    let is_digit = |at: Option<usize>| {
        at.and_then(|at| window.get(at)).is_some_and(|byte| byte.is_ascii_digit())
    };
    let commas = window.iter().enumerate().filter(|(_, byte)| **byte == b',');
    let mut some = false;
    for (at, _) in commas {
        some = true;
        if !(is_digit(at.checked_sub(1)) && is_digit(Some(at + 1))) {
            return false;
        }
    }
    some
}
