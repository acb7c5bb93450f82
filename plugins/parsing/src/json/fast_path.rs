//! Parses a JSON text as [`super::parser`] does, 16 bytes at a time, and gives up if anything is
//! not plain. The parser then parses the text again, and reports the error, if there is one.
//!
//! # Advice for the next person
//!
//! **The idea.** Strings and numbers are skipped in vectors. The bytes between two values of an
//! object are usually the same as in the previous text: [`KeyCache`] finds them with one
//! comparison. UTF-8 is checked once, for the whole text, if a byte of it is not ASCII.
//!
//! **Invariants.** An accepted text is valid JSON, and its values are those that the parser finds:
//! the tests compare the two. Giving up is always right. Vectors may reach beyond the end of the
//! text, but not of the chunk. A token that ends beyond the text's end is noticed once, at the end,
//! because positions only grow.
//!
//! **Changing it.** Measure in the sandbox: `pipemill plugin bench`, with lines of alternating
//! lengths, orders of keys and types. One mispredicted branch costs as much as a key.

use std::ops::Range;

use super::bytes16::{Bytes16, LANES};
use super::key_cache::{KeyCache, Place, START, Window};
use super::parser::{JsonValue, MAX_DEPTH, ValueKind};
use super::text;
use crate::pointers::{NO_NODE, PointerTree};

/// Parses the JSON text in this range of the chunk, and sets `found` for each node of the tree.
/// Returns whether it did; if not, `found` has no meaning.
#[inline]
pub(super) fn parse(
    chunk: &[u8],
    range: Range<usize>,
    tree: &PointerTree,
    keys: &mut KeyCache,
    found: &mut [Option<JsonValue>],
    nan: bool,
) -> bool {
    keys.start(false);
    let mut parser = FastPath::<false>::new(chunk, tree, keys, found, nan);
    parser.whole(range).is_some()
}

/// Parses the line that starts at `start` without a search for its end. Returns the line, without
/// LF or CR LF, and the start of the next one. `None`: it is not plain, or the chunk does not have
/// its LF; `found` has no meaning then.
#[inline]
pub(super) fn parse_line(
    chunk: &[u8],
    start: usize,
    tree: &PointerTree,
    keys: &mut KeyCache,
    found: &mut [Option<JsonValue>],
    nan: bool,
) -> Option<(Range<usize>, usize)> {
    keys.start(true);
    let mut parser = FastPath::<true>::new(chunk, tree, keys, found, nan);
    let end = parser.text(start)?;
    let mut line_end = end;
    if parser.byte(end)? != b'\n' {
        let (newline, byte) = parser.skip_blanks(end)?;
        if byte != b'\n' {
            return None;
        }
        line_end = newline;
    }
    parser.check_utf8(start..end)?;
    let has_cr = line_end > end && chunk[line_end - 1] == b'\r';
    Some((start..line_end - usize::from(has_cr), line_end + 1))
}

/// A pass over a text. With `LINE`, an LF is not a blank: it ends the line.
struct FastPath<'a, const LINE: bool> {
    /// The chunk.
    text: &'a [u8],
    tree: &'a PointerTree,
    keys: &'a mut KeyCache,
    /// The value of each node of the tree.
    found: &'a mut [Option<JsonValue>],
    /// Whether NaN and infinite numbers are accepted.
    nan: bool,
    /// The entry of the last key.
    key: u8,
    /// Whether all bytes of strings are ASCII.
    ascii: bool,
}

/// The end of a parsed element. `None`: it is not plain, or it is invalid.
type End = Option<usize>;

impl<'a, const LINE: bool> FastPath<'a, LINE> {
    #[inline(always)]
    fn new(
        text: &'a [u8],
        tree: &'a PointerTree,
        keys: &'a mut KeyCache,
        found: &'a mut [Option<JsonValue>],
        nan: bool,
    ) -> Self {
        found.fill(None);
        Self { text, tree, keys, found, nan, key: START, ascii: true }
    }

    /// Parses the text in this range.
    #[inline(always)]
    fn whole(&mut self, range: Range<usize>) -> Option<()> {
        let end = self.text(range.start)?;
        // Such a range does not exist if the value ends beyond it.
        if !self.text.get(end..range.end)?.iter().all(|byte| self.is_blank(*byte)) {
            return None;
        }
        self.check_utf8(range)
    }

    /// Parses the text that starts at `start`, after blanks. Returns the end of its value.
    #[inline(always)]
    fn text(&mut self, start: usize) -> End {
        let (start, _) = self.skip_blanks(start)?;
        self.value(self.window(start)?, 0, start, PointerTree::ROOT, 0)
    }

    #[inline(always)]
    fn check_utf8(&self, range: Range<usize>) -> Option<()> {
        if self.ascii {
            return Some(());
        }
        simdutf8::basic::from_utf8(&self.text[range]).ok().map(|_| ())
    }

    #[inline(always)]
    fn is_blank(&self, byte: u8) -> bool {
        matches!(byte, b' ' | b'\t' | b'\r') || (byte == b'\n' && !LINE)
    }

    #[inline(always)]
    fn byte(&self, at: usize) -> Option<u8> {
        self.text.get(at).copied()
    }

    #[inline(always)]
    fn window(&self, at: usize) -> Option<&'a Window> {
        self.text.get(at..)?.first_chunk()
    }

    /// The first byte that is not a blank, and its position.
    #[inline(always)]
    fn skip_blanks(&self, at: usize) -> Option<(usize, u8)> {
        // Usually there is no blank, or one. In WebAssembly a loop costs more than its first
        // iterations do without it.
        let byte = self.byte(at)?;
        if byte > b' ' {
            return Some((at, byte));
        }
        let next = self.byte(at + 1)?;
        if byte == b' ' && next > b' ' {
            return Some((at + 1, next));
        }
        let rest = self.text.get(at..)?;
        let count = rest.iter().position(|byte| !self.is_blank(*byte))?;
        Some((at + count, rest[count]))
    }

    /// Parses the value at this offset of the window at `at`, or after blanks there. Returns its
    /// end.
    #[inline(always)]
    fn value(&mut self, window: &Window, offset: usize, at: usize, node: usize, depth: u32) -> End {
        let (byte, start) = (window[offset], at + offset);
        let (kind, end) = if byte == b'"' {
            let (end, escaped) = self.string(window, offset, at)?;
            (ValueKind::String { escaped }, end)
        } else if byte.wrapping_sub(b'0') <= 9 || byte == b'-' {
            let (end, integer) = self.number(window, offset, at)?;
            (ValueKind::Number { integer }, end)
        } else if byte <= b' ' {
            return self.value_after_blanks(start, node, depth);
        } else {
            self.other_value(start, byte, node, depth)?
        };
        if let Some(place) = self.found.get_mut(node) {
            *place = Some(JsonValue::new(kind, start..end));
        }
        Some(end)
    }

    /// Parses the value at `start`.
    #[inline(never)]
    fn value_at(&mut self, start: usize, node: usize, depth: u32) -> End {
        self.value(self.window(start)?, 0, start, node, depth)
    }

    /// Parses a value after blanks, if a key was known without them.
    #[cold]
    fn value_after_blanks(&mut self, start: usize, node: usize, depth: u32) -> End {
        let (value, _) = self.skip_blanks(start)?;
        // Otherwise it is a control character.
        if value > start { self.value_at(value, node, depth) } else { None }
    }

    /// Parses a value that is neither a string nor a number.
    #[inline(always)]
    fn other_value(
        &mut self,
        start: usize,
        byte: u8,
        node: usize,
        depth: u32,
    ) -> Option<(ValueKind, usize)> {
        if byte == b'{' && depth < MAX_DEPTH {
            return Some((ValueKind::Object, self.object(start, node, depth + 1)?));
        }
        if byte == b'[' && depth < MAX_DEPTH {
            return Some((ValueKind::Array, self.array(start, node, depth + 1)?));
        }
        let words = [
            (&b"true"[..], ValueKind::True),
            (b"false", ValueKind::False),
            (b"null", ValueKind::Null),
        ];
        let rest = &self.text[start..];
        let word = words.iter().find(|(word, _)| rest.starts_with(word));
        match word {
            Some((word, kind)) => Some((*kind, start + word.len())),
            None => {
                let end = self.word_of_python(start)?;
                Some((ValueKind::Number { integer: false }, end))
            }
        }
    }

    #[inline(never)]
    fn object(&mut self, start: usize, node: usize, depth: u32) -> End {
        let (mut at, mut place) = (start + 1, Place::first(node));
        loop {
            let mut window = self.window(at)?;
            // An object usually ends right after its last value.
            if window[0] == b'}' {
                return Some(at + 1);
            }
            let (offset, child) = match self.keys.following(self.key, window, place) {
                Some(known) => {
                    self.key = known.entry;
                    (known.length, known.child)
                }
                None => match self.key(at, node, place)? {
                    Ok((value, child)) => {
                        (at, window) = (value, self.window(value)?);
                        (0, child)
                    }
                    Err(end) => return Some(end),
                },
            };
            // An earlier value of the same key no longer counts.
            if child != NO_NODE {
                self.found[self.tree.below(child)].fill(None);
            }
            at = self.value(window, offset, at, child, depth)?;
            place = Place::later(node);
        }
    }

    /// Parses the bytes before a value in an object: the comma, the key and the colon. Returns the
    /// start and the node of the value. If the object ends here, its end is an error.
    #[inline(never)]
    fn key(
        &mut self,
        start: usize,
        node: usize,
        place: Place,
    ) -> Option<Result<(usize, usize), usize>> {
        if self.keys.may_remember()
            && let Some(known) = self.keys.other(self.key, self.window(start)?, place)
        {
            self.key = known.entry;
            return Some(Ok((start + known.length, known.child)));
        }
        let (mut at, mut byte) = self.skip_blanks(start)?;
        if byte == b'}' {
            return Some(Err(at + 1));
        }
        if !place.is_first() {
            if byte != b',' {
                return None;
            }
            (at, byte) = self.skip_blanks(at + 1)?;
        }
        if byte != b'"' {
            return None;
        }
        let (end, escaped) = self.string(self.window(at)?, 0, at)?;
        let key = &self.text[at + 1..end - 1];
        let child = if escaped && self.tree.has_children(node) {
            let mut plain = Vec::new();
            text::unescape(key, &mut plain);
            self.tree.key(node, &plain)
        } else {
            self.tree.key(node, key)
        };
        let (colon, byte) = self.skip_blanks(end)?;
        if byte != b':' {
            return None;
        }
        let (value, _) = self.skip_blanks(colon + 1)?;
        self.key = self.keys.remember(self.key, &self.text[start..value], place, child);
        Some(Ok((value, child)))
    }

    #[inline(never)]
    fn array(&mut self, start: usize, node: usize, depth: u32) -> End {
        let (mut at, byte) = self.skip_blanks(start + 1)?;
        if byte == b']' {
            return Some(at + 1);
        }
        let wanted = self.tree.has_children(node);
        for index in 0.. {
            let child = if wanted { self.tree.index(node, index) } else { NO_NODE };
            let end = self.value(self.window(at)?, 0, at, child, depth)?;
            let (end, byte) = self.skip_blanks(end)?;
            if byte != b',' {
                return (byte == b']').then_some(end + 1);
            }
            (at, _) = self.skip_blanks(end + 1)?;
        }
        None
    }

    /// Parses the string at this offset of the window at `at`. Returns its end, and whether it has
    /// escapes.
    #[inline(always)]
    fn string(&mut self, window: &Window, offset: usize, at: usize) -> Option<(usize, bool)> {
        let first = offset + 1;
        let stops = Bytes16::at(window, first)?.stops_or_high();
        if stops == 0 {
            return self.rest(at + first + LANES);
        }
        let stop = first + stops.trailing_zeros() as usize;
        if window[stop] == b'"' { Some((at + stop + 1, false)) } else { self.rest(at + stop) }
    }

    /// Parses the rest of a string, from `at` on.
    #[inline(never)]
    fn rest(&mut self, mut at: usize) -> Option<(usize, bool)> {
        let (mut escaped, mut high) = (false, 0);
        loop {
            let bytes = [Bytes16::at(self.text, at)?, Bytes16::at(self.text, at + LANES)?];
            high |= bytes[0].high() | bytes[1].high();
            let stops = u32::from(bytes[0].stops()) | u32::from(bytes[1].stops()) << LANES;
            if stops == 0 {
                at += 2 * LANES;
                continue;
            }
            at += stops.trailing_zeros() as usize;
            let byte = self.byte(at)?;
            if byte == b'"' {
                self.ascii &= high == 0;
                return Some((at + 1, escaped));
            }
            if byte != b'\\' {
                return None;
            }
            at = text::escape(self.text, at).ok()?;
            escaped = true;
        }
    }

    /// Parses the number at this offset of the window at `at`. Returns its end, and whether it is
    /// written as an integer.
    #[inline(always)]
    fn number(&mut self, window: &Window, offset: usize, at: usize) -> Option<(usize, bool)> {
        // The sign counts as a digit, so no position depends on whether there is one.
        let sign = u16::from(window[offset] == b'-');
        let digits = Bytes16::at(window, offset)?.digits() | sign;
        let (sign, whole) = (usize::from(sign), ones(digits));
        let byte = window[offset + whole];
        // Too many digits, no digit, a zero before other digits, or an exponent.
        if whole > 14
            || whole == sign
            || (window[offset + sign] == b'0' && whole > sign + 1)
            || byte | 0x20 == b'e'
        {
            return self.other_number(at + offset + sign);
        }
        if byte != b'.' {
            return Some((at + offset + whole, true));
        }
        let fraction = ones(digits >> (whole + 1));
        let end = offset + whole + 1 + fraction;
        if end == offset + LANES {
            return self.fraction(at + end).map(|end| (end, false));
        }
        if fraction == 0 || window[end] | 0x20 == b'e' {
            return self.other_number(at + offset + sign);
        }
        Some((at + end, false))
    }

    /// Parses the rest of a number, from `at` on, which is after a digit of its fraction.
    #[inline(never)]
    fn fraction(&self, at: usize) -> Option<usize> {
        let end = self.digits(at)?;
        if self.byte(end)? | 0x20 == b'e' { self.exponent(end) } else { Some(end) }
    }

    /// Parses an exponent, whose letter is at `at`.
    fn exponent(&self, at: usize) -> Option<usize> {
        let from = at + 1 + usize::from(matches!(self.byte(at + 1)?, b'+' | b'-'));
        let end = self.digits(from)?;
        (end > from).then_some(end)
    }

    /// Parses a number of any length, after its sign.
    #[inline(never)]
    fn other_number(&mut self, start: usize) -> Option<(usize, bool)> {
        let mut end = self.digits(start)?;
        if end == start {
            return Some((self.word_of_python(start - 1)?, false));
        }
        if end - start > 1 && self.byte(start)? == b'0' {
            return None;
        }
        let mut integer = true;
        if self.byte(end)? == b'.' {
            let from = end + 1;
            end = self.digits(from)?;
            integer = false;
            if end == from {
                return None;
            }
        }
        if self.byte(end)? | 0x20 == b'e' {
            return Some((self.exponent(end)?, false));
        }
        Some((end, integer))
    }

    /// The end of the digits from `at` on.
    #[inline(always)]
    fn digits(&self, mut at: usize) -> End {
        loop {
            let count = ones(Bytes16::at(self.text, at)?.digits());
            at += count;
            if count < LANES {
                return Some(at);
            }
        }
    }

    /// Parses the words of Python's `json` for numbers that JSON does not have.
    #[cold]
    fn word_of_python(&self, start: usize) -> End {
        let words = [&b"NaN"[..], b"Infinity", b"-Infinity"];
        let word = words.into_iter().find(|word| self.text[start..].starts_with(word))?;
        self.nan.then_some(start + word.len())
    }
}

/// Number of set bits at the low end of a mask.
#[inline(always)]
fn ones(mask: u16) -> usize {
    (!mask).trailing_zeros() as usize
}
