//! The random numbers of every shuffle: SplitMix64. It is implemented here and not taken from a
//! crate, because an order must be the same on all machines and in all later versions.
//!
//! Reference: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.

/// The increment of the state with each number.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A generator of random numbers.
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mixed(self.0)
    }

    /// The number that the generator gives next after `skipped` others. The generator itself does
    /// not advance.
    pub fn nth(&self, skipped: u64) -> u64 {
        mixed(self.0.wrapping_add(skipped.wrapping_add(1).wrapping_mul(STEP)))
    }
}

/// Maps a random number to one below `end`: the upper half of the product. Its bias is negligible
/// for shuffles, and it needs no division.
pub fn below(random: u64, end: u64) -> u64 {
    ((u128::from(random) * u128::from(end)) >> 64) as u64
}

fn mixed(state: u64) -> u64 {
    let mut mixed = state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the reference implementation, `splitmix64.c`, for the seed 1234567.
    #[test]
    fn the_numbers_are_those_of_the_reference() {
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        let first = SplitMix64::new(1_234_567);
        let mut generator = first.clone();
        for (skipped, expected) in expected.into_iter().enumerate() {
            assert_eq!(generator.next_number(), expected);
            assert_eq!(first.nth(skipped as u64), expected);
        }
    }
}
