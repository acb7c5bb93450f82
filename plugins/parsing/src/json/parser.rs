//! Parses a JSON text in one pass, as strictly as RFC 8259, and records where the wanted values
//! are. It does not convert values: [`super::convert`] does that. The words that Python writes for
//! NaN and infinite numbers are accepted only if the operator allows them.
//!
//! If an object has a key twice, the last value counts, as in Python's `json`: the values that were
//! found under the earlier one are removed.

use std::ops::Range;

use super::syntax_error::SyntaxError;
use super::text;
use crate::pointers::{NO_NODE, PointerTree};

/// Largest nesting depth of arrays and objects.
pub(super) const MAX_DEPTH: u32 = 128;

/// The kind of a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueKind {
    /// A string. `escaped`: whether it has escapes.
    String {
        escaped: bool,
    },
    /// A number. `integer`: whether it is written without a fraction and without an exponent.
    Number {
        integer: bool,
    },
    True,
    False,
    Null,
    Array,
    Object,
}

/// A value, and its range in the chunk.
#[derive(Debug, Clone, Copy)]
pub struct JsonValue {
    pub(super) kind: ValueKind,
    start: u32,
    end: u32,
}

impl JsonValue {
    /// The value in this range of the chunk.
    #[inline(always)]
    pub(super) fn new(kind: ValueKind, range: Range<usize>) -> Self {
        Self { kind, start: range.start as u32, end: range.end as u32 }
    }

    /// The bytes of the value.
    pub(super) fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

type ParseResult<T> = Result<T, SyntaxError>;

struct Parser<'a> {
    /// The chunk, up to the end of the JSON text.
    text: &'a [u8],
    /// The next byte to parse.
    at: usize,
    tree: &'a PointerTree,
    /// The value of each node of the tree.
    found: &'a mut [Option<JsonValue>],
    /// Whether NaN and infinite numbers are accepted.
    nan: bool,
}

/// The word of JSON that is expected instead of one of Python.
const NO_NAN: &str = "a value (JSON has no NaN and no Infinity; nan = true takes them)";

/// Parses the JSON text in this range of the chunk, and sets `found` for each node of the tree.
/// With `nan`, NaN and infinite numbers are accepted.
pub(super) fn parse(
    chunk: &[u8],
    range: Range<usize>,
    tree: &PointerTree,
    found: &mut [Option<JsonValue>],
    nan: bool,
) -> ParseResult<()> {
    found.fill(None);
    let mut parser = Parser { text: &chunk[..range.end], at: range.start, tree, found, nan };
    parser.skip_blanks();
    parser.value(PointerTree::ROOT, 0)?;
    match parser.next() {
        None => Ok(()),
        Some(_) => parser.error("nothing after the value"),
    }
}

impl Parser<'_> {
    #[inline(always)]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Skips blanks, and returns the byte after them.
    #[inline(always)]
    fn next(&mut self) -> Option<u8> {
        self.skip_blanks();
        self.peek()
    }

    #[inline(always)]
    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
    }

    #[cold]
    fn error<T>(&self, expected: &'static str) -> ParseResult<T> {
        Err(SyntaxError { at: self.at, expected })
    }

    /// Parses the value that starts here. `node` is its node of the tree, or [`NO_NODE`].
    fn value(&mut self, node: usize, depth: u32) -> ParseResult<()> {
        let start = self.at;
        let kind = match self.peek() {
            Some(b'"') => ValueKind::String { escaped: self.string()? },
            Some(b'-' | b'0'..=b'9') => ValueKind::Number { integer: self.number()? },
            Some(b'{' | b'[') if depth == MAX_DEPTH => {
                return self.error("no more than 128 arrays and objects inside of each other");
            }
            Some(b'{') => self.object(node, depth + 1)?,
            Some(b'[') => self.array(node, depth + 1)?,
            Some(b't') => self.word(b"true", ValueKind::True)?,
            Some(b'f') => self.word(b"false", ValueKind::False)?,
            Some(b'n') => self.word(b"null", ValueKind::Null)?,
            _ => self.word_of_python("a value")?,
        };
        if let Some(place) = self.found.get_mut(node) {
            *place = Some(JsonValue::new(kind, start..self.at));
        }
        Ok(())
    }

    fn object(&mut self, node: usize, depth: u32) -> ParseResult<ValueKind> {
        self.at += 1;
        if self.next() == Some(b'}') {
            self.at += 1;
            return Ok(ValueKind::Object);
        }
        loop {
            if self.next() != Some(b'"') {
                return self.error("a key in quotes");
            }
            let start = self.at + 1;
            let escaped = self.string()?;
            let child = self.child(node, &self.text[start..self.at - 1], escaped);
            self.remove(child);
            if self.next() != Some(b':') {
                return self.error("`:` after the key");
            }
            self.at += 1;
            self.skip_blanks();
            self.value(child, depth)?;
            match self.next() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return self.error("`,` or `}` after the value"),
            }
        }
        self.at += 1;
        Ok(ValueKind::Object)
    }

    fn array(&mut self, node: usize, depth: u32) -> ParseResult<ValueKind> {
        self.at += 1;
        if self.next() == Some(b']') {
            self.at += 1;
            return Ok(ValueKind::Array);
        }
        for index in 0.. {
            self.skip_blanks();
            self.value(self.tree.index(node, index), depth)?;
            match self.next() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return self.error("`,` or `]` after the value"),
            }
        }
        self.at += 1;
        Ok(ValueKind::Array)
    }

    /// The child of `node` with this key: the bytes between the quotes, with escapes if `escaped`.
    #[inline(always)]
    fn child(&self, node: usize, key: &[u8], escaped: bool) -> usize {
        if escaped && self.tree.has_children(node) {
            return self.escaped_child(node, key);
        }
        self.tree.key(node, key)
    }

    #[cold]
    fn escaped_child(&self, node: usize, key: &[u8]) -> usize {
        let mut plain = Vec::new();
        text::unescape(key, &mut plain);
        self.tree.key(node, &plain)
    }

    /// Removes the values of a node and of all nodes below it, because its key occurred again.
    #[inline(always)]
    fn remove(&mut self, node: usize) {
        if node != NO_NODE {
            self.found[self.tree.below(node)].fill(None);
        }
    }

    fn word(&mut self, word: &'static [u8], kind: ValueKind) -> ParseResult<ValueKind> {
        if !self.text[self.at..].starts_with(word) {
            return self.error("a value");
        }
        self.at += word.len();
        Ok(kind)
    }

    /// Parses the words of Python's `json` for numbers that JSON does not have. Anything else is an
    /// error.
    #[cold]
    fn word_of_python(&mut self, expected: &'static str) -> ParseResult<ValueKind> {
        let rest = &self.text[self.at..];
        let after_minus = self.at > 0 && self.text[self.at - 1] == b'-';
        let word = [&b"NaN"[..], b"Infinity"].into_iter().find(|word| rest.starts_with(word));
        match word.filter(|word| !after_minus || *word != b"NaN") {
            Some(word) if self.nan => {
                self.at += word.len();
                Ok(ValueKind::Number { integer: false })
            }
            Some(_) => self.error(NO_NAN),
            None => self.error(expected),
        }
    }

    /// Parses a string. Returns whether it has escapes.
    #[inline(always)]
    fn string(&mut self) -> ParseResult<bool> {
        let (end, escaped) = text::check_string(self.text, self.at)?;
        self.at = end;
        Ok(escaped)
    }

    /// Parses a number. Returns whether it is written as an integer.
    #[inline(always)]
    fn number(&mut self) -> ParseResult<bool> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits("a digit")?,
            // Only a minus comes before it.
            _ => return self.word_of_python("a digit").map(|_| false),
        }
        let mut integer = true;
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits("a digit after the dot")?;
            integer = false;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits("a digit in the exponent")?;
            integer = false;
        }
        Ok(integer)
    }

    #[inline(always)]
    fn digits(&mut self, expected: &'static str) -> ParseResult<()> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start { self.error(expected) } else { Ok(()) }
    }
}
