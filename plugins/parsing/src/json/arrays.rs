//! Arrays of numbers, and arrays of arrays, as fields with a shape: `[[1,2],[3,4]]` is
//! `int64[0,2]`.

use std::ops::Range;

use super::bytes16::Bytes16;
use super::convert::{FieldError, JsonField};

/// Largest number of dimensions of a field.
pub(super) const MAX_DIMENSIONS: usize = 8;

/// The array that is read at a depth.
#[derive(Clone, Copy, Default)]
struct Level {
    /// Its start.
    start: usize,
    /// Its elements so far.
    count: usize,
    /// The number of elements of an earlier array of this depth, if the shape allows any number.
    before: Option<usize>,
}

impl JsonField {
    /// Appends the numbers of the array in this range, which is valid JSON.
    pub(super) fn numbers(
        &self,
        chunk: &[u8],
        array: Range<usize>,
        to: &mut Vec<u8>,
    ) -> Result<(), FieldError> {
        let (mut at, mut count) = (array.start + 1, 0);
        // The last byte is the closing bracket.
        while at + 1 < array.end {
            // Most elements end like this. It costs less than a round of the loop for each of the
            // two.
            if chunk[at] == b',' {
                at += 1;
                at += usize::from(chunk[at] == b' ');
            }
            if matches!(chunk[at], b' ' | b'\t' | b'\r' | b'\n' | b',') {
                at += 1;
                continue;
            }
            at = self.element(chunk, at..array.end - 1, to)?;
            count += 1;
        }
        self.check_count(count)
    }

    /// Appends the numbers of the array of arrays in this range, which is valid JSON: with the
    /// depth and the sizes of the shape.
    pub(super) fn rows(
        &self,
        chunk: &[u8],
        array: Range<usize>,
        to: &mut Vec<u8>,
    ) -> Result<(), FieldError> {
        let mut levels = [Level::default(); MAX_DIMENSIONS];
        let (mut depth, mut at) = (0, array.start);
        loop {
            match chunk[at] {
                b' ' | b'\t' | b'\r' | b'\n' | b',' => at += 1,
                b'[' if depth < self.shape.len() => {
                    if let Some(above) = depth.checked_sub(1) {
                        levels[above].count += 1;
                    }
                    (levels[depth].start, levels[depth].count) = (at, 0);
                    (depth, at) = (depth + 1, at + 1);
                }
                b']' => {
                    (depth, at) = (depth - 1, at + 1);
                    self.check_level(depth, &mut levels[depth], at)?;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ if depth == self.shape.len() => {
                    levels[depth - 1].count += 1;
                    at = self.element(chunk, at..array.end - 1, to)?;
                }
                // A number instead of an array, or an array instead of a number.
                _ => return Err(FieldError::Type(at..array.end - 1)),
            }
        }
    }

    /// Checks the size of the array of a level, which ends at `end`.
    fn check_level(&self, depth: usize, level: &mut Level, end: usize) -> Result<(), FieldError> {
        let wanted = match self.shape[depth] {
            // The first one may have any size, and the others of this depth must have the same.
            0 if depth == 0 => return Ok(()),
            0 => *level.before.get_or_insert(level.count),
            size => size as usize,
        };
        if level.count == wanted {
            return Ok(());
        }
        Err(FieldError::Size { range: level.start..end, found: level.count, wanted })
    }

    /// Appends the number at the start of this range. Returns the end of the number.
    #[inline(always)]
    fn element(
        &self,
        chunk: &[u8],
        range: Range<usize>,
        to: &mut Vec<u8>,
    ) -> Result<usize, FieldError> {
        let (end, integer) = number_end(chunk, range.start);
        // `-Infinity` begins like a number.
        if end == range.start || chunk[end] == b'I' {
            return self.word(chunk, range, to);
        }
        self.number(chunk, range.start..end, integer, to)?;
        Ok(end)
    }

    /// Appends a value that is not a number but represents one: the words of Python, and null as
    /// NaN.
    #[cold]
    fn word(
        &self,
        chunk: &[u8],
        range: Range<usize>,
        to: &mut Vec<u8>,
    ) -> Result<usize, FieldError> {
        let text = &chunk[range.clone()];
        let word = [&b"NaN"[..], b"Infinity", b"-Infinity", b"null"];
        let Some(word) = word.into_iter().find(|word| text.starts_with(word)) else {
            return Err(FieldError::Type(range));
        };
        let place = range.start..range.start + word.len();
        if word == b"null" && !(self.nan && self.is_float()) {
            return Err(FieldError::NullElement(place));
        }
        let number = if word == b"null" { &b"NaN"[..] } else { word };
        self.number(number, 0..number.len(), false, to).map_err(|_| FieldError::Type(range))?;
        Ok(place.end)
    }
}

/// The end of the number at `at`, and whether it is written as an integer. If the end is `at`,
/// there is no number.
#[inline(always)]
fn number_end(chunk: &[u8], at: usize) -> (usize, bool) {
    let start = at + usize::from(chunk[at] == b'-');
    let Some(bytes) = Bytes16::at(chunk, start) else { return long_number_end(chunk, at) };
    let (digits, separators) = (bytes.digits(), bytes.separators());
    if digits & 1 == 0 || separators == 0 {
        return long_number_end(chunk, at);
    }
    let length = separators.trailing_zeros();
    (start + length as usize, (!digits).trailing_zeros() == length)
}

/// The same for any number.
#[cold]
#[inline(never)]
fn long_number_end(chunk: &[u8], at: usize) -> (usize, bool) {
    let (mut end, mut integer) = (at, true);
    loop {
        match chunk[end] {
            b'0'..=b'9' | b'-' | b'+' => {}
            // This is checked only after a digit, because words have an `e`, too.
            b'.' | b'e' | b'E' if end > at => integer = false,
            _ => return (end, integer),
        }
        end += 1;
    }
}
