//! What the first lines of a text are: JSON Lines, a table, or plain lines.

use serde::de::IgnoredAny;

/// Lines that are looked at.
const MAX_LINES: usize = 64;
/// Bytes that are looked at, if that is less than the lines have.
pub(super) const MAX_BYTES: usize = 64 << 10;
/// The delimiters that are looked for.
const DELIMITERS: [u8; 4] = *b",\t;|";

/// What the first lines of a text are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text {
    /// What JSON the lines are.
    pub(super) json: Json,
    /// The delimiters that cut every row into the same number of fields, at least two, and that
    /// number.
    pub(super) tables: Vec<(u8, usize)>,
    /// Whether no delimiter makes a table, and commas cut the rows into different numbers of fields.
    pub(super) is_ragged: bool,
    /// Whether commas are only in the middle of numbers.
    pub(super) decimal_commas: bool,
}

/// What JSON the lines of a text are.
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

/// The bytes of a text that are looked at: the first lines. `None` if more bytes are needed.
pub(super) fn window(head: &[u8], ended: bool) -> Option<&[u8]> {
    let bytes = &head[..head.len().min(MAX_BYTES)];
    let line_ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    match line_ends.map(|(at, _)| at + 1).nth(MAX_LINES - 1) {
        Some(end) => Some(&bytes[..end]),
        None if ended || head.len() >= MAX_BYTES => Some(bytes),
        None => None,
    }
}

/// Whether bytes are text of an encoding that has ASCII in it: they have no control codes but those
/// of texts.
pub(super) fn is_text(bytes: &[u8]) -> bool {
    let is_good = |byte: &u8| !matches!(byte, 0..=8 | 11 | 14..=26 | 28..=31 | 127);
    bytes.iter().all(is_good)
}

/// A page or document in a markup language: what it is, and what to do about it.
pub(super) fn markup(text: &[u8]) -> Option<(&'static str, &'static str)> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii_start();
    let starts = |word: &str| {
        text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
    };
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
    /// Looks at the first lines of a text. `whole` says that they are all of it.
    pub(super) fn of(window: &[u8], whole: bool) -> Self {
        let window = window.strip_prefix(b"\xef\xbb\xbf").unwrap_or(window);
        let json = json(window, whole);
        let columns = DELIMITERS.map(|delimiter| (delimiter, columns(window, whole, delimiter)));
        let is_table = |(delimiter, found): (u8, Option<Rows>)| {
            let Rows { rows, fields } = found?;
            (rows >= 2 && fields >= 2).then_some((delimiter, fields))
        };
        let tables: Vec<_> = columns.into_iter().filter_map(is_table).collect();
        let is_ragged = tables.is_empty() && columns[0].1.is_none();
        Self { json, tables, is_ragged, decimal_commas: has_decimal_commas(window) }
    }
}

/// The lines that are known to be complete, without blank ones.
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
    // The start of a document is no value, but what stands in it begins with a quote or a bracket.
    let inside = lines.get(1).and_then(|line| line.first());
    let first_is_open = matches!(lines[0], [b'{' | b'['] | [b'[', b'{', ..]);
    let is_document = first_is_open
        && matches!(inside, None | Some(b'"' | b'{' | b'[' | b'0'..=b'9' | b'-' | b']' | b'}'));
    if begins && is_document { Json::Document } else { Json::No }
}

/// Rows that have the same number of fields.
#[derive(Debug, Clone, Copy)]
struct Rows {
    rows: usize,
    fields: usize,
}

/// The rows of a text with this delimiter. `None` if they have different numbers of fields.
fn columns(window: &[u8], whole: bool, delimiter: u8) -> Option<Rows> {
    let (mut rows, mut expected) = (0_usize, None);
    let (mut fields, mut row_bytes, mut quoted, mut at_start) = (1_usize, 0_usize, false, true);
    let mut at = 0;
    let mut end_row = |fields: usize, row_bytes: usize| {
        if row_bytes == 0 {
            return true;
        }
        rows += 1;
        *expected.get_or_insert(fields) == fields
    };
    while at < window.len() {
        let byte = window[at];
        at += 1;
        if quoted {
            match byte {
                b'"' if window.get(at) == Some(&b'"') => at += 1,
                b'"' => quoted = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' if at_start => (quoted, at_start) = (true, false),
            b'\n' => {
                if !end_row(fields, row_bytes) {
                    return None;
                }
                (fields, row_bytes, at_start) = (1, 0, true);
                continue;
            }
            b'\r' if window.get(at).is_none_or(|next| *next == b'\n') => continue,
            _ if byte == delimiter => (fields, at_start) = (fields + 1, true),
            _ => at_start = false,
        }
        row_bytes += 1;
    }
    if quoted && whole {
        // The decoder says where the quote was opened.
        return Some(Rows { rows: 0, fields: 0 });
    }
    if whole && !end_row(fields, row_bytes) {
        return None;
    }
    Some(Rows { rows, fields: expected.unwrap_or(0) })
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
