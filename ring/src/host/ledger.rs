//! Which batches are done, so that the host can say where its channel goes on after it has died.

use std::collections::BTreeMap;

use super::beginning::Beginning;
use crate::protocol::{BatchPlace, Resumed};

/// A place where a channel goes on, and what is done beyond it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The place. All before it is done.
    pub place: Resumed,
    /// Numbers of the batches after it that are done, too.
    pub done: Vec<u64>,
}

/// How far the consumers of each part of the batches have come.
#[derive(Debug)]
pub(super) struct Ledger {
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    /// All before it is done.
    place: Resumed,
    /// What comes after it: batches, and ends of epochs before the batch of that number.
    rest: BTreeMap<(u64, Kind), Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    EpochEnd,
    Batch,
}

#[derive(Debug)]
struct Entry {
    /// Where the channel goes on after it. None after a batch without a real record: such a batch is
    /// the last of its epoch.
    after: Option<Resumed>,
    is_done: bool,
}

impl Ledger {
    pub(super) fn new(beginning: &Beginning) -> Ledger {
        let part = |rank| Part { place: beginning.state_of(rank), rest: BTreeMap::new() };
        Ledger { parts: (0..beginning.ranks()).map(part).collect() }
    }

    /// A batch was filled. `place` is its own, with the number of its real records.
    pub(super) fn filled(&mut self, place: Resumed) {
        let number = place.position.batch;
        let part = self.part(number);
        let shard = part.place.shard;
        let after = (place.given > 0).then_some(Resumed { shard, ..place });
        part.rest.insert((number, Kind::Batch), Entry { after, is_done: false });
    }

    /// An epoch is at its end; the next batch has the number of `next`.
    pub(super) fn epoch_ended(&mut self, next: BatchPlace) {
        for part in &mut self.parts {
            let mut after = Resumed { shard: part.place.shard, ..Resumed::default() };
            (after.position.epoch, after.position.batch) = (next.epoch, next.number);
            let entry = Entry { after: Some(after), is_done: true };
            part.rest.insert((next.number, Kind::EpochEnd), entry);
            part.advance();
        }
    }

    /// The batch is done, or nobody wants it.
    pub(super) fn done(&mut self, number: u64) {
        let part = self.part(number);
        if let Some(entry) = part.rest.get_mut(&(number, Kind::Batch)) {
            entry.is_done = true;
            part.advance();
        }
    }

    /// A consumer of this rank goes on after its own state.
    pub(super) fn set_place(&mut self, rank: u32, place: Resumed) {
        if let Some(part) = self.parts.get_mut(rank as usize) {
            part.place = Resumed { shard: part.place.shard, ..place };
        }
    }

    /// How far this rank has come.
    pub(super) fn place_of(&self, rank: u32) -> Resumed {
        self.parts.get(rank as usize).map(|part| part.place.clone()).unwrap_or_default()
    }

    pub(super) fn checkpoints(&self) -> Vec<Checkpoint> {
        self.parts.iter().map(Part::checkpoint).collect()
    }

    fn part(&mut self, number: u64) -> &mut Part {
        let parts = self.parts.len() as u64;
        &mut self.parts[(number % parts) as usize]
    }
}

/// The place of the next batch after a state.
fn next_of(state: &Resumed) -> BatchPlace {
    BatchPlace { epoch: state.position.epoch, number: state.first_batch() }
}

impl Part {
    /// Moves the place to the end of all that is done without a gap.
    fn advance(&mut self) {
        while let Some(first) = self.rest.first_entry()
            && first.get().is_done
        {
            let after = first.remove().after;
            // A consumer's own state may be ahead of what was filled when it came.
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
