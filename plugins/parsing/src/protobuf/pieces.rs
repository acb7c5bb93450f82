//! Bytes in pieces: what nearly always stands in one place, and in several where a writer cut it up.
//!
//! By protobuf's rules a message that stands twice is merged, and a list of numbers may stand in
//! several runs. Either is the same as its pieces one behind the other, so nothing is ever moved.

use std::ops::Range;

/// Places in the bytes of a record, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pieces {
    first: Range<usize>,
    /// Not allocated as long as there is one.
    more: Vec<Range<usize>>,
}

impl Pieces {
    /// Forgets them.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.first = 0..0;
        self.more.clear();
    }

    /// Adds one behind the others. One without a byte adds nothing.
    #[inline(always)]
    pub fn push(&mut self, piece: Range<usize>) {
        if self.first.is_empty() {
            self.first = piece;
        } else if !piece.is_empty() {
            self.more.push(piece);
        }
    }

    /// Bytes of all together.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.first.len() + self.more.iter().map(Range::len).sum::<usize>()
    }

    /// Whether there is no byte.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// All of the bytes, where they stand in one place.
    #[inline(always)]
    pub fn single(&self) -> Option<Range<usize>> {
        self.more.is_empty().then(|| self.first.clone())
    }

    /// Each piece, in order. There is one at least, if without a byte.
    #[inline(always)]
    pub fn iter(&self) -> impl Iterator<Item = Range<usize>> {
        std::iter::once(&self.first).chain(&self.more).cloned()
    }

    /// The first one, and those behind it.
    #[inline(always)]
    pub(crate) fn parts(&self) -> (Range<usize>, &[Range<usize>]) {
        (self.first.clone(), &self.more)
    }

    /// Appends the bytes of all.
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
