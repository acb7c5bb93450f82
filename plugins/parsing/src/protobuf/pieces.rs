//! Bytes that may be in several pieces, although they are almost always in one.
//!
//! Protobuf merges a message that occurs twice, and a list of numbers may come in several runs.
//! Reading the pieces in sequence gives the same result as merging them, so no byte is moved.

use std::ops::Range;

/// Ranges of a record's bytes, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pieces {
    first: Range<usize>,
    /// The other pieces. Nothing is allocated as long as there are none.
    more: Vec<Range<usize>>,
}

impl Pieces {
    /// Removes all pieces.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.first = 0..0;
        self.more.clear();
    }

    /// Adds a piece after the others. An empty piece adds nothing.
    #[inline(always)]
    pub fn push(&mut self, piece: Range<usize>) {
        if self.first.is_empty() {
            self.first = piece;
        } else if !piece.is_empty() {
            self.more.push(piece);
        }
    }

    /// Bytes of all pieces together.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.first.len() + self.more.iter().map(Range::len).sum::<usize>()
    }

    /// Whether there are no bytes.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// The range of all bytes, if they are in one piece.
    #[inline(always)]
    pub fn single(&self) -> Option<Range<usize>> {
        self.more.is_empty().then(|| self.first.clone())
    }

    /// Each piece, in order. There is at least one; it may be empty.
    #[inline(always)]
    pub fn iter(&self) -> impl Iterator<Item = Range<usize>> {
        std::iter::once(&self.first).chain(&self.more).cloned()
    }

    /// The first piece, and the others.
    #[inline(always)]
    pub(crate) fn parts(&self) -> (Range<usize>, &[Range<usize>]) {
        (self.first.clone(), &self.more)
    }

    /// Appends the bytes of all pieces to `payload`.
    #[inline]
    pub fn append_to(&self, bytes: &[u8], payload: &mut Vec<u8>) {
        for piece in self.iter() {
            payload.extend_from_slice(&bytes[piece]);
        }
    }
}

impl From<Range<usize>> for Pieces {
    fn from(first: Range<usize>) -> Self {
        Self { first, more: Vec::new() }
    }
}
