//! The values at given JSON pointers in one text after the other.

use std::ops::Range;

use super::parser::{JsonValue, parse};
use super::syntax_error::SyntaxError;
use crate::pointers::PointerTree;
use crate::shown;

/// The values at these pointers, in the text that was parsed last.
#[derive(Debug)]
pub struct JsonValues {
    tree: PointerTree,
    /// The value of each node of the tree.
    found: Vec<Option<JsonValue>>,
}

impl JsonValues {
    /// Values at the pointers, each given by its keys: see [`pointer_keys`](crate::pointers::pointer_keys).
    pub fn new(pointers: &[Vec<String>]) -> Self {
        let tree = PointerTree::new(pointers);
        Self { found: vec![None; tree.count()], tree }
    }

    /// The node of a pointer, one of those given to [`new`](Self::new).
    pub fn node(&self, pointer: &[String]) -> usize {
        self.tree.at(pointer)
    }

    /// Checks that this range of the chunk is valid JSON, and finds the values in it. Blanks around
    /// the text are skipped.
    ///
    /// # Errors
    /// It is not JSON. Then the values are of no use.
    #[inline]
    pub fn parse(&mut self, chunk: &[u8], range: Range<usize>) -> Result<(), SyntaxError> {
        parse(chunk, range, &self.tree, &mut self.found)
    }

    /// The value of a node in the text that was parsed last; `None` if the text lacks it.
    #[inline]
    pub fn get(&self, node: usize) -> Option<JsonValue> {
        self.found[node]
    }
}

impl SyntaxError {
    /// What was expected and what was found. The text is this range of the chunk; `end` is what its
    /// end is called.
    #[cold]
    pub fn describe(&self, chunk: &[u8], text: &Range<usize>, end: &str) -> String {
        format!(
            "expected {}, found {} at +{}",
            self.expected,
            shown(&chunk[self.at..text.end], end),
            self.at - text.start
        )
    }
}
