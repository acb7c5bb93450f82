//! Tests every sequence of up to eight commands over up to three consumers, and of up to six after
//! three have connected, on the table and its model. Larger slots have sequences of their own, of
//! the commands that concern them. `tests` draws longer ones at random.
//!
//! A breadth-first search: a state that was reached before, by another sequence, is not followed
//! again. States are compared by a hash of 64 bits of table and model.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::run::{Command, Run};
use crate::protocol::Mode;

const CONSUMERS: usize = 3;

/// All commands that can have an effect in this state. Numbers of batches and records don't
/// influence the table, so one number of records is enough.
fn commands(run: &Run) -> Vec<Command> {
    use Command::*;
    let mut all = vec![TakeSlot, TakeDedicated, PutBack, Push(1)];
    all.extend([EndEpoch(false), EndEpoch(true), Finish(false), Finish(true)]);
    if run.model.mode == Mode::Rank {
        all.extend([BeginAgain, Begun, Want(0, 2), Want(1, 2)]);
    }
    if run.model.consumers.len() < CONSUMERS {
        all.extend([Connect(1), Connect(2)]);
    }
    for (at, consumer) in run.model.consumers.values().enumerate() {
        all.extend([Disconnect(at), Wrong(at, true), Wrong(at, false)]);
        all.extend([Skip(at, 0), Skip(at, 1), Leave(at), Depart(at), Block(at, !consumer.blocked)]);
        for grant in 0..consumer.grants.len() {
            all.extend([Ack(at, grant), Release(at, grant)]);
        }
    }
    all.extend((0..run.model.departed.len()).map(Gone));
    all
}

/// The commands that concern larger slots, as `commands`: they are made, filled, announced and
/// granted, also together with a slot, and consumers leave, depart and come again.
fn commands_with_larger(run: &Run) -> Vec<Command> {
    use Command::*;
    let mut all = vec![TakeLarger, MakeLarger(1), MakeLarger(2), TakeSlot, PutBack, Push(1)];
    if run.model.consumers.len() < 2 {
        all.extend([Connect(1), Connect(2), ConnectOlder(1)]);
    }
    for (at, consumer) in run.model.consumers.values().enumerate() {
        all.extend([Disconnect(at), Depart(at), Skip(at, 0)]);
        all.extend((0..consumer.grants.len()).map(|grant| Release(at, grant)));
    }
    all.extend((0..run.model.departed.len()).map(Gone));
    all
}

/// Prints the commands that led to a panic.
struct Trail<'a>(&'a [Command], Command);

impl Drop for Trail<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("after {:?}, {:?}", self.0, self.1);
        }
    }
}

fn hash(run: &Run) -> u64 {
    let mut hasher = DefaultHasher::new();
    run.hash(&mut hasher);
    hasher.finish()
}

fn explore(mode: Mode, first: &[Command], depth: usize) -> usize {
    explore_with(commands, mode, first, depth)
}

/// Follows `first` and then every sequence of up to `depth` of the commands. Returns the number of
/// states. From states after fewer commands, the stream is also ended normally.
fn explore_with(
    commands: fn(&Run) -> Vec<Command>,
    mode: Mode,
    first: &[Command],
    depth: usize,
) -> usize {
    let mut start = Run::new(mode, if mode == Mode::Rank { 2 } else { 1 });
    first.iter().for_each(|command| start.step(*command));
    let mut known = HashSet::from([hash(&start)]);
    // Sequences take less memory than the states that they lead to.
    let mut last: Vec<Vec<Command>> = vec![vec![]];
    for left in (0..depth).rev() {
        let mut next = Vec::new();
        for path in &last {
            let mut before = start.clone();
            path.iter().for_each(|command| before.step(*command));
            for command in commands(&before) {
                let _trail = Trail(path, command);
                let mut run = before.clone();
                run.step(command);
                if known.insert(hash(&run)) && left > 0 {
                    next.push([&path[..], &[command]].concat());
                    run.drain();
                }
            }
        }
        last = next;
    }
    known.len()
}

const CONNECTED: [Command; 3] = [Command::Connect(1), Command::Connect(2), Command::Connect(1)];

#[test]
fn share_from_the_start() {
    assert!(explore(Mode::Share, &[], 8) > 100_000);
}

#[test]
fn broadcast_from_the_start() {
    assert!(explore(Mode::Broadcast, &[], 8) > 100_000);
}

#[test]
fn share_with_three_consumers() {
    assert!(explore(Mode::Share, &CONNECTED, 6) > 20_000);
}

#[test]
fn broadcast_with_three_consumers() {
    assert!(explore(Mode::Broadcast, &CONNECTED, 6) > 20_000);
}

#[test]
fn rank_from_the_start() {
    assert!(explore(Mode::Rank, &[], 6) > 5_000);
}

#[test]
fn rank_with_both_ranks() {
    assert!(explore(Mode::Rank, &CONNECTED[..2], 6) > 5_000);
}

#[test]
fn larger_slots_with_share() {
    let found = explore_with(commands_with_larger, Mode::Share, &CONNECTED[..1], 9);
    assert!(found > 100_000, "{found}");
}

#[test]
fn larger_slots_with_broadcast() {
    let found = explore_with(commands_with_larger, Mode::Broadcast, &CONNECTED[..1], 8);
    assert!(found > 100_000, "{found}");
}

#[test]
fn larger_slots_with_rank() {
    let found = explore_with(commands_with_larger, Mode::Rank, &CONNECTED[..2], 8);
    assert!(found > 100_000, "{found}");
}
