//! The state of a channel: where a program goes on that is started again.

use std::collections::BTreeMap;

use pipemill_types::{Accepted, schema_extension};
use serde::Deserialize;

use super::batch::Batch;
use super::error::ReaderError;
use crate::protocol::{EpochEnd, Field, Hello, Rank, Resumed, State, Welcome};

/// Notes what a program was given, so that its state can be asked for at any time.
#[derive(Debug)]
pub(super) struct Tracker {
    channel: String,
    settings: BTreeMap<String, String>,
    rank: Rank,
    /// The last batch that was given, or the place where the next one begins.
    last: Resumed,
    /// Number of the next batch, if this program is given all batches.
    next: u64,
    /// No batch is expected to follow the one before.
    any_batch: bool,
    /// The number of the batch that came in the place of the next one.
    gap: Option<u64>,
}

impl Tracker {
    pub(super) fn new(welcome: &Welcome, hello: &Hello) -> Tracker {
        let known = hello.state.as_ref().and_then(|state| Resumed::deserialize(state).ok());
        let rank = hello.rank.unwrap_or_default();
        let last = known.or_else(|| welcome.resumed.clone()).unwrap_or_default();
        // Numbers are those of a run. One that has ended an epoch early has others.
        let any_batch = last.position.epoch > 0;
        // Another rank may have kept it: all are at the same step then.
        let last = Resumed { rank, ..last };
        Tracker {
            channel: welcome.channel.clone(),
            settings: welcome.settings.clone(),
            rank,
            next: last.first_batch(),
            last,
            any_batch,
            gap: None,
        }
    }

    /// The program is given this batch.
    pub(super) fn batch(&mut self, batch: &Batch) {
        let number = batch.number();
        if number != self.next && !self.any_batch && self.rank == Rank::ONLY {
            self.gap.get_or_insert(number);
        }
        (self.next, self.any_batch) = (number.saturating_add(1), false);
        if batch.valid() == 0 && batch.records() > 0 {
            // It fills the last round of its epoch, and nothing of that follows.
            return self.begin_epoch(batch.epoch().saturating_add(1));
        }
        self.last = Resumed {
            delivered: batch.valid() as u64,
            schema: String::new(),
            rank: self.rank,
            position: batch.position(),
            accepted: Accepted::default(),
        };
    }

    /// An epoch has ended.
    pub(super) fn epoch_end(&mut self, end: &EpochEnd) {
        self.any_batch = true;
        self.begin_epoch(end.epoch.saturating_add(1));
    }

    fn begin_epoch(&mut self, epoch: u32) {
        // An epoch's first batch belongs to rank 0.
        let next = self.next.checked_next_multiple_of(self.rank.world.into());
        self.next = next.unwrap_or(self.next);
        self.last = Resumed { rank: self.rank, ..Resumed::default() };
        (self.last.position.epoch, self.last.position.batch) = (epoch, self.next);
    }

    pub(super) fn state(&self, fields: Option<&[Field]>) -> Result<State, ReaderError> {
        if let Some(found) = self.gap {
            return Err(ReaderError::Gap { channel: self.channel.clone(), batch: found });
        }
        let is_any = self.settings.get(State::ORDER).is_some_and(|order| order == State::ANY_ORDER);
        if is_any && self.last.delivered > 0 {
            return Err(ReaderError::AnyOrder { channel: self.channel.clone() });
        }
        let mut resumed = self.last.clone();
        if resumed.schema.is_empty() {
            let text = fields.and_then(schema_extension).map(|(_, text)| text);
            resumed.schema = text.unwrap_or_default();
        }
        Ok(State::new(&self.channel, self.settings.clone(), resumed))
    }
}
