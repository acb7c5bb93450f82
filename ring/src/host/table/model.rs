//! What the table must do, in the simplest words: a plain queue of batch numbers and a list of who
//! holds what. Each effect of the table is checked against it. The tests beside it drive both.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::*;

pub(super) const SLOTS: u32 = 5;
pub(super) const EXTENTS: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Batch(u64),
    EpochEnd(u32),
    Finish(End),
}

#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) credits: u32,
    pub(super) blocked: bool,
    pub(super) left: Option<u32>,
    pub(super) due: VecDeque<u64>,
    /// Grant, batch, ACKed.
    pub(super) grants: Vec<(u64, u64, bool)>,
}

impl Held {
    fn takes(&self) -> bool {
        !self.blocked && self.grants.len() < self.credits as usize
    }
    fn done(&self) -> bool {
        self.due.is_empty() && self.grants.iter().all(|grant| grant.2)
    }
}

/// What must hold, in the simplest words.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) mode: Mode,
    pub(super) minimum: usize,
    pub(super) started: bool,
    pub(super) queue: VecDeque<Item>,
    /// Where each batch that lives is, and its epoch.
    pub(super) batches: BTreeMap<u64, (Place, Batch)>,
    pub(super) filling: Vec<Place>,
    pub(super) consumers: BTreeMap<ConsumerId, Held>,
    pub(super) acked: BTreeSet<u64>,
    /// Batches of each epoch that were pushed and not left out.
    pub(super) counts: BTreeMap<u32, (u64, u64)>,
    pub(super) epoch: u32,
    pub(super) writing: u32,
    pub(super) leaving: Option<u32>,
    pub(super) next_grant: u64,
    pub(super) telling: Option<(End, BTreeSet<ConsumerId>)>,
    pub(super) finished: Option<End>,
    /// Epochs of which something was left out.
    pub(super) cut: BTreeSet<u32>,
}

impl Model {
    pub(super) fn new(mode: Mode, minimum: u32) -> Model {
        Model {
            mode,
            minimum: minimum as usize,
            started: false,
            queue: VecDeque::new(),
            batches: BTreeMap::new(),
            filling: Vec::new(),
            consumers: BTreeMap::new(),
            acked: BTreeSet::new(),
            counts: BTreeMap::new(),
            epoch: 0,
            writing: 0,
            leaving: None,
            next_grant: 0,
            telling: None,
            finished: None,
            cut: BTreeSet::new(),
        }
    }

    fn holders(&self, batch: u64) -> usize {
        let has = |held: &&Held| {
            held.due.contains(&batch) || held.grants.iter().any(|grant| grant.1 == batch)
        };
        self.consumers.values().filter(has).count()
    }

    /// A batch that lost its last holder unACKed waits again, in its order.
    pub(super) fn requeue(&mut self, batch: u64) {
        if self.holders(batch) == 0 && !self.acked.contains(&batch) {
            let before = |item: &&Item| matches!(item, Item::Batch(number) if *number < batch);
            let at = self.queue.iter().take_while(before).count();
            self.queue.insert(at, Item::Batch(batch));
        }
    }

    pub(super) fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Grant { to, grant, place, batch } => self.granted(to, grant, place, batch),
            Effect::End { to, end } => self.told(to, end),
            Effect::Freed(place) => self.freed(place),
        }
    }

    fn granted(&mut self, to: ConsumerId, grant: u64, place: Place, batch: Batch) {
        assert!(self.started, "before enough consumers were there");
        assert_eq!(self.finished, None, "a grant after the end");
        assert_eq!(self.batches.get(&batch.number), Some(&(place, batch)), "another batch there");
        assert_eq!(grant, self.next_grant);
        self.next_grant += 1;
        let number = batch.number;
        let assigned = self.consumers[&to].due.contains(&number);
        if !assigned {
            assert_eq!(self.queue.pop_front(), Some(Item::Batch(number)), "out of order");
            assert_eq!(self.holders(number), 0, "granted twice at once");
            assert!(!self.acked.contains(&number), "granted after it was ACKed");
            self.epoch = batch.epoch;
            for (id, held) in &mut self.consumers {
                let wants = held.left != Some(batch.epoch) || self.leaving == Some(batch.epoch);
                if (self.mode == Mode::Share && *id == to)
                    || (self.mode == Mode::Broadcast && wants)
                {
                    held.due.push_back(number);
                }
            }
        }
        let held = self.consumers.get_mut(&to).expect("a consumer that is connected");
        assert!(held.takes(), "beyond its credits or into a full socket");
        assert_eq!(held.due.pop_front(), Some(number), "out of order");
        held.grants.push((grant, number, false));
    }

    fn told(&mut self, to: ConsumerId, end: End) {
        if self.telling.is_none() && self.finished.is_none() {
            let item = match end {
                End::Epoch(end) => Item::EpochEnd(end.epoch),
                End::Stream | End::Error => Item::Finish(end),
            };
            assert_eq!(self.queue.pop_front(), Some(item), "out of order");
            assert!(self.consumers.values().all(|held| held.done() && !held.blocked));
            if let End::Epoch(end) = end {
                assert!(self.started);
                let count = self.counts.get(&end.epoch).copied().unwrap_or_default();
                assert_eq!((end.batches, end.records), count);
                assert_eq!(end.early, self.cut.contains(&end.epoch));
                self.epoch = end.epoch + 1;
            } else {
                self.finished = Some(end);
                self.queue.clear();
            }
            self.telling = Some((end, self.consumers.keys().copied().collect()));
        }
        match &mut self.telling {
            Some((telling, left)) => {
                assert_eq!((*telling, left.remove(&to)), (end, true), "told twice");
                if left.is_empty() {
                    self.telling = None;
                }
            }
            None => assert_eq!(self.finished, Some(end), "told out of turn"),
        }
    }

    fn freed(&mut self, place: Place) {
        if let Some(at) = self.filling.iter().position(|filling| *filling == place) {
            self.filling.remove(at);
            return;
        }
        let (&number, &(_, batch)) =
            self.batches.iter().find(|(_, (at, _))| *at == place).expect("in use");
        assert_eq!(self.holders(number), 0, "freed while a consumer holds it");
        if !self.acked.contains(&number) && self.finished.is_none() {
            let leaves = |held: &Held| held.left == Some(batch.epoch);
            assert!(
                self.leaving == Some(batch.epoch) || self.consumers.values().any(leaves),
                "batch {number} is lost"
            );
            self.queue.retain(|item| *item != Item::Batch(number));
            self.cut.insert(batch.epoch);
            let count = self.counts.get_mut(&batch.epoch).expect("counted when it was pushed");
            *count = (count.0 - 1, count.1 - u64::from(batch.records));
        }
        self.batches.remove(&number);
    }

    /// After each command, nothing is left undone that could be done.
    pub(super) fn check_rest(&self, table: &Table) {
        assert_eq!(self.telling, None, "an end was not told to all");
        for (id, held) in &self.consumers {
            assert!(held.due.is_empty() || !held.takes(), "{id} waits for what it could have");
        }
        let idle = |held: &Held| held.due.is_empty() && held.takes();
        let wants = |held: &Held, epoch| held.left != Some(epoch) || self.leaving == Some(epoch);
        match self.queue.front() {
            Some(Item::Batch(number)) if self.started => {
                let epoch = self.batches[number].1.epoch;
                let share = self.mode == Mode::Share;
                let could = |held: &Held| idle(held) && (share || wants(held, epoch));
                assert!(!self.consumers.values().any(could), "batch {number} could be granted");
            }
            Some(item @ (Item::EpochEnd(_) | Item::Finish(_)))
                if self.started || matches!(item, Item::Finish(_)) =>
            {
                let open = self.consumers.values().all(|held| held.done() && !held.blocked);
                assert!(self.consumers.is_empty() || !open, "{item:?} could be told");
            }
            _ => {}
        }
        let used = self.filling.len() + self.batches.len();
        let [free, filling, ready, granted, extents] = table.census();
        assert_eq!((free + filling + ready + granted), SLOTS, "a slot is lost");
        let free_extents = EXTENTS - extents;
        assert_eq!((free + free_extents) as usize, (SLOTS + EXTENTS) as usize - used);
        assert_eq!(free as usize, table.free_slots.len());
        assert_eq!(free_extents as usize, table.free_extents.len());
        assert_eq!(table.asked(), self.leaving.filter(|epoch| *epoch >= self.writing));
    }
}
