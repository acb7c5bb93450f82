//! A window of records: the order depends only on the records and the seed. It is the one that the
//! documentation promises, and a run that resumes gives exactly the rest.

use pipemill_channel::{Shuffle, Window};
use pipemill_types::{BatchAcross, BatchSize, Tail};
use proptest::prelude::*;

use crate::batches::Cut;
use crate::host::{End, Job, Observed, Setup, run};
use crate::sink::Kept;

pub fn shuffle() -> impl Strategy<Value = Shuffle> {
    let bytes = prop_oneof![Just(1), 1..300u64, 300..9_000u64, 9_000..900_000u64, 1..1u64 << 40];
    let records = prop_oneof![Just(1), 1..9u64, 9..300u64, 300..9_000u64, 1..1u64 << 40];
    let window = prop_oneof![bytes.prop_map(Window::Bytes), records.prop_map(Window::Records)];
    (any::<u64>(), window).prop_map(|(seed, window)| Shuffle { seed, window })
}

/// The number of this place, from 0, of SplitMix64 with this seed.
pub fn random(seed: u64, place: u64) -> u64 {
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut z = seed.wrapping_add(STEP.wrapping_mul(place.wrapping_add(1)));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The records of an epoch in the order that is promised: docs/configuration.md.
fn shuffled(records: &[Kept], shuffle: Shuffle) -> Vec<&Kept> {
    let mut place = 0;
    let mut keyed = Vec::new();
    for record in records {
        let object: u64 = record.object.trim_start_matches("object ").parse().expect("a number");
        let seed = random(random(shuffle.seed, record.epoch.into()), object);
        let (window, cost) = match shuffle.window {
            Window::Records(window) => (window, 1),
            Window::Bytes(window) => {
                let bytes: usize = record.fields.iter().flatten().map(Vec::len).sum();
                (window, bytes as u64 + 32 + 8 * record.fields.len() as u64)
            }
        };
        let delay = (u128::from(random(seed, record.number)) * u128::from(window)) >> 64;
        keyed.push((place + delay as u64, record));
        place += cost;
    }
    keyed.sort_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, record)| record).collect()
}

/// Expected batches: starts and fields of their records, and their padding.
type Content = (u32, Vec<(u64, Vec<Option<Vec<u8>>>)>, usize);

fn contents(cuts: &[Cut]) -> Vec<Content> {
    cuts.iter().map(|cut| (cut.start.position.epoch, cut.records.clone(), cut.padding)).collect()
}

/// All batches that these records make.
fn expected(whole: &Observed, size: BatchSize, shuffle: Shuffle) -> Vec<Content> {
    let records = shuffled(&whole.records, shuffle);
    let batch = |records: &[&Kept]| {
        let mut kept: Vec<_> =
            records.iter().map(|record| (record.start, record.fields.clone())).collect();
        let missing = size.records - kept.len();
        let padding = if size.tail == Tail::Pad { missing } else { 0 };
        kept.extend(kept.last().cloned().into_iter().cycle().take(padding));
        (records[0].epoch, kept, padding)
    };
    let is_given = |records: &&[&Kept]| records.len() == size.records || size.tail != Tail::Drop;
    records.chunks(size.records).filter(is_given).map(batch).collect()
}

fn compare(what: &str, expected: &[Content], found: &[Content]) -> Result<(), TestCaseError> {
    let differs = expected.iter().zip(found).position(|(a, b)| a != b);
    if let Some(at) = differs {
        let pair = (&expected[at], &found[at]);
        return Err(TestCaseError::fail(format!("{what}: batch {at}: {pair:?}")));
    }
    prop_assert_eq!(expected.len(), found.len(), "{}: number of batches", what);
    Ok(())
}

/// Resumes after batch `at` of a run: the rest is the same.
fn resumed(
    job: &Job,
    way: &Setup,
    before: &Observed,
    at: usize,
) -> Result<Observed, TestCaseError> {
    let resume = before.cuts[at].resume(before.schema.as_deref());
    let rest = run(job, &Setup { resume: Some(resume.clone()), ..way.clone() });
    let what = format!("after batch {at}, at {:?}, which ends {:?}", resume.position, rest.end);
    compare(&what, &contents(&before.cuts[at + 1..]), &contents(&rest.cuts))?;
    Ok(rest)
}

/// The property itself. `whole` is the result of the job without batches of a size.
pub fn check(
    job: &Job,
    way: &Setup,
    size: BatchSize,
    shuffle: Shuffle,
    whole: &Observed,
) -> Result<(), TestCaseError> {
    let size = BatchSize { across: BatchAcross::Epoch, ..size };
    let way = Setup { batch: Some(size), shuffle: Some(shuffle), ..way.clone() };
    let observed = run(job, &way);
    prop_assert_eq!(&whole.end, &observed.end);
    prop_assert_eq!(&whole.quarantined, &observed.quarantined);
    let (mut expected, found) = (expected(whole, size, shuffle), contents(&observed.cuts));
    if whole.end != End::Ended {
        // Whole batches of due records: the same ones however the input arrived.
        let skipped = way.skipped.clone();
        let (batch, shuffle) = (Some(size), Some(shuffle));
        let in_one_piece = Setup { batch, shuffle, skipped, ..Setup::in_one_piece() };
        let same = run(job, &in_one_piece);
        compare("in one piece", &contents(&same.cuts), &found)?;
        let is_whole =
            |(_, records, padding): &Content| records.len() == size.records && *padding == 0;
        prop_assert!(found.iter().all(is_whole), "a part of a batch");
        expected.truncate(found.len());
    }
    compare("all", &expected, &found)?;
    // A run that resumes counts its errors from 0.
    if job.max_errors >= 1_000_000 {
        // Repeatedly: each time at another batch of the run before.
        let mut before = observed;
        for step in 0..3 {
            if before.cuts.is_empty() {
                break;
            }
            let at = (way.slot + way.pieces.len() + step) % before.cuts.len().min(9);
            before = resumed(job, &way, &before, at)?;
        }
    }
    Ok(())
}

/// The order differs from seed to seed.
#[test]
fn each_seed_has_an_order_of_its_own() {
    let job = Job {
        decoder: "lines",
        options: Vec::new(),
        objects: vec![crate::host::Bytes(
            (0..500).map(|n| format!("{n}\n")).collect::<String>().into(),
        )],
        on_error: crate::host::Bad::Fail,
        max_record: 64 << 20,
        max_errors: 0,
    };
    let size = BatchSize { records: 10, tail: Tail::Keep, across: BatchAcross::Epoch };
    let with_seed = |seed| {
        let shuffle = Some(Shuffle { seed, window: Window::Records(100) });
        contents(&run(&job, &Setup { batch: Some(size), shuffle, ..Setup::in_one_piece() }).cuts)
    };
    assert_eq!(with_seed(1), with_seed(1));
    assert_ne!(with_seed(1), with_seed(2));
}
