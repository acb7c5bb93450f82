//! Draws the time that a record stays in the window: a random number that depends only on the
//! record's place in the input.

use pipemill_source::split_mix::{SplitMix64, below};

/// The delays of the records of one object, each from 0 to less than the window.
///
/// A seed promises these numbers. They come from three generators, each seeded with a number of the
/// one before it: the first has a number for each epoch, the second for each object, the third for
/// each record.
pub(super) struct Delays {
    records: SplitMix64,
    window: u64,
}

impl Delays {
    /// The delays in an object. Objects are counted from 0 in their epoch on this machine.
    pub(super) fn new(seed: u64, epoch: u32, object: u64, window: u64) -> Self {
        let of_epoch = SplitMix64::new(seed).nth(u64::from(epoch));
        let of_object = SplitMix64::new(of_epoch).nth(object);
        Self { records: SplitMix64::new(of_object), window }
    }

    /// The delay of the record of this number in the object.
    pub(super) fn of(&self, record: u64) -> u64 {
        below(self.records.nth(record), self.window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delays_of_a_seed_never_change() {
        let delays = |epoch, object| {
            let delays = Delays::new(7, epoch, object, 1_000);
            [0, 1, 2, 3].map(|record| delays.of(record))
        };
        assert_eq!([delays(0, 0), delays(0, 1), delays(1, 0)], FIXED_DELAYS);
    }
    // As the Python of docs/configuration.md computes them.
    const FIXED_DELAYS: [[u64; 4]; 3] =
        [[609, 409, 996, 101], [167, 52, 232, 308], [908, 705, 18, 423]];

    /// Chi-square tests, with fixed seeds: the delays are even, and those of neighbours (records,
    /// objects, epochs) do not depend on each other.
    #[test]
    fn delays_are_even_and_independent_of_their_neighbours() {
        const CELLS: usize = 16;
        const RECORDS: u64 = 16_384;
        let cell = |delay: u64| delay as usize * CELLS / 1_000_000;
        for seed in [0, 1, 7, 8, u64::MAX] {
            let delays = |epoch, object| Delays::new(seed, epoch, object, 1_000_000);
            let here = delays(3, 5);
            let neighbours = [delays(3, 6), delays(4, 5), delays(5, 3)];
            let mut even = vec![0_u32; CELLS];
            let mut pairs = vec![vec![0_u32; CELLS * CELLS]; 4];
            for record in 0..RECORDS {
                let own = cell(here.of(record));
                even[own] += 1;
                pairs[0][own * CELLS + cell(here.of(record + 1))] += 1;
                for (pairs, other) in pairs[1..].iter_mut().zip(&neighbours) {
                    pairs[own * CELLS + cell(other.of(record))] += 1;
                }
            }
            // 4.5 standard deviations above what is expected by chance.
            let bound = |freedom: f64| freedom + 4.5 * (2.0 * freedom).sqrt();
            assert!(chi_square(&even) < bound(15.0), "seed {seed}: {even:?}");
            for (which, pairs) in pairs.iter().enumerate() {
                assert!(chi_square(pairs) < bound(255.0), "seed {seed}, neighbour {which}");
            }
        }
    }

    fn chi_square(counts: &[u32]) -> f64 {
        let expected = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
        counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum()
    }
}
