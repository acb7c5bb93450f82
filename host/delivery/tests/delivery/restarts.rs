//! Requests of consumers in HELLO: a part of the batches, and a state from which they resume.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use pipemill_delivery::{ChannelDelivery, Match, RestartPolicy, StreamConfig};
use pipemill_ring::host::{Interrupt, PlaceMissing, Ring, WriteError};
use pipemill_ring::protocol::{BatchSize, Hello, Mode, Rank, Resumed, State, Tail};
use pipemill_ring::reader::{Event, Reader, ReaderError};

use crate::setup::{Host, RECORDS, check, config, grant, host, next_batch};

/// Number of batches of an epoch. There are two epochs.
const BATCHES: u64 = 6;

/// A policy that accepts each state.
struct Any;

impl RestartPolicy for Any {
    fn requested(&self, now: &StreamConfig, hello: &Hello) -> Result<StreamConfig, String> {
        let state = hello.state.clone().map(serde_json::from_value::<State>).transpose();
        let state = state.map_err(|error| error.to_string())?;
        let (mode, consumers) = match hello.rank {
            Some(rank) => (Mode::Rank, rank.world),
            None => (now.mode, now.consumers),
        };
        let (batch, settings) = (now.batch, now.settings.clone());
        let resumed = state.map(|state| state.place);
        let (states, done, round) = Default::default();
        Ok(StreamConfig { mode, consumers, batch, resumed, states, done, settings, round })
    }

    fn can_restart(&self) -> bool {
        true
    }

    fn is_same_batch(&self, state: &Resumed, batch: &Resumed, _: Match) -> bool {
        let what =
            |place: &Resumed| (place.delivered, place.position.epoch, place.position.first_record);
        what(state) == what(batch)
    }
}

/// A policy that accepts each state, with an input that can't be read again.
struct Once;

impl RestartPolicy for Once {
    fn requested(&self, now: &StreamConfig, hello: &Hello) -> Result<StreamConfig, String> {
        Any.requested(now, hello)
    }

    fn can_restart(&self) -> bool {
        false
    }

    fn is_same_batch(&self, state: &Resumed, batch: &Resumed, how: Match) -> bool {
        Any.is_same_batch(state, batch, how)
    }
}

/// A host without a writer. It accepts each state.
fn believing_host(tail: Tail) -> (Host, Arc<ChannelDelivery>) {
    host_with(tail, Box::new(Any))
}

fn host_with(tail: Tail, policy: Box<dyn RestartPolicy>) -> (Host, Arc<ChannelDelivery>) {
    let host = host(config());
    let settings = BTreeMap::from([("decoder".to_owned(), "numbers".to_owned())]);
    let batch = BatchSize { records: RECORDS as usize, tail, across: Default::default() };
    let (mode, consumers, resumed) = (Mode::Share, 1, None);
    let (states, done, round) = Default::default();
    let batch = Some(batch);
    let start = StreamConfig { mode, consumers, batch, resumed, states, done, settings, round };
    let delivery = ChannelDelivery::attach(&host.ring, start, policy);
    (host, delivery)
}

/// A host whose writer writes both epochs, and restarts where it is told to.
fn writing_host(tail: Tail) -> Host {
    let (host, delivery) = believing_host(tail);
    let ring = host.ring.clone();
    thread::spawn(move || {
        let mut first = 0;
        loop {
            match write(&ring, first) {
                Err(WriteError::Interrupted(Interrupt::Stop)) => return,
                Ok(()) if ring.wait_drained(None) && ring.end_writing() => return,
                _ if ring.is_restarting() => first = delivery.restarted(&ring).first_batch(),
                other => return assert!(other.is_ok(), "{other:?}"),
            }
        }
    });
    host
}

fn write(ring: &Arc<Ring>, first: u64) -> Result<(), WriteError> {
    for number in first..2 * BATCHES {
        let epoch = (number / BATCHES) as u32;
        grant(ring, epoch, number * RECORDS, RECORDS)?;
        if number % BATCHES == BATCHES - 1 {
            ring.end_epoch(epoch, false).unwrap();
        }
    }
    ring.end_stream();
    Ok(())
}

/// The numbers of the remaining batches.
fn rest(reader: &mut Reader) -> Vec<u64> {
    let mut seen = Vec::new();
    loop {
        match reader.next().unwrap() {
            Event::Batch(batch) => {
                check(&batch);
                seen.push(batch.number());
            }
            Event::EpochEnd(_) => {}
            Event::StreamEnd => return seen,
        }
    }
}

fn ask(host: &Host, rank: Option<Rank>, state: Option<&State>) -> Result<Reader, ReaderError> {
    let state = state.map(|state| serde_json::to_value(state).unwrap());
    let hello = Hello { rank, state, ..Hello::new("train", "tester") };
    Reader::connect_as(&host.socket, &hello, false)
}

#[test]
fn a_reader_goes_on_after_its_state_in_a_host_that_lives() {
    let host = writing_host(Tail::Keep);
    let mut state = None;
    let mut seen = Vec::new();
    for taken in [1, 3, 4] {
        let mut reader = ask(&host, None, state.as_ref()).unwrap();
        for _ in 0..taken {
            let batch = loop {
                if let Event::Batch(batch) = reader.next().unwrap() {
                    break batch;
                }
            };
            seen.push(batch.number());
        }
        state = Some(reader.state().unwrap());
        // It receives more, and dies.
        next_batch(&mut reader);
    }
    let known = state.clone().unwrap();
    assert_eq!(known.settings["decoder"], "numbers");
    assert_eq!((known.place.delivered, known.place.position.batch), (RECORDS, 7));
    seen.extend(rest(&mut ask(&host, None, state.as_ref()).unwrap()));
    assert!(seen.into_iter().eq(0..2 * BATCHES));
}

#[test]
fn a_state_from_the_beginning_of_an_epoch_goes_on_with_any_number() {
    let (host, _) = believing_host(Tail::Keep);
    for number in 0..3 {
        grant(&host.ring, 0, number * RECORDS, RECORDS).unwrap();
    }
    let hello = Hello { credits: Some(1), ..Hello::new("train", "tester") };
    let mut reader = Reader::connect_as(&host.socket, &hello, false).unwrap();
    let batch = next_batch(&mut reader);
    reader.end_epoch(0);
    host.wait_until("asked for the end", |_| host.ring.epoch_end_requested().is_some());
    drop(batch);
    host.ring.end_epoch(0, true).unwrap();
    assert!(matches!(reader.next().unwrap(), Event::EpochEnd(end) if end.early));
    let state = reader.state().unwrap();
    assert_eq!((state.place.position.batch, state.place.delivered), (1, 0));
    // The host has counted the two batches that it dropped.
    grant(&host.ring, 1, 0, RECORDS).unwrap();
    drop(reader);
    let mut reader = ask(&host, None, Some(&state)).unwrap();
    assert_eq!(next_batch(&mut reader).number(), 3);
    assert_eq!(reader.state().unwrap().place.position.batch, 3);
}

/// The state of a run that ended an epoch early, after its second batch of epoch 1, which had
/// number 2.
fn state_of_a_shorter_run() -> State {
    let mut place = Resumed { delivered: RECORDS, ..Resumed::default() };
    (place.position.epoch, place.position.batch) = (1, 2);
    place.position.first_record = RECORDS;
    let settings = BTreeMap::from([("decoder".to_owned(), "numbers".to_owned())]);
    State::new("train", settings, place)
}

/// A host whose input can't be read again. It has written this many batches of epoch 0.
fn host_in_epoch_1(batches_of_epoch_0: u64) -> Host {
    let (host, _) = host_with(Tail::Keep, Box::new(Once));
    for number in 0..batches_of_epoch_0 {
        grant(&host.ring, 0, number * RECORDS, RECORDS).unwrap();
    }
    host.ring.end_epoch(0, false).unwrap();
    host
}

#[test]
fn an_input_that_is_read_over_goes_on_at_the_same_record_where_epochs_had_other_batches() {
    // The state's number is one of epoch 0 or of epoch 1 in this run. The batch comes before the
    // consumer, or after it.
    for (of_epoch_0, written_before) in (0..=4).flat_map(|more| (0..=3).map(move |now| (more, now)))
    {
        let host = host_in_epoch_1(of_epoch_0);
        let write = |number: u64| {
            grant(&host.ring, 1, number * RECORDS, RECORDS).unwrap();
        };
        (0..written_before).for_each(write);
        let mut reader = ask(&host, None, Some(&state_of_a_shorter_run())).unwrap();
        (written_before..4).for_each(write);
        host.ring.end_epoch(1, false).unwrap();
        host.ring.end_stream();
        let expected = [of_epoch_0 + 2, of_epoch_0 + 3];
        assert_eq!(rest(&mut reader), expected, "{of_epoch_0} in epoch 0, {written_before} before");
        assert_eq!(reader.state().unwrap().place.position.epoch, 2);
    }
}

#[test]
fn a_sought_batch_with_other_records_is_refused_before_and_after_it_comes() {
    let fewer = |host: &Host| {
        grant(&host.ring, 1, 0, RECORDS).unwrap();
        grant(&host.ring, 1, RECORDS, RECORDS - 1).unwrap();
    };
    let host = host_in_epoch_1(2);
    fewer(&host);
    let refused = match ask(&host, None, Some(&state_of_a_shorter_run())) {
        Err(ReaderError::Refused(reason)) => reason,
        other => panic!("expected a refusal, found {other:?}"),
    };
    assert!(refused.contains("`objects` differ"), "{refused}");
    // It may come before or after the consumer is in the table.
    let host = host_in_epoch_1(2);
    let mut reader = ask(&host, None, Some(&state_of_a_shorter_run())).unwrap();
    fewer(&host);
    let error = reader.next().unwrap_err().to_string();
    assert!(error.contains("`objects` differ"), "{error}");
}

#[test]
fn an_epoch_without_the_batch_of_a_state_is_an_error() {
    let (host, _) = host_with(Tail::Keep, Box::new(Once));
    host.ring.end_epoch(0, false).unwrap();
    let _reader = ask(&host, None, Some(&state_of_a_shorter_run())).unwrap();
    grant(&host.ring, 1, 0, RECORDS).unwrap();
    assert_eq!(host.ring.end_epoch(1, false), Err(PlaceMissing(1)));
    let (host, _) = host_with(Tail::Keep, Box::new(Once));
    host.ring.end_epoch(0, false).unwrap();
    grant(&host.ring, 1, 0, RECORDS).unwrap();
    host.ring.end_epoch(1, false).unwrap();
    let error = ask(&host, None, Some(&state_of_a_shorter_run())).unwrap_err().to_string();
    assert!(error.contains("its last batch is not among those of this run"), "{error}");
}

#[test]
fn ranks_get_their_batches_and_go_on_after_their_states() {
    let host = writing_host(Tail::Drop);
    let of_two = |number| Some(Rank { number, world: 2 });
    let connect = |states: [Option<&State>; 2]| {
        [0, 1].map(|rank| ask(&host, of_two(rank), states[rank as usize]).unwrap())
    };
    let mut readers = connect([None, None]);
    assert_eq!(readers[0].welcome().mode, Mode::Rank);
    let first = readers.each_mut().map(|reader| next_batch(reader).number());
    assert_eq!(first, [0, 1]);
    // One rank is a step ahead.
    assert_eq!(next_batch(&mut readers[1]).number(), 3);
    let states = readers.each_ref().map(|reader| reader.state().unwrap());
    drop(readers);
    let readers = connect([Some(&states[0]), Some(&states[1])]);
    let rests = thread::scope(|scope| {
        readers
            .map(|mut reader| scope.spawn(move || rest(&mut reader)))
            .map(|thread| thread.join().unwrap())
    });
    assert_eq!(rests, [vec![2, 4, 6, 8, 10], vec![5, 7, 9, 11]]);
}

/// A policy that can't tell whether a batch that was filled before is that of a state.
struct Unsure;

impl RestartPolicy for Unsure {
    fn requested(&self, now: &StreamConfig, hello: &Hello) -> Result<StreamConfig, String> {
        Any.requested(now, hello)
    }

    fn can_restart(&self) -> bool {
        true
    }

    fn is_same_batch(&self, state: &Resumed, batch: &Resumed, how: Match) -> bool {
        how == Match::Tolerant && Any.is_same_batch(state, batch, how)
    }
}

#[test]
fn a_restart_for_one_rank_keeps_what_an_earlier_one_waits_for() {
    let (host, delivery) = host_with(Tail::Drop, Box::new(Unsure));
    let state_of = |number, batch, delivered| {
        let rank = Rank { number, world: 2 };
        let mut place = Resumed { delivered, rank, ..Resumed::default() };
        (place.position.epoch, place.position.batch) = (1, batch);
        place.position.first_record = batch * RECORDS;
        let settings = BTreeMap::from([("decoder".to_owned(), "numbers".to_owned())]);
        (Some(rank), State::new("train", settings, place))
    };
    // The one begins with epoch 1, the other one was given its first batch there.
    let (rank, state) = state_of(1, BATCHES, 0);
    let mut behind = ask(&host, rank, Some(&state)).unwrap();
    assert_eq!(delivery.restarted(&host.ring).first_batch(), BATCHES);
    // Only this batch was written, which is not for the rank that is connected.
    grant(&host.ring, 1, BATCHES * RECORDS, RECORDS).unwrap();
    let (rank, state) = state_of(0, BATCHES, RECORDS);
    let mut ahead = ask(&host, rank, Some(&state)).unwrap();
    let ring = host.ring.clone();
    let first = delivery.restarted(&ring).first_batch();
    assert_eq!(first, BATCHES);
    let writer = thread::spawn(move || write(&ring, first));
    let read = thread::scope(|scope| {
        [&mut behind, &mut ahead]
            .map(|reader| scope.spawn(move || rest(reader)))
            .map(|thread| thread.join().unwrap())
    });
    assert_eq!(read, [vec![7, 9, 11], vec![8, 10]]);
    writer.join().unwrap().unwrap();
}

#[test]
fn who_asks_for_what_others_read_otherwise_is_refused() {
    let host = writing_host(Tail::Pad);
    let mut reader = ask(&host, None, None).unwrap();
    next_batch(&mut reader);
    let refusal = |rank, state: Option<&State>| match ask(&host, rank, state) {
        Err(ReaderError::Refused(reason)) => reason,
        other => panic!("expected a refusal, found {other:?}"),
    };
    let rank = Some(Rank { number: 0, world: 2 });
    assert!(refusal(rank, None).contains("1 of the channel's consumers are connected"));
    let state = State { place: Resumed::default(), ..reader.state().unwrap() };
    assert!(refusal(None, Some(&state)).contains("end them first"));
    let wrong = Some(Rank { number: 2, world: 2 });
    assert!(refusal(wrong, None).contains("found rank 2 of 2"));
    drop(reader);
    // A rank of a channel that was divided in another way needs a state.
    assert!(refusal(rank, None).contains("connect with a state, or start the host again"));
}

#[test]
fn a_consumer_that_was_not_given_all_batches_has_no_state() {
    let host = writing_host(Tail::Keep);
    let mut readers = [0, 1].map(|_| ask(&host, None, None).unwrap());
    let numbers = readers.each_mut().map(|reader| next_batch(reader).number());
    let late = numbers.iter().position(|number| *number > 0).unwrap();
    assert!(matches!(readers[late].state(), Err(ReaderError::Gap { .. })));
}
