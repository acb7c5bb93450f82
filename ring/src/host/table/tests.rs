//! Gives random commands to the table and to its model, and then ends the stream in good order: no
//! batch is lost, granted twice, out of order, beyond credit, or granted later than it could be.

use std::time::Instant;

use proptest::prelude::*;

use super::model::{DEDICATED, Item, Model, ModelConsumer, SLOTS};
use super::*;

#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
    TakeSlot,
    TakeDedicated,
    PutBack,
    Push(u32),
    EndEpoch(bool),
    Finish(bool),
    Connect(u32),
    Disconnect(usize),
    Ack(usize, usize),
    Release(usize, usize),
    Wrong(usize, bool),
    Skip(usize, u32),
    Block(usize, bool),
}

fn command() -> impl Strategy<Value = Command> {
    use Command::*;
    prop_oneof![
        6 => Just(TakeSlot),
        1 => Just(TakeDedicated),
        1 => Just(PutBack),
        8 => (0..100u32).prop_map(Push),
        1 => prop::bool::weighted(0.2).prop_map(EndEpoch),
        1 => prop::bool::weighted(0.5).prop_map(Finish),
        3 => (1..4u32).prop_map(Connect),
        2 => any::<usize>().prop_map(Disconnect),
        8 => any::<(usize, usize)>().prop_map(|(consumer, grant)| Ack(consumer, grant)),
        10 => any::<(usize, usize)>().prop_map(|(consumer, grant)| Release(consumer, grant)),
        1 => any::<(usize, bool)>().prop_map(|(consumer, ack)| Wrong(consumer, ack)),
        1 => (any::<usize>(), 0..2u32).prop_map(|(consumer, later)| Skip(consumer, later)),
        2 => (any::<usize>(), prop::bool::weighted(0.3))
            .prop_map(|(consumer, full)| Block(consumer, full)),
    ]
}

#[derive(Clone, Hash)]
pub(super) struct Run {
    table: Table,
    pub(super) model: Model,
    now: Instant,
    next_batch: u64,
    next_consumer: ConsumerId,
    /// The writer has ended the stream.
    ended: bool,
}

impl Run {
    pub(super) fn new(mode: Mode, min_consumers: u32) -> Run {
        Run {
            table: Table::new(mode, min_consumers, SLOTS, DEDICATED),
            model: Model::new(mode, min_consumers),
            now: Instant::now(),
            next_batch: 0,
            next_consumer: 7,
            ended: false,
        }
    }

    fn pick(&self, at: usize) -> Option<ConsumerId> {
        let ids: Vec<_> = self.model.consumers.keys().collect();
        (!ids.is_empty()).then(|| *ids[at % ids.len()])
    }

    pub(super) fn step(&mut self, command: Command) {
        match command {
            Command::TakeSlot => {
                let slot = self.table.take_slot();
                assert!(slot.is_none_or(|slot| slot < SLOTS));
                self.model.filling.extend(slot);
            }
            Command::TakeDedicated => {
                let slot = self.table.take_dedicated();
                assert!(slot.is_none_or(|slot| slot >= SLOTS));
                self.model.filling.extend(slot);
            }
            Command::PutBack => {
                if let Some(slot) = self.model.filling.last() {
                    self.table.put_back(*slot);
                }
            }
            Command::Push(records) => self.push(records),
            Command::EndEpoch(early) => self.end_epoch(early),
            Command::Finish(error) => self.finish(if error { End::Error } else { End::Stream }),
            Command::Connect(credits) => self.connect(credits),
            Command::Disconnect(at) => self.disconnect(at),
            Command::Ack(at, grant) => self.answer(at, grant, false),
            Command::Release(at, grant) => self.answer(at, grant, true),
            Command::Wrong(at, ack) => self.wrong(at, ack),
            Command::Skip(at, later) => self.skip(at, later),
            Command::Block(at, blocked) => {
                if let Some(id) = self.pick(at) {
                    self.model.consumers.get_mut(&id).unwrap().blocked = blocked;
                    self.table.set_blocked(id, blocked, self.now);
                }
            }
        }
        let mut effects = Vec::new();
        self.table.swap_effects(&mut effects);
        for effect in effects {
            self.model.effect(effect);
        }
        self.model.check_idle(&self.table);
    }

    fn push(&mut self, records: u32) {
        // The model does not follow what a writer with a bug pushes after the end.
        if self.ended {
            return;
        }
        let Some(slot) = self.model.filling.pop() else { return };
        let epoch = self.model.writing;
        let batch = Batch { number: self.next_batch, epoch, records, bytes: 1 };
        self.next_batch += 1;
        if self.model.skipped == Some(epoch) {
            self.model.early.insert(epoch);
            self.model.filling.push(slot);
        } else {
            self.model.batches.insert(batch.number, (slot, batch));
            self.model.queue.push_back(Item::Batch(batch.number));
            let count = self.model.counts.entry(epoch).or_default();
            *count = (count.0 + 1, count.1 + u64::from(records));
        }
        self.table.push(slot, batch, self.now);
    }

    fn end_epoch(&mut self, early: bool) {
        if self.ended {
            return;
        }
        let epoch = self.model.writing;
        if early || self.model.skipped == Some(epoch) {
            self.model.early.insert(epoch);
        }
        self.model.writing += 1;
        self.model.queue.push_back(Item::EpochEnd(epoch));
        self.table.end_epoch(epoch, early, self.now);
    }

    fn finish(&mut self, end: End) {
        if !self.ended {
            self.model.queue.push_back(Item::Finish(end));
            self.table.finish(end, self.now);
        }
        self.ended = true;
    }

    fn connect(&mut self, credits: u32) {
        let id = self.next_consumer;
        self.next_consumer += 1;
        self.model.consumers.insert(id, ModelConsumer { credits, ..ModelConsumer::default() });
        self.model.started |= self.model.consumers.len() >= self.model.min_consumers;
        self.table.connect(id, credits, self.now);
        if let Some(end) = self.model.finished {
            let mut effects = Vec::new();
            self.table.swap_effects(&mut effects);
            assert_eq!(effects, [Effect::End { to: id, end }], "the end is sent at once");
        }
    }

    fn disconnect(&mut self, at: usize) {
        let Some(id) = self.pick(at) else { return };
        let gone = self.model.consumers.remove(&id).unwrap();
        for batch in gone.grants.iter().map(|grant| grant.1).chain(gone.assigned) {
            self.model.requeue(batch);
        }
        self.skip_if_all_skip();
        self.table.disconnect(id, self.now);
    }

    fn answer(&mut self, at: usize, grant: usize, release: bool) {
        let Some(id) = self.pick(at) else { return };
        let grants = &mut self.model.consumers.get_mut(&id).unwrap().grants;
        if grants.is_empty() {
            return;
        }
        let at = grant % grants.len();
        let (grant, batch, _) = grants[at];
        grants[at].2 = true;
        self.model.acked.insert(batch);
        if release {
            grants.remove(at);
            assert_eq!(self.table.release(id, [grant].into_iter(), self.now), Ok(()));
        } else {
            assert_eq!(self.table.ack(id, [grant].into_iter(), self.now), Ok(()));
        }
    }

    /// Names every grant number that this consumer does not hold: each is refused.
    fn wrong(&mut self, at: usize, ack: bool) {
        let Some(id) = self.pick(at) else { return };
        let own: Vec<u64> = self.model.consumers[&id].grants.iter().map(|grant| grant.0).collect();
        for grant in (0..self.model.next_grant + 2).filter(|grant| !own.contains(grant)) {
            let numbers = [grant].into_iter();
            let answer = match ack {
                true => self.table.ack(id, numbers, self.now),
                false => self.table.release(id, numbers, self.now),
            };
            assert_eq!(answer, Err(NotHeld(grant)));
        }
    }

    fn skip(&mut self, at: usize, later: u32) {
        let Some(id) = self.pick(at) else { return };
        let epoch = self.model.epoch + later;
        if later == 0 && self.model.finished.is_none() {
            if self.model.mode == Mode::Share {
                self.model.skipped = Some(epoch);
            } else {
                let consumer = self.model.consumers.get_mut(&id).unwrap();
                consumer.skipped = Some(epoch);
                consumer.assigned.clear();
                self.skip_if_all_skip();
            }
        }
        self.table.skip_epoch(id, epoch, self.now);
        if self.model.skipped == Some(epoch) && later == 0 && self.model.mode == Mode::Share {
            assert!(!self.table.queue.iter().any(
                |entry| matches!(entry, Entry::Batch { epoch: other, .. } if *other == epoch)
            ));
        }
    }

    fn skip_if_all_skip(&mut self) {
        let epoch = self.model.epoch;
        let skips = |consumer: &ModelConsumer| consumer.skipped == Some(epoch);
        if !self.model.consumers.is_empty() && self.model.consumers.values().all(skips) {
            self.model.skipped = Some(epoch);
        }
    }

    /// Connects enough consumers, ends the stream and releases everything: every batch is
    /// delivered.
    pub(super) fn drain(&mut self) {
        while self.model.consumers.len() < self.model.min_consumers.max(1) {
            self.step(Command::Connect(2));
        }
        for at in 0..self.model.consumers.len() {
            self.step(Command::Block(at, false));
        }
        self.step(Command::Finish(false));
        while self.model.consumers.values().any(|consumer| !consumer.grants.is_empty()) {
            for at in 0..self.model.consumers.len() {
                self.step(Command::Release(at, 0));
            }
        }
        while !self.model.filling.is_empty() {
            self.step(Command::PutBack);
        }
        assert!(self.table.drained());
        assert!(self.model.batches.is_empty(), "a batch is left: {:?}", self.model);
        assert!(self.model.finished.is_some());
        let all_free = SlotCounts { free: SLOTS, ..SlotCounts::default() };
        assert_eq!(self.table.slot_counts(), all_free);
        let delivered: u64 = self.model.counts.values().map(|count| count.0).sum();
        assert_eq!(self.model.acked.len() as u64, delivered);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn random_commands_have_the_effects_that_the_model_allows(
        broadcast: bool,
        min_consumers in 1..3u32,
        commands in prop::collection::vec(command(), 0..120),
    ) {
        let mode = if broadcast { Mode::Broadcast } else { Mode::Share };
        let mut run = Run::new(mode, min_consumers);
        for command in commands {
            run.step(command);
        }
        run.drain();
    }
}

/// For the two cases below: random commands hit them too rarely.
fn broadcast(min_consumers: u32) -> Run {
    Run::new(Mode::Broadcast, min_consumers)
}

fn all(run: &mut Run, commands: &[Command]) {
    commands.iter().for_each(|command| run.step(*command));
}

#[test]
fn a_requeued_batch_is_granted_to_a_consumer_that_skips_its_epoch() {
    use Command::*;
    let mut run = broadcast(1);
    all(&mut run, &[Connect(1), TakeSlot, Push(1), Connect(1), Skip(0, 0), Skip(1, 0)]);
    all(&mut run, &[Disconnect(0)]);
    let left: Vec<_> = run.model.consumers.values().map(|consumer| consumer.grants.len()).collect();
    assert_eq!(left, [1]);
    run.drain();
}

#[test]
fn a_batch_that_its_last_consumer_skips_is_subtracted_from_the_epoch() {
    use Command::*;
    let mut run = broadcast(2);
    all(&mut run, &[Connect(1), Connect(2), TakeSlot, Push(3), TakeSlot, Push(4)]);
    all(&mut run, &[Disconnect(1), Skip(0, 0), EndEpoch(false)]);
    assert_eq!(run.model.counts[&0], (1, 3));
    run.drain();
}
