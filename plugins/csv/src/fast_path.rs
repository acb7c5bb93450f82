//! The fast path for rows of plain numbers, with `emit = "dense"`: it splits and parses a row in
//! one pass, without a list of fields.
//!
//! # Advice for the next person
//!
//! **The idea.** Splitting a row into cells and then parsing each cell costs more than the parsing
//! itself. So this code takes 48 bytes, finds the next four fields with the masks of `simd.rs`, and
//! passes their texts to `parse_f32x4.rs`, which returns 16 bytes of the tensor. A row of 28
//! numbers is seven such steps.
//!
//! **Three speeds.** [`FastPath::group`] has a version for numbers of up to eight digits. If it
//! refuses a number, `rest_of_row` reads the rest of the row with the version for up to 15 digits,
//! because long numbers usually come together. If that refuses one, too (an exponent, blanks,
//! `nan`), `any_group` reads four numbers with Rust's rules. Both are `inline(never)`, to keep the
//! first loop small.
//!
//! **What it leaves to others.** It knows no quotes, comments and escapes, and it reports no
//! errors. If anything is unexpected, [`FastPath::row`] returns `None`, and the scanner reads the
//! row. The caller then waits for some rows before it tries again: see `Backoff` in `dense.rs`.
//!
//! **Invariants.**
//! - A row that it returns equals the row of the scanner and of the reference reader: the same
//!   numbers, the same number of fields, the same end. `None` is always correct.
//! - [`FastPath::new`] refuses a dialect in which a byte of a number, or a blank around it, has
//!   another meaning. So no byte of an accepted number can be a quote, an escape, a comment or a
//!   delimiter.
//! - A line end inside a group is not a digit, so `parse_f32x4` refuses it: only the last group of
//!   a row looks for line ends.
//! - The windows of `parse_f32x4` begin up to 15 bytes before a field, and blocks end up to 80
//!   bytes after it. Rows that are so close to an end of the chunk are left to the scanner.
//!
//! **Changing it.** `all_readers_agree` in `tests/decoder/dense.rs` compares the fast path, the
//! scanner and the reference reader on rows with all kinds of fields between plain ones. The tests
//! below assert that plain rows do take the fast path, so that a change can't lose it silently.
//! Measure outside the sandbox with the first command, and inside with the second:
//!
//! ```text
//! cargo run --release -p pipemill-csv --example speed dense
//! pipemill plugin bench csv -o emit=dense --data FILE
//! ```

use pipemill_parsing::numbers::{Number, trimmed};

use crate::dialect::Dialect;
use crate::layout::Layout;
use crate::parse_f32x4::{MAX_LENGTH, NumberText, parse_f32x4};
use crate::simd::Block;

/// Reads rows of plain numbers.
pub(crate) struct FastPath {
    delimiter: u8,
    /// Number of fields in a row.
    width: usize,
    empty_is_nan: bool,
    /// The columns to emit, if they are not all columns in the order of the row.
    pub(crate) order: Option<Vec<usize>>,
}

/// The end of a row that was read.
pub(crate) struct ReadRow {
    /// The end of the row, without its line end.
    pub(crate) end: usize,
    /// The start of the next row.
    pub(crate) next: usize,
}

impl FastPath {
    /// `None` if the fast path can't read such rows, or would not be faster.
    pub(crate) fn new(dialect: &Dialect, layout: &Layout, empty_is_nan: bool) -> Option<Self> {
        // The bytes of a number and the blanks around it must have no other meaning.
        let apart = |byte: u8| byte.is_ascii_punctuation() && !b"+-.".contains(&byte);
        let marks = [dialect.quote, dialect.escape, dialect.comment];
        let clear = marks.iter().flatten().all(|byte| apart(*byte))
            && (apart(dialect.delimiter) || b"\t ".contains(&dialect.delimiter))
            && !dialect.lone_cr;
        let mut order: Vec<usize> = layout.picks.iter().map(|pick| pick.column).collect();
        order.extend(layout.label);
        let width = layout.names.len();
        // It reads all fields. That is not faster if few of them are wanted, or if a row has one
        // field.
        if !clear || order.len() * 2 < width || width == 1 {
            return None;
        }
        let all = order.iter().copied().eq(0..width) && layout.label.is_none();
        let order = (!all).then_some(order);
        Some(Self { delimiter: dialect.delimiter, width, empty_is_nan, order })
    }

    /// Appends the numbers of the row that starts at `start`. `None` if the row is for the scanner;
    /// the bytes that were appended have no meaning then.
    #[inline(always)]
    pub(crate) fn row(&self, bytes: &[u8], start: usize, numbers: &mut Vec<u8>) -> Option<ReadRow> {
        let from = numbers.len();
        let (mut at, mut left) = (start, self.width);
        while left > 4 {
            let Some((group, next)) = self.group::<false, false>(bytes, at, 4) else { break };
            numbers.extend_from_slice(&group);
            (at, left) = (next, left - 4);
        }
        if left <= 4
            && let Some((group, next)) = self.group::<true, false>(bytes, at, left)
        {
            numbers.extend_from_slice(&group);
            (at, left) = (next, 0);
        }
        if left > 0 {
            at = self.rest_of_row(bytes, at, left, numbers)?;
        }
        numbers.truncate(from + 4 * self.width);
        Some(ReadRow { end: trim_cr(bytes, start, at - 1), next: at })
    }

    /// The next four numbers, and the start of the field after them. `left` is how many numbers the
    /// row still has. `LAST` says whether this is the last group of the row, which may have fewer
    /// than four numbers. `LONG` is as for [`parse_f32x4`].
    #[inline(always)]
    fn group<const LAST: bool, const LONG: bool>(
        &self,
        bytes: &[u8],
        start: usize,
        left: usize,
    ) -> Option<([u8; 16], usize)> {
        let view: &[u8; 96] =
            bytes.get(start.wrapping_sub(16)..start.wrapping_add(80))?.first_chunk()?;
        let block = Block::<3>::load(&view[16..64]);
        let delimiters = block.eq(self.delimiter);
        if !LAST {
            // A line end in one of the fields is not part of a number, so the parser refuses it.
            let mut fields = FieldSplitter { view, ends: delimiters, at: 0, longest: 0 };
            let texts = [fields.next(), fields.next(), fields.next(), fields.next()];
            return if fields.longest > MAX_LENGTH {
                None
            } else {
                Some((parse_f32x4::<LONG>(texts)?, start + fields.at))
            };
        }
        let lines = block.eq(b'\n');
        let with_cr = block.eq(b'\r') & lines >> 1;
        let mut fields =
            FieldSplitter { view, ends: delimiters | lines | with_cr, at: 0, longest: 0 };
        let a = fields.next();
        let b = if left > 1 { fields.next() } else { a };
        let c = if left > 2 { fields.next() } else { a };
        let d = if left > 3 { fields.next() } else { a };
        let line = lines.trailing_zeros() as usize;
        let end = line.wrapping_sub(usize::from(with_cr.trailing_zeros() as usize + 1 == line));
        if fields.longest > MAX_LENGTH || fields.at != end + 1 {
            return None;
        }
        Some((parse_f32x4::<LONG>([a, b, c, d])?, start + line + 1))
    }

    /// Appends the last `left` numbers of a row, some of them long. Returns the start of the next
    /// row.
    #[inline(never)]
    fn rest_of_row(
        &self,
        bytes: &[u8],
        start: usize,
        mut left: usize,
        numbers: &mut Vec<u8>,
    ) -> Option<usize> {
        let mut at = start;
        while left > 0 {
            let group = match left {
                0..=4 => self.group::<true, true>(bytes, at, left),
                _ => self.group::<false, true>(bytes, at, left),
            };
            if let Some((group, next)) = group {
                numbers.extend_from_slice(&group);
                at = next;
            } else {
                at = self.any_group(bytes, at, left, numbers)?;
            }
            left = left.saturating_sub(4);
        }
        Some(at)
    }

    /// Appends the next four numbers, or all that are left, in any syntax that Rust accepts.
    /// Returns the start of the field after them.
    #[inline(never)]
    fn any_group(
        &self,
        bytes: &[u8],
        start: usize,
        mut left: usize,
        numbers: &mut Vec<u8>,
    ) -> Option<usize> {
        let mut at = start;
        let leave = left.saturating_sub(4);
        while left > leave {
            let base = at;
            let block = Block::<4>::load(bytes.get(base..base + 64)?);
            let lines = block.eq(b'\n');
            let mut ends = lines | block.eq(self.delimiter);
            if ends == 0 {
                return None;
            }
            while ends != 0 && left > leave {
                let bit = ends.trailing_zeros();
                let stop = base + bit as usize;
                // The last field of a row must end at a line end, and no other field may.
                if (lines >> bit & 1 == 1) != (left == 1) {
                    return None;
                }
                let end = if left == 1 { trim_cr(bytes, at, stop) } else { stop };
                numbers.extend_from_slice(&self.number(bytes, at, end)?.to_le_bytes());
                at = stop + 1;
                ends &= ends - 1;
                left -= 1;
            }
        }
        Some(at)
    }

    #[inline(always)]
    fn number(&self, bytes: &[u8], start: usize, end: usize) -> Option<f32> {
        f32::read(bytes, start, end).or_else(|| {
            let empty = self.empty_is_nan && trimmed(&bytes[start..end]).is_empty();
            empty.then_some(f32::NAN)
        })
    }
}

/// Splits a block into fields.
struct FieldSplitter<'a> {
    /// The 16 bytes before the block, the block, and the bytes after it.
    view: &'a [u8; 96],
    /// The mask of the ends of fields in the block, from the next field on.
    ends: u64,
    /// The start of the next field in the block.
    at: usize,
    /// The bitwise OR of the lengths of all fields so far: more than 15 if one of them is.
    longest: usize,
}

impl<'a> FieldSplitter<'a> {
    /// The next field. If the block has no more fields, it returns arbitrary text, and `longest` is
    /// more than 15.
    #[inline(always)]
    fn next(&mut self) -> NumberText<'a> {
        let end = self.ends.trailing_zeros() as usize;
        let length = end.wrapping_sub(self.at);
        let first = self.view[16 + self.at];
        let window = self.view[end + 1..][..16].first_chunk().expect("16 bytes");
        self.longest |= length;
        self.at = end + 1;
        self.ends &= self.ends.wrapping_sub(1);
        NumberText::new(window, length, first)
    }
}

/// `at`, or the offset of a CR directly before it, which then belongs to the line end.
#[inline(always)]
fn trim_cr(bytes: &[u8], from: usize, at: usize) -> usize {
    at - usize::from(at > from && bytes[at - 1] == b'\r')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fast_path(width: usize) -> FastPath {
        FastPath { delimiter: b',', width, empty_is_nan: false, order: None }
    }

    proptest! {
        /// Plain rows are never left to the scanner.
        #[test]
        fn plain_rows_take_the_fast_path(
            rows in (2usize..14).prop_flat_map(|width| {
                let number = "-?[0-9]{1,4}\\.[0-9]{4}|[0-9]{1,15}|[0-9]\\.[0-9]{18}";
                prop::collection::vec(prop::collection::vec(number, width), 10)
            }),
            cr: bool,
        ) {
            let end = if cr { "\r\n" } else { "\n" };
            let before = "7".repeat(16);
            let file: String = rows.iter().map(|row| row.join(",") + end).collect();
            let file = before + &file + &"7".repeat(80);
            let fast_path = fast_path(rows[0].len());
            let mut at = 16;
            for row in &rows {
                let mut numbers = vec![1];
                let read = fast_path.row(file.as_bytes(), at, &mut numbers).expect("a plain row");
                prop_assert_eq!(&file[at..read.end], row.join(","));
                prop_assert_eq!(&file[read.end..read.next], end);
                let expected = row.iter().flat_map(|text| {
                    text.parse::<f32>().expect("a number").to_le_bytes()
                });
                prop_assert_eq!(&numbers[1..], expected.collect::<Vec<_>>());
                at = read.next;
            }
        }
    }

    #[test]
    fn other_rows_are_left_to_the_scanner() {
        for row in [
            "1,2,3",
            "1,2,3,4,5",
            "1,2,\"3\",4",
            "1,2,,4",
            "a,b,c,d",
            "#1,2,3,4",
            "",
            "1,2\r,3,4\r\r",
        ] {
            let file = format!("{}{row}\n{}", "7".repeat(16), "1,2,3,4\n".repeat(20));
            assert!(fast_path(4).row(file.as_bytes(), 16, &mut Vec::new()).is_none(), "{row:?}");
        }
    }
}
