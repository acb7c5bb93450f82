//! Decides where a channel must restart for the request of a consumer, or why it can't.

use pipemill_ring::host::{Denied, LockedRing, RecordPlace, Sought};
use pipemill_ring::protocol::{BatchPlace, Mode, Rank, Resumed};

use crate::admission::not_of_this_run;
use crate::delivery_state::DeliveryState;
use crate::regroup::of_other_step;
use crate::restart_policy::{Match, RestartPolicy};
use crate::stream_config::{StreamConfig, is_inside};

/// The refusal of a state whose last batch can't come.
const NOT_AMONG_THOSE: &str = "state: its last batch is not among those of this run, so the input \
                               has changed since; bring it back and start the host again, or \
                               connect without the state";

/// The request of a consumer, and the ring under its lock.
pub(crate) struct Placement<'a, 'r> {
    pub(crate) policy: &'a dyn RestartPolicy,
    pub(crate) state: &'a mut DeliveryState,
    pub(crate) ring: &'a mut LockedRing<'r>,
    /// The configuration of the channel before the request.
    pub(crate) now: &'a StreamConfig,
    /// The consumer's rank.
    pub(crate) rank: u32,
    /// Whether the consumer has a state.
    pub(crate) has_state: bool,
}

impl Placement<'_, '_> {
    /// The configuration with which the channel must restart; `None` if it can go on without a
    /// restart.
    ///
    /// # Errors
    /// The channel can't restart; the error says why.
    pub(crate) fn place(&mut self, asked: StreamConfig) -> Result<Option<StreamConfig>, Denied> {
        let is_other = !asked.is_cut_and_divided_as(self.now);
        if !is_other {
            self.check_step(&asked)?;
            let Some(resumed) = &asked.resumed else { return Ok(None) };
            let is_same = self.may_be_of_this_run(resumed);
            if is_same && self.goes_on(&asked, resumed)? {
                return Ok(None);
            }
            if !self.ring.table.has_granted() && self.now.resumed == asked.resumed {
                return Ok(None);
            }
            if !is_same && !self.policy.can_restart() {
                return Err(Denied::Because(NOT_AMONG_THOSE.into()));
            }
        }
        self.check_restart(is_other)?;
        if is_other && asked.resumed.is_none() {
            let (resumed, states) = (self.now.resumed.clone(), self.now.states.clone());
            return Ok(Some(StreamConfig { resumed, states, ..asked }));
        }
        Ok(Some(asked))
    }

    /// Checks that all ranks go on from one step, if their number has changed since.
    fn check_step(&self, asked: &StreamConfig) -> Result<(), Denied> {
        let others: Vec<_> = self.ring.table.connected().map(|(id, _)| id).collect();
        match (asked.round, self.now.round) {
            (Some(asked), Some(now)) if asked != now && !others.is_empty() => {
                Err(Denied::WhileConnected(others, of_other_step(now, asked)))
            }
            _ => Ok(()),
        }
    }

    /// Makes the consumer continue with batches that the ring has or that are to come, without a
    /// restart. Returns false if that is not possible.
    fn goes_on(&mut self, asked: &StreamConfig, resumed: &Resumed) -> Result<bool, String> {
        let mut first = resumed.first_batch_of(asked.rank(self.rank));
        let can_restart = self.policy.can_restart();
        let others = self.ring.table.connected().len();
        let is_to_come = asked.batch.is_some() && self.is_to_come(first);
        let is_coming = self.has_same_numbers(first) && self.is_behind_writer(first);
        let is_near = others > 0 || !can_restart || is_coming;
        // The rest of an epoch that was ended early was dropped.
        let is_whole = !self.ring.table.is_skipped(first.epoch);
        let is_by_rank = self.now.mode == Mode::Rank;
        if !(is_to_come && is_near && (is_by_rank || is_whole && others == 0)) {
            return Ok(false);
        }
        let (mut place, mut is_sought) = (resumed.clone(), false);
        if !can_restart && self.is_of_earlier_run(first) {
            (first, is_sought) = self.seek(asked.rank(self.rank), &mut place)?;
        } else {
            self.state.recent.expect(self.rank, resumed);
        }
        if is_by_rank {
            self.ring.table.expect(self.rank, first);
        } else {
            // Batches before its state must not go to later consumers.
            self.ring.table.go_on_from(first);
            self.state.now = asked.clone();
        }
        if let Some(ledger) = &mut self.state.ledger {
            ledger.set_place(self.rank, place, is_sought);
        }
        Ok(true)
    }

    /// Whether the channel can restart now. `is_other` is true for other batches, not only another
    /// position.
    fn check_restart(&self, is_other: bool) -> Result<(), Denied> {
        let what = if is_other { "other batches" } else { "another place" };
        let reason = |why: &str| format!("this consumer asks for {what}, but {why}");
        let refused = |why: &str| Err(Denied::Because(reason(why)));
        let (table, has_granted) = (&*self.ring.table, self.ring.table.has_granted());
        if self.ring.writer_ended || table.end_sent() {
            return refused("the channel is at its end; start the host again");
        }
        if !self.policy.can_restart() {
            return refused(
                "its input can't be read again; set `batch` and `mode` in the configuration, and \
                 give the state to `pipemill run --resume`",
            );
        }
        let others = table.connected().len();
        if others > 0 && (is_other || has_granted || self.now.mode != Mode::Rank) {
            let ids = table.connected().map(|(id, _)| id).collect();
            let why = format!("{others} of the channel's consumers are connected; end them first");
            return Err(Denied::WhileConnected(ids, reason(&why)));
        }
        if has_granted && !self.has_state {
            return refused(
                "batches of the channel were granted before; connect with a state, or start the \
                 host again",
            );
        }
        Ok(())
    }

    /// Whether the state's last batch is a batch of this run, or may be one: if so, it is compared
    /// when it is filled. A batch that was filled but is no longer known may be any batch.
    fn may_be_of_this_run(&self, asked: &Resumed) -> bool {
        let can_restart = self.policy.can_restart();
        let is_own =
            |own: &Resumed| (own.delivered, &own.position) == (asked.delivered, &asked.position);
        if !is_inside(asked) {
            // It may name the list of its epoch, which can't be compared with anything here.
            return asked.position.identity_text().is_empty() || !can_restart;
        }
        if self.now.resumed.iter().chain(self.now.states.values()).any(is_own) {
            return true;
        }
        // In later epochs of a FIFO the numbers may differ, so the batches are found by comparison.
        let first = asked.first_batch_of(self.now.rank(0));
        if !can_restart && self.is_of_earlier_run(first) {
            return true;
        }
        let number = asked.position.batch;
        let is_restarting = self.ring.table.is_restarting();
        let next = if is_restarting { self.now.first_batch() } else { self.ring.batches };
        match self.state.recent.find(number) {
            Some(batch) => self.policy.is_same_batch(asked, batch, Match::Strict),
            None => number >= next,
        }
    }

    /// Whether the rank has ACKed no batch from this number on, and all of them are still to come,
    /// with the end of their epoch.
    fn is_to_come(&self, first: BatchPlace) -> bool {
        let table = &*self.ring.table;
        let is_unread = first >= table.acked_below(self.rank).max(self.now.start());
        is_unread && !table.is_past(first.epoch)
    }

    /// Whether the writer reaches this batch, or has reached it, without going back or far ahead.
    fn is_behind_writer(&self, first: BatchPlace) -> bool {
        let is_inside = first.number > 0;
        let is_next = is_inside && first.number <= self.ring.batches;
        is_next || !is_inside && first.epoch <= self.ring.table.writing()
    }

    /// Whether the state may be of an earlier run with other numbers: no consumer has received
    /// anything of its epoch in this run.
    fn is_of_earlier_run(&self, first: BatchPlace) -> bool {
        let is_later = first.epoch > self.now.start().epoch;
        first.number > 0 && is_later && !self.ring.table.has_granted_in(first.epoch)
    }

    /// Whether the batches of this epoch have the same numbers here as in the run of the state. An
    /// epoch that was ended early has fewer numbers than a whole one, so those of later epochs are
    /// known only in the run that has delivered them. If the states of the ranks come from one run,
    /// the numbers begin with the number of the first state.
    fn has_same_numbers(&self, first: BatchPlace) -> bool {
        let is_start = first.number == 0;
        is_start || first.epoch == self.now.start().epoch || first.epoch <= self.ring.table.epoch()
    }

    /// The first batch of this rank after the state's last one, which is identified by its first
    /// record; and whether that batch is still to come. `place` gets its number in this run, if it
    /// was filled already. It is compared with the state now, or when it is filled.
    fn seek(&mut self, rank: Rank, place: &mut Resumed) -> Result<(BatchPlace, bool), String> {
        let at = &place.position;
        let first = RecordPlace { object: at.object_number, record: at.first_record };
        let found = self.ring.table.seek(Sought { epoch: at.epoch, first, rank });
        let (first, number) = found.ok_or(NOT_AMONG_THOSE)?;
        let Some(number) = number else {
            self.state.recent.seek(self.rank, place);
            return Ok((first, true));
        };
        if let Some(batch) = self.state.recent.find(number)
            && !self.policy.is_same_batch(place, batch, Match::Tolerant)
        {
            return Err(not_of_this_run(place, batch));
        }
        place.position.batch = number;
        Ok((first, false))
    }
}
