//! Divides an epoch's objects into parts. Each machine computes the division independently: the
//! same list in the same order gives the same result everywhere. The list itself is not stored.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// One of `count` parts of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListPart {
    /// Number of this part, from 0, below `count`.
    pub index: u32,
    /// Number of parts, 1 or more.
    pub count: u32,
    /// Whether parts are equal by objects or by bytes.
    pub balance: Balance,
}

/// The amount that is equal in all parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Balance {
    /// Objects: a part has every `count`-th object, beginning with number `index`.
    #[default]
    Count,
    /// Stored bytes: each object goes to the part that has the fewest bytes so far. So no part
    /// has more than the mean plus the largest object.
    Size,
}

impl ListPart {
    /// The part that the object with this number in the list belongs to, by [`Balance::Count`].
    pub fn of_number(&self, number: u64) -> u32 {
        // It is less than `count`.
        (number % u64::from(self.count)) as u32
    }
}

impl ListPart {
    /// The part's range of this many items in a row. All parts have equally many, or one more.
    pub fn range_of(&self, items: u64) -> Range<u64> {
        // It is at most `items`.
        let start = |index| (u128::from(items) * index / u128::from(self.count)) as u64;
        start(self.index.into())..start(u128::from(self.index) + 1)
    }
}

impl std::str::FromStr for ListPart {
    type Err = String;

    /// Parses `INDEX/COUNT`. The balance is [`Balance::Count`].
    ///
    /// # Errors
    /// The text has another form, or INDEX is not below COUNT.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write it as INDEX/COUNT, for example 0/4; INDEX counts from 0".to_owned();
        let (index, count) = text.split_once('/').ok_or_else(wrong)?;
        let (index, count) =
            (index.parse().map_err(|_| wrong())?, count.parse().map_err(|_| wrong())?);
        if index >= count {
            return Err(wrong());
        }
        Ok(Self { index, count, balance: Balance::Count })
    }
}

/// Decides for each object of one list, in its order, whether it belongs to the part.
pub(super) enum PartSelector {
    /// There are no parts: every object is taken.
    All,
    /// [`Balance::Count`]; `next` is the number of the next object.
    Count { part: ListPart, next: u64 },
    /// [`Balance::Size`]; the load of all parts, the least one on top.
    Size { index: u32, loads: BinaryHeap<Reverse<Load>> },
}

/// A part's bytes so far, its objects so far, and its number. The part with the least tuple gets
/// the next object. The number of objects is in it so that empty objects are spread over all
/// parts.
type Load = (u64, u64, u32);

impl PartSelector {
    pub(super) fn new(part: Option<ListPart>) -> Self {
        match part {
            None => Self::All,
            Some(part @ ListPart { balance: Balance::Count, .. }) => Self::Count { part, next: 0 },
            Some(ListPart { index, count, balance: Balance::Size }) => {
                let loads = (0..count).map(|number| Reverse((0, 0, number))).collect();
                Self::Size { index, loads }
            }
        }
    }

    /// Whether the next object belongs to the part. `size` is called as in
    /// [`next_part`](Self::next_part).
    pub(super) fn takes_next<E>(
        &mut self,
        size: impl FnOnce() -> Result<u64, E>,
    ) -> Result<bool, E> {
        let number = self.next_part(size)?;
        Ok(match self {
            Self::All => true,
            Self::Count { part, .. } => number == part.index,
            Self::Size { index, .. } => number == *index,
        })
    }

    /// The number of the part that the next object belongs to. `size` gives its bytes; it is called
    /// only for [`Balance::Size`], and its error is returned.
    pub(super) fn next_part<E>(&mut self, size: impl FnOnce() -> Result<u64, E>) -> Result<u32, E> {
        match self {
            Self::All => Ok(0),
            Self::Count { part, next } => {
                let number = *next;
                *next += 1;
                Ok(part.of_number(number))
            }
            Self::Size { loads, .. } => {
                let size = size()?;
                // There is at least one part.
                let Some(mut least) = loads.peek_mut() else { return Ok(0) };
                let Reverse((bytes, objects, number)) = &mut *least;
                *bytes = bytes.saturating_add(size);
                *objects += 1;
                Ok(*number)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    /// Numbers of the objects that belong to the part.
    fn part(sizes: &[u64], index: u32, count: u32, balance: Balance) -> Vec<usize> {
        let mut selector = PartSelector::new(Some(ListPart { index, count, balance }));
        let mut takes = |size: u64| {
            selector.takes_next(|| Ok::<_, Infallible>(size)).unwrap_or_else(|none| match none {})
        };
        (0..sizes.len()).filter(|number| takes(sizes[*number])).collect()
    }

    proptest! {
        #[test]
        fn ranges_divide_all_items_into_parts_that_are_about_equal(
            items in 0..=u64::MAX,
            count in 1u32..50,
        ) {
            let mut next = 0;
            for index in 0..count {
                let range = ListPart { index, count, balance: Balance::Count }.range_of(items);
                prop_assert_eq!(range.start, next);
                let (len, least) = (range.end - range.start, items / u64::from(count));
                prop_assert!(len == least || len == least + 1);
                next = range.end;
            }
            prop_assert_eq!(next, items);
        }
    }

    #[test]
    fn the_division_never_changes() {
        let sizes = [5, 1, 1, 1, 4, 0, 0, 9];
        let by_size = |index| part(&sizes, index, 3, Balance::Size);
        assert_eq!(
            [by_size(0), by_size(1), by_size(2)],
            [vec![0], vec![1, 3, 5, 6, 7], vec![2, 4]]
        );
        let by_count = |index| part(&sizes, index, 3, Balance::Count);
        assert_eq!(
            [by_count(0), by_count(1), by_count(2)],
            [vec![0, 3, 6], vec![1, 4, 7], vec![2, 5]]
        );
    }

    proptest! {
        #[test]
        fn each_object_is_in_one_part_and_parts_are_balanced(
            sizes in prop::collection::vec(0u64..1_000, 0..200), count in 1u32..12, by_size: bool
        ) {
            let balance = if by_size { Balance::Size } else { Balance::Count };
            let parts: Vec<_> =
                (0..count).map(|index| part(&sizes, index, count, balance)).collect();
            let mut all = parts.concat();
            all.sort_unstable();
            prop_assert!(all.into_iter().eq(0..sizes.len()));
            for part in &parts {
                match balance {
                    Balance::Count => {
                        let mean = sizes.len() / count as usize;
                        prop_assert!(part.len().abs_diff(mean) <= 1);
                    }
                    Balance::Size => {
                        let total = sizes.iter().sum::<u64>();
                        let largest = sizes.iter().max().copied().unwrap_or(0);
                        let bytes: u64 = part.iter().map(|number| sizes[*number]).sum();
                        let limit = total / u64::from(count) + largest;
                        prop_assert!(bytes <= limit, "{bytes} of {total}");
                    }
                }
            }
        }

        #[test]
        fn empty_objects_are_spread_over_all_parts(objects in 0usize..100, count in 1u32..9) {
            let sizes = vec![0; objects];
            for index in 0..count {
                let by_size = part(&sizes, index, count, Balance::Size);
                prop_assert_eq!(by_size, part(&sizes, index, count, Balance::Count));
            }
        }
    }
}
