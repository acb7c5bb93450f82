//! The bytes before the first row of an object: a byte order mark, lines to skip, and the line
//! `sep=;` that Excel writes. An object that clearly is not text is refused here.

use pipemill_parsing::foreign::{foreign, is_undecided};

use crate::dialect::Dialect;

/// The byte order mark of UTF-8.
const BOM: &[u8] = b"\xef\xbb\xbf";
/// The beginning of the line that names the delimiter.
const SEP: &[u8] = b"sep=";
/// Largest size of that line in bytes: quotes around it, the delimiter, CR LF.
const MAX_SEP_LINE: usize = SEP.len() + 5;

/// The part of an object's start that was read.
#[derive(Debug)]
pub(crate) struct Head {
    stage: Stage,
    /// Lines that are still to skip.
    lines: u64,
    /// Whether the last byte of the skipped lines is a CR.
    after_cr: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Mark,
    Lines,
    Sep,
    Done,
}

impl Head {
    /// The head of an object with this many lines to skip.
    pub(crate) fn new(lines: u64) -> Self {
        Self { stage: Stage::Mark, lines, after_cr: false }
    }

    /// A stream that begins inside the object has no head.
    pub(crate) fn passed() -> Self {
        Self { stage: Stage::Done, lines: 0, after_cr: false }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// Continues to read in these bytes. `end` says that all of the head is in them. Returns how
    /// many of them belong to the head; [`Self::is_done`] says whether it is complete.
    ///
    /// # Errors
    /// The object does not match the options; the error has the position in the bytes, and a
    /// message for the operator.
    pub(crate) fn read(
        &mut self,
        dialect: &Dialect,
        bytes: &[u8],
        end: bool,
    ) -> Result<usize, (usize, String)> {
        let mut at = 0;
        if self.stage == Stage::Mark {
            // A part of a byte order mark is undecided, too.
            if !end && is_undecided(bytes) {
                return Ok(0);
            }
            if let Some(what) = foreign(bytes) {
                return Err((0, format!("expected delimited text, found {what}")));
            }
            at = if bytes.starts_with(BOM) { BOM.len() } else { 0 };
            self.stage = if self.lines > 0 { Stage::Lines } else { Stage::Sep };
        }
        if self.stage == Stage::Lines {
            at += self.skip_lines(dialect, &bytes[at..]);
            if self.lines > 0 && !end {
                return Ok(at);
            }
            self.stage = Stage::Done;
        }
        if self.stage == Stage::Sep {
            let rest = &bytes[at..];
            if !end && may_name_delimiter(rest) {
                return Ok(at);
            }
            at += delimiter_line(dialect, rest).map_err(|message| (at, message))?;
            self.stage = Stage::Done;
        }
        Ok(at)
    }

    /// The length of the part of the lines to skip that is in these bytes.
    fn skip_lines(&mut self, dialect: &Dialect, bytes: &[u8]) -> usize {
        for (at, byte) in bytes.iter().enumerate() {
            // With `lone_cr`, CR LF is one line end.
            let is_rest = dialect.lone_cr && self.after_cr && *byte == b'\n';
            self.after_cr = *byte == b'\r';
            self.lines -= u64::from(dialect.ends_line(*byte) && !is_rest);
            if self.lines == 0 {
                return at + 1;
            }
        }
        bytes.len()
    }
}

/// Whether these bytes may be the start of a line that names the delimiter, so that more bytes are
/// needed.
fn may_name_delimiter(bytes: &[u8]) -> bool {
    let text = bytes.strip_prefix(b"\"").unwrap_or(bytes);
    SEP.starts_with(text)
        || text.starts_with(SEP) && bytes.len() < MAX_SEP_LINE && !bytes.contains(&b'\n')
}

/// The length of the line that names the delimiter; 0 if there is none.
///
/// # Errors
/// It names another delimiter than the options.
fn delimiter_line(dialect: &Dialect, bytes: &[u8]) -> Result<usize, String> {
    let head = &bytes[..bytes.len().min(MAX_SEP_LINE)];
    let end = head.iter().position(|byte| dialect.ends_line(*byte)).unwrap_or(head.len());
    let line = head[..end].strip_suffix(b"\r").unwrap_or(&head[..end]);
    let plain = line.strip_prefix(b"\"").and_then(|line| line.strip_suffix(b"\"")).unwrap_or(line);
    match plain.strip_prefix(SEP) {
        Some([byte]) if *byte == dialect.delimiter => Ok(bytes.len().min(end + 1)),
        Some([byte]) if end < bytes.len() => {
            let delimiter = match byte {
                b'\t' => "tab".to_owned(),
                byte => byte.escape_ascii().to_string(),
            };
            Err(format!(
                "the line sep={} names the delimiter: set delimiter = \"{delimiter}\"",
                byte.escape_ascii()
            ))
        }
        _ => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMA: Dialect = Dialect {
        delimiter: b',',
        quote: Some(b'"'),
        escape: None,
        double_quote: true,
        comment: None,
        lone_cr: false,
        decimal_comma: false,
        text_after_quote: false,
    };

    /// The length of the head, read in pieces of this size.
    fn length(dialect: &Dialect, lines: u64, bytes: &[u8], piece: usize) -> Result<usize, String> {
        let (mut head, mut at, mut seen) = (Head::new(lines), 0, 0);
        loop {
            seen = bytes.len().min(seen + piece);
            let read = head.read(dialect, &bytes[at..seen], seen == bytes.len());
            at += read.map_err(|(_, message)| message)?;
            if head.is_done() || seen == bytes.len() {
                return Ok(at);
            }
        }
    }

    #[test]
    fn the_head_is_the_same_in_any_pieces() {
        let cr = Dialect { lone_cr: true, ..COMMA };
        for (dialect, lines, bytes, expected) in [
            (&COMMA, 0, &b"a,b\n"[..], 0),
            (&COMMA, 0, b"\xef\xbb\xbfa", 3),
            (&COMMA, 0, b"\xef\xbb\xbfsep=,\r\na", 10),
            (&COMMA, 0, b"\"sep=,\"\na", 8),
            (&COMMA, 0, b"sep=ab,c\n1,2\n", 0),
            (&COMMA, 0, b"sep=", 0),
            (&COMMA, 2, b"one \"\ntwo\nid,x\n", 10),
            (&COMMA, 1, b"sep=;\nid;x\n", 6),
            (&COMMA, 3, b"one\ntwo", 7),
            (&cr, 2, b"one\rtwo\rid\r", 8),
            // The remaining LF is a blank line.
            (&cr, 2, b"one\r\ntwo\r\nid\r\n", 9),
        ] {
            for piece in 1..=bytes.len() {
                let found = length(dialect, lines, bytes, piece);
                assert_eq!(found, Ok(expected), "{} in pieces of {piece}", bytes.escape_ascii());
            }
        }
    }

    #[test]
    fn what_is_no_such_text_is_refused() {
        for (bytes, expected) in [
            (&b"sep=;\na;b\n"[..], "delimiter = \";\""),
            (b"sep=\t\r\na\tb\r\n", "delimiter = \"tab\""),
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git lfs pull"),
            (b"PAR1\x15\x04", "Parquet"),
        ] {
            for piece in 1..=bytes.len() {
                let found = length(&COMMA, 0, bytes, piece).expect_err(expected);
                assert!(found.contains(expected), "{found}");
            }
        }
    }
}
