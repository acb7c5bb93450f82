//! Rounds of batches, one for each rank: all ranks get equally many batches of an epoch.
//!
//! Batches wait here until it is known that their round is full. With `tail = "drop"` a round waits
//! as a whole, and the last one is dropped if it is not full. With `tail = "pad"` one batch waits:
//! if it is the epoch's last one, copies of it without a real record fill the round.

use std::collections::VecDeque;

use pipemill_channel::Batch;
use pipemill_ring::host::{Ring, Writer};
use pipemill_types::{BatchSize, Mode, Tail};

/// Batches that wait for the rest of their round.
pub struct Rounds {
    /// Number of ranks.
    world: u64,
    fills: bool,
    held: VecDeque<(Writer, Batch)>,
    /// Number of batches in `held` that may leave.
    ready: usize,
    /// Number in its round of the first batch in `held`.
    first: u64,
}

impl Rounds {
    /// Rounds for a ring whose batches are divided among ranks.
    pub fn of(ring: &Ring, batch: Option<BatchSize>) -> Option<Rounds> {
        let (mode, world) = ring.division();
        let world = (mode == Mode::Rank).then_some(u64::from(world))?;
        let fills = batch.is_some_and(|batch| batch.tail == Tail::Pad);
        let first = ring.batches() % world;
        Some(Rounds { world, fills, held: VecDeque::new(), ready: 0, first })
    }

    /// Number of ranks.
    pub fn world(&self) -> u64 {
        self.world
    }

    /// Adds a batch that was filled.
    pub fn hold(&mut self, memory: Writer, batch: Batch) {
        self.held.push_back((memory, batch));
        let held = self.held.len() as u64;
        self.ready = if self.fills {
            self.held.len() - 1
        } else if (self.first + held).is_multiple_of(self.world) {
            self.held.len()
        } else {
            self.ready
        };
    }

    /// The next batch that may leave.
    pub fn next_ready(&mut self) -> Option<(Writer, Batch)> {
        self.ready = self.ready.checked_sub(1)?;
        self.first = (self.first + 1) % self.world;
        self.held.pop_front()
    }

    /// The epoch's last batch, if copies of it fill its round.
    pub fn take_last(&mut self) -> Option<(Writer, Batch)> {
        if !self.fills {
            return None;
        }
        // The next epoch begins with rank 0.
        self.first = 0;
        self.held.pop_back()
    }

    /// Number of batches that its round lacks after the batch before number `next`.
    pub fn missing(&self, next: u64) -> u64 {
        next.next_multiple_of(self.world) - next
    }

    /// Drops the waiting batches, and returns their number.
    pub fn drop_held(&mut self) -> usize {
        let dropped = self.held.len();
        self.held.clear();
        (self.ready, self.first) = (0, 0);
        dropped
    }

    /// The batches that may leave after a failure of the channel: none of a round that is not full,
    /// unless rounds are filled.
    pub fn into_whole(self) -> impl Iterator<Item = (Writer, Batch)> {
        self.held.into_iter().filter(move |_| self.fills)
    }
}
