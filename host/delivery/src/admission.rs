//! Admits consumers, and decides where the channel restarts for them.
//!
//! A consumer's HELLO may name a number of records, its part of the batches and a state. If the
//! channel is in that state already, nothing happens. Otherwise it restarts: the ring drops all
//! batches that nobody has received, and the writer starts at the new position. That is possible
//! only while no other consumer reads the channel, and its input can be read again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pipemill_ring::host::{
    Admitted, ConsumerId, Delivery, Denied, LockedRing, Request, Ring, RingConfig, Table,
    check_rank, check_rank_is_free, credits, is_same_division,
};
use pipemill_ring::protocol::{BatchPlace, ErrorReport, Hello, Mode, Resumed, Tail};
use pipemill_types::schema_extension;

use crate::delivery_state::DeliveryState;
use crate::ledger::{Checkpoint, Ledger};
use crate::placement::Placement;
use crate::recent::RecentBatches;
use crate::remedies;
use crate::restart_policy::{Match, RestartPolicy};
use crate::stream_config::StreamConfig;

/// Delivers the batches of one channel: it admits consumers to the channel's ring, and knows which
/// batches are done.
pub struct ChannelDelivery {
    policy: Box<dyn RestartPolicy>,
    ring: RingConfig,
    /// The lock may be taken with or without the ring's lock. The ring's lock must not be taken
    /// while this one is held.
    state: Mutex<DeliveryState>,
}

impl ChannelDelivery {
    /// Makes the channel of this ring begin at `start`. `policy` decides what else consumers may
    /// request. Call it once, before any batch is granted and before a consumer connects.
    pub fn attach(
        ring: &Ring,
        start: StreamConfig,
        policy: Box<dyn RestartPolicy>,
    ) -> Arc<ChannelDelivery> {
        let config = ring.config().clone();
        let mut recent = RecentBatches::new(config.slots);
        recent.restart(config.slots, start.ranks());
        for (rank, of_rank) in &start.states {
            recent.expect(*rank, of_rank);
        }
        let (now, configured) = (start.clone(), start.clone());
        let (is_requested, refusals, ledger) = Default::default();
        let state = DeliveryState { now, configured, is_requested, recent, refusals, ledger };
        let (restart, state) = (start.restart(&config), Mutex::new(state));
        let delivery = Arc::new(ChannelDelivery { policy, ring: config, state });
        ring.set_delivery(delivery.clone(), start.first_batch(), |table| {
            table.restart(restart);
            set_wanted(table, &start, None);
            table.set_done_before(start.done.clone());
        });
        delivery
    }

    /// The position at which the channel begins or began.
    pub fn config(&self) -> StreamConfig {
        self.state().now.clone()
    }

    /// Keeps a ledger of the batches that are done, for [`checkpoints`](Self::checkpoints). Call it
    /// before any batch is granted.
    pub fn keep_checkpoints(&self) {
        let mut state = self.state();
        state.ledger = Some(Ledger::new(&state.now));
    }

    /// The positions at which the channel would resume if the host died now: one for each rank, or
    /// one for all consumers together. Empty before [`keep_checkpoints`](Self::keep_checkpoints).
    pub fn checkpoints(&self, ring: &Ring) -> Vec<Checkpoint> {
        let mut checkpoints =
            self.state().ledger.as_ref().map(Ledger::checkpoints).unwrap_or_default();
        let text = ring.fields().and_then(schema_extension);
        let schema = text.map(|(_, text)| text).unwrap_or_default();
        for checkpoint in &mut checkpoints {
            if checkpoint.place.schema.is_empty() {
                checkpoint.place.schema.clone_from(&schema);
            }
        }
        checkpoints
    }

    /// Starts the writer at the position of the restart, which this returns. It must not be called
    /// while the channel has a writer.
    pub fn restarted(&self, ring: &Ring) -> StreamConfig {
        ring.restarted(|| {
            let now = self.config();
            (now.first_batch(), now)
        })
    }

    /// Handles a failure of the channel. If the failure is the fault of the consumers that
    /// requested the restart, only they get the error, and the channel restarts with its
    /// configuration: returns true. Returns false if it is the fault of the channel, or the ring
    /// was stopped.
    ///
    /// `has_no_memory`: the batches exceed the memory limit, which is the consumers' fault if they
    /// requested another number of records. Any other failure is their fault if no batch was
    /// granted since the restart.
    pub fn fail_request(&self, ring: &Ring, report: &ErrorReport, has_no_memory: bool) -> bool {
        ring.end_consumers(report, |table| {
            let state = self.state();
            let other_batches = state.now.batch != state.configured.batch;
            let is_at_fault = !table.has_granted() || has_no_memory && other_batches;
            state.is_requested && is_at_fault
        })
    }

    fn state(&self) -> MutexGuard<'_, DeliveryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The consumer's request.
    fn requested(&self, now: &StreamConfig, hello: &Hello) -> Result<StreamConfig, String> {
        check_rank(now.mode, now.consumers, hello.rank).map_err(remedies::of_rank)?;
        let is_same_division = is_same_division(now.mode, now.consumers, hello);
        if hello.batch.is_none() && hello.state.is_none() && is_same_division {
            return Ok(StreamConfig { resumed: None, ..now.clone() });
        }
        let requested = self.policy.requested(now, hello)?;
        check_tail(&requested)?;
        Ok(requested)
    }

    /// Restarts the channel. `only` is the rank whose state it is; the other ranks have not sent
    /// theirs.
    fn restart(
        &self,
        state: &mut DeliveryState,
        table: &mut Table,
        again: StreamConfig,
        only: Option<u32>,
    ) {
        let waiting: Vec<_> = table.connected().map(|(_, rank)| rank).collect();
        let kept: Vec<_> = waiting.iter().map(|rank| table.wanted_from_of(*rank)).collect();
        table.restart(again.restart(&self.ring));
        state.recent.restart(self.ring.slots, again.ranks());
        set_wanted(table, &again, only);
        table.await_consumers();
        for (rank, first) in waiting.iter().zip(kept) {
            table.set_wanted_from(*rank, first);
        }
        if let Some(before) = &mut state.ledger {
            let mut ledger = Ledger::new(&again);
            for rank in waiting {
                ledger.set_place(rank, before.place_of(rank), false);
            }
            *before = ledger;
        }
        state.now = again;
    }
}

/// The request of a consumer, completed to a whole configuration.
struct Requested<'a> {
    delivery: &'a ChannelDelivery,
    hello: &'a Hello,
    /// The configuration of the channel before the request.
    now: StreamConfig,
    asked: StreamConfig,
    credits: u32,
}

impl Request for Requested<'_> {
    fn admit(self: Box<Self>, mut ring: LockedRing<'_>) -> Result<Admitted, Denied> {
        let Requested { delivery, hello, now, asked, credits } = *self;
        let rank = hello.rank.map_or(0, |rank| rank.number);
        if asked.mode == Mode::Rank && asked.is_cut_and_divided_as(&now) {
            check_rank_is_free(ring.table, hello.rank.unwrap_or_default())?;
        }
        let state = &mut *delivery.state();
        if hello.state.is_some() {
            state.refusals.remove(&rank);
        }
        let (policy, has_state) = (&*delivery.policy, hello.state.is_some());
        let mut placement =
            Placement { policy, state, ring: &mut ring, now: &now, rank, has_state };
        if let Some(again) = placement.place(asked)? {
            if let Some(resumed) = &again.resumed {
                state.recent.expect(rank, resumed);
            }
            let again = with_earlier_ranks(&now, ring.table, rank, again);
            delivery.restart(state, ring.table, again, has_state.then_some(rank));
            state.is_requested = true;
        }
        let StreamConfig { mode, settings, resumed, .. } = state.now.clone();
        let resumed = resumed.map(|_| state.now.state_of(rank));
        let length = policy.length(&state.now);
        Ok(Admitted { rank, credits, mode, resumed, settings, length })
    }
}

impl Delivery for ChannelDelivery {
    fn request<'a>(&'a self, hello: &'a Hello) -> Result<Box<dyn Request + 'a>, String> {
        let now = self.config();
        let asked = self.requested(&now, hello)?;
        let wanted = hello.credits.unwrap_or(self.ring.credits);
        let tail = asked.batch.map(|batch| batch.tail);
        let credits = credits(self.ring.slots, wanted, asked.mode, asked.consumers, tail)
            .map_err(remedies::of_slots)?;
        Ok(Box::new(Requested { delivery: self, hello, now, asked, credits }))
    }

    fn restart_as_configured(&self, table: &mut Table) {
        let mut state = self.state();
        let configured = state.configured.clone();
        self.restart(&mut state, table, configured, None);
        state.is_requested = false;
    }

    fn filled(&self, table: &Table, batch: Resumed) -> Vec<(ConsumerId, String)> {
        let mut state = self.state();
        if let Some(ledger) = &mut state.ledger {
            ledger.filled(batch.clone());
        }
        let mut refused = Vec::new();
        for (rank, expected) in state.recent.filled(batch.clone()) {
            if self.policy.is_same_batch(&expected, &batch, Match::Tolerant) {
                continue;
            }
            let reason = not_of_this_run(&expected, &batch);
            match table.consumer_of(rank) {
                Some(consumer) => refused.push((consumer, reason)),
                None => drop(state.refusals.insert(rank, reason)),
            }
        }
        refused
    }

    fn connected(&self, rank: u32) -> Option<String> {
        self.state().refusals.remove(&rank)
    }

    fn done(&self, batch: u64) {
        if let Some(ledger) = &mut self.state().ledger {
            ledger.done(batch);
        }
    }

    fn found(&self, rank: u32, batch: u64) {
        if let Some(ledger) = &mut self.state().ledger {
            ledger.found(rank, batch);
        }
    }

    fn epoch_ended(&self, next: BatchPlace) {
        if let Some(ledger) = &mut self.state().ledger {
            ledger.epoch_ended(next);
        }
    }
}

/// The configuration of a restart that this rank has asked for. If a rank that is connected waits
/// for batches before that place, the channel begins where it began: they come first.
fn with_earlier_ranks(
    now: &StreamConfig,
    table: &Table,
    rank: u32,
    again: StreamConfig,
) -> StreamConfig {
    let earliest = table.connected().map(|(_, other)| table.wanted_from_of(other)).min();
    let is_before = earliest.is_some_and(|first| first < again.start());
    let Some(own) = again.resumed.clone().filter(|_| is_before) else { return again };
    let (resumed, mut states) = (now.resumed.clone(), now.states.clone());
    states.insert(rank, own);
    StreamConfig { resumed, states, ..again }
}

/// Sets the first batches of all ranks in the table. `only` is the rank whose state it is; the
/// other ranks have not sent theirs.
fn set_wanted(table: &mut Table, start: &StreamConfig, only: Option<u32>) {
    for rank in (0..start.ranks()).filter(|rank| only.is_none_or(|only| only == *rank)) {
        table.set_wanted_from(rank, start.first_batch_of(rank));
    }
}

/// The refusal of a consumer whose state names a batch that differs in this run: its program has
/// received records that this run does not have.
pub(crate) fn not_of_this_run(state: &Resumed, batch: &Resumed) -> String {
    let shown = |place: &Resumed| {
        let Resumed { delivered, position, .. } = place;
        format!(
            "{delivered} records from record {} of {} in epoch {} on",
            position.first_record, position.object, position.epoch
        )
    };
    format!(
        "state: its last batch, {}, had {} when the state was taken, and has {} now: `objects` \
         differ; bring the input back, or connect without the state",
        state.position.batch,
        shown(state),
        shown(batch)
    )
}

/// Whether ranks can get equally many batches.
fn check_tail(asked: &StreamConfig) -> Result<(), String> {
    if asked.mode != Mode::Rank {
        return Ok(());
    }
    match asked.batch.map(|batch| batch.tail) {
        Some(Tail::Drop | Tail::Pad) => Ok(()),
        Some(Tail::Keep) => {
            Err("rank: all ranks get equally many batches, so say what happens to the last ones: \
                 tail = \"drop\" or tail = \"pad\""
                .into())
        }
        None => Err("rank: the same batches must come in each run, so say how many records they \
                     have: `batch`, and tail = \"drop\" or tail = \"pad\""
            .into()),
    }
}
