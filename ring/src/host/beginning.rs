//! Where a channel begins, how its batches are cut and divided, and what consumers may ask of that.
//!
//! A consumer's HELLO may name a number of records, its part of the batches and a state. Where the
//! channel is like that already, nothing happens. Else it begins again: the ring drops all batches
//! that nobody got, and the writer starts at the new place. That is possible only while no other
//! consumer reads the channel, and its input can be read again.

use std::collections::{BTreeMap, BTreeSet};

use super::config::RingConfig;
use super::ledger::Ledger;
use super::ring::Ring;
use super::state::RingState;
use super::table::{ConsumerId, NewBeginning, RecordPlace, Sought};
use crate::protocol::{
    self, BatchPlace, BatchSize, ErrorReport, Hello, Mode, Resumed, Shard, Tail,
};

/// Where a channel begins, and how its batches are cut and divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// How batches are divided among consumers.
    pub mode: Mode,
    /// Consumers that must be connected before the first grant. In `Shard`: the ranks.
    pub consumers: u32,
    /// The number of records of each batch, where the channel has one.
    pub batch: Option<BatchSize>,
    /// Where it begins. None: at the beginning of its input.
    pub resumed: Option<Resumed>,
    /// The state of each rank, where states of several ranks were given.
    pub states: BTreeMap<u32, Resumed>,
    /// Batches after the place where it begins that were done in an earlier run.
    pub done: BTreeSet<u64>,
    /// The settings that a state of the channel depends on.
    pub settings: BTreeMap<String, String>,
}

impl Beginning {
    /// The beginning of the input, for a ring with these settings.
    pub(super) fn of(config: &RingConfig) -> Beginning {
        Beginning {
            mode: config.mode,
            consumers: config.consumers,
            batch: None,
            resumed: None,
            states: BTreeMap::new(),
            done: BTreeSet::new(),
            settings: BTreeMap::new(),
        }
    }

    /// Number of the first batch that is decoded.
    pub fn first_batch(&self) -> u64 {
        let Some(resumed) = self.decoded_from() else { return 0 };
        let is_whole = resumed.given == 0 && !self.decodes_last_again();
        let (first, world) = (resumed.first_batch(), self.part(0).world);
        // An epoch's first batch belongs to rank 0.
        let of_rank_0 = first.checked_next_multiple_of(world.into());
        if is_whole { of_rank_0.unwrap_or(first) } else { first }
    }

    /// The place at which decoding begins.
    pub fn decoded_from(&self) -> Option<Resumed> {
        let resumed = self.resumed.clone()?;
        let given = if self.decodes_last_again() { 0 } else { resumed.given };
        Some(Resumed { given, ..resumed })
    }

    /// Whether the state's last batch is decoded again: if it is the last one of its epoch, its copies
    /// fill the round for the other ranks.
    fn decodes_last_again(&self) -> bool {
        let fills = self.batch.is_some_and(|batch| batch.tail == Tail::Pad);
        self.mode == Mode::Shard && fills && self.resumed.as_ref().is_some_and(is_inside)
    }

    /// The first batch that is decoded.
    fn start(&self) -> BatchPlace {
        let epoch = self.resumed.as_ref().map_or(0, |resumed| resumed.position.epoch);
        let is_inside = self.resumed.as_ref().is_some_and(is_inside);
        BatchPlace { epoch, number: if is_inside { self.first_batch() } else { 0 } }
    }

    /// The first batch that is delivered to a rank.
    fn first_batch_of(&self, rank: u32) -> BatchPlace {
        let state = self.states.get(&rank).or(self.resumed.as_ref());
        state.map(|state| state.first_batch_of(self.part(rank))).unwrap_or_default()
    }

    /// Where a rank begins, as a state that it may go on from.
    pub(super) fn state_of(&self, rank: u32) -> Resumed {
        let state = self.states.get(&rank).or(self.resumed.as_ref()).cloned().unwrap_or_default();
        Resumed { shard: self.part(rank), ..state }
    }

    /// What the table of a ring with these settings has to know of it.
    pub(super) fn of_table(&self, config: &RingConfig) -> NewBeginning {
        let few = RingConfig::FEW_DEDICATED.min(config.dedicated);
        let dedicated = if self.batch.is_some() { config.dedicated } else { few };
        let (mode, consumers, epoch) = (self.mode, self.consumers, self.start().epoch);
        NewBeginning { mode, consumers, epoch, dedicated }
    }

    /// Number of parts that the batches are divided into.
    pub(super) fn ranks(&self) -> u32 {
        self.part(0).world
    }

    /// The part of the batches that this rank has; all of them if they are not dealt to ranks.
    fn part(&self, rank: u32) -> Shard {
        if self.mode == Mode::Shard { Shard { rank, world: self.consumers } } else { Shard::ALL }
    }

    fn is_cut_and_divided_as(&self, other: &Beginning) -> bool {
        (self.mode, self.consumers, self.batch) == (other.mode, other.consumers, other.batch)
    }
}

/// Whether the state is in the middle of an epoch.
fn is_inside(state: &Resumed) -> bool {
    state.given > 0
}

/// What the host knows about the beginnings that a channel can have. Its methods don't wait.
pub trait Beginnings: Send + Sync {
    /// The beginning that a consumer asks for, if the channel is at `now`. Its `resumed` is that of
    /// the consumer's state, or None.
    ///
    /// # Errors
    /// The reason to refuse it, for people.
    fn asked_for(&self, now: &Beginning, hello: &Hello) -> Result<Beginning, String>;

    /// Whether the channel's input can be read again, from any place on.
    fn can_begin_again(&self) -> bool;

    /// Whether this batch, which was filled in this run, is the last one of the state.
    fn is_same_batch(&self, state: &Resumed, batch: &Resumed, how: Match) -> bool;
}

/// How a state is compared with a batch of this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// Whatever can't be compared is a difference.
    Strict,
    /// Whatever can't be compared is the same, such as a list that was not read to its end.
    Tolerant,
}

/// The refusal of a consumer whose state names a batch that is another one in this run.
pub(super) fn not_of_this_run(state: &Resumed, batch: &Resumed) -> String {
    let shown = |place: &Resumed| {
        let Resumed { given, position, .. } = place;
        format!(
            "{given} records from record {} of {} in epoch {} on",
            position.first_record, position.object, position.epoch
        )
    };
    format!(
        "state: its last batch, {}, had {} when the state was taken, and has {} now: `objects` differ; \
         bring the input back, or connect without the state",
        state.position.batch,
        shown(state),
        shown(batch)
    )
}

/// Why a consumer is not welcome.
pub(super) enum Denied {
    /// For this reason.
    Because(String),
    /// For this reason, as long as these consumers are connected.
    WhileConnected(Vec<ConsumerId>, String),
}

impl From<String> for Denied {
    fn from(reason: String) -> Denied {
        Denied::Because(reason)
    }
}

/// What a consumer gets that is welcome.
pub(super) struct Admitted {
    pub(super) rank: u32,
    pub(super) credits: u32,
    pub(super) beginning: Beginning,
    /// How often requests had failed before it was admitted.
    pub(super) failed_requests: u64,
}

impl Ring {
    /// Lets the channel begin as a consumer asks for, or refuses the consumer.
    pub(super) fn admit(&self, hello: &Hello) -> Result<Admitted, Denied> {
        // The consumers of what has failed get its error, and this one does not.
        self.change(|state, _| self.begin_after_failure(state)).map_err(|others| {
            let why = "what another consumer asked for has failed, and it is still connected; connect again";
            Denied::WhileConnected(others, why.into())
        })?;
        let now = self.beginning();
        let asked = self.asked_for(&now, hello)?;
        let rank = hello.shard.map_or(0, |shard| shard.rank);
        let credits = self.credits(hello, &asked)?;
        self.change(|state, _| {
            if asked.mode == Mode::Shard
                && asked.is_cut_and_divided_as(&now)
                && let Some(taken) = state.table.consumer_of(rank)
            {
                let shard = hello.shard.unwrap_or_default();
                let why = format!(
                    "shard: another consumer is connected as {shard}; each rank connects once"
                );
                return Err(Denied::WhileConnected(vec![taken], why));
            }
            if let Some(again) = self.place(state, &now, asked, hello, rank)? {
                if let Some(resumed) = &again.resumed {
                    state.recent.expect(rank, resumed);
                }
                self.begin_again(state, again, hello.state.as_ref().map(|_| rank));
                state.is_requested = true;
            }
            let (beginning, (failed_requests, _)) =
                (state.beginning.clone(), &state.failed_requests);
            Ok(Admitted { rank, credits, beginning, failed_requests: *failed_requests })
        })
    }

    /// What the consumer asks for, as a beginning.
    fn asked_for(&self, now: &Beginning, hello: &Hello) -> Result<Beginning, String> {
        let world = now.consumers;
        match (now.mode, hello.shard) {
            (_, Some(Shard { rank, world })) if rank >= world || world > Shard::MAX_WORLD => {
                let most = Shard::MAX_WORLD;
                return Err(format!(
                    "shard: expected a rank below the number of ranks, and at most {most} ranks; \
                     found rank {rank} of {world}"
                ));
            }
            (Mode::Broadcast, Some(_)) => {
                return Err(
                    "shard: each consumer gets all batches of this channel, because it has \
                            mode = \"broadcast\"; leave out shard, or change the mode"
                        .into(),
                );
            }
            (Mode::Shard, None) => {
                return Err(format!(
                    "this channel is read by {world} ranks: connect with shard=(rank, {world})"
                ));
            }
            _ => {}
        }
        let is_same_division =
            hello.shard.is_none_or(|shard| now.mode == Mode::Shard && shard.world == now.consumers);
        if hello.batch.is_none() && hello.state.is_none() && is_same_division {
            return Ok(Beginning { resumed: None, ..now.clone() });
        }
        let Some(beginnings) = self.beginnings() else {
            return Err("this host can't go on at a state, and can't change its batches".into());
        };
        let asked = beginnings.asked_for(now, hello)?;
        check_shards(&asked)?;
        Ok(asked)
    }

    /// The number of grants that the consumer may hold at once. One slot is left for the writer, and
    /// in `Shard` those of the batches that wait until their round is known.
    fn credits(&self, hello: &Hello, asked: &Beginning) -> Result<u32, String> {
        let (slots, wanted) = (self.config().slots, hello.credits.unwrap_or(self.config().credits));
        if asked.mode != Mode::Shard {
            return Ok(wanted.min(slots - 1));
        }
        let (world, tail) = (asked.consumers, asked.batch.map(|batch| batch.tail));
        let (held, needed) = (wanted.min(2), slots_of_ranks(world, wanted.min(2), tail));
        if slots < needed {
            return Err(format!(
                "{world} ranks that hold {held} batches each need {needed} slots, and this channel \
                 has {slots}: set `slots = {needed}` or more in [channel.ring]"
            ));
        }
        let waiting = slots_of_ranks(world, 0, tail);
        Ok(wanted.min((slots - waiting) / world))
    }

    /// Where the channel has to begin for this consumer; None if it can go on as it is.
    fn place(
        &self,
        state: &mut RingState,
        now: &Beginning,
        asked: Beginning,
        hello: &Hello,
        rank: u32,
    ) -> Result<Option<Beginning>, Denied> {
        let (others, has_granted) = (state.table.consumers().len(), state.table.has_granted());
        let is_other = !asked.is_cut_and_divided_as(now);
        let can_begin_again = self.beginnings().is_some_and(|known| known.can_begin_again());
        if !is_other {
            let Some(resumed) = &asked.resumed else { return Ok(None) };
            let mut first = resumed.first_batch_of(asked.part(rank));
            let is_same = self.may_be_of_this_run(state, now, resumed, can_begin_again);
            let is_to_come =
                is_same && asked.batch.is_some() && self.is_to_come(state, now, first, rank);
            let is_coming =
                has_same_numbers(state, now, first) && self.is_behind_writer(state, first);
            let is_near = others > 0 || !can_begin_again || is_coming;
            // Of an epoch that was ended early, what is left was dropped.
            let is_whole = !state.table.is_skipped(first.epoch);
            let is_shard = now.mode == Mode::Shard;
            if is_to_come && is_near && (is_shard || is_whole && others == 0) {
                let (mut place, mut is_sought) = (resumed.clone(), false);
                if !can_begin_again && is_of_earlier_run(state, now, first) {
                    let part = asked.part(rank);
                    (first, is_sought) = seek(state, part, &mut place)?;
                }
                if !is_sought {
                    state.recent.expect(rank, resumed);
                }
                if is_shard {
                    state.table.expect(rank, first);
                } else {
                    // What this consumer has is not for the others either that may come.
                    state.table.go_on_from(first);
                    state.beginning = asked;
                }
                if let Some(ledger) = &mut state.ledger {
                    ledger.set_place(rank, place, is_sought);
                }
                return Ok(None);
            }
            if !has_granted && now.resumed == asked.resumed {
                return Ok(None);
            }
            if !is_same && !can_begin_again {
                return Err(Denied::Because(NOT_AMONG_THOSE.into()));
            }
        }
        let what = if is_other { "other batches" } else { "another place" };
        let reason = |why: String| format!("this consumer asks for {what}, but {why}");
        let refused = |why: String| Err(Denied::Because(reason(why)));
        if state.writer_ended || state.table.end_sent() {
            return refused("the channel is at its end; start the host again".into());
        }
        if !can_begin_again {
            return refused(
                "its input can't be read again; set `batch` and `mode` in the configuration, and \
                 give the state to `pipemill run --resume`"
                    .into(),
            );
        }
        if others > 0 && (is_other || has_granted || now.mode != Mode::Shard) {
            let ids = state.table.consumers().iter().map(|consumer| consumer.id).collect();
            let why = format!("{others} of the channel's consumers are connected; end them first");
            return Err(Denied::WhileConnected(ids, reason(why)));
        }
        if has_granted && hello.state.is_none() {
            return refused(
                "batches of the channel were granted before; connect with a state, or start the \
                 host again"
                    .into(),
            );
        }
        if is_other && asked.resumed.is_none() {
            let (resumed, states) = (now.resumed.clone(), now.states.clone());
            return Ok(Some(Beginning { resumed, states, ..asked }));
        }
        Ok(Some(asked))
    }

    /// Whether the state's last batch is one of this run, or may be: then it is compared when it is
    /// filled. A batch that was filled and is not known any more may be any.
    fn may_be_of_this_run(
        &self,
        state: &RingState,
        now: &Beginning,
        asked: &Resumed,
        can_begin_again: bool,
    ) -> bool {
        let is_own = |own: &Resumed| (own.given, &own.position) == (asked.given, &asked.position);
        if !is_inside(asked) {
            // It may name the list of its epoch, with which nothing here can be compared.
            return asked.position.identity.is_empty() || !can_begin_again;
        }
        if now.resumed.iter().chain(now.states.values()).any(is_own) {
            return true;
        }
        let number = asked.position.batch;
        let next = if state.table.begins_again() { now.first_batch() } else { self.batches() };
        match (state.recent.find(number), self.beginnings()) {
            (Some(batch), Some(beginnings)) => {
                beginnings.is_same_batch(asked, batch, Match::Strict)
            }
            // Of a FIFO's later epochs the numbers may be others: they are sought.
            _ => {
                number >= next
                    || !can_begin_again
                        && is_of_earlier_run(state, now, asked.first_batch_of(now.part(0)))
            }
        }
    }

    /// Whether no batch from this number on was ACKed by the rank, and all of them will come, and the
    /// end of their epoch.
    fn is_to_come(&self, state: &RingState, now: &Beginning, first: BatchPlace, rank: u32) -> bool {
        let is_unread = first >= state.table.acked_below(rank).max(now.start());
        is_unread && !state.table.is_past(first.epoch)
    }

    /// Whether the writer gets to this batch, or has got to it, without going back or far ahead.
    fn is_behind_writer(&self, state: &RingState, first: BatchPlace) -> bool {
        let is_inside = first.number > 0;
        let is_next = is_inside && first.number <= self.batches();
        is_next || !is_inside && first.epoch <= state.table.writing()
    }

    /// The channel has failed. Where that is the fault of the consumers that made it begin where it did,
    /// they are sent the error alone, and the channel begins again as it is configured: true. False
    /// where it is the channel's own, or the ring was stopped.
    ///
    /// `has_no_memory`: the batches are larger than they may be, which is the consumers' fault if they
    /// asked for other ones. Otherwise it is theirs if no batch was granted from there on.
    pub fn fail_request(&self, report: &ErrorReport, has_no_memory: bool) -> bool {
        let is_request = |state: &RingState| {
            let other_batches = state.beginning.batch != state.configured.batch;
            let is_at_fault = !state.table.has_granted() || has_no_memory && other_batches;
            state.is_requested && is_at_fault
        };
        let message = protocol::error(report);
        let mut state = self.lock();
        if !is_request(&state) {
            return false;
        }
        state.failing = Some(message.clone());
        drop(state);
        loop {
            self.end_consumers(&message);
            let ended = self.change(|state, _| {
                if state.stopped {
                    return Some(false);
                }
                // A consumer has asked for something since.
                let begins_again = state.table.begins_again();
                (begins_again || self.begin_after_failure(state).is_ok()).then_some(true)
            });
            if let Some(begins_again) = ended {
                return begins_again;
            }
        }
    }

    /// Lets the channel begin as it is configured, if what a consumer asked for has failed. The
    /// error has the consumers that are connected: while they are, it can't begin.
    fn begin_after_failure(&self, state: &mut RingState) -> Result<(), Vec<ConsumerId>> {
        let others: Vec<_> = state.table.consumers().iter().map(|one| one.id).collect();
        if state.failing.is_none() || state.table.begins_again() {
            state.failing = None;
            return Ok(());
        }
        if !others.is_empty() {
            return Err(others);
        }
        let message = state.failing.take().unwrap_or_default();
        self.begin_again(state, state.configured.clone(), None);
        state.is_requested = false;
        // For a consumer that was admitted and is not connected yet.
        state.failed_requests = (state.failed_requests.0 + 1, message);
        Ok(())
    }

    /// Sends all consumers this message as the last one, and waits until none is connected.
    fn end_consumers(&self, message: &[u8]) {
        let mut state = self.lock();
        state.waits_for_none = true;
        // Who has come since the channel begins again has not asked for what failed.
        while !(state.stopped || state.table.begins_again()) {
            state.sockets.iter_mut().for_each(|socket| socket.end_with(message));
            if state.table.consumers().is_empty() {
                break;
            }
            state = self.wait(state);
        }
        state.waits_for_none = false;
    }

    /// `only`: the rank whose state it is; the others have not said where they go on.
    fn begin_again(&self, state: &mut RingState, again: Beginning, only: Option<u32>) {
        let waiting: Vec<_> = state.table.consumers().iter().map(|one| one.rank).collect();
        let kept: Vec<_> = waiting.iter().map(|rank| state.table.wanted_from_of(*rank)).collect();
        state.table.begin_again(again.of_table(self.config()));
        state.recent.begin_again(self.config().slots, again.ranks());
        self.set_wanted(state, &again, only);
        state.table.await_consumers();
        for (rank, first) in waiting.iter().zip(kept) {
            state.table.set_wanted_from(*rank, first);
        }
        if let Some(before) = &mut state.ledger {
            let mut ledger = Ledger::new(&again);
            for rank in waiting {
                ledger.set_place(rank, before.place_of(rank), false);
            }
            *before = ledger;
        }
        state.beginning = again;
    }

    /// Tells the table the first batches of all ranks. `only`: the rank whose state it is; the
    /// others have not said where they go on.
    pub(super) fn set_wanted(&self, state: &mut RingState, begun: &Beginning, only: Option<u32>) {
        let ranks = if begun.mode == Mode::Shard { begun.consumers } else { 1 };
        for rank in (0..ranks).filter(|rank| only.is_none_or(|only| only == *rank)) {
            state.table.set_wanted_from(rank, begun.first_batch_of(rank));
        }
    }
}

/// Whether the state may be of a run before this one that had other numbers: nobody was given anything
/// of its epoch here.
fn is_of_earlier_run(state: &RingState, now: &Beginning, first: BatchPlace) -> bool {
    first.number > 0 && first.epoch > now.start().epoch && !state.table.has_granted_in(first.epoch)
}

/// The refusal of a state whose last batch can't come.
const NOT_AMONG_THOSE: &str = "state: its last batch is not among those of this run, so the input has changed since; bring it \
     back and start the host again, or connect without the state";

/// The first batch of this part after the state's last one, which is known by its first record; and
/// whether that has yet to come. `place` gets its number in this run, if it has come.
fn seek(
    state: &mut RingState,
    part: Shard,
    place: &mut Resumed,
) -> Result<(BatchPlace, bool), String> {
    let at = &place.position;
    let first = RecordPlace { object: at.object_number, record: at.first_record };
    let found = state.table.seek(Sought { epoch: at.epoch, first, part });
    let (first, number) = found.ok_or(NOT_AMONG_THOSE)?;
    place.position.batch = number.unwrap_or(place.position.batch);
    Ok((first, number.is_none()))
}

/// Whether the batches of this epoch have the numbers here that they had where the state was taken.
/// An epoch that was ended early has fewer numbers than a whole one, so those of later epochs are
/// known only in the run that has delivered them. Ranks whose states are of one run begin with the
/// numbers of the first of them.
fn has_same_numbers(state: &RingState, now: &Beginning, first: BatchPlace) -> bool {
    let is_start = first.number == 0;
    is_start || first.epoch == now.start().epoch || first.epoch <= state.table.epoch()
}

/// Number of slots that a channel needs whose batches are dealt to `world` ranks, if each of them
/// holds `held` batches. One is left to be filled, and batches wait until it is known whether their
/// round is full: all of it with [`Tail::Drop`], else one.
pub fn slots_of_ranks(world: u32, held: u32, tail: Option<Tail>) -> u32 {
    let waiting = if tail == Some(Tail::Drop) { world } else { 1 };
    world.saturating_mul(held).saturating_add(waiting).saturating_add(1)
}

/// Whether ranks can get equally many batches.
fn check_shards(asked: &Beginning) -> Result<(), String> {
    if asked.mode != Mode::Shard {
        return Ok(());
    }
    match asked.batch.map(|batch| batch.tail) {
        Some(Tail::Drop | Tail::Pad) => Ok(()),
        Some(Tail::Keep) => {
            Err("shard: all ranks get equally many batches, so say what happens to \
                                 the last ones: tail = \"drop\" or tail = \"pad\""
                .into())
        }
        None => Err("shard: the same batches must come in each run, so say how many records they \
                     have: `batch`, and tail = \"drop\" or tail = \"pad\""
            .into()),
    }
}
