//! Random commands to the table and to the model beside it, and then an orderly end: nothing is
//! lost, granted twice, out of order, beyond credit, or left undone.

use std::time::Instant;

use proptest::prelude::*;

use super::model::{EXTENTS, Held, Item, Model, SLOTS};
use super::*;

#[derive(Clone, Debug)]
enum Command {
    TakeSlot,
    TakeExtent,
    PutBack,
    Push(u32),
    EndEpoch(bool),
    Finish(bool),
    Connect(u32),
    Disconnect(usize),
    Ack(usize, usize),
    Release(usize, usize),
    Wrong(usize, bool),
    Leave(usize, u32),
    Block(usize, bool),
}

fn command() -> impl Strategy<Value = Command> {
    use Command::*;
    prop_oneof![
        6 => Just(TakeSlot),
        1 => Just(TakeExtent),
        1 => Just(PutBack),
        8 => (0..100u32).prop_map(Push),
        1 => prop::bool::weighted(0.2).prop_map(EndEpoch),
        1 => prop::bool::weighted(0.5).prop_map(Finish),
        3 => (1..4u32).prop_map(Connect),
        2 => any::<usize>().prop_map(Disconnect),
        8 => any::<(usize, usize)>().prop_map(|(consumer, grant)| Ack(consumer, grant)),
        10 => any::<(usize, usize)>().prop_map(|(consumer, grant)| Release(consumer, grant)),
        1 => any::<(usize, bool)>().prop_map(|(consumer, ack)| Wrong(consumer, ack)),
        1 => (any::<usize>(), 0..2u32).prop_map(|(consumer, later)| Leave(consumer, later)),
        2 => (any::<usize>(), prop::bool::weighted(0.3)).prop_map(|(consumer, full)| Block(consumer, full)),
    ]
}

struct Run {
    table: Table,
    model: Model,
    now: Instant,
    next_batch: u64,
    next_consumer: ConsumerId,
    /// The writer has ended the stream, told or not.
    ended: bool,
}

impl Run {
    fn new(mode: Mode, minimum: u32) -> Run {
        Run {
            table: Table::new(mode, minimum, SLOTS, EXTENTS),
            model: Model::new(mode, minimum),
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

    fn step(&mut self, command: Command) {
        match command {
            Command::TakeSlot => {
                let place = self.table.take_slot();
                assert!(place.is_none_or(|place| place < SLOTS));
                self.model.filling.extend(place);
            }
            Command::TakeExtent => {
                let place = self.table.take_extent();
                assert!(place.is_none_or(|place| place >= SLOTS));
                self.model.filling.extend(place);
            }
            Command::PutBack => {
                if let Some(place) = self.model.filling.last() {
                    self.table.put_back(*place);
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
            Command::Leave(at, later) => self.leave(at, later),
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
        self.model.check_rest(&self.table);
    }

    fn push(&mut self, records: u32) {
        // After the end of all, the table only has to keep its slots together.
        if self.ended {
            return;
        }
        let Some(place) = self.model.filling.pop() else { return };
        let epoch = self.model.writing;
        let batch = Batch { number: self.next_batch, epoch, records, bytes: 1 };
        self.next_batch += 1;
        if self.model.leaving == Some(epoch) {
            self.model.cut.insert(epoch);
            self.model.filling.push(place);
        } else {
            self.model.batches.insert(batch.number, (place, batch));
            self.model.queue.push_back(Item::Batch(batch.number));
            let count = self.model.counts.entry(epoch).or_default();
            *count = (count.0 + 1, count.1 + u64::from(records));
        }
        self.table.push(place, batch, self.now);
    }

    fn end_epoch(&mut self, early: bool) {
        if self.ended {
            return;
        }
        let epoch = self.model.writing;
        if early || self.model.leaving == Some(epoch) {
            self.model.cut.insert(epoch);
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
        self.model.consumers.insert(id, Held { credits, ..Held::default() });
        self.model.started |= self.model.consumers.len() >= self.model.minimum;
        self.table.connect(id, credits, self.now);
        if let Some(end) = self.model.finished {
            let mut effects = Vec::new();
            self.table.swap_effects(&mut effects);
            assert_eq!(effects, [Effect::End { to: id, end }], "a late consumer is told at once");
        }
    }

    fn disconnect(&mut self, at: usize) {
        let Some(id) = self.pick(at) else { return };
        let held = self.model.consumers.remove(&id).unwrap();
        for batch in held.grants.iter().map(|grant| grant.1).chain(held.due) {
            self.model.requeue(batch);
        }
        self.all_left();
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

    /// A grant that is another's, or was RELEASEd, or never was.
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

    fn leave(&mut self, at: usize, later: u32) {
        let Some(id) = self.pick(at) else { return };
        let epoch = self.model.epoch + later;
        if later == 0 && self.model.finished.is_none() {
            if self.model.mode == Mode::Share {
                self.model.leaving = Some(epoch);
            } else {
                let held = self.model.consumers.get_mut(&id).unwrap();
                held.left = Some(epoch);
                held.due.clear();
                self.all_left();
            }
        }
        self.table.leave_epoch(id, epoch, self.now);
        if self.model.leaving == Some(epoch) && later == 0 && self.model.mode == Mode::Share {
            assert!(!self.table.queue.iter().any(
                |entry| matches!(entry, Entry::Batch { epoch: other, .. } if *other == epoch)
            ));
        }
    }

    fn all_left(&mut self) {
        let epoch = self.model.epoch;
        let left = |held: &Held| held.left == Some(epoch);
        if !self.model.consumers.is_empty() && self.model.consumers.values().all(left) {
            self.model.leaving = Some(epoch);
        }
    }

    /// Enough good consumers come, and all that was pushed reaches them.
    fn drain(&mut self) {
        while self.model.consumers.len() < self.model.minimum.max(1) {
            self.step(Command::Connect(2));
        }
        for at in 0..self.model.consumers.len() {
            self.step(Command::Block(at, false));
        }
        self.step(Command::Finish(false));
        while self.model.consumers.values().any(|held| !held.grants.is_empty()) {
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
        assert_eq!(self.table.census(), [SLOTS, 0, 0, 0, 0]);
        let delivered: u64 = self.model.counts.values().map(|count| count.0).sum();
        assert_eq!(self.model.acked.len() as u64, delivered);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn the_table_does_what_the_model_says(
        broadcast: bool,
        minimum in 1..3u32,
        commands in prop::collection::vec(command(), 0..120),
    ) {
        let mode = if broadcast { Mode::Broadcast } else { Mode::Share };
        let mut run = Run::new(mode, minimum);
        for command in commands {
            run.step(command);
        }
        run.drain();
    }
}

/// The two cases below are too rare for random commands.
fn broadcast(minimum: u32) -> Run {
    Run::new(Mode::Broadcast, minimum)
}

fn all(run: &mut Run, commands: &[Command]) {
    commands.iter().for_each(|command| run.step(command.clone()));
}

#[test]
fn a_batch_that_only_those_who_left_could_take_is_still_delivered() {
    use Command::*;
    let mut run = broadcast(1);
    all(&mut run, &[Connect(1), TakeSlot, Push(1), Connect(1), Leave(0, 0), Leave(1, 0)]);
    all(&mut run, &[Disconnect(0)]);
    let left: Vec<_> = run.model.consumers.values().map(|held| held.grants.len()).collect();
    assert_eq!(left, [1]);
    run.drain();
}

#[test]
fn a_batch_that_its_last_taker_leaves_out_does_not_count() {
    use Command::*;
    let mut run = broadcast(2);
    all(&mut run, &[Connect(1), Connect(2), TakeSlot, Push(3), TakeSlot, Push(4)]);
    all(&mut run, &[Disconnect(1), Leave(0, 0), EndEpoch(false)]);
    assert_eq!(run.model.counts[&0], (1, 3));
    run.drain();
}
