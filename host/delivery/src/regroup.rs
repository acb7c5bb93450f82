//! Resumes a state in the middle of an epoch with another number of ranks.
//!
//! All ranks advance in step. So the state of one rank says what all of them were given: whole
//! rounds of batches, one for each rank. The next batch is the first one of the next round. With
//! another number of ranks, that batch goes to rank 0, the one after it to rank 1, and so on: batch
//! `first + k` goes to rank `k` modulo the number of ranks. So the sequence of all batches stays
//! the same. Batches are numbered such that rank 0 has a multiple of the number of ranks.

use pipemill_ring::protocol::{Rank, Resumed};

/// The round of batches before which a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Number of the epoch.
    epoch: u32,
    /// Number of its first batch in the run of the state.
    first: u64,
    /// Number of ranks in that run.
    world: u32,
}

impl Round {
    /// The round before which the rank of this state goes on, which is in the middle of an epoch.
    pub(crate) fn after(state: &Resumed) -> Round {
        let Rank { world, .. } = state.rank;
        let first = state.first_batch_of(Rank { number: 0, world }).number;
        Round { epoch: state.position.epoch, first, world }
    }

    /// The state as one of a run with another number of ranks, for this one of them.
    pub(crate) fn resumed_by(self, rank: Rank, state: &Resumed) -> Resumed {
        let passed = self.first.saturating_sub(state.first_batch());
        let first = self.first.checked_next_multiple_of(rank.world.into()).unwrap_or(self.first);
        let mut again = Resumed { rank, passed, ..state.clone() };
        again.position.batch = first.saturating_sub(passed).saturating_sub(1);
        again
    }
}

impl std::fmt::Display for Round {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Round { epoch, first, world } = self;
        write!(f, "before batch {first} of epoch {epoch} by one of {world} ranks")
    }
}

/// The round before which all of these states go on.
///
/// # Errors
/// They are not of one step, so the batches of each rank are not known without its state.
pub(crate) fn round_of<'a>(
    states: impl IntoIterator<Item = &'a Resumed>,
) -> Result<Option<Round>, String> {
    let mut rounds = states.into_iter().map(Round::after);
    let Some(first) = rounds.next() else { return Ok(None) };
    match rounds.find(|round| *round != first) {
        Some(other) => Err(of_other_step(first, other)),
        None => Ok(Some(first)),
    }
}

/// The refusal of states that were taken at different steps.
pub(crate) fn of_other_step(one: Round, other: Round) -> String {
    format!(
        "rank: one state was taken {one}, and one {other}; if the number of ranks changes in the \
         middle of an epoch, all go on from the same step: pass all of them the state of one rank, \
         or start as many ranks as there were"
    )
}

#[cfg(test)]
mod tests {
    use pipemill_types::BatchPosition;
    use proptest::prelude::*;

    use super::*;

    fn state(batch: u64, number: u32, world: u32) -> Resumed {
        let position = BatchPosition { batch, ..BatchPosition::default() };
        Resumed { delivered: 4, rank: Rank { number, world }, position, ..Resumed::default() }
    }

    proptest! {
        /// However often the number of ranks changes before a batch is taken, the next batches
        /// are those that follow the round, one after the other.
        #[test]
        fn the_next_batch_is_that_of_rank_0_and_none_is_repeated_or_missing(
            round in 0u64..1000,
            worlds in prop::collection::vec(1u32..=256, 2..6),
            rank: prop::sample::Index,
        ) {
            let number = rank.index(worlds[0] as usize) as u32;
            let batch = round * u64::from(worlds[0]) + u64::from(number);
            let mut at = state(batch, number, worlds[0]);
            // What was delivered after the state's batch, to other ranks.
            let passed = u64::from(worlds[0] - number - 1);
            for world in &worlds[1..] {
                for number in 0..*world {
                    let rank = Rank { number, world: *world };
                    let again = Round::after(&at).resumed_by(rank, &at);
                    let first = again.first_batch_of(rank).number;
                    prop_assert_eq!(first % u64::from(*world), u64::from(number));
                    prop_assert_eq!(first - again.first_batch(), passed + u64::from(number));
                }
                let rank = Rank { number: 0, world: *world };
                at = Round::after(&at).resumed_by(rank, &at);
            }
        }

        #[test]
        fn a_state_of_any_numbers_makes_no_panic(
            batch: u64, passed: u64, number: u32, world in 1u32..=256
        ) {
            let at = Resumed { passed, ..state(batch, number % world, world) };
            let again = Round::after(&at).resumed_by(Rank { number: 0, world: 3 }, &at);
            let _ = again.first_batch_of(again.rank);
        }
    }

    #[test]
    fn states_of_different_steps_have_no_round() {
        let of_step = |step: u64, number: u32| state(4 * step + u64::from(number), number, 4);
        assert!(round_of([&of_step(2, 0), &of_step(2, 3)]).unwrap().is_some());
        assert_eq!(round_of([]), Ok(None));
        let refused = round_of([&of_step(2, 0), &of_step(3, 1)]).unwrap_err();
        assert!(refused.contains("before batch 12 of epoch 0 by one of 4 ranks"), "{refused}");
        assert!(refused.contains("before batch 16 of epoch 0"), "{refused}");
    }
}
