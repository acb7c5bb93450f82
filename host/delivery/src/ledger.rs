//! Records which batches are done, so that the channel can resume after the host has died.

use std::collections::BTreeMap;

use pipemill_ring::protocol::{BatchPlace, Resumed};

use crate::stream_config::StreamConfig;

/// A position at which a channel can resume, and the batches after it that are done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The position. All batches before it are done.
    pub place: Resumed,
    /// Numbers of the batches after it that are done, too.
    pub done: Vec<u64>,
}

/// The progress of the consumers of each part of the batches.
#[derive(Debug)]
pub(crate) struct Ledger {
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    /// The position before which everything is done.
    place: Resumed,
    /// Whether the position's batch has not come yet in this run. Batches before it don't count.
    is_sought: bool,
    /// The events after the position: batches, and ends of epochs before the batch of that number.
    rest: BTreeMap<(u64, Kind), Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    EpochEnd,
    Batch,
}

#[derive(Debug)]
struct Entry {
    /// The position after the batch. `None` after a batch without a real record: such a batch is
    /// the last of its epoch.
    after: Option<Resumed>,
    is_done: bool,
}

impl Ledger {
    pub(crate) fn new(start: &StreamConfig) -> Ledger {
        let part = |rank| Part::new(start.state_of(rank));
        Ledger { parts: (0..start.ranks()).map(part).collect() }
    }

    /// Records that a batch was filled. `place` is the position of the batch, with the number of
    /// its real records.
    pub(crate) fn filled(&mut self, place: Resumed) {
        let number = place.position.batch;
        let part = self.part(number);
        if part.is_sought {
            return;
        }
        let rank = part.place.rank;
        let after = (place.delivered > 0).then_some(Resumed { rank, ..place });
        part.rest.insert((number, Kind::Batch), Entry { after, is_done: false });
    }

    /// Records the end of an epoch; the next batch has the number of `next`.
    pub(crate) fn epoch_ended(&mut self, next: BatchPlace) {
        for part in self.parts.iter_mut().filter(|part| !part.is_sought) {
            let mut after = Resumed { rank: part.place.rank, ..Resumed::default() };
            (after.position.epoch, after.position.batch) = (next.epoch, next.number);
            let entry = Entry { after: Some(after), is_done: true };
            part.rest.insert((next.number, Kind::EpochEnd), entry);
            part.advance();
        }
    }

    /// Records that the batch is done, or that nobody wants it.
    pub(crate) fn done(&mut self, number: u64) {
        let part = self.part(number);
        if let Some(entry) = part.rest.get_mut(&(number, Kind::Batch)) {
            entry.is_done = true;
            part.advance();
        }
    }

    /// Records that a consumer of this rank resumes from its own state. `is_sought` says that the
    /// state's last batch is still to come in this run, with an unknown number.
    pub(crate) fn set_place(&mut self, rank: u32, place: Resumed, is_sought: bool) {
        if let Some(part) = self.parts.get_mut(rank as usize) {
            part.place = Resumed { rank: part.place.rank, ..place };
            part.is_sought = is_sought;
            if is_sought {
                part.rest.clear();
            }
        }
    }

    /// Records that the last batch of this rank's state has come, with this number.
    pub(crate) fn found(&mut self, rank: u32, number: u64) {
        if let Some(part) = self.parts.get_mut(rank as usize) {
            part.place.position.batch = number;
            part.is_sought = false;
        }
    }

    /// The progress of this rank.
    pub(crate) fn place_of(&self, rank: u32) -> Resumed {
        self.parts.get(rank as usize).map(|part| part.place.clone()).unwrap_or_default()
    }

    pub(crate) fn checkpoints(&self) -> Vec<Checkpoint> {
        self.parts.iter().map(Part::checkpoint).collect()
    }

    fn part(&mut self, number: u64) -> &mut Part {
        let parts = self.parts.len() as u64;
        &mut self.parts[(number % parts) as usize]
    }
}

/// The position of the next batch after a state.
fn next_of(state: &Resumed) -> BatchPlace {
    let number = state.first_batch().saturating_add(state.passed);
    BatchPlace { epoch: state.position.epoch, number }
}

impl Part {
    fn new(place: Resumed) -> Part {
        Part { place, is_sought: false, rest: BTreeMap::new() }
    }

    /// Moves the position forward to the first batch that is not done.
    fn advance(&mut self) {
        while let Some(first) = self.rest.first_entry()
            && first.get().is_done
        {
            let after = first.remove().after;
            // A consumer's state may be ahead of the batches that were filled when it connected.
            if let Some(after) = after.filter(|after| next_of(after) > next_of(&self.place)) {
                self.place = after;
            }
        }
    }

    fn checkpoint(&self) -> Checkpoint {
        let is_done = |(key, entry): (&(u64, Kind), &Entry)| {
            (entry.is_done && key.1 == Kind::Batch).then_some(key.0)
        };
        Checkpoint {
            place: self.place.clone(),
            done: self.rest.iter().filter_map(is_done).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipemill_ring::protocol::{BatchSize, Mode, Rank, Tail};
    use pipemill_types::BatchAcross;

    fn place(epoch: u32, batch: u64, delivered: u64) -> Resumed {
        let mut place = Resumed { delivered, ..Resumed::default() };
        (place.position.epoch, place.position.batch) = (epoch, batch);
        place
    }

    fn ledger(mode: Mode, consumers: u32, resumed: Option<Resumed>) -> Ledger {
        let batch = BatchSize { records: 4, tail: Tail::Pad, across: BatchAcross::Epoch };
        let (states, done, settings, round) = Default::default();
        let batch = Some(batch);
        let config =
            StreamConfig { mode, consumers, batch, resumed, states, done, settings, round };
        Ledger::new(&config)
    }

    fn places(ledger: &Ledger) -> Vec<(u32, u64, u64, Vec<u64>)> {
        let shown = |one: Checkpoint| {
            (one.place.position.epoch, one.place.position.batch, one.place.delivered, one.done)
        };
        ledger.checkpoints().into_iter().map(shown).collect()
    }

    #[test]
    fn batches_that_are_done_out_of_turn_wait_for_those_before_them() {
        let mut ledger = ledger(Mode::Share, 1, None);
        (0..4).for_each(|number| ledger.filled(place(0, number, 4)));
        ledger.done(1);
        ledger.done(3);
        assert_eq!(places(&ledger), [(0, 0, 0, vec![1, 3])]);
        ledger.done(0);
        assert_eq!(places(&ledger), [(0, 1, 4, vec![3])]);
        ledger.epoch_ended(BatchPlace { epoch: 1, number: 4 });
        assert_eq!(places(&ledger), [(0, 1, 4, vec![3])]);
        ledger.done(2);
        assert_eq!(places(&ledger), [(1, 4, 0, vec![])]);
    }

    #[test]
    fn each_rank_has_a_place_of_its_own_also_after_the_state_of_one() {
        let state = Resumed { rank: Rank { number: 0, world: 2 }, ..place(0, 2, 4) };
        let mut ledger = ledger(Mode::Rank, 2, Some(state));
        let ranks = |ledger: &Ledger| {
            let checkpoints = ledger.checkpoints().into_iter();
            checkpoints.map(|one| one.place.rank.number).collect::<Vec<_>>()
        };
        assert_eq!(ranks(&ledger), [0, 1]);
        (3..6).for_each(|number| ledger.filled(place(0, number, 4)));
        ledger.done(3);
        ledger.done(5);
        assert_eq!(places(&ledger), [(0, 2, 4, vec![]), (0, 5, 4, vec![])]);
        // A batch of copies is the last one of its rank: the position after it is the next epoch.
        ledger.done(4);
        ledger.filled(place(0, 6, 1));
        ledger.filled(place(0, 7, 0));
        ledger.done(7);
        assert_eq!(places(&ledger), [(0, 4, 4, vec![]), (0, 5, 4, vec![])]);
        ledger.epoch_ended(BatchPlace { epoch: 1, number: 8 });
        assert_eq!(places(&ledger), [(0, 4, 4, vec![]), (1, 8, 0, vec![])]);
        assert_eq!(ranks(&ledger), [0, 1]);
    }

    #[test]
    fn a_place_never_goes_back() {
        let mut ledger = ledger(Mode::Share, 1, None);
        ledger.set_place(0, place(0, 5, 4), false);
        ledger.filled(place(0, 3, 4));
        ledger.done(3);
        assert_eq!(places(&ledger), [(0, 5, 4, vec![])]);
    }
}
