//! The reference model of the table: a plain queue of batch numbers, and for each consumer a list
//! of its batches. It checks each effect of the table. `run` executes the same commands on both.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeBounds;

use super::*;

pub(super) const SLOTS: u32 = 5;
pub(super) const DEDICATED: u32 = 2;
/// The first larger slot.
pub(super) const FIRST_LARGER: SlotId = SLOTS + DEDICATED;

/// An item that waits to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Item {
    Batch(u64),
    EpochEnd(u32),
    Finish(End),
}

/// One consumer.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct ModelConsumer {
    pub(super) credits: u32,
    pub(super) rank: u32,
    pub(super) blocked: bool,
    /// Whether it understands larger slots, and whether it was told of them.
    pub(super) larger: (bool, bool),
    pub(super) skipped: Option<u32>,
    /// The epoch of the first batch or end that was sent to it, and whether a batch was granted to
    /// it.
    pub(super) begun: (Option<u32>, bool),
    /// Batches that wait for credit.
    pub(super) assigned: VecDeque<u64>,
    /// Number of the grant, number of the batch, whether it was ACKed.
    pub(super) grants: Vec<(u64, u64, bool)>,
}

impl ModelConsumer {
    fn can_take(&self) -> bool {
        !self.blocked && self.grants.len() < self.credits as usize
    }

    fn all_acked(&self) -> bool {
        self.assigned.is_empty() && self.grants.iter().all(|grant| grant.2)
    }
}

#[derive(Clone, Debug, Hash)]
pub(super) struct Model {
    pub(super) mode: Mode,
    pub(super) min_consumers: usize,
    pub(super) started: bool,
    pub(super) queue: VecDeque<Item>,
    /// Each batch that is in memory, and its slot.
    pub(super) batches: BTreeMap<u64, (SlotId, Batch)>,
    pub(super) filling: Vec<SlotId>,
    /// Number of larger slots.
    pub(super) larger: u32,
    pub(super) consumers: BTreeMap<ConsumerId, ModelConsumer>,
    /// The slots of consumers that have departed and not hung up.
    pub(super) departed: BTreeMap<ConsumerId, Vec<SlotId>>,
    pub(super) acked: BTreeSet<u64>,
    /// Numbers of batches and records of each epoch, without those that were skipped.
    pub(super) counts: BTreeMap<u32, (u64, u64)>,
    pub(super) epoch: u32,
    pub(super) writing: u32,
    /// The epoch whose rest the whole channel skips.
    pub(super) skipped: Option<u32>,
    pub(super) next_grant: u64,
    /// An end, and the consumers to which it must still be sent.
    pub(super) sending: Option<(End, BTreeSet<ConsumerId>)>,
    pub(super) finished: Option<End>,
    /// Epochs that end early.
    pub(super) early: BTreeSet<u32>,
    /// Whether the channel must begin elsewhere.
    pub(super) is_restarting: bool,
    /// Whether a batch was granted since the channel began.
    pub(super) has_granted: bool,
    /// Batches that are not delivered and whose memory is still in use.
    pub(super) dropped: BTreeSet<u64>,
    /// Batches that must be dropped, because the program has them or the channel begins again.
    pub(super) forgotten: BTreeSet<u64>,
    /// By rank: the first batch that is delivered.
    pub(super) wanted_from: Vec<BatchPlace>,
}

impl Model {
    pub(super) fn new(mode: Mode, min_consumers: u32) -> Model {
        Model {
            mode,
            min_consumers: min_consumers as usize,
            started: false,
            queue: VecDeque::new(),
            batches: BTreeMap::new(),
            filling: Vec::new(),
            larger: 0,
            consumers: BTreeMap::new(),
            departed: BTreeMap::new(),
            acked: BTreeSet::new(),
            counts: BTreeMap::new(),
            epoch: 0,
            writing: 0,
            skipped: None,
            next_grant: 0,
            sending: None,
            finished: None,
            early: BTreeSet::new(),
            is_restarting: false,
            has_granted: false,
            dropped: BTreeSet::new(),
            forgotten: BTreeSet::new(),
            wanted_from: vec![BatchPlace::default(); ranks(mode, min_consumers)],
        }
    }

    pub(super) fn rank_of(&self, number: u64) -> u32 {
        (number % self.wanted_from.len() as u64) as u32
    }

    /// The batches before the next end, each the first one of its rank.
    fn next_of_ranks(&self) -> BTreeMap<u32, u64> {
        let batches = self.queue.iter().map_while(|item| match item {
            Item::Batch(number) => Some(*number),
            Item::EpochEnd(_) | Item::Finish(_) => None,
        });
        let mut next = BTreeMap::new();
        batches.for_each(|number| {
            next.entry(self.rank_of(number)).or_insert(number);
        });
        next
    }

    fn holders(&self, batch: u64) -> usize {
        let has = |consumer: &&ModelConsumer| {
            consumer.assigned.contains(&batch)
                || consumer.grants.iter().any(|grant| grant.1 == batch)
        };
        self.consumers.values().filter(has).count()
    }

    /// A batch that no consumer holds and nobody has ACKed waits again, in the order of numbers. A
    /// batch of a skipped epoch is dropped.
    pub(super) fn requeue(&mut self, batch: u64) {
        let is_skipped = self.skipped == Some(self.batches[&batch].1.epoch);
        if self.holders(batch) == 0 && !self.acked.contains(&batch) && !is_skipped {
            let before = |item: &&Item| matches!(item, Item::Batch(number) if *number < batch);
            let at = self.queue.iter().take_while(before).count();
            self.queue.insert(at, Item::Batch(batch));
        }
    }

    pub(super) fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::LargerSlots { to } => self.announced(to),
            Effect::Grant { to, grant, slot, batch } => self.granted(to, grant, slot, batch),
            Effect::End { to, end } => self.end_sent(to, end),
            Effect::Freed(slot) => self.freed(slot),
            Effect::Done(number) => self.done(number),
            Effect::Found { .. } => panic!("nothing is sought"),
        }
    }

    /// A batch is done when it was ACKed, or when it is freed without an ACK.
    fn done(&mut self, number: u64) {
        let waits = self.queue.contains(&Item::Batch(number)) && !self.forgotten.contains(&number);
        let is_skipped = self.batches.get(&number).is_some_and(|(_, batch)| {
            let skips = |one: &ModelConsumer| one.skipped == Some(batch.epoch);
            self.skipped == Some(batch.epoch) || self.consumers.values().any(skips)
        });
        let is_over = self.finished.is_some() || is_skipped;
        assert!(!waits || is_over, "batch {number} is done, and waits");
        let Some(&(_, batch)) = self.batches.get(&number) else { return };
        let is_forgotten = self.forgotten.remove(&number);
        if is_forgotten || !self.acked.contains(&number) && self.finished.is_none() {
            assert_eq!(self.holders(number), 0, "dropped while a consumer holds it");
            assert!(is_forgotten || is_skipped, "batch {number} is lost");
            self.queue.retain(|item| *item != Item::Batch(number));
            self.dropped.insert(number);
            if !is_forgotten {
                self.early.insert(batch.epoch);
            }
            if let Some(count) = self.counts.get_mut(&batch.epoch) {
                *count = (count.0 - 1, count.1 - u64::from(batch.records));
            }
        }
    }

    /// A consumer is told of larger slots at most once, and only if it can read them. So no
    /// consumer knows larger slots that were replaced.
    fn announced(&mut self, to: ConsumerId) {
        let consumer = self.consumers.get_mut(&to).expect("a consumer that is connected");
        assert_eq!(consumer.larger, (true, false), "it can't read them, or knows them");
        consumer.larger.1 = true;
        assert!(self.larger > 0, "there are none");
    }

    /// Number of these slots that hold a batch, are being filled, or may still be read.
    pub(super) fn in_use(&self, slots: impl RangeBounds<SlotId>) -> u32 {
        let held = self.departed.values().flatten().chain(&self.filling);
        let full = self.batches.values().map(|(slot, _)| slot);
        let all: BTreeSet<_> = held.chain(full).filter(|slot| slots.contains(slot)).collect();
        all.len() as u32
    }

    /// Whether the larger slots may be replaced: nobody uses or knows them, or can't read others.
    pub(super) fn may_make_larger(&self) -> bool {
        let is_ready = |one: &ModelConsumer| one.larger == (true, false);
        self.in_use(FIRST_LARGER..) == 0 && self.consumers.values().all(is_ready)
    }

    /// Whether a consumer has credit, and nothing waits for consumers that are not there, or for an
    /// end.
    pub(super) fn has_demand(&self) -> bool {
        let has_rank = |rank| self.consumers.values().any(|consumer| consumer.rank == rank);
        let waits_for_credit = |item: &Item| match item {
            Item::Batch(number) => self.mode == Mode::Rank && has_rank(self.rank_of(*number)),
            Item::EpochEnd(_) | Item::Finish(_) => false,
        };
        let can_take = self.consumers.values().any(ModelConsumer::can_take);
        self.started && can_take && self.queue.iter().all(waits_for_credit)
    }

    fn granted(&mut self, to: ConsumerId, grant: u64, slot: SlotId, batch: Batch) {
        assert!(self.started, "before enough consumers were there");
        assert_eq!(self.finished, None, "a grant after the end");
        assert_eq!(self.batches.get(&batch.number), Some(&(slot, batch)), "another batch there");
        assert_eq!(grant, self.next_grant);
        self.next_grant += 1;
        let number = batch.number;
        assert!(!self.is_restarting);
        assert!(batch.place() >= self.wanted_from[self.rank_of(number) as usize]);
        self.has_granted = true;
        let assigned = self.consumers[&to].assigned.contains(&number);
        if self.mode == Mode::Rank {
            let rank = self.consumers[&to].rank;
            assert_eq!(self.next_of_ranks().get(&rank), Some(&number), "out of order");
            assert!(!self.acked.contains(&number), "granted after it was ACKed");
            self.queue.retain(|item| *item != Item::Batch(number));
            self.epoch = batch.epoch;
            self.consumers.get_mut(&to).unwrap().assigned.push_back(number);
        } else if !assigned {
            assert_eq!(self.queue.pop_front(), Some(Item::Batch(number)), "out of order");
            assert_eq!(self.holders(number), 0, "granted twice at once");
            assert!(!self.acked.contains(&number), "granted after it was ACKed");
            self.epoch = batch.epoch;
            for (id, consumer) in &mut self.consumers {
                let wants = consumer.skipped != Some(batch.epoch);
                if (self.mode == Mode::Share && *id == to)
                    || (self.mode == Mode::Broadcast && wants)
                {
                    consumer.assigned.push_back(number);
                }
            }
        }
        let consumer = self.consumers.get_mut(&to).expect("a consumer that is connected");
        assert!(slot < FIRST_LARGER || consumer.larger.1, "a larger slot that it does not know");
        assert!(consumer.can_take(), "beyond its credits or into a full socket");
        assert_eq!(consumer.assigned.pop_front(), Some(number), "out of order");
        consumer.grants.push((grant, number, false));
        consumer.begun = (consumer.begun.0.or(Some(batch.epoch)), true);
    }

    /// Whether a consumer must get the end of this epoch: its program may have it already.
    fn wants_end(&self, consumer: &ModelConsumer, epoch: u32) -> bool {
        self.wanted_from[consumer.rank as usize].epoch <= epoch
    }

    /// Drops the next ends of epochs that no consumer must get.
    pub(super) fn drop_unwanted_ends(&mut self) {
        while let Some(Item::EpochEnd(epoch)) = self.queue.front().copied() {
            let mut consumers = self.consumers.values();
            let is_due = self.started && !self.consumers.is_empty() && self.sending.is_none();
            let done = |one: &ModelConsumer| {
                one.all_acked() && !one.blocked && !self.wants_end(one, epoch)
            };
            if !is_due || self.is_restarting || !consumers.all(done) {
                return;
            }
            self.queue.pop_front();
            self.epoch = epoch + 1;
        }
    }

    fn end_sent(&mut self, to: ConsumerId, end: End) {
        if let (End::Epoch(end), Some(consumer)) = (end, self.consumers.get_mut(&to)) {
            consumer.begun.0.get_or_insert(end.epoch);
        }
        if self.sending.is_none() && self.finished.is_none() {
            let item = match end {
                End::Epoch(end) => Item::EpochEnd(end.epoch),
                End::Stream | End::Error => Item::Finish(end),
            };
            assert_eq!(self.queue.pop_front(), Some(item), "out of order");
            assert!(
                self.consumers.values().all(|consumer| consumer.all_acked() && !consumer.blocked)
            );
            if let End::Epoch(end) = end {
                assert!(self.started);
                let count = self.counts.get(&end.epoch).copied().unwrap_or_default();
                assert_eq!((end.batches, end.records), count);
                assert_eq!(end.early, self.early.contains(&end.epoch));
                self.epoch = end.epoch + 1;
            } else {
                self.finished = Some(end);
                self.queue.clear();
            }
            let wants = |one: &ModelConsumer| match end {
                End::Epoch(end) => self.wants_end(one, end.epoch),
                End::Stream | End::Error => true,
            };
            let all = self.consumers.iter().filter(|(_, one)| wants(one));
            self.sending = Some((end, all.map(|(id, _)| *id).collect()));
        }
        match &mut self.sending {
            Some((sending, left)) => {
                assert_eq!((*sending, left.remove(&to)), (end, true), "sent twice");
                if left.is_empty() {
                    self.sending = None;
                }
            }
            None => assert_eq!(self.finished, Some(end), "sent out of turn"),
        }
    }

    fn freed(&mut self, slot: SlotId) {
        if let Some(at) = self.filling.iter().position(|filling| *filling == slot) {
            self.filling.remove(at);
            return;
        }
        let (&number, _) = self.batches.iter().find(|(_, (at, _))| *at == slot).expect("in use");
        assert_eq!(self.holders(number), 0, "freed while a consumer holds it");
        assert!(!self.departed.values().any(|held| held.contains(&slot)), "and may read it");
        let is_over = self.acked.contains(&number) || self.finished.is_some();
        assert!(self.dropped.remove(&number) || is_over, "batch {number} is lost");
        self.batches.remove(&number);
    }

    /// After each command, nothing may remain that could be granted or sent.
    pub(super) fn check_idle(&self, table: &Table) {
        assert_eq!(self.sending, None, "an end was not sent to all");
        for (id, consumer) in &self.consumers {
            assert!(
                consumer.assigned.is_empty() || !consumer.can_take(),
                "{id} waits for what it could have"
            );
        }
        let idle = |consumer: &ModelConsumer| consumer.assigned.is_empty() && consumer.can_take();
        let wants = |consumer: &ModelConsumer, epoch| consumer.skipped != Some(epoch);
        match self.queue.front() {
            _ if self.is_restarting => assert!(self.queue.is_empty()),
            Some(Item::Batch(_)) if self.started && self.mode == Mode::Rank => {
                for (rank, number) in self.next_of_ranks() {
                    let could = |consumer: &ModelConsumer| consumer.rank == rank && idle(consumer);
                    assert!(!self.consumers.values().any(could), "batch {number} could be granted");
                }
            }
            Some(Item::Batch(number)) if self.started => {
                let epoch = self.batches[number].1.epoch;
                let share = self.mode == Mode::Share;
                let could =
                    |consumer: &ModelConsumer| idle(consumer) && (share || wants(consumer, epoch));
                assert!(!self.consumers.values().any(could), "batch {number} could be granted");
            }
            Some(item @ (Item::EpochEnd(_) | Item::Finish(_)))
                if self.started || matches!(item, Item::Finish(_)) =>
            {
                let open = self
                    .consumers
                    .values()
                    .all(|consumer| consumer.all_acked() && !consumer.blocked);
                assert!(self.consumers.is_empty() || !open, "{item:?} could be sent");
            }
            _ => {}
        }
        let used = self.filling.len() + self.batches.len();
        let counts = table.slot_counts();
        let slots = counts.free + counts.filling + counts.ready + counts.granted;
        let all = SLOTS + self.larger;
        assert_eq!(slots, all, "a slot is lost");
        let free_dedicated = DEDICATED - counts.dedicated;
        assert_eq!((counts.free + free_dedicated) as usize, (all + DEDICATED) as usize - used);
        assert_eq!(counts.free as usize, table.free_slots.len() + table.free_larger.len());
        let free_larger = self.larger - self.in_use(FIRST_LARGER..);
        assert_eq!(table.free_larger.len(), free_larger as usize, "a larger slot is lost");
        assert_eq!(table.may_make_larger(), self.may_make_larger());
        assert_eq!(table.has_demand(), self.has_demand());
        assert_eq!(free_dedicated as usize, table.free_dedicated.len());
        let requested = self.skipped.filter(|epoch| *epoch >= self.writing);
        assert_eq!(table.epoch_end_requested(), requested);
        assert_eq!(table.is_restarting(), self.is_restarting);
        assert!(self.forgotten.is_empty(), "a batch is kept that nobody wants");
    }
}
