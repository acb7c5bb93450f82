//! The positions of the batches that were filled last, and those that consumers' states name: a
//! state is never matched with a batch of this run by its number alone.

use std::collections::{BTreeMap, VecDeque};

use pipemill_ring::protocol::{MAX_SCHEMA, Rank, Resumed};
use pipemill_types::BatchPosition;

/// Largest number of positions that are kept.
const MOST: usize = 4096;
/// Largest size in bytes of a position, with the names of its object and of its origin.
const POSITION_BYTES: u64 = 2 << 10;

/// Largest number of bytes that a channel takes for the positions of batches and for the states of
/// its consumers. `slots` is the ring's number of slots; `inputs` is the mix's number of inputs, or
/// 1.
pub fn state_bytes(slots: u32, inputs: usize) -> u64 {
    // The batches that were filled last, and those that are not done.
    let positions = (MOST as u64).max(2 * u64::from(slots)) + 2 * u64::from(slots);
    // The position of each rank, and the state that it requested, each with its schema.
    let schemas = 2 * u64::from(Rank::MAX_WORLD) * MAX_SCHEMA as u64;
    positions * POSITION_BYTES * inputs as u64 + schemas
}

/// The known batches of this run.
#[derive(Debug)]
pub(crate) struct RecentBatches {
    /// The positions in the order of the batches' numbers.
    places: VecDeque<Resumed>,
    most: usize,
    /// The last batch of the state of each rank.
    expected: BTreeMap<u32, Expected>,
}

/// The last batch of a state, which has not come yet in this run.
#[derive(Debug)]
struct Expected {
    state: Resumed,
    /// Whether the batch may have another number in this run. Its first record tells which it is.
    is_sought: bool,
}

impl Expected {
    fn is(&self, batch: &Resumed) -> bool {
        let (then, now) = (&self.state.position, &batch.position);
        if self.is_sought {
            let first = |at: &BatchPosition| (at.epoch, at.object_number, at.first_record);
            first(then) == first(now)
        } else {
            then.batch == now.batch
        }
    }
}

impl RecentBatches {
    /// For a ring with this number of slots.
    pub(crate) fn new(slots: u32) -> RecentBatches {
        RecentBatches {
            places: VecDeque::new(),
            most: (slots as usize).saturating_mul(2),
            expected: BTreeMap::new(),
        }
    }

    /// Restarts with this number of ranks. The expectations of consumers stay.
    pub(crate) fn restart(&mut self, slots: u32, ranks: u32) {
        self.places.clear();
        // A rank may be behind by as many batches as there are slots, and each of its batches is
        // one of a round.
        let rounds = (slots as usize + 2).saturating_mul(ranks as usize);
        self.most = rounds.min(MOST);
    }

    /// Expects the last batch of the state of this rank's consumer, if the state has one.
    pub(crate) fn expect(&mut self, rank: u32, state: &Resumed) {
        if state.delivered > 0 {
            self.expected.insert(rank, Expected { state: state.clone(), is_sought: false });
        } else {
            self.expected.remove(&rank);
        }
    }

    /// Expects the last batch of this state, which may have another number in this run.
    pub(crate) fn seek(&mut self, rank: u32, state: &Resumed) {
        self.expected.insert(rank, Expected { state: state.clone(), is_sought: true });
    }

    /// Records that a batch was filled. Returns the ranks whose states name it, with their
    /// positions.
    pub(crate) fn filled(&mut self, place: Resumed) -> Vec<(u32, Resumed)> {
        let is_it = |(rank, expected): (&u32, &Expected)| expected.is(&place).then_some(*rank);
        let ranks: Vec<_> = self.expected.iter().filter_map(is_it).collect();
        if self.places.len() >= self.most {
            self.places.pop_front();
        }
        self.places.push_back(place);
        let take = |rank| Some((rank, self.expected.remove(&rank)?.state));
        ranks.into_iter().filter_map(take).collect()
    }

    /// The position of the batch with this number, if it was filled in this run and not long ago.
    pub(crate) fn find(&self, number: u64) -> Option<&Resumed> {
        let at = self.places.binary_search_by_key(&number, |place| place.position.batch);
        at.ok().and_then(|at| self.places.get(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(batch: u64) -> Resumed {
        let mut place = Resumed { delivered: 1, ..Resumed::default() };
        place.position.batch = batch;
        place
    }

    #[test]
    fn the_last_batches_are_found_and_older_ones_are_forgotten() {
        let mut recent = RecentBatches::new(2);
        recent.restart(2, 3);
        (0..30).for_each(|number| assert_eq!(recent.filled(place(2 * number)), []));
        assert_eq!(recent.find(58), Some(&place(58)));
        assert_eq!(recent.find(57), None);
        assert_eq!(recent.find(36), Some(&place(36)));
        assert_eq!(recent.find(34), None, "12 are kept");
        recent.restart(2, 3);
        assert_eq!(recent.find(58), None);
    }

    #[test]
    fn a_state_is_compared_once_when_its_batch_comes() {
        let mut recent = RecentBatches::new(8);
        recent.expect(0, &place(3));
        recent.expect(1, &place(4));
        recent.expect(0, &place(4));
        recent.expect(2, &place(4));
        recent.expect(2, &Resumed::default());
        recent.restart(8, 2);
        assert_eq!(recent.filled(place(3)), []);
        assert_eq!(recent.filled(place(4)), [(0, place(4)), (1, place(4))]);
        assert_eq!(recent.filled(place(4)), []);
    }

    #[test]
    fn a_batch_with_another_number_is_known_by_its_first_record() {
        let of = |batch, epoch, first| {
            let mut place = place(batch);
            (place.position.epoch, place.position.first_record) = (epoch, first);
            place
        };
        let mut recent = RecentBatches::new(8);
        recent.seek(0, &of(3, 1, 20));
        assert_eq!(recent.filled(of(3, 0, 20)), []);
        assert_eq!(recent.filled(of(4, 1, 10)), []);
        assert_eq!(recent.filled(of(5, 1, 20)), [(0, of(3, 1, 20))]);
        assert_eq!(recent.filled(of(6, 1, 20)), []);
    }
}
