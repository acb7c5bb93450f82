//! One walk over a JSON text, as strict as RFC 8259, that notes where the wanted values stand. Makes no
//! value: that is for [`crate::convert`].
//!
//! Where an object has a key twice, the last one counts, as in Python's `json`: an earlier value, and
//! all that was found in it, is forgotten.

use std::ops::Range;

use crate::text;
use crate::tree::{NOTHING, Tree};

/// How deep arrays and objects may lie in each other.
pub(crate) const DEPTH: u32 = 128;

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// With escapes in it, or not.
    String {
        escaped: bool,
    },
    /// Written without fraction and exponent, or with one of them.
    Number {
        integer: bool,
    },
    True,
    False,
    Null,
    Array,
    Object,
}

/// A value and where it stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Value {
    pub(crate) kind: Kind,
    start: u32,
    end: u32,
}

impl Value {
    /// Its bytes in the chunk.
    pub(crate) fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// What is wrong with the text, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) expected: &'static str,
}

type Walked<T> = Result<T, Fault>;

/// A place in a text.
pub(crate) struct Walk<'a> {
    /// The chunk, up to the end of the text.
    text: &'a [u8],
    at: usize,
    tree: &'a Tree,
    /// For each node of the tree, the value found.
    found: &'a mut [Option<Value>],
}

/// Walks over the text that lies there in the chunk.
pub(crate) fn walk(
    chunk: &[u8],
    range: Range<usize>,
    tree: &Tree,
    found: &mut [Option<Value>],
) -> Walked<()> {
    found.fill(None);
    let mut walk = Walk { text: &chunk[..range.end], at: range.start, tree, found };
    walk.blank();
    walk.value(Tree::ROOT, 0)?;
    match walk.next() {
        None => Ok(()),
        Some(_) => walk.fault("the end of the line behind the value"),
    }
}

impl Walk<'_> {
    #[inline(always)]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// What stands behind the blanks.
    #[inline(always)]
    fn next(&mut self) -> Option<u8> {
        self.blank();
        self.peek()
    }

    #[inline(always)]
    fn blank(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
    }

    #[cold]
    fn fault<T>(&self, expected: &'static str) -> Walked<T> {
        Err(Fault { at: self.at, expected })
    }

    /// The value that starts here, at this node of the tree.
    fn value(&mut self, node: usize, depth: u32) -> Walked<()> {
        let start = self.at;
        let kind = match self.peek() {
            Some(b'"') => Kind::String { escaped: self.string()? },
            Some(b'-' | b'0'..=b'9') => Kind::Number { integer: self.number()? },
            Some(b'{' | b'[') if depth == DEPTH => {
                return self.fault("no more than 128 arrays and objects inside of each other");
            }
            Some(b'{') => self.object(node, depth + 1)?,
            Some(b'[') => self.array(node, depth + 1)?,
            Some(b't') => self.word(b"true", Kind::True)?,
            Some(b'f') => self.word(b"false", Kind::False)?,
            Some(b'n') => self.word(b"null", Kind::Null)?,
            _ => return self.fault("a value"),
        };
        if let Some(place) = self.found.get_mut(node) {
            *place = Some(Value { kind, start: start as u32, end: self.at as u32 });
        }
        Ok(())
    }

    fn object(&mut self, node: usize, depth: u32) -> Walked<Kind> {
        self.at += 1;
        if self.next() == Some(b'}') {
            self.at += 1;
            return Ok(Kind::Object);
        }
        loop {
            if self.next() != Some(b'"') {
                return self.fault("a key in quotes");
            }
            let start = self.at + 1;
            let escaped = self.string()?;
            let child = self.tree.key(node, &self.text[start..self.at - 1], escaped);
            self.forget(child);
            if self.next() != Some(b':') {
                return self.fault("`:` behind the key");
            }
            self.at += 1;
            self.blank();
            self.value(child, depth)?;
            match self.next() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return self.fault("`,` or `}` behind the value"),
            }
        }
        self.at += 1;
        Ok(Kind::Object)
    }

    fn array(&mut self, node: usize, depth: u32) -> Walked<Kind> {
        self.at += 1;
        if self.next() == Some(b']') {
            self.at += 1;
            return Ok(Kind::Array);
        }
        for index in 0.. {
            self.blank();
            self.value(self.tree.index(node, index), depth)?;
            match self.next() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return self.fault("`,` or `]` behind the value"),
            }
        }
        self.at += 1;
        Ok(Kind::Array)
    }

    /// A key came again: what was found under the one before does not count.
    #[inline(always)]
    fn forget(&mut self, node: usize) {
        if node != NOTHING {
            self.found[self.tree.below(node)].fill(None);
        }
    }

    fn word(&mut self, word: &'static [u8], kind: Kind) -> Walked<Kind> {
        if !self.text[self.at..].starts_with(word) {
            return self.fault("a value");
        }
        self.at += word.len();
        Ok(kind)
    }

    /// Passes over a string; answers whether it has escapes.
    #[inline(always)]
    fn string(&mut self) -> Walked<bool> {
        let (end, escaped) = text::string(self.text, self.at)?;
        self.at = end;
        Ok(escaped)
    }

    /// Passes over a number; answers whether it is written as an integer.
    #[inline(always)]
    fn number(&mut self) -> Walked<bool> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits("a digit")?;
        }
        let mut integer = true;
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits("a digit behind the dot")?;
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
    fn digits(&mut self, expected: &'static str) -> Walked<()> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start { self.fault(expected) } else { Ok(()) }
    }
}
