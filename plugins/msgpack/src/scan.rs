//! Finds the end of a record, and the wanted values in it, in one pass.
//!
//! # Advice for the next person
//!
//! **The idea.** Almost all records are complete, valid and like the one before. So this pass
//! checks only what is necessary: it returns `None` for a record that is cut, damaged or too large,
//! without a reason. [`diagnose`](crate::diagnose) then finds the reason, slowly, but only once per
//! chunk. For most values a table gives the size by the first byte. The keys of a map are compared
//! with the keys at the same position of the previous map ([`Template`]).
//!
//! **Invariants.** `record` returns the end of a record if and only if `diagnose` would find it
//! complete: same depth limit, same values. Recursion goes only into values that contain the target
//! of a pointer; all others are skipped with a stack of counts.
//!
//! **Changing it.** `tests/decoder/model.rs` compares the decoder with a simple model on random and
//! damaged input. Measure with `cargo run --release -p pipemill-msgpack --example msgpack-speed`.

use std::ops::Range;

use pipemill_parsing::pointers::{NO_NODE, PointerTree};

use crate::format::{self, Container, Head, MAX_DEPTH, Number, SIZES};
use crate::runs;
use crate::template::{Found, Known, Template};

/// Number of remaining values of a container from which on skipping many at once is tried.
const MIN_RUN: u64 = 8;

/// Finds values.
#[derive(Debug)]
pub(crate) struct Scanner {
    /// The pointers of the wanted values.
    tree: PointerTree,
    /// The value of each node of the tree. It belongs to the current record if it ends after the
    /// start of the record; otherwise it is an old one. So nothing needs to be cleared for each
    /// record.
    found: Vec<Found>,
    /// The keys of the last map of each node.
    templates: Vec<Template>,
    /// Numbers of remaining values in the containers around a skipped value.
    stack: Vec<u64>,
    /// The start of the record.
    record: usize,
}

impl Scanner {
    /// A scanner for the pointers with these keys.
    pub(crate) fn new(paths: &[Vec<String>]) -> Self {
        let tree = PointerTree::new(paths);
        let nodes = tree.count();
        Self {
            tree,
            found: vec![Found::default(); nodes],
            templates: vec![Template::default(); nodes],
            stack: Vec::with_capacity(MAX_DEPTH),
            record: 0,
        }
    }

    /// The node of a pointer that the scanner was made with.
    pub(crate) fn node(&self, path: &[String]) -> usize {
        self.tree.at(path)
    }

    /// Forgets the values of the chunk before.
    pub(crate) fn begin_chunk(&mut self) {
        self.found.fill(Found::default());
    }

    /// The value of a node in the record that starts at `record`, which was the last one scanned.
    #[inline(always)]
    pub(crate) fn value_of(&self, node: usize, record: usize) -> Option<Range<usize>> {
        let Found { start, end } = self.found[node];
        (end as usize > record).then_some(start as usize..end as usize)
    }

    /// Scans the record at `at`. Returns its end, or `None` if it is incomplete or invalid.
    #[inline]
    pub(crate) fn record(&mut self, chunk: &[u8], at: usize) -> Option<usize> {
        self.record = at;
        let first = *chunk.get(at)?;
        let end = if !self.tree.has_children(PointerTree::ROOT) {
            self.skip(chunk, at, 0)
        } else if let 0x80..=0x8f = first {
            let template = &self.templates[PointerTree::ROOT];
            let known = template.scan(&mut self.found, chunk, at + 1, (first & 0x0f).into(), 0);
            if known.left == 0 {
                Some(known.at)
            } else {
                self.entries(chunk, PointerTree::ROOT, known, 1)
            }
        } else {
            self.inner_value(chunk, at, PointerTree::ROOT, 0)
        }?;
        self.found[PointerTree::ROOT] = Found { start: at as u32, end: end as u32 };
        (end <= chunk.len()).then_some(end)
    }

    /// Like [`record`](Self::record), without wanted values.
    #[inline]
    pub(crate) fn skip_record(&mut self, chunk: &[u8], at: usize) -> Option<usize> {
        self.skip(chunk, at, 0)
    }

    /// Scans the value at `at`, which belongs to this node or to none. Returns its end, which may
    /// be after the chunk.
    #[inline]
    fn value(&mut self, chunk: &[u8], at: usize, node: usize, depth: usize) -> Option<usize> {
        if node == NO_NODE {
            return self.skip(chunk, at, depth);
        }
        let end = if self.tree.has_children(node) {
            if self.value_of(node, self.record).is_some() {
                // The key occurred before, with wanted values inside its value. The last one
                // counts.
                self.found[self.tree.below(node)].fill(Found::default());
            }
            self.inner_value(chunk, at, node, depth)?
        } else {
            self.skip(chunk, at, depth)?
        };
        self.found[node] = Found { start: at as u32, end: end as u32 };
        Some(end)
    }

    /// Scans the value at `at`, which contains wanted values.
    fn inner_value(&mut self, chunk: &[u8], at: usize, node: usize, depth: usize) -> Option<usize> {
        let bytes = chunk.get(at..).filter(|bytes| !bytes.is_empty())?;
        let Head::Container(Container { head, values, is_map }) = format::head(bytes) else {
            return self.skip(chunk, at, depth);
        };
        if depth == MAX_DEPTH {
            return None;
        }
        if is_map {
            let template = &self.templates[node];
            let known = template.scan(&mut self.found, chunk, at + head, values / 2, 0);
            return self.entries(chunk, node, known, depth + 1);
        }
        let mut at = at + head;
        for index in 0..values {
            let child = self.tree.index(node, index);
            at = self.value(chunk, at, child, depth + 1)?;
        }
        Some(at)
    }

    /// Scans the rest of a map: `known` says how much was scanned.
    fn entries(
        &mut self,
        chunk: &[u8],
        node: usize,
        mut known: Known,
        depth: usize,
    ) -> Option<usize> {
        while known.left > 0 {
            let (child, start, place) = match known.node {
                Some(child) => (child, known.at, known.place),
                None => self.other_key(chunk, known.at, node, known.place, depth)?,
            };
            let at = self.value(chunk, start, child, depth)?;
            known = self.templates[node].scan(&mut self.found, chunk, at, known.left - 1, place);
        }
        Some(known.at)
    }

    /// Reads the key at `at`, which is not among the next ones in the template. Returns the node of
    /// its value, the end of the key, and the position of the next key in the template.
    #[inline(never)]
    fn other_key(
        &mut self,
        chunk: &[u8],
        at: usize,
        node: usize,
        place: usize,
        depth: usize,
    ) -> Option<(usize, usize, usize)> {
        let end = self.skip(chunk, at, depth)?;
        let key = chunk.get(at..end)?;
        let child = if let Some((data, _)) = format::string(key[0], 0..key.len()) {
            self.tree.key(node, &key[data])
        } else {
            match format::read_number(key) {
                Some((Number::Unsigned(number), _)) => self.tree.index(node, number),
                Some((Number::Signed(number @ 0..), _)) => self.tree.index(node, number as u64),
                _ => NO_NODE,
            }
        };
        let is_inner = self.tree.has_children(child);
        let place = self.templates[node].learn(place, key, child, is_inner);
        Some((child, end, place))
    }

    /// Skips the value at `at`, which is inside of `depth` containers. Returns its end, which is not
    /// after the chunk.
    #[inline]
    fn skip(&mut self, chunk: &[u8], mut at: usize, depth: usize) -> Option<usize> {
        self.stack.clear();
        // Number of remaining values in the innermost container.
        let mut left = 1u64;
        loop {
            let size = SIZES[usize::from(*chunk.get(at)?)];
            left -= 1;
            if size != 0 {
                at += usize::from(size);
                if left >= MIN_RUN {
                    (at, left) = runs::skip(chunk, at, left);
                }
            } else {
                match format::head(&chunk[at..]) {
                    Head::Leaf(size) => {
                        let rest = (chunk.len() - at) as u64;
                        at += usize::try_from(size).ok().filter(|_| size <= rest)?;
                    }
                    Head::Container(Container { head, values, .. }) => {
                        if depth + self.stack.len() == MAX_DEPTH {
                            return None;
                        }
                        at += head;
                        self.stack.push(left);
                        left = values;
                    }
                    Head::NeverUsed | Head::Cut(_) => return None,
                }
            }
            while left == 0 {
                match self.stack.pop() {
                    Some(outer) => left = outer,
                    None => return (at <= chunk.len()).then_some(at),
                }
            }
        }
    }
}
