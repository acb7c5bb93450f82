//! Order of an epoch's objects, and the part of them that this machine reads: first the list is
//! shuffled by a seed, then it is divided. The same list gives the same result on every machine.

use crate::ListPart;
use crate::list_part::PartSelector;
use crate::split_mix::{SplitMix64, below};

/// How a list of objects is shuffled and divided into parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Order {
    /// Seed of the shuffle, which differs from epoch to epoch. `None` keeps the order of the list.
    pub shuffle: Option<u64>,
    /// The part that is read. `None` reads all objects.
    pub part: Option<ListPart>,
    /// Least number of bytes of the blocks that the objects of an index are divided into before
    /// they are shuffled and divided into parts. `None` keeps objects whole.
    pub blocks: Option<u64>,
}

impl Order {
    /// Whether each epoch reads other objects, or blocks, than the one before.
    pub(crate) fn is_shuffled_part(&self) -> bool {
        self.shuffle.is_some() && self.part.is_some()
    }

    /// The items of the part in this epoch, in the epoch's order. `size` gives an item's bytes; it
    /// is called only to balance parts by size.
    ///
    /// # Errors
    /// The first error of `size`.
    pub fn arrange<T, E>(
        &self,
        mut items: Vec<T>,
        epoch: u32,
        size: impl Fn(&T) -> Result<u64, E>,
    ) -> Result<Vec<T>, E> {
        if let Some(seed) = self.shuffle {
            shuffle(&mut items, seed, epoch);
        }
        let mut selector = PartSelector::new(self.part);
        let mut selected = Vec::with_capacity(if self.part.is_none() { items.len() } else { 0 });
        for item in items {
            if selector.takes_next(|| size(&item))? {
                selected.push(item);
            }
        }
        Ok(selected)
    }
}

impl Order {
    /// The items of every part in an epoch, each in the epoch's order; all items, if there are no
    /// parts.
    ///
    /// # Errors
    /// As [`arrange`](Self::arrange).
    pub fn divide<T, E>(
        &self,
        mut items: Vec<T>,
        epoch: u32,
        size: impl Fn(&T) -> Result<u64, E>,
    ) -> Result<Vec<Vec<T>>, E> {
        if let Some(seed) = self.shuffle {
            shuffle(&mut items, seed, epoch);
        }
        let count = self.part.map_or(1, |part| part.count as usize);
        let mut parts: Vec<_> = (0..count).map(|_| Vec::new()).collect();
        let mut selector = PartSelector::new(self.part);
        for item in items {
            let part = selector.next_part(|| size(&item))?;
            parts[part as usize].push(item);
        }
        Ok(parts)
    }
}

/// Fisher-Yates shuffle, from the last item to the second, with random numbers of SplitMix64.
fn shuffle<T>(items: &mut [T], seed: u64, epoch: u32) {
    let seed = seed ^ u64::from(epoch).wrapping_mul(0xD1B5_4A32_D192_ED03);
    let mut random = SplitMix64::new(seed);
    for last in (1..items.len()).rev() {
        items.swap(last, below(random.next_number(), last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Balance;

    fn arrange(order: Order, items: u32, epoch: u32) -> Vec<u32> {
        let size = |item: &u32| Ok::<_, ()>(u64::from(item % 7));
        order.arrange((0..items).collect(), epoch, size).unwrap()
    }

    #[test]
    fn the_order_for_a_seed_never_changes() {
        let order = |epoch| arrange(Order { shuffle: Some(7), ..Order::default() }, 8, epoch);
        assert_eq!(order(0), FIXED_ORDERS.0);
        assert_eq!(order(1), FIXED_ORDERS.1);
    }
    const FIXED_ORDERS: ([u32; 8], [u32; 8]) = ([7, 4, 6, 1, 2, 5, 0, 3], [2, 4, 7, 6, 0, 1, 5, 3]);

    proptest! {
        #[test]
        fn each_object_is_in_one_part_in_the_order_of_the_whole(
            items in 0u32..200, count in 1u32..12, seed: Option<u64>, epoch: u32, by_size: bool
        ) {
            let balance = if by_size { Balance::Size } else { Balance::Count };
            let whole = arrange(Order { shuffle: seed, ..Order::default() }, items, epoch);
            let mut all = Vec::new();
            let part = Some(ListPart { index: 0, count, balance });
            let size = |item: &u32| Ok::<_, ()>(u64::from(item % 7));
            let parts =
                Order { shuffle: seed, part, blocks: None }
                    .divide((0..items).collect(), epoch, size)
                    .unwrap();
            for index in 0..count {
                let part = Some(ListPart { index, count, balance });
                let share = arrange(Order { shuffle: seed, part, blocks: None }, items, epoch);
                let mut rest = whole.iter();
                prop_assert!(share.iter().all(|item| rest.any(|other| other == item)));
                prop_assert_eq!(&share, &parts[index as usize]);
                all.extend(share);
            }
            all.sort_unstable();
            prop_assert_eq!(all, (0..items).collect::<Vec<_>>());
        }

        #[test]
        fn each_epoch_has_another_order(seed: u64) {
            let order = Order { shuffle: Some(seed), ..Order::default() };
            prop_assert_ne!(arrange(order, 100, 0), arrange(order, 100, 1));
        }
    }
}
