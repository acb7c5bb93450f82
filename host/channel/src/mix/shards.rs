//! The shards of an index: a mix that takes equally many records of each of its inputs, round
//! robin.
//!
//! The order of all records of an epoch, that of the index's shuffled blocks, is divided into
//! shards of equal length. A host has some of the shards, next to each other, each as an input. In
//! each *round*, it takes the next records of each of its shards, equally many: these are a batch.
//! So the batches of all hosts of a round, one after the other, are the same records in the same
//! order, however many hosts there are. A position is the number of a record, which is the same in
//! all shards: any number of hosts can resume there.

use std::ops::Range;

use pipemill_source::{Balance, KnownList, ListPart, Order, PlaceInOrder};
use pipemill_types::{BatchPosition, InputPosition};

use crate::Resume;

/// The shards that a mix has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shards {
    /// The objects of the index.
    list: KnownList,
    /// The order of all records. The seed differs from epoch to epoch.
    order: Order,
    /// The mix's shards, as parts of that order.
    own: Vec<ListPart>,
    /// Number of records of an epoch.
    all: u64,
    /// Number of records of each shard in a round, 1 or more.
    per_round: u64,
    /// The largest number of rounds of an epoch. `None`: until all shards are at their end.
    rounds: Option<u64>,
}

impl Shards {
    /// The shards `own` of the `count` shards of an order of blocks, of which each round has
    /// `per_round` records of each. With `drops`, a round in which any shard lacks records is left
    /// out.
    pub fn new(
        list: KnownList,
        order: Order,
        (own, count): (Range<u32>, u32),
        per_round: u64,
        drops: bool,
    ) -> Self {
        let all = list.total_records();
        let shard = |index| ListPart { index, count, balance: Balance::default() };
        let own = own.map(shard).collect();
        let shards = Self { list, order, own, all, per_round, rounds: None };
        let rounds = drops.then(|| shards.shortest() / per_round.max(1));
        Self { rounds, ..shards }
    }

    /// The order of the records of each of the mix's shards.
    pub fn orders(&self) -> impl Iterator<Item = Order> {
        self.own.iter().map(|shard| Order { part: Some(*shard), ..self.order })
    }

    /// Number of records of each of the mix's shards.
    pub fn records(&self) -> impl Iterator<Item = u64> {
        self.own.iter().map(|shard| shard.range_of(self.all)).map(|range| range.end - range.start)
    }

    /// Number of records of each shard in a round.
    pub fn per_round(&self) -> u64 {
        self.per_round
    }

    /// Number of shards, those of other mixes included.
    pub fn count(&self) -> u32 {
        self.own.first().map_or(0, |shard| shard.count)
    }

    /// Number of rounds of each epoch in which the mix has records.
    pub fn rounds(&self) -> u64 {
        let longest = self.records().max().unwrap_or(0).div_ceil(self.per_round.max(1));
        self.rounds.map_or(longest, |rounds| rounds.min(longest))
    }

    /// Number of rounds of each epoch in which every mix has records.
    pub fn common_rounds(&self) -> u64 {
        self.rounds.unwrap_or_else(|| self.shortest().div_ceil(self.per_round.max(1)))
    }

    /// Number of records of the shortest shard of all mixes.
    fn shortest(&self) -> u64 {
        self.all / u64::from(self.count().max(1))
    }

    /// Whether the mix's epoch ends before this record.
    pub(super) fn ends_before(&self, record: u64) -> bool {
        let round = self.per_round.saturating_mul(self.own.len() as u64);
        self.rounds.is_some_and(|rounds| record >= rounds.saturating_mul(round))
    }

    /// The number of records of each epoch that are left out, because their round is.
    pub(super) fn left_out(&self) -> u64 {
        let most = self.rounds.map_or(u64::MAX, |rounds| rounds.saturating_mul(self.per_round));
        self.records().map(|records| records.saturating_sub(most)).sum()
    }

    /// The position of a batch that begins with this record of the mix's epoch.
    pub(super) fn position(&self, epoch: u32, record: u64) -> BatchPosition {
        BatchPosition {
            object: format!("{} shards", self.count()),
            first_record: record / self.own.len().max(1) as u64,
            ..BatchPosition::of_epoch(epoch)
        }
    }

    /// The place at which the mix resumes inside of an epoch: where its first record is in the
    /// mix's epoch, and the positions of its inputs, with these names.
    pub(super) fn resume<'a>(
        &self,
        resume: &Resume,
        names: impl Iterator<Item = &'a str>,
    ) -> (u64, Vec<InputPosition>) {
        let BatchPosition { epoch, first_record, .. } = resume.position;
        // A state inside of an epoch is taken after a whole batch, of any number of shards.
        let record = first_record.saturating_add(self.per_round);
        let input = |(order, name): (Order, &str)| {
            let place = self.list.place_of(&order, epoch, record);
            let ended = place.is_none();
            let position =
                place.map_or_else(|| BatchPosition::of_epoch(epoch + 1), |at| in_shard(epoch, at));
            InputPosition { input: name.to_owned(), ended, position }
        };
        let drawn = record.saturating_mul(self.own.len() as u64);
        (drawn, self.orders().zip(names).map(input).collect())
    }
}

/// The position of a record in its shard.
fn in_shard(epoch: u32, at: PlaceInOrder) -> BatchPosition {
    let PlaceInOrder { ordinal, block, record } = at;
    BatchPosition {
        object_number: ordinal,
        header: block.header,
        offset: block.offset,
        records: record,
        first_record: block.read_from + record,
        ..BatchPosition::of_epoch(epoch)
    }
}

/// The input of the next record of a mix of shards.
#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    /// The input that gives records now.
    input: usize,
    /// Records that it has given in this round.
    given: u64,
}

impl RoundRobin {
    /// The input of the next record; `None` if all of them have ended.
    pub(super) fn input(
        &mut self,
        per_round: u64,
        inputs: usize,
        has_ended: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        if self.given >= per_round {
            self.next(inputs);
        }
        for _ in 0..inputs {
            if !has_ended(self.input) {
                return Some(self.input);
            }
            self.next(inputs);
        }
        None
    }

    fn next(&mut self, inputs: usize) {
        (self.input, self.given) = ((self.input + 1) % inputs, 0);
    }

    /// The input has given a record.
    pub(super) fn given(&mut self) {
        self.given += 1;
    }
}
