//! Random commands for the table and its model, and two cases that random commands hit too rarely.

use proptest::prelude::*;

use super::run::{Command, Run};
use super::*;

fn command() -> impl Strategy<Value = Command> {
    use Command::*;
    prop_oneof![
        6 => Just(TakeSlot),
        1 => Just(TakeDedicated),
        3 => Just(TakeLarger),
        2 => (1..4u32).prop_map(MakeLarger),
        1 => Just(PutBack),
        8 => (0..100u32).prop_map(Push),
        1 => prop::bool::weighted(0.2).prop_map(EndEpoch),
        1 => prop::bool::weighted(0.5).prop_map(Finish),
        3 => (1..4u32).prop_map(Connect),
        1 => (1..4u32).prop_map(ConnectOlder),
        2 => any::<usize>().prop_map(Disconnect),
        8 => any::<(usize, usize)>().prop_map(|(consumer, grant)| Ack(consumer, grant)),
        10 => any::<(usize, usize)>().prop_map(|(consumer, grant)| Release(consumer, grant)),
        1 => any::<(usize, bool)>().prop_map(|(consumer, ack)| Wrong(consumer, ack)),
        1 => (any::<usize>(), 0..2u32).prop_map(|(consumer, later)| Skip(consumer, later)),
        1 => any::<usize>().prop_map(Leave),
        1 => any::<usize>().prop_map(Depart),
        2 => any::<usize>().prop_map(Gone),
        2 => (any::<usize>(), prop::bool::weighted(0.3))
            .prop_map(|(consumer, full)| Block(consumer, full)),
        1 => Just(BeginAgain),
        2 => Just(Begun),
        1 => (0..3u32, 0..4u64).prop_map(|(rank, own)| Want(rank, own)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn random_commands_have_the_effects_that_the_model_allows(
        mode in prop::sample::select(vec![Mode::Share, Mode::Broadcast, Mode::Rank]),
        min_consumers in 1..4u32,
        commands in prop::collection::vec(command(), 0..120),
    ) {
        let mut run = Run::new(mode, min_consumers);
        for command in commands {
            run.step(command);
        }
        run.drain();
    }
}

/// For the two cases below, which random commands hit too rarely.
fn broadcast(min_consumers: u32) -> Run {
    Run::new(Mode::Broadcast, min_consumers)
}

fn all(run: &mut Run, commands: &[Command]) {
    commands.iter().for_each(|command| run.step(*command));
}

#[test]
fn a_batch_whose_consumer_has_gone_is_dropped_where_its_epoch_is_skipped() {
    use Command::*;
    let mut run = broadcast(1);
    all(&mut run, &[Connect(1), TakeSlot, Push(1), Connect(1), Skip(0, 0), Skip(1, 0)]);
    all(&mut run, &[Disconnect(0), EndEpoch(false)]);
    assert_eq!(run.model.counts[&0], (0, 0));
    assert!(run.model.consumers.values().all(|consumer| consumer.grants.is_empty()));
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
