//! The state of a channel: the position from which a restarted program resumes.

use std::collections::BTreeMap;

use pipemill_types::{Accepted, schema_extension};
use serde::Deserialize;

use super::batch::Batch;
use super::error::ReaderError;
use crate::protocol::{EpochEnd, Field, Hello, Rank, Resumed, State, Welcome};

/// Records the batches that a program received, so that its state is available at any time.
#[derive(Debug)]
pub(super) struct Tracker {
    channel: String,
    settings: BTreeMap<String, String>,
    rank: Rank,
    /// The last received batch, or the position where the next one begins.
    last: Resumed,
    /// Number of the next batch, if this program receives all batches.
    next: u64,
    /// Whether any batch may follow.
    any_batch: bool,
    /// The number of the first unexpected batch.
    gap: Option<u64>,
}

impl Tracker {
    pub(super) fn new(welcome: &Welcome, hello: &Hello) -> Tracker {
        let known = hello.state.as_ref().and_then(|state| Resumed::deserialize(state).ok());
        let rank = hello.rank.unwrap_or_default();
        let last = known.or_else(|| welcome.resumed.clone()).unwrap_or_default();
        // Numbers are valid within a run. A run that has ended an epoch early has other numbers.
        let any_batch = last.position.epoch > 0;
        // Another rank may have kept it: all ranks are at the same step then.
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

    /// Records that the program receives this batch.
    pub(super) fn batch(&mut self, batch: &Batch) {
        let number = batch.number();
        if number != self.next && !self.any_batch && self.rank == Rank::ONLY {
            self.gap.get_or_insert(number);
        }
        (self.next, self.any_batch) = (number.saturating_add(1), false);
        if batch.valid() == 0 && batch.records() > 0 {
            // It fills the last round of its epoch, and no other batch of the epoch follows.
            return self.begin_epoch(batch.epoch().saturating_add(1));
        }
        self.last = Resumed {
            delivered: batch.valid() as u64,
            schema: String::new(),
            rank: self.rank,
            position: batch.position(),
            passed: 0,
            accepted: Accepted::default(),
        };
    }

    /// Records the end of an epoch.
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
