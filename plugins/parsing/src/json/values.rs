//! The values at given JSON pointers in a sequence of texts.

use std::ops::Range;

use pipemill_plugin::OptionSpec;

use super::fast_path;
use super::key_cache::KeyCache;
use super::parser::{JsonValue, parse};
use super::syntax_error::SyntaxError;
use crate::pointers::PointerTree;
use crate::shown;

/// The values at these pointers, in the last text that was parsed.
#[derive(Debug)]
pub struct JsonValues {
    tree: PointerTree,
    /// The keys of the texts so far.
    keys: KeyCache,
    /// The value of each node of the tree.
    found: Vec<Option<JsonValue>>,
    /// Whether NaN and infinite numbers are accepted, as Python writes them.
    nan: bool,
}

impl JsonValues {
    /// Values at the pointers, each given by its keys: see [`pointer_keys`](crate::pointers::pointer_keys).
    pub fn new(pointers: &[Vec<String>]) -> Self {
        let tree = PointerTree::new(pointers);
        Self { found: vec![None; tree.count()], tree, keys: KeyCache::default(), nan: false }
    }

    /// The same values, in texts that may have NaN, Infinity and -Infinity.
    pub fn with_nan(self, nan: bool) -> Self {
        Self { nan, ..self }
    }

    /// The node of a pointer, one of those given to [`new`](Self::new).
    pub fn node(&self, pointer: &[String]) -> usize {
        self.tree.at(pointer)
    }

    /// Checks that this range of the chunk is valid JSON, and finds the values in it. Blanks around
    /// the text are skipped.
    ///
    /// # Errors
    /// It is not JSON. The values have no meaning then.
    #[inline]
    pub fn parse(&mut self, chunk: &[u8], range: Range<usize>) -> Result<(), SyntaxError> {
        let Self { tree, keys, found, nan } = self;
        if fast_path::parse(chunk, range.clone(), tree, keys, found, *nan) {
            return Ok(());
        }
        self.parse_slowly(chunk, range)
    }

    /// Checks that the line that starts here is valid JSON, and finds the values in it, without a
    /// search for its end. Returns the line, without LF or CR LF, and the start of the next one.
    /// `None` if the line is not plain, or invalid, or its LF is not in the chunk:
    /// [`parse_slowly`](Self::parse_slowly) then shows which.
    #[inline]
    pub fn parse_line(&mut self, chunk: &[u8], start: usize) -> Option<(Range<usize>, usize)> {
        let Self { tree, keys, found, nan } = self;
        fast_path::parse_line(chunk, start, tree, keys, found, *nan)
    }

    /// The same as [`parse`](Self::parse), for a text that is not plain.
    ///
    /// # Errors
    /// It is not JSON. The values have no meaning then.
    pub fn parse_slowly(&mut self, chunk: &[u8], range: Range<usize>) -> Result<(), SyntaxError> {
        parse(chunk, range, &self.tree, &mut self.found, self.nan)
    }

    /// The value of a node in the last text that was parsed; `None` if the text lacks it.
    #[inline]
    pub fn get(&self, node: usize) -> Option<JsonValue> {
        self.found[node]
    }
}

impl SyntaxError {
    /// Whether more was expected at the end of the text in this range.
    pub fn is_at_end(&self, text: &Range<usize>) -> bool {
        self.at == text.end
    }

    /// Says what was expected and what was found. The text is this range of the chunk; `end` is
    /// what its end is called.
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

/// The option that [`JsonValues::with_nan`] and [`JsonField::with_nan`](super::JsonField::with_nan)
/// take.
pub fn nan_option() -> OptionSpec {
    OptionSpec::bool(
        "nan",
        false,
        "take NaN, Infinity and -Infinity, which JSON does not have but Python writes, and null in \
         an array of floats as NaN",
    )
}
