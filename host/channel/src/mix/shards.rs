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
use pipemill_types::{BatchPosition, InputPosition, Tail};

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
    /// What happens to a round in which shards lack records.
    tail: Tail,
}

/// The place at which a mix of shards resumes inside of an epoch.
pub(super) struct ShardsPlace {
    /// Number of the mix's first record that is drawn, in its epoch.
    pub(super) record: u64,
    /// The positions of the inputs.
    pub(super) inputs: Vec<InputPosition>,
    /// The record was delivered: it is drawn again only to be copied.
    pub(super) is_repeated: bool,
}

impl Shards {
    /// The shards `own` of the `count` shards of an order of blocks, of which each round has
    /// `per_round` records of each. A round in which any shard lacks records is left out with
    /// `Tail::Drop`, and given by all mixes with `Tail::Pad`: a mix whose shards have no record in
    /// it gives copies of its last one.
    pub fn new(
        list: KnownList,
        order: Order,
        (own, count): (Range<u32>, u32),
        per_round: u64,
        tail: Tail,
    ) -> Self {
        let all = list.total_records();
        let shard = |index| ListPart { index, count, balance: Balance::default() };
        let own = own.map(shard).collect();
        Self { list, order, own, all, per_round, tail }
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

    /// Number of batches of the mix in each epoch: one for each round.
    pub fn rounds(&self) -> u64 {
        match self.tail {
            Tail::Drop => self.whole_rounds(),
            Tail::Keep => self.rounds_with_records(),
            Tail::Pad => self.rounds_of(self.all.div_ceil(u64::from(self.count().max(1)))),
        }
    }

    /// Number of batches that every mix has in each epoch.
    pub fn common_rounds(&self) -> u64 {
        match self.tail {
            Tail::Drop | Tail::Pad => self.rounds(),
            Tail::Keep => self.rounds_of(self.shortest()),
        }
    }

    /// Number of rounds in which the mix has records.
    fn rounds_with_records(&self) -> u64 {
        self.rounds_of(self.records().max().unwrap_or(0))
    }

    /// Number of rounds in which a shard of this length has records.
    fn rounds_of(&self, records: u64) -> u64 {
        records.div_ceil(self.per_round.max(1))
    }

    /// Number of rounds in which no shard of any mix lacks records.
    fn whole_rounds(&self) -> u64 {
        self.shortest() / self.per_round.max(1)
    }

    /// Number of records of the shortest shard of all mixes.
    fn shortest(&self) -> u64 {
        self.all / u64::from(self.count().max(1))
    }

    /// The number of the mix's records after which it gives a batch of copies, because other mixes
    /// have records in one round more. `None` if it has records in all rounds. Shards differ by one
    /// record at most, so all batches before that one are full.
    pub(super) fn copies_after(&self) -> Option<u64> {
        let lacks = self.tail == Tail::Pad && self.rounds_with_records() < self.rounds();
        lacks.then(|| self.records().sum())
    }

    /// Whether the mix's epoch ends before this record.
    pub(super) fn ends_before(&self, record: u64) -> bool {
        let round = self.per_round.saturating_mul(self.own.len() as u64);
        self.tail == Tail::Drop && record >= self.whole_rounds().saturating_mul(round)
    }

    /// The number of records of each epoch that are left out, because their round is.
    pub(super) fn left_out(&self) -> u64 {
        if self.tail != Tail::Drop {
            return 0;
        }
        let most = self.whole_rounds().saturating_mul(self.per_round);
        self.records().map(|records| records.saturating_sub(most)).sum()
    }

    /// The position of a batch that begins with this record of the mix's epoch.
    pub(super) fn position(&self, epoch: u32, record: u64) -> BatchPosition {
        self.position_in_shards(epoch, record / self.own.len().max(1) as u64)
    }

    /// The position of the batch of copies: that after the last round. None of its records is
    /// delivered, so this is where a state of it goes on.
    pub(super) fn position_of_copies(&self, epoch: u32) -> BatchPosition {
        self.position_in_shards(epoch, self.rounds().saturating_mul(self.per_round))
    }

    fn position_in_shards(&self, epoch: u32, first_record: u64) -> BatchPosition {
        let object = format!("{} shards", self.count());
        BatchPosition { object, first_record, ..BatchPosition::of_epoch(epoch) }
    }

    /// The place at which the mix resumes inside of an epoch. Its inputs have these names.
    pub(super) fn resume<'a>(
        &self,
        resume: &Resume,
        names: impl Iterator<Item = &'a str>,
    ) -> ShardsPlace {
        let BatchPosition { epoch, first_record, .. } = resume.position;
        // A state inside of an epoch is taken after a whole batch, of any number of shards, or
        // before one.
        let round = if resume.delivered > 0 { self.per_round } else { 0 };
        let next = first_record.saturating_add(round);
        let end = self.rounds().saturating_mul(self.per_round);
        let drawn = next.saturating_mul(self.own.len() as u64);
        // Only the batch of copies is left.
        let last = self.copies_after().filter(|all| drawn >= *all && next < end);
        let (last, own) = (last.and_then(|all| all.checked_sub(1)), self.own.len());
        let input = |(number, (order, name)): (usize, (Order, &str))| {
            let of_shard = match last {
                // The last record of all is that of the last shard.
                Some(_) if number + 1 == own => next.saturating_sub(1),
                _ => next,
            };
            let place = self.list.place_of(&order, epoch, of_shard);
            let ended = place.is_none();
            let position =
                place.map_or_else(|| BatchPosition::of_epoch(epoch + 1), |at| in_shard(epoch, at));
            InputPosition { input: name.to_owned(), ended, position }
        };
        let inputs = self.orders().zip(names).enumerate().map(input).collect();
        ShardsPlace { record: last.unwrap_or(drawn), inputs, is_repeated: last.is_some() }
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
