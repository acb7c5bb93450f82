//! The position at which a channel begins, and how its batches are cut and divided.

use std::collections::{BTreeMap, BTreeSet};

use pipemill_ring::host::{Restart, RingConfig};
use pipemill_ring::protocol::{BatchPlace, BatchSize, Mode, Rank, Resumed, Tail};

use crate::regroup::Round;

/// The position at which a channel begins, and how its batches are cut and divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamConfig {
    /// How batches are divided among consumers.
    pub mode: Mode,
    /// Number of consumers that must be connected before the first grant. In `Rank`: the number of
    /// ranks.
    pub consumers: u32,
    /// The number of records of each batch, if the channel has a fixed number.
    pub batch: Option<BatchSize>,
    /// The position at which it begins. `None`: at the beginning of its input.
    pub resumed: Option<Resumed>,
    /// The state of each rank, if there are states of several ranks.
    pub states: BTreeMap<u32, Resumed>,
    /// Numbers of the batches after that position that were done in an earlier run.
    pub done: BTreeSet<u64>,
    /// The settings on which a state of the channel depends.
    pub settings: BTreeMap<String, String>,
    /// The round before which it begins, if the state is of a run with another number of ranks.
    pub round: Option<Round>,
}

impl StreamConfig {
    /// Number of the first batch that is decoded.
    pub fn first_batch(&self) -> u64 {
        let Some(resumed) = self.decoded_from() else { return 0 };
        let is_whole = resumed.delivered == 0 && !self.decodes_last_again();
        let (first, world) = (resumed.first_batch(), self.rank(0).world);
        // An epoch's first batch belongs to rank 0.
        let of_rank_0 = first.checked_next_multiple_of(world.into());
        if is_whole { of_rank_0.unwrap_or(first) } else { first }
    }

    /// The position at which decoding begins.
    pub fn decoded_from(&self) -> Option<Resumed> {
        let resumed = self.resumed.clone()?;
        let delivered = if self.decodes_last_again() { 0 } else { resumed.delivered };
        Some(Resumed { delivered, ..resumed })
    }

    /// Whether the state's last batch is decoded again: if it is the last one of its epoch, its
    /// copies fill the round for the other ranks.
    fn decodes_last_again(&self) -> bool {
        let fills = self.batch.is_some_and(|batch| batch.tail == Tail::Pad);
        self.mode == Mode::Rank && fills && self.resumed.as_ref().is_some_and(is_inside)
    }

    /// The first batch that is decoded.
    pub(crate) fn start(&self) -> BatchPlace {
        let epoch = self.resumed.as_ref().map_or(0, |resumed| resumed.position.epoch);
        let is_inside = self.resumed.as_ref().is_some_and(is_inside);
        BatchPlace { epoch, number: if is_inside { self.first_batch() } else { 0 } }
    }

    /// The first batch that is delivered to a rank.
    pub(crate) fn first_batch_of(&self, rank: u32) -> BatchPlace {
        let state = self.states.get(&rank).or(self.resumed.as_ref());
        state.map(|state| state.first_batch_of(self.rank(rank))).unwrap_or_default()
    }

    /// The beginning of a rank, as a state from which it may resume.
    pub(crate) fn state_of(&self, rank: u32) -> Resumed {
        let state = self.states.get(&rank).or(self.resumed.as_ref()).cloned().unwrap_or_default();
        Resumed { rank: self.rank(rank), ..state }
    }

    /// The restart of the ring's table with these settings.
    pub(crate) fn restart(&self, config: &RingConfig) -> Restart {
        let few = RingConfig::FEW_DEDICATED.min(config.dedicated);
        let dedicated = if self.batch.is_some() { config.dedicated } else { few };
        let (mode, consumers, epoch) = (self.mode, self.consumers, self.start().epoch);
        Restart { mode, consumers, epoch, dedicated }
    }

    /// Number of parts that the batches are divided into.
    pub(crate) fn ranks(&self) -> u32 {
        self.rank(0).world
    }

    /// The batches of the rank with this number: all of them if they are not divided among ranks.
    pub(crate) fn rank(&self, number: u32) -> Rank {
        if self.mode == Mode::Rank { Rank { number, world: self.consumers } } else { Rank::ONLY }
    }

    pub(crate) fn is_cut_and_divided_as(&self, other: &StreamConfig) -> bool {
        (self.mode, self.consumers, self.batch) == (other.mode, other.consumers, other.batch)
    }
}

/// Whether the state is in the middle of an epoch.
pub(crate) fn is_inside(state: &Resumed) -> bool {
    state.delivered > 0
}
