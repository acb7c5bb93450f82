//! Draws the input of each record of a mix: a random number that depends only on the record's place
//! in the epoch.

use pipemill_source::split_mix::{SplitMix64, below};

/// The random numbers of one epoch of a mix.
///
/// A seed promises these numbers. They come from two generators: the seed gives a number for each
/// epoch, and that number is the seed of the numbers of the epoch's records.
pub(super) struct Draws {
    records: SplitMix64,
}

impl Draws {
    pub(super) fn new(seed: u64, epoch: u32) -> Self {
        Self { records: SplitMix64::new(SplitMix64::new(seed).nth(u64::from(epoch))) }
    }

    /// The input of the record of this number in the epoch. `weights` has the weight of each input:
    /// 0 for an input that is not drawn from. `None` if all weights are 0.
    pub(super) fn input(
        &self,
        record: u64,
        weights: impl Iterator<Item = u64> + Clone,
    ) -> Option<usize> {
        let sum = weights.clone().sum::<u64>();
        let mut left = below(self.records.nth(record), sum);
        for (input, weight) in weights.enumerate() {
            if left < weight {
                return Some(input);
            }
            left -= weight;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_draws_of_a_seed_never_change() {
        let inputs = |seed, epoch, weights: [u64; 3]| -> Vec<usize> {
            let draws = Draws::new(seed, epoch);
            (0..12).filter_map(|record| draws.input(record, weights.into_iter())).collect()
        };
        let all = [inputs(7, 0, [5, 3, 2]), inputs(7, 1, [5, 3, 2]), inputs(7, 0, [5, 0, 2])];
        assert_eq!(all, FIXED_INPUTS);
        assert!(inputs(7, 0, [0, 0, 0]).is_empty());
    }
    // As the Python of docs/configuration.md computes them.
    const FIXED_INPUTS: [[usize; 12]; 3] = [
        [1, 1, 1, 1, 0, 0, 2, 2, 2, 0, 2, 0],
        [1, 1, 2, 2, 0, 0, 1, 0, 0, 0, 0, 2],
        [2, 0, 0, 0, 0, 0, 2, 2, 2, 0, 2, 0],
    ];

    /// A chi-square test with fixed seeds: inputs are drawn as often as their weights say.
    #[test]
    fn inputs_are_drawn_by_their_weights() {
        const RECORDS: u64 = 100_000;
        for seed in [0, 1, 7, u64::MAX] {
            let (draws, weights) = (Draws::new(seed, 3), [700_000, 250_000, 50_000]);
            let mut counts = [0_u64; 3];
            for record in 0..RECORDS {
                let input = draws.input(record, weights.into_iter());
                counts[input.expect("weights are not 0")] += 1;
            }
            let of_input = |(count, weight): (u64, u64)| {
                let expected = RECORDS as f64 * weight as f64 / 1e6;
                (count as f64 - expected).powi(2) / expected
            };
            let chi_square: f64 = counts.into_iter().zip(weights).map(of_input).sum();
            // Two degrees of freedom: 18.4 is exceeded by chance once in 10,000.
            assert!(chi_square < 18.4, "seed {seed}: {counts:?}");
        }
    }
}
