//! The order in which an epoch's objects are read, and which of them on this machine: shuffled by a seed,
//! then dealt out to shards. The same list gives the same answer on every machine.

use super::SourceError;
use super::sharding::{Dealer, Shard};

/// Order and share of a list of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Order {
    /// Shuffles the objects anew for each epoch; without, they come as listed.
    pub shuffle: Option<u64>,
    /// The share that is read; without, all.
    pub shard: Option<Shard>,
}

impl Order {
    /// The share of `items` that is read in this epoch, in its order. Sizes are asked for if they matter.
    ///
    /// # Errors
    /// Of asking for a size.
    pub fn arrange<T, E>(
        &self,
        mut items: Vec<T>,
        epoch: u32,
        size: impl Fn(&T) -> Result<u64, E>,
    ) -> Result<Vec<T>, E> {
        if let Some(seed) = self.shuffle {
            shuffle(&mut items, seed, epoch);
        }
        let mut dealer = Dealer::new(self.shard);
        let mut share = Vec::with_capacity(if self.shard.is_none() { items.len() } else { 0 });
        for item in items {
            if dealer.deal(|| size(&item))? {
                share.push(item);
            }
        }
        Ok(share)
    }
}

/// Fisher and Yates' shuffle, from the last item to the second, with numbers of SplitMix64: ours, because
/// the order is a promise, to other machines and to later versions.
fn shuffle<T>(items: &mut [T], seed: u64, epoch: u32) {
    let mut state = seed ^ u64::from(epoch).wrapping_mul(0xD1B5_4A32_D192_ED03);
    for last in (1..items.len()).rev() {
        // The upper half of a product: even enough for any list, and without a division.
        let other = (u128::from(split_mix(&mut state)) * (last as u128 + 1)) >> 64;
        items.swap(last, other as usize);
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Refuses a list without objects. A share of one may be empty.
pub(super) fn none(name: impl Into<String>, what: &str) -> SourceError {
    SourceError { missing: true, ..SourceError::new(name, what, "check the path") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sharding::Balance;

    fn arrange(order: Order, items: u32, epoch: u32) -> Vec<u32> {
        let size = |item: &u32| Ok::<_, ()>(u64::from(item % 7));
        order.arrange((0..items).collect(), epoch, size).unwrap()
    }

    #[test]
    fn the_order_is_a_promise() {
        let order = |epoch| arrange(Order { shuffle: Some(7), shard: None }, 8, epoch);
        assert_eq!(order(0), PROMISED.0);
        assert_eq!(order(1), PROMISED.1);
    }
    const PROMISED: ([u32; 8], [u32; 8]) = ([7, 4, 6, 1, 2, 5, 0, 3], [2, 4, 7, 6, 0, 1, 5, 3]);

    proptest! {
        #[test]
        fn shards_have_each_object_once(
            items in 0u32..200, count in 1u32..12, seed: Option<u64>, epoch: u32, by_size: bool
        ) {
            let balance = if by_size { Balance::Size } else { Balance::Count };
            let whole = arrange(Order { shuffle: seed, shard: None }, items, epoch);
            let mut dealt = Vec::new();
            for index in 0..count {
                let shard = Some(Shard { index, count, balance });
                let share = arrange(Order { shuffle: seed, shard }, items, epoch);
                // A share keeps the order of the whole.
                let mut rest = whole.iter();
                prop_assert!(share.iter().all(|item| rest.any(|other| other == item)));
                dealt.extend(share);
            }
            dealt.sort_unstable();
            prop_assert_eq!(dealt, (0..items).collect::<Vec<_>>());
        }

        #[test]
        fn epochs_differ(seed: u64) {
            let order = Order { shuffle: Some(seed), shard: None };
            prop_assert_ne!(arrange(order, 100, 0), arrange(order, 100, 1));
        }
    }
}
