//! Dealing an epoch's objects out to shares, each machine for itself and all alike: from the same list, in the same
//! order, each finds the same answer. Nothing is kept of the list.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One of `count` shares of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// From 0, below `count`.
    pub index: u32,
    /// 1 or more.
    pub count: u32,
    /// By what the shares are equal.
    pub balance: Balance,
}

/// By what shares are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Balance {
    /// The number of objects: a share has every `count`-th, beginning with number `index`.
    #[default]
    Count,
    /// Their bytes, as they are stored: each object goes to the share that has the fewest so far. So none has more
    /// than the mean and the largest object together.
    Size,
}

impl std::str::FromStr for Shard {
    type Err = String;

    /// Reads `INDEX/COUNT`.
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

/// Deals out one list.
pub(super) enum Dealer {
    /// There is one share.
    All,
    /// By number.
    Count { shard: Shard, next: u64 },
    /// By size.
    Size { index: u32, shares: BinaryHeap<Reverse<Share>> },
}

/// What a share has so far: bytes, objects, and its number. The least of these is dealt to; the number of objects
/// spreads those without bytes.
type Share = (u64, u64, u32);

impl Dealer {
    pub(super) fn new(shard: Option<Shard>) -> Self {
        match shard {
            None => Self::All,
            Some(shard @ Shard { balance: Balance::Count, .. }) => Self::Count { shard, next: 0 },
            Some(Shard { index, count, balance: Balance::Size }) => {
                let shares = (0..count).map(|number| Reverse((0, 0, number))).collect();
                Self::Size { index, shares }
            }
        }
    }

    /// Whether the next object belongs to the share. Its size is asked for if that matters; where that can't be told,
    /// nor can this.
    pub(super) fn deal<E>(&mut self, size: impl FnOnce() -> Result<u64, E>) -> Result<bool, E> {
        match self {
            Self::All => Ok(true),
            Self::Count { shard, next } => {
                let number = *next;
                *next += 1;
                Ok(number % u64::from(shard.count) == u64::from(shard.index))
            }
            Self::Size { index, shares } => {
                let size = size()?;
                // There is one share at least.
                let Some(mut least) = shares.peek_mut() else { return Ok(false) };
                let Reverse((bytes, objects, number)) = &mut *least;
                *bytes = bytes.saturating_add(size);
                *objects += 1;
                Ok(number == index)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    fn share(sizes: &[u64], index: u32, count: u32, balance: Balance) -> Vec<usize> {
        let mut dealer = Dealer::new(Some(Shard { index, count, balance }));
        let mut mine = |size: u64| {
            dealer.deal(|| Ok::<_, Infallible>(size)).unwrap_or_else(|none| match none {})
        };
        (0..sizes.len()).filter(|number| mine(sizes[*number])).collect()
    }

    #[test]
    fn the_division_is_a_promise() {
        let sizes = [5, 1, 1, 1, 4, 0, 0, 9];
        let by_size = |index| share(&sizes, index, 3, Balance::Size);
        assert_eq!(
            [by_size(0), by_size(1), by_size(2)],
            [vec![0], vec![1, 3, 5, 6, 7], vec![2, 4]]
        );
        let by_count = |index| share(&sizes, index, 3, Balance::Count);
        assert_eq!(
            [by_count(0), by_count(1), by_count(2)],
            [vec![0, 3, 6], vec![1, 4, 7], vec![2, 5]]
        );
    }

    proptest! {
        #[test]
        fn each_object_is_in_one_share(sizes in prop::collection::vec(0u64..1_000, 0..200), count in 1u32..12, by_size: bool) {
            let balance = if by_size { Balance::Size } else { Balance::Count };
            let shares: Vec<_> = (0..count).map(|index| share(&sizes, index, count, balance)).collect();
            let mut dealt = shares.concat();
            dealt.sort_unstable();
            prop_assert!(dealt.into_iter().eq(0..sizes.len()));
            for mine in &shares {
                match balance {
                    Balance::Count => prop_assert!(mine.len().abs_diff(sizes.len() / count as usize) <= 1),
                    Balance::Size => {
                        let (all, largest) = (sizes.iter().sum::<u64>(), sizes.iter().max().copied().unwrap_or(0));
                        let bytes: u64 = mine.iter().map(|number| sizes[*number]).sum();
                        prop_assert!(bytes <= all / u64::from(count) + largest, "{bytes} of {all}");
                    }
                }
            }
        }

        #[test]
        fn empty_objects_are_spread(objects in 0usize..100, count in 1u32..9) {
            let sizes = vec![0; objects];
            for index in 0..count {
                let mine = share(&sizes, index, count, Balance::Size);
                prop_assert_eq!(mine, share(&sizes, index, count, Balance::Count));
            }
        }
    }
}
