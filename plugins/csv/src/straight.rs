//! The straight way through rows of plain numbers: cut and read in one go, without a list of fields.
//! It knows no quotes, no comments and no errors: a row in which anything is odd is left to `scan.rs`.

use pipemill_parsing::numbers::{Number, trimmed};

use crate::dialect::Dialect;
use crate::four::{LONGEST, Text, parse};
use crate::layout::Layout;
use crate::simd::Block;

/// What to expect of rows.
pub(crate) struct Straight {
    delimiter: u8,
    /// Fields of a row.
    width: usize,
    empty_is_nan: bool,
    /// The columns to take, if not all as they stand.
    pub(crate) order: Option<Vec<usize>>,
}

/// A row that was read.
pub(crate) struct Read {
    /// Where it ends, its line end left out.
    pub(crate) end: usize,
    /// Where the next one starts.
    pub(crate) next: usize,
}

impl Straight {
    /// `None` if this is no way for such rows.
    pub(crate) fn new(dialect: &Dialect, layout: &Layout, empty_is_nan: bool) -> Option<Self> {
        // What stands in a number must mean nothing else, nor must blanks around it.
        let apart = |byte: u8| byte.is_ascii_punctuation() && !b"+-.".contains(&byte);
        let marks = [dialect.quote, dialect.escape, dialect.comment];
        let clear = marks.iter().flatten().all(|byte| apart(*byte))
            && (apart(dialect.delimiter) || b"\t ".contains(&dialect.delimiter))
            && !dialect.lone_cr;
        let mut order: Vec<usize> = layout.picks.iter().map(|pick| pick.column).collect();
        order.extend(layout.label);
        let width = layout.names.len();
        // All fields are read. Where few of them are asked for, that is not worth it, and with one field
        // there is nothing to gain.
        if !clear || order.len() * 2 < width || width == 1 {
            return None;
        }
        let all = order.iter().copied().eq(0..width) && layout.label.is_none();
        let order = (!all).then_some(order);
        Some(Self { delimiter: dialect.delimiter, width, empty_is_nan, order })
    }

    /// Appends the numbers of the row that starts at `start`. `None` if anything is odd, or if the row
    /// comes close to an end of the chunk; what was appended then means nothing.
    #[inline(always)]
    pub(crate) fn row(&self, bytes: &[u8], start: usize, numbers: &mut Vec<u8>) -> Option<Read> {
        let from = numbers.len();
        let (mut at, mut left) = (start, self.width);
        while left > 4 {
            let Some((four, next)) = self.four::<false, false>(bytes, at, 4) else { break };
            numbers.extend_from_slice(&four);
            (at, left) = (next, left - 4);
        }
        if left <= 4
            && let Some((four, next)) = self.four::<true, false>(bytes, at, left)
        {
            numbers.extend_from_slice(&four);
            (at, left) = (next, 0);
        }
        if left > 0 {
            at = self.long(bytes, at, left, numbers)?;
        }
        numbers.truncate(from + 4 * self.width);
        Some(Read { end: end_of_text(bytes, start, at - 1), next: at })
    }

    /// The next four numbers of the `left` that the row still has, and where the one behind them starts.
    /// `LAST` says whether they are the row's last, and it may have less than four. `LONG` is as for
    /// [`parse`].
    #[inline(always)]
    fn four<const LAST: bool, const LONG: bool>(
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
            // A line end in one of them is no part of a number, and so it is odd.
            let mut cut = Cut { view, ends: delimiters, at: 0, longest: 0 };
            let texts = [cut.text(), cut.text(), cut.text(), cut.text()];
            return if cut.longest > LONGEST {
                None
            } else {
                Some((parse::<LONG>(texts)?, start + cut.at))
            };
        }
        let lines = block.eq(b'\n');
        let with_cr = block.eq(b'\r') & lines >> 1;
        let mut cut = Cut { view, ends: delimiters | lines | with_cr, at: 0, longest: 0 };
        let a = cut.text();
        let b = if left > 1 { cut.text() } else { a };
        let c = if left > 2 { cut.text() } else { a };
        let d = if left > 3 { cut.text() } else { a };
        let line = lines.trailing_zeros() as usize;
        let end = line.wrapping_sub(usize::from(with_cr.trailing_zeros() as usize + 1 == line));
        if cut.longest > LONGEST || cut.at != end + 1 {
            return None;
        }
        Some((parse::<LONG>([a, b, c, d])?, start + line + 1))
    }

    /// Appends the numbers of the rest of a row, and answers where the next row starts. Where one number
    /// is long, others are likely to be.
    #[inline(never)]
    fn long(
        &self,
        bytes: &[u8],
        start: usize,
        mut left: usize,
        numbers: &mut Vec<u8>,
    ) -> Option<usize> {
        let mut at = start;
        while left > 0 {
            let four = match left {
                0..=4 => self.four::<true, true>(bytes, at, left),
                _ => self.four::<false, true>(bytes, at, left),
            };
            if let Some((four, next)) = four {
                numbers.extend_from_slice(&four);
                at = next;
            } else {
                at = self.any(bytes, at, left, numbers)?;
            }
            left = left.saturating_sub(4);
        }
        Some(at)
    }

    /// Appends the next four numbers or all that are left, however they are written, and answers where
    /// the one behind them starts.
    #[inline(never)]
    fn any(
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
                // The last field must end the row, and no other.
                if (lines >> bit & 1 == 1) != (left == 1) {
                    return None;
                }
                let end = if left == 1 { end_of_text(bytes, at, stop) } else { stop };
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

/// Cuts fields off a block.
struct Cut<'a> {
    /// The block, 16 bytes before it, and what is behind it.
    view: &'a [u8; 96],
    /// Where fields end, from the next one on.
    ends: u64,
    /// Where in the block the next field starts.
    at: usize,
    /// Bytes of the longest field so far.
    longest: usize,
}

impl<'a> Cut<'a> {
    /// The next field; any other where the block has none.
    #[inline(always)]
    fn text(&mut self) -> Text<'a> {
        let end = self.ends.trailing_zeros() as usize;
        let length = end.wrapping_sub(self.at);
        let first = self.view[16 + self.at];
        let window = self.view[end + 1..][..16].first_chunk().expect("16 bytes");
        self.longest |= length;
        self.at = end + 1;
        self.ends &= self.ends.wrapping_sub(1);
        Text::new(window, length, first)
    }
}

/// `at`, or the place of the CR right before it, which belongs to the line end then.
#[inline(always)]
fn end_of_text(bytes: &[u8], from: usize, at: usize) -> usize {
    at - usize::from(at > from && bytes[at - 1] == b'\r')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn straight(width: usize) -> Straight {
        Straight { delimiter: b',', width, empty_is_nan: false, order: None }
    }

    proptest! {
        /// What the straight way is for, it does not leave to others.
        #[test]
        fn plain_rows(
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
            let straight = straight(rows[0].len());
            let mut at = 16;
            for row in &rows {
                let mut numbers = vec![1];
                let read = straight.row(file.as_bytes(), at, &mut numbers).expect("a plain row");
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
    fn odd_rows() {
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
            assert!(straight(4).row(file.as_bytes(), 16, &mut Vec::new()).is_none(), "{row:?}");
        }
    }
}
