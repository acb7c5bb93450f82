//! Executes commands on the table and its model, and then ends the stream normally: no batch is
//! lost, granted twice, out of order, beyond credit, or granted later than it could be. `tests` and
//! the fuzzer choose the commands.

use std::time::Instant;

use super::model::{DEDICATED, FIRST_LARGER, Item, Model, ModelConsumer, SLOTS};
use super::*;

/// The actions of a writer, a server and consumers. Indexes wrap around at the number of existing
/// items.
#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
    TakeSlot,
    TakeDedicated,
    /// Takes a larger slot, or a dedicated buffer where a consumer waits and none is free.
    TakeLarger,
    /// Makes this number of larger slots, where a ring may.
    MakeLarger(u32),
    PutBack,
    Push(u32),
    EndEpoch(bool),
    Finish(bool),
    Connect(u32),
    /// A consumer that does not understand larger slots connects.
    ConnectOlder(u32),
    Disconnect(usize),
    Ack(usize, usize),
    Release(usize, usize),
    Wrong(usize, bool),
    Skip(usize, u32),
    /// A consumer's program has left the epoch in which the consumer began.
    Leave(usize),
    /// Another consumer replaces this one.
    Depart(usize),
    /// A departed consumer hangs up.
    Gone(usize),
    Block(usize, bool),
    /// A consumer requests another beginning.
    BeginAgain,
    /// The writer begins there.
    Begun,
    /// A rank has the next batches from an earlier run: this many of its own.
    Want(u32, u64),
}

/// The table and its model.
#[cfg_attr(any(test, feature = "unstable"), derive(Clone, Hash))]
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
                let slot = self.table.take(Wanted::Slot);
                assert!(slot.is_none_or(|slot| slot < SLOTS));
                self.model.filling.extend(slot);
            }
            Command::TakeDedicated => {
                let slot = self.table.take(Wanted::Dedicated);
                assert!(slot.is_none_or(|slot| (SLOTS..FIRST_LARGER).contains(&slot)));
                self.model.filling.extend(slot);
            }
            Command::TakeLarger => self.take_larger(),
            Command::MakeLarger(count) => {
                if self.model.may_make_larger() {
                    self.model.larger = count;
                    self.table.set_larger(count);
                }
            }
            Command::PutBack => {
                if let Some(slot) = self.model.filling.last() {
                    self.table.put_back(*slot);
                }
            }
            Command::Push(records) => self.push(records),
            Command::EndEpoch(early) => self.end_epoch(early),
            Command::Finish(error) => self.finish(if error { End::Error } else { End::Stream }),
            Command::Connect(credits) => self.connect(credits, true),
            // A ring that has larger slots refuses it.
            Command::ConnectOlder(credits) if self.model.larger == 0 => {
                self.connect(credits, false)
            }
            Command::ConnectOlder(_) => {}
            Command::Disconnect(at) => self.disconnect(at),
            Command::Ack(at, grant) => self.answer(at, grant, false),
            Command::Release(at, grant) => self.answer(at, grant, true),
            Command::Wrong(at, ack) => self.wrong(at, ack),
            Command::Skip(at, later) => self.skip(at, later),
            Command::Leave(at) => self.leave(at),
            Command::Depart(at) => self.depart(at),
            Command::Gone(at) => self.gone(at),
            Command::Block(at, blocked) => {
                if let Some(id) = self.pick(at) {
                    self.model.consumers.get_mut(&id).unwrap().blocked = blocked;
                    self.table.set_blocked(id, blocked, self.now);
                }
            }
            Command::BeginAgain => self.begin_again(),
            Command::Begun => {
                if self.model.is_restarting {
                    let model = &mut self.model;
                    model.is_restarting = false;
                    self.ended = false;
                    self.table.restarted(self.now);
                }
            }
            Command::Want(rank, own) => self.want(rank, own),
        }
        self.check_effects();
        self.model.check_idle(&self.table);
    }

    fn check_effects(&mut self) {
        let mut effects = Vec::new();
        self.table.swap_effects(&mut effects);
        for effect in effects {
            self.model.drop_unwanted_ends();
            self.model.effect(effect);
        }
        self.model.drop_unwanted_ends();
    }

    fn take_larger(&mut self) {
        let (model, dedicated) = (&self.model, SLOTS..FIRST_LARGER);
        let is_free = model.in_use(FIRST_LARGER..) < model.larger;
        // There may be as many buffers and larger slots together as there may be buffers.
        let in_buffers = model.in_use(dedicated.clone());
        let may_be_dedicated = model.has_demand() && in_buffers + model.larger < DEDICATED;
        let slot = self.table.take(Wanted::LargerOrDedicated);
        match slot {
            Some(slot) if is_free => {
                assert!((FIRST_LARGER..FIRST_LARGER + model.larger).contains(&slot));
            }
            Some(slot) => assert!(may_be_dedicated && dedicated.contains(&slot)),
            None => assert!(!is_free && !may_be_dedicated),
        }
        self.model.filling.extend(slot);
    }

    /// This happens only where a ring would allow it: nobody holds a batch.
    fn begin_again(&mut self) {
        let is_free = self.model.consumers.is_empty() || !self.model.has_granted;
        if !is_free || self.model.finished.is_some() {
            return;
        }
        let model = &mut self.model;
        let (acked, dropped) = (&model.acked, &model.dropped);
        let is_open = |number: &&u64| !acked.contains(number) && !dropped.contains(number);
        model.forgotten = model.batches.keys().filter(is_open).copied().collect();
        // The memory that a departed consumer may still read.
        model.dropped.extend(model.batches.keys().filter(|number| acked.contains(number)));
        model.queue.clear();
        (model.counts, model.early, model.acked) = Default::default();
        (model.epoch, model.writing, model.skipped) = (1, 1, None);
        model.started = model.consumers.len() >= model.min_consumers;
        (model.has_granted, model.is_restarting) = (false, true);
        model.consumers.values_mut().for_each(|consumer| consumer.skipped = None);
        model.wanted_from.fill(BatchPlace::default());
        let (mode, consumers) = (model.mode, model.min_consumers as u32);
        let new = Restart { mode, consumers, epoch: 1, dedicated: DEDICATED };
        self.table.restart(new);
        self.check_effects();
    }

    fn want(&mut self, rank: u32, own: u64) {
        let ranks = self.model.wanted_from.len() as u64;
        let rank = u64::from(rank) % ranks;
        let number = self.next_batch.next_multiple_of(ranks) + rank;
        let number = (number + own * ranks).saturating_sub(2 * ranks);
        let from = BatchPlace { epoch: self.model.writing, number };
        let model = &mut self.model;
        // A consumer makes its request before it connects, and alone unless it has its own part.
        let is_read = |one: &ModelConsumer| model.mode != Mode::Rank || u64::from(one.rank) == rank;
        let is_done = model.finished.is_some() || from <= model.wanted_from[rank as usize];
        if is_done || model.consumers.values().any(is_read) {
            return;
        }
        model.wanted_from[rank as usize] = from;
        let unwanted = model.queue.iter().filter_map(|item| match item {
            Item::Batch(number) => Some(*number)
                .filter(|number| number % ranks == rank && model.batches[number].1.place() < from),
            Item::EpochEnd(_) | Item::Finish(_) => None,
        });
        model.forgotten = unwanted.collect();
        self.table.set_wanted_from(rank as u32, from);
        self.check_effects();
        self.table.pump(self.now);
    }

    fn push(&mut self, records: u32) {
        // The model does not cover batches that a writer with a bug pushes after the end.
        if self.ended {
            return;
        }
        let Some(slot) = self.model.filling.pop() else { return };
        let epoch = self.model.writing;
        let first = RecordPlace { object: 0, record: self.next_batch };
        let batch = Batch { number: self.next_batch, epoch, records, bytes: 1, first };
        self.next_batch += 1;
        let wanted = self.model.wanted_from[self.model.rank_of(batch.number) as usize];
        if self.model.is_restarting || batch.place() < wanted {
            self.model.filling.push(slot);
        } else if self.model.skipped == Some(epoch) {
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
        if self.ended || self.model.is_restarting {
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
        if !self.ended && !self.model.is_restarting {
            self.model.queue.push_back(Item::Finish(end));
            self.table.finish(end, self.now);
            self.ended = true;
        }
    }

    fn connect(&mut self, credits: u32, understands_larger: bool) {
        let mut rank = 0;
        if self.model.mode == Mode::Rank {
            let is_free =
                |rank: &u32| self.model.consumers.values().all(|consumer| consumer.rank != *rank);
            let Some(free) = (0..self.model.min_consumers as u32).find(is_free) else { return };
            rank = free;
        }
        let id = self.next_consumer;
        self.next_consumer += 1;
        let larger = (understands_larger, false);
        let consumer = ModelConsumer { credits, rank, larger, ..ModelConsumer::default() };
        self.model.consumers.insert(id, consumer);
        self.model.started |= self.model.consumers.len() >= self.model.min_consumers;
        self.table.connect(id, credits, rank, understands_larger, self.now);
        if let Some(end) = self.model.finished {
            let mut effects = Vec::new();
            self.table.swap_effects(&mut effects);
            assert_eq!(effects, [Effect::End { to: id, end }], "the end is sent at once");
        }
    }

    fn disconnect(&mut self, at: usize) {
        let Some(id) = self.pick(at) else { return };
        self.note_gone(id);
        self.table.disconnect(id, self.now);
    }

    fn depart(&mut self, at: usize) {
        let Some(id) = self.pick(at) else { return };
        let grants = &self.model.consumers[&id].grants;
        let held = grants.iter().map(|grant| self.model.batches[&grant.1].0).collect();
        self.model.departed.insert(id, held);
        self.note_gone(id);
        self.table.depart(id, self.now);
    }

    fn note_gone(&mut self, id: ConsumerId) {
        let gone = self.model.consumers.remove(&id).unwrap();
        for batch in gone.grants.iter().map(|grant| grant.1).chain(gone.assigned) {
            self.model.requeue(batch);
        }
        self.skip_if_all_skip();
    }

    fn gone(&mut self, at: usize) {
        let ids: Vec<_> = self.model.departed.keys().copied().collect();
        if !ids.is_empty() {
            let id = ids[at % ids.len()];
            self.model.departed.remove(&id);
            self.table.gone(id);
        }
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
        self.note_skip(id, epoch);
        self.table.skip_epoch(id, epoch, self.now);
        if self.model.skipped == Some(epoch) && later == 0 && self.model.mode != Mode::Broadcast {
            assert!(!self.table.queue.iter().any(
                |entry| matches!(entry, Entry::Batch { epoch: other, .. } if *other == epoch)
            ));
        }
    }

    fn leave(&mut self, at: usize) {
        let Some(id) = self.pick(at) else { return };
        if let (Some(epoch), true) = self.model.consumers[&id].begun {
            self.note_skip(id, epoch);
        }
        self.table.leave_epoch(id, self.now);
    }

    fn note_skip(&mut self, id: ConsumerId, epoch: u32) {
        if epoch == self.model.epoch && self.model.finished.is_none() {
            if self.model.mode != Mode::Broadcast {
                self.model.skipped = Some(epoch);
            } else {
                let consumer = self.model.consumers.get_mut(&id).unwrap();
                consumer.skipped = Some(epoch);
                consumer.assigned.clear();
                self.skip_if_all_skip();
            }
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
        self.step(Command::Begun);
        while self.model.consumers.len() < self.model.min_consumers.max(1) {
            self.step(Command::Connect(2));
        }
        for at in 0..self.model.consumers.len() {
            self.step(Command::Block(at, false));
        }
        self.step(Command::Finish(false));
        while !self.model.departed.is_empty() {
            self.step(Command::Gone(0));
        }
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
        let all_free = SlotCounts { free: SLOTS + self.model.larger, ..SlotCounts::default() };
        assert_eq!(self.table.slot_counts(), all_free);
        let delivered: u64 = self.model.counts.values().map(|count| count.0).sum();
        assert_eq!(self.model.acked.len() as u64, delivered);
    }
}

/// Reads commands from any bytes: three for each.
#[cfg(feature = "unstable")]
fn commands(bytes: &[u8]) -> impl Iterator<Item = Command> {
    use Command::*;
    bytes.as_chunks().0.iter().map(|[command, first, second]| {
        let (at, grant) = (usize::from(*first), usize::from(*second));
        let (number, flag) = (u32::from(*first), second & 1 == 1);
        match command % 22 {
            0 => TakeSlot,
            1 => TakeDedicated,
            2 => PutBack,
            3 => Push(number),
            4 => EndEpoch(flag),
            5 => Finish(flag),
            6 => Connect(1 + number % 3),
            7 => Disconnect(at),
            8 => Ack(at, grant),
            9 => Release(at, grant),
            10 => Wrong(at, flag),
            11 => Skip(at, u32::from(flag)),
            12 => BeginAgain,
            13 => Begun,
            14 => Want(number, u64::from(second % 4)),
            15 => Leave(at),
            16 => Depart(at),
            17 => Gone(at),
            18 => TakeLarger,
            19 => MakeLarger(1 + number % 3),
            20 => ConnectOlder(1 + number % 3),
            _ => Block(at, flag),
        }
    })
}

/// Executes the commands that the bytes represent on the table and on its model.
///
/// # Panics
/// If the table does something that the model does not allow, which is a bug.
#[cfg(feature = "unstable")]
pub fn check_table(bytes: &[u8]) {
    let (first, rest) = bytes.split_first().unwrap_or((&0, &[]));
    let mode = [Mode::Share, Mode::Broadcast, Mode::Rank][usize::from(first % 3)];
    let mut run = Run::new(mode, 1 + u32::from(first >> 2 & 1));
    commands(rest).for_each(|command| run.step(command));
    run.drain();
}
