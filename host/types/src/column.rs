//! Offsets and lengths of one field's values, for all records of a batch or of a decode call.

use std::ops::Range;

/// Offset of a field that a record does not have. Its length is 0.
pub const ABSENT: u32 = u32::MAX;

/// Offsets and lengths of one field, one entry per record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// Offset in bytes from the start of the records' memory; [`ABSENT`] if a record has no such
    /// field.
    pub offsets: Vec<u32>,
    /// Length in bytes; 0 if a record has no such field.
    pub lengths: Vec<u32>,
}

impl Column {
    /// Removes the records in these ranges, which are in order.
    pub fn remove(&mut self, ranges: &[Range<usize>]) {
        remove_ranges(&mut self.offsets, ranges);
        remove_ranges(&mut self.lengths, ranges);
    }
}

/// Removes the entries of a list in these ranges, which are in order, unless the list is empty.
pub fn remove_ranges<T: Copy>(list: &mut Vec<T>, ranges: &[Range<usize>]) {
    let Some(first) = ranges.first().filter(|_| !list.is_empty()) else { return };
    let mut to = first.start;
    for (range, next) in ranges.iter().zip(1..) {
        let next = ranges.get(next).map_or(list.len(), |next| next.start);
        list.copy_within(range.end..next, to);
        to += next - range.end;
    }
    list.truncate(to);
}

#[cfg(test)]
mod tests {
    use super::remove_ranges;

    #[test]
    fn what_is_between_the_ranges_stays() {
        let left = |ranges: &[std::ops::Range<usize>]| {
            let mut list: Vec<_> = (0..10).collect();
            remove_ranges(&mut list, ranges);
            list
        };
        assert_eq!(left(&[]), (0..10).collect::<Vec<_>>());
        assert_eq!(left(&[0..3, 5..6, 9..10]), [3, 4, 6, 7, 8]);
        assert!(left(&[0..4, 4..10]).is_empty());
        let mut empty = Vec::<u8>::new();
        remove_ranges(&mut empty, &[0..3, 5..6]);
        assert!(empty.is_empty());
    }
}
