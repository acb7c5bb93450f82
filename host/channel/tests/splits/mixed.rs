//! A mix of channels: the next record depends only on the inputs, the weights, the seed and the
//! epoch. The order is the one that the documentation promises, and a run that resumes gives
//! exactly the rest.

use std::sync::Arc;
use std::time::Duration;

use pipemill_channel::{
    Batch, BatchStart, Channel, ChannelStats, ErrorPolicy, Failure, Learning, Mix, MixInput,
    OnError, OnPluginError, Outcome, Resume, Shuffle, SinkDelivery, SinkMemory, StopReason, Until,
    Window, Workers,
};
use pipemill_decode::Limits;
use pipemill_source::{Input, Object, ReadOutcome, Source, SourceError, SourceEvent, Start, Stop};
use pipemill_types::{
    Accepted, BatchAcross, BatchPosition, BatchSize, Field, ObjectFacts, ObjectIdentity, Tail,
};
use proptest::prelude::*;

use crate::host::plugin;
use crate::shuffle::{random, shuffle};

/// The lines of one input: `sizes` has the number of lines of each object, in each epoch.
#[derive(Debug, Clone)]
struct Lines {
    name: String,
    weight: u64,
    sizes: Vec<usize>,
    /// Sizes of reads, 0 for a read without bytes. Then one read gives all the rest.
    pieces: Vec<usize>,
}

impl Lines {
    fn line(&self, epoch: u32, object: usize, line: usize) -> String {
        // Lines differ in length.
        let tail = "x".repeat(line * 7 % 40);
        format!("{} epoch {epoch} object {object} line {line} {tail}", self.name)
    }

    /// All lines of an epoch.
    fn epoch(&self, epoch: u32) -> impl Iterator<Item = String> {
        let objects = self.sizes.iter().enumerate();
        objects.flat_map(move |(object, size)| {
            (0..*size).map(move |line| self.line(epoch, object, line))
        })
    }
}

/// A source of lines.
struct LineObjects {
    lines: Lines,
    epochs: u32,
    epoch: u32,
    object: usize,
    offset: usize,
}

impl Source for LineObjects {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        if self.epoch >= self.epochs {
            return Ok(SourceEvent::End);
        }
        let Some(size) = self.lines.sizes.get(self.object) else {
            (self.epoch, self.object) = (self.epoch + 1, 0);
            return Ok(SourceEvent::EpochEnd(self.epoch - 1));
        };
        let (epoch, object) = (self.epoch, self.object);
        let text: String =
            (0..*size).map(|line| self.lines.line(epoch, object, line) + "\n").collect();
        self.object += 1;
        Ok(SourceEvent::Object(Object {
            epoch,
            ordinal: object as u64,
            name: format!("object {object}"),
            identity: ObjectIdentity::of(format!("size:{}", text.len())),
            facts: ObjectFacts::default(),
            companions: Vec::new(),
            block: None,
            known: None,
            input: Box::new(Pieces {
                bytes: text.into_bytes().split_off(std::mem::take(&mut self.offset)),
                pieces: self.lines.pieces.clone().into_iter(),
            }),
        }))
    }

    fn start_at(&mut self, start: Start) -> Result<(), SourceError> {
        self.epoch = start.epoch;
        (self.object, self.offset) = (start.ordinal as usize, start.offset as usize);
        Ok(())
    }

    fn can_reread(&self) -> bool {
        true
    }

    fn end_epoch(&mut self) {
        self.object = self.lines.sizes.len();
    }
}

struct Pieces {
    bytes: Vec<u8>,
    pieces: std::vec::IntoIter<usize>,
}

impl Input for Pieces {
    fn read(&mut self, buf: &mut [u8], _: Option<Duration>) -> Result<ReadOutcome, SourceError> {
        if self.bytes.is_empty() {
            return Ok(ReadOutcome::End);
        }
        let most = self.bytes.len().min(buf.len());
        let count = match self.pieces.next() {
            Some(0) => return Ok(ReadOutcome::Nothing),
            Some(size) => size.min(most),
            None => most,
        };
        buf[..count].copy_from_slice(&self.bytes[..count]);
        self.bytes.drain(..count);
        Ok(ReadOutcome::Bytes(count))
    }
}

/// A mix and how its batches are made.
#[derive(Debug, Clone)]
struct Job {
    inputs: Vec<Lines>,
    seed: u64,
    until: Until,
    epochs: u32,
    size: BatchSize,
    shuffle: Option<Shuffle>,
    /// Bytes of a batch's memory.
    slot: usize,
    /// Batches after which the consumer wants no more of the epoch.
    leaves_after: Option<usize>,
}

/// The batches that a consumer gets.
#[derive(Debug, Clone, PartialEq)]
enum Given {
    Batch { epoch: u32, lines: Vec<String>, padding: usize },
    EpochEnd { epoch: u32, early: bool },
}

/// Keeps the batches that it is granted, and their positions.
struct Kept<'a> {
    job: &'a Job,
    given: Vec<(Given, Option<BatchStart>)>,
    batches: usize,
    schema: Option<Arc<[Field]>>,
}

impl SinkMemory for Kept<'_> {
    type Memory = Vec<u8>;

    fn memory(&mut self) -> Result<Vec<u8>, StopReason> {
        Ok(vec![0xdb; self.job.slot])
    }

    fn dedicated_memory(&mut self, payload: usize, _: usize) -> Result<Vec<u8>, StopReason> {
        Ok(vec![0xdb; payload])
    }

    fn grow(&mut self, memory: &mut Vec<u8>, payload: usize) -> Result<(), StopReason> {
        memory.resize(payload, 0xdb);
        Ok(())
    }

    fn room(&self, memory: &Vec<u8>, _: usize, _: usize, _: usize) -> Option<usize> {
        Some(memory.len())
    }
}

impl SinkDelivery for Kept<'_> {
    fn schema(&mut self, fields: &Arc<[Field]>) {
        assert!(self.schema.replace(fields.clone()).is_none(), "the schema was said twice");
    }

    fn grant(&mut self, memory: Vec<u8>, batch: &mut Batch) -> Result<(), StopReason> {
        let column = &batch.columns[0];
        let line = |record: usize| {
            let (from, length) =
                (column.offsets()[record] as usize, column.lengths()[record] as usize);
            String::from_utf8(memory[from..from + length].to_vec()).expect("it is text")
        };
        let lines = (0..batch.records).map(line).collect();
        let given = Given::Batch { epoch: batch.epoch(), lines, padding: batch.padding };
        self.given.push((given, Some(batch.start.clone())));
        self.batches += 1;
        Ok(())
    }

    fn has_demand(&self) -> bool {
        false
    }

    fn wants_epoch_end(&self, epoch: u32) -> bool {
        self.job.leaves_after.is_some_and(|after| self.batches >= after && epoch == 0)
    }

    fn end_epoch(&mut self, epoch: u32, early: bool) -> Result<(), StopReason> {
        self.given.push((Given::EpochEnd { epoch, early }, None));
        Ok(())
    }
}

struct Ran {
    given: Vec<(Given, Option<BatchStart>)>,
    end: Result<(), Failure>,
}

impl Ran {
    fn seen(&self) -> Vec<Given> {
        self.given.iter().map(|(given, _)| given.clone()).collect()
    }

    /// The state of a program to which all batches up to this place were delivered.
    fn resume(&self, at: usize) -> Resume {
        let schema = Some("utf8 line\n".to_owned());
        match &self.given[at] {
            (Given::EpochEnd { epoch, .. }, _) => {
                let position = BatchPosition::of_epoch(epoch + 1);
                Resume { position, delivered: 0, schema, accepted: Accepted::default() }
            }
            (Given::Batch { lines, padding, .. }, start) => {
                let position = start.clone().expect("a batch has a start").position;
                let (delivered, accepted) = ((lines.len() - padding) as u64, Accepted::default());
                Resume { position, delivered, schema, accepted }
            }
        }
    }
}

fn run(job: &Job, resume: Option<Resume>) -> Ran {
    let epochs = if let Until::Records(_) = job.until { u32::MAX } else { job.epochs };
    let input = |lines: &Lines| MixInput {
        channel: Channel {
            name: lines.name.clone(),
            source: Box::new(LineObjects {
                lines: lines.clone(),
                epochs,
                epoch: 0,
                object: 0,
                offset: 0,
            }),
            plugin: plugin("lines"),
            options: Vec::new(),
            limits: Limits::default(),
            policy: ErrorPolicy::new(OnError::Fail, OnPluginError::Fail, 0),
            max_record: 1 << 20,
            linger: Duration::ZERO,
            batch: None,
            shuffle: None,
            resume: None,
            learning: Learning::FromOwn,
            cache: None,
            added_fields: Vec::new(),
            offsets: false,
            workers: Workers::new(1),
            inflates_in_background: false,
            observers: Vec::new(),
        },
        weight: lines.weight,
        stats: Arc::default(),
    };
    let mut mix = Mix {
        name: "mix".to_owned(),
        inputs: job.inputs.iter().map(input).collect(),
        stop: Stop::new().expect("a descriptor"),
        seed: job.seed,
        until: job.until,
        shards: None,
        epochs: job.epochs,
        batch: job.size,
        shuffle: job.shuffle,
        resume,
        observers: Vec::new(),
    };
    let mut sink = Kept { job, given: Vec::new(), batches: 0, schema: None };
    let stats = ChannelStats::default();
    let end = match mix.run(&mut sink, &stats) {
        Outcome::Ended => Ok(()),
        Outcome::Failed(failure) => Err(failure),
        other => panic!("nobody asked for that: {other:?}"),
    };
    assert_eq!(stats.snapshot().batches, sink.batches as u64, "the count of batches");
    Ran { given: sink.given, end }
}

/// The records of all epochs in the order that is promised: docs/configuration.md.
fn mixed(job: &Job) -> Vec<Vec<String>> {
    let mut places: Vec<_> = job.inputs.iter().map(|_| (0, 0)).collect();
    let mut all = Vec::new();
    for epoch in 0..job.epochs {
        let seed = random(job.seed, epoch.into());
        let mut left: Vec<bool> = vec![true; job.inputs.len()];
        let mut records: Vec<String> = Vec::new();
        if !matches!(job.until, Until::Records(_)) {
            places.iter_mut().for_each(|place| *place = (epoch, 0));
        }
        'records: while job.until != Until::Records(records.len() as u64) {
            let drawn = random(seed, records.len() as u64);
            let record = loop {
                let weights: Vec<_> = job
                    .inputs
                    .iter()
                    .zip(&left)
                    .map(|(one, left)| one.weight * u64::from(*left))
                    .collect();
                let sum: u64 = weights.iter().sum();
                let mut at = (u128::from(drawn) * u128::from(sum)) >> 64;
                let Some(input) = weights.iter().position(|weight| {
                    let is_it = at < u128::from(*weight);
                    at = at.wrapping_sub(if is_it { 0 } else { u128::from(*weight) });
                    is_it
                }) else {
                    break 'records;
                };
                let (of_epoch, number) = &mut places[input];
                let record = job.inputs[input].epoch(*of_epoch).nth(*number);
                *number += 1;
                match (record, job.until) {
                    (Some(record), _) => break record,
                    (None, Until::First) => break 'records,
                    (None, Until::All) => left[input] = false,
                    (None, Until::Records(_)) => places[input] = (*of_epoch + 1, 0),
                }
            };
            records.push(record);
        }
        all.push(records);
    }
    all
}

/// The batches that a consumer gets of these records.
fn expected(job: &Job) -> Vec<Given> {
    let mut given = Vec::new();
    for (epoch, records) in (0..).zip(mixed(job)) {
        let records = match job.shuffle {
            Some(shuffle) => shuffled(records, shuffle, epoch),
            None => records,
        };
        for lines in records.chunks(job.size.records) {
            let missing = job.size.records - lines.len();
            if missing > 0 && job.size.tail == Tail::Drop {
                continue;
            }
            let padding = if job.size.tail == Tail::Pad { missing } else { 0 };
            let mut lines = lines.to_vec();
            lines.extend(lines.last().cloned().into_iter().cycle().take(padding));
            given.push(Given::Batch { epoch, lines, padding });
        }
        given.push(Given::EpochEnd { epoch, early: false });
    }
    given
}

fn shuffled(records: Vec<String>, shuffle: Shuffle, epoch: u32) -> Vec<String> {
    let mut place = 0;
    let mut keyed = Vec::new();
    let seed = random(random(shuffle.seed, epoch.into()), 0);
    for (number, line) in (0..).zip(records) {
        let (window, cost) = match shuffle.window {
            Window::Records(window) => (window, 1),
            Window::Bytes(window) => (window, line.len() as u64 + 32 + 8),
        };
        let delay = (u128::from(random(seed, number)) * u128::from(window)) >> 64;
        keyed.push((place + delay as u64, line));
        place += cost;
    }
    keyed.sort_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, line)| line).collect()
}

fn lines(number: usize) -> impl Strategy<Value = Lines> {
    let size = prop_oneof![2 => Just(0), 4 => 1..9usize, 3 => 9..60usize];
    let sizes = prop::collection::vec(size, 1..4);
    let piece = prop_oneof![1 => Just(0usize), 4 => 1..60usize, 2 => 60..4_000usize];
    let weight = prop_oneof![Just(1), 1..1_000_000u64, 1_000_000..1_000_000_000_000u64];
    (sizes, prop::collection::vec(piece, 0..30), weight).prop_map(move |(sizes, pieces, weight)| {
        Lines { name: format!("input-{number}"), weight, sizes, pieces }
    })
}

fn jobs() -> impl Strategy<Value = Job> {
    let inputs = (2..5usize).prop_flat_map(|count| (0..count).map(lines).collect::<Vec<_>>());
    let until = prop_oneof![
        2 => Just(Until::First),
        3 => Just(Until::All),
        3 => (1..200u64).prop_map(Until::Records),
    ];
    let tail = prop_oneof![Just(Tail::Keep), Just(Tail::Drop), Just(Tail::Pad)];
    let size = (prop_oneof![1..9usize, 9..80usize], tail).prop_map(|(records, tail)| BatchSize {
        records,
        tail,
        across: BatchAcross::Epoch,
    });
    let shuffle = prop::option::of(shuffle());
    (inputs, any::<u64>(), until, 1..4u32, size, shuffle, 1..9_000usize).prop_map(
        |(mut inputs, seed, until, epochs, size, shuffle, slot)| {
            // No input is without any record, so that it can be read again and again.
            inputs.iter_mut().for_each(|input| {
                input.sizes[0] += usize::from(input.sizes.iter().sum::<usize>() == 0)
            });
            Job { inputs, seed, until, epochs, size, shuffle, slot, leaves_after: None }
        },
    )
}

fn compare(what: &str, expected: &[Given], found: &[Given]) -> Result<(), TestCaseError> {
    if let Some(at) = expected.iter().zip(found).position(|(a, b)| a != b) {
        let pair = (&expected[at], &found[at]);
        return Err(TestCaseError::fail(format!("{what}: at {at}: {pair:?}")));
    }
    prop_assert_eq!(expected.len(), found.len(), "{}: number", what);
    Ok(())
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn a_mix_is_the_one_that_is_promised_and_goes_on_anywhere(
        job in jobs(),
        places: [prop::sample::Index; 3],
    ) {
        let whole = run(&job, None);
        prop_assert!(whole.end.is_ok(), "{:?}", whole.end);
        compare("all", &expected(&job), &whole.seen())?;
        // Repeatedly: each time at another place of the run before.
        let mut before = whole;
        for place in places {
            if before.given.is_empty() {
                break;
            }
            let at = place.index(before.given.len());
            let rest = run(&job, Some(before.resume(at)));
            prop_assert!(rest.end.is_ok(), "{:?}", rest.end);
            compare(&format!("after {at}"), &before.seen()[at + 1..], &rest.seen())?;
            before = rest;
        }
    }

    #[test]
    fn an_epoch_that_ends_early_leaves_the_next_ones_whole(job in jobs(), after in 0..4usize) {
        let whole = run(&job, None).seen();
        let job = Job { leaves_after: Some(after), ..job };
        let left = run(&job, None).seen();
        let end = |seen: &[Given]| {
            let of_first = |given: &Given| matches!(given, Given::EpochEnd { epoch: 0, .. });
            seen.iter().position(of_first).expect("the first epoch ends")
        };
        let (all, some) = (end(&whole), end(&left));
        prop_assert!(some <= all.max(after + 1), "{some} batches of {all}");
        compare("before", &whole[..some.min(all)], &left[..some.min(all)])?;
        compare("after", &whole[all + 1..], &left[some + 1..])?;
    }
}

fn small(sizes: [&[usize]; 2], until: Until) -> Job {
    let input = |(number, sizes): (usize, &&[usize])| Lines {
        name: format!("input-{number}"),
        weight: 1_000_000,
        sizes: sizes.to_vec(),
        pieces: Vec::new(),
    };
    Job {
        inputs: sizes.iter().enumerate().map(input).collect(),
        seed: 7,
        until,
        epochs: 1,
        size: BatchSize { records: 4, tail: Tail::Keep, across: BatchAcross::Epoch },
        shuffle: None,
        slot: 1 << 16,
        leaves_after: None,
    }
}

#[test]
fn an_input_without_records_is_named_where_it_would_be_read_for_ever() {
    let failure = run(&small([&[5], &[0]], Until::Records(100)), None).end.expect_err("it fails");
    let text = failure.to_string();
    let parts =
        ["channel `input-1`, epoch 0", "its epoch 1 has no record to mix", "until = \"all\""];
    for part in parts {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_state_of_other_channels_is_refused() {
    let job = small([&[5], &[5]], Until::All);
    let mut resume = run(&job, None).resume(0);
    let mut inputs = resume.position.inputs.to_vec();
    inputs[1].input = "other".to_owned();
    resume.position.inputs = inputs.into();
    let failure = run(&job, Some(resume)).end.expect_err("it fails");
    let text = failure.to_string();
    assert!(text.contains("which are input-0, input-1: it has [\"input-0\", \"other\"]"), "{text}");
}
