//! Skip lists: the records of an index that are left out.

use std::ops::Range;

use pipemill_source::Location;
use pipemill_types::printable;

/// The records of an index that are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkipList {
    /// Their numbers; none of the ranges is empty.
    Records(Vec<Range<u64>>),
    /// A text that has them, in lines.
    File(Location),
}

impl Default for SkipList {
    fn default() -> Self {
        Self::Records(Vec::new())
    }
}

impl SkipList {
    /// The records that the lines of a text name.
    ///
    /// # Errors
    /// The first line that names none, in words that follow the name of the text.
    pub fn records_in(text: &str) -> Result<Vec<Range<u64>>, String> {
        let mut records = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let content = line.split('#').next().unwrap_or_default().trim();
            if content.is_empty() {
                continue;
            }
            records.push(record_range(content).ok_or_else(|| {
                let found = printable(content.get(..MAX_SHOWN).unwrap_or(content));
                format!(
                    "line {number}: expected a record number, or a range such as 10-20, found \
                     `{found}`"
                )
            })?);
        }
        Ok(records)
    }
}

/// Characters of a wrong line that a message shows.
const MAX_SHOWN: usize = 60;

/// The records that a text names: a number, or a range with both of its ends, such as `10-20`.
/// `None` if it is neither.
pub fn record_range(text: &str) -> Option<Range<u64>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (digits(first)?, digits(last)?);
    let end = last.checked_add(1)?;
    (first <= last).then_some(first..end)
}

fn digits(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::{SkipList, record_range};

    #[test]
    fn a_range_has_both_of_its_ends() {
        for (text, range) in [("0", 0..1), ("007", 7..8), ("3-3", 3..4), ("10-20", 10..21)] {
            assert_eq!(record_range(text), Some(range), "{text}");
        }
        let most = format!("{}-{}", u64::MAX - 1, u64::MAX - 1);
        assert_eq!(record_range(&most), Some(u64::MAX - 1..u64::MAX));
        let too_large = u64::MAX.to_string();
        for text in ["", "-", "-3", "3-", "5-3", "+3", "3 - 4", "1-2-3", "0x3", "3.0", &too_large] {
            assert_eq!(record_range(text), None, "{text}");
        }
    }

    #[test]
    fn lines_have_a_number_or_a_range() {
        let text = "# wrong labels\n7\r\n\n 20-29  # all of them\n7";
        assert_eq!(SkipList::records_in(text), Ok(vec![7..8, 20..30, 7..8]));
        assert_eq!(SkipList::records_in("\n#\n"), Ok(vec![]));
        let wrong = SkipList::records_in("3\n4 5 # two").expect_err("a line is wrong");
        assert!(wrong.starts_with("line 2: ") && wrong.ends_with("found `4 5`"), "{wrong}");
    }
}
