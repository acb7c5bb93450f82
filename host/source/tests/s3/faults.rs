//! Whatever fails on the way, the bytes are those of the objects, or one error says what is wrong.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pipemill_s3_test::proxy::{Fault, Kind, Plan, Request, Rule};
use pipemill_testing::PATIENCE;
use pipemill_testing::bucket::Bucket;

use crate::reading::{ReceivedObject, bytes, read, settings};

/// Runs with random faults.
const RUNS: u64 = 500;
/// The share of requests that suffer.
const OFTEN: f64 = 0.2;

fn reference() -> Vec<(String, Vec<u8>)> {
    let sizes = [0, 1, 16_383, 16_384, 16_385, 40_000, 70_000];
    let object =
        |(number, size): (usize, &usize)| (format!("data/{number}"), bytes(*size as u64, *size));
    sizes.iter().enumerate().map(object).collect()
}

#[test]
fn random_faults_never_change_a_byte() {
    let reference = reference();
    let bucket = Bucket::with(reference.iter().map(|(key, bytes)| (key, bytes)));
    let seeds = AtomicU64::new(0);
    let faults = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let seed = seeds.fetch_add(1, Ordering::Relaxed);
                    if seed >= RUNS {
                        break;
                    }
                    faults.fetch_add(one_run(&bucket, &reference, seed), Ordering::Relaxed);
                }
            });
        }
    });
    // About a fifth of 20 requests a run.
    assert!(faults.into_inner() > 2 * RUNS, "hardly anything failed");
}

/// The answer is how many faults there were.
fn one_run(bucket: &Bucket, reference: &[(String, Vec<u8>)], seed: u64) -> u64 {
    // In some runs what is late never comes in time, in the others always. Few, because those take
    // as long as the limit, and that is long, so that what is not held comes in time on a slow
    // machine, too.
    let gives_up = seed.is_multiple_of(25);
    let hold = if gives_up { PATIENCE } else { Duration::from_millis(20) };
    let proxy = bucket.proxy(Plan { hold, ..Plan::random(seed, OFTEN, &Kind::ALL) });
    let mut settings = settings(&proxy.endpoint(), "data/");
    if gives_up {
        settings.stall_timeout = Duration::from_secs(1);
    }
    settings.concurrency = 1 + seed as usize % 6;
    let (received, end) = read(&settings);
    assert_eq!(end.as_ref().ok(), Some(&1), "seed {seed}: {end:?}");
    assert_eq!(received.len(), reference.len(), "seed {seed}");
    for (received, (key, bytes)) in received.iter().zip(reference) {
        assert!(
            received.name == *key && received.bytes == *bytes,
            "seed {seed}: {key} came otherwise"
        );
    }
    proxy.faults().values().sum::<usize>() as u64
}

#[test]
fn a_body_that_breaks_off_goes_on_at_the_byte_it_reached() {
    let object = bytes(1, 12_000);
    for kind in [Kind::ResetWithin, Kind::Truncate, Kind::StallAndEnd] {
        let bucket = Bucket::with([("one", &object)]);
        let fault = Fault::from(kind).at(5_000).hold(Duration::from_millis(10));
        let script = vec![Rule::nth(
            0,
            |request| request.method == "GET" && request.target.contains("/one"),
            fault,
        )];
        let proxy = bucket.proxy(Plan { script, ..Plan::default() });
        let (received, end) = read(&settings(&proxy.endpoint(), "one"));
        assert_eq!(end.ok(), Some(1), "{kind}");
        assert!(received.len() == 1 && received[0].bytes == object, "{kind}");
        let log = proxy.log();
        let gets: Vec<_> =
            log.iter().filter(|entry| entry.request.target.contains("/one")).collect();
        assert_eq!(gets.len(), 2, "{kind}: {gets:#?}");
        let range = gets[1].request.range.clone().unwrap_or_default();
        let from: u64 = range["bytes=".len()..range.find('-').unwrap()].parse().unwrap();
        // A reset may lose what the client had not taken yet, and never gives more than was sent.
        assert!(from <= 5_000 && (kind == Kind::ResetWithin || from == 5_000), "{kind}: {range}");
        // The rest is of the same state of the object.
        assert!(gets[1].request.if_match.is_some(), "{kind}");
    }
}

#[test]
fn a_server_that_keeps_failing_is_given_up() {
    let bucket = Bucket::with([("one", b"1")]);
    let faults = [
        (Fault::from(Kind::SlowDown), "503 SlowDown"),
        (Fault::error(500, "InternalError"), "500 InternalError"),
        (Fault::from(Kind::ResetBefore), "GET of bytes 0 to 1 failed"),
    ];
    std::thread::scope(|scope| {
        for (fault, says) in faults {
            let bucket = &bucket;
            scope.spawn(move || is_given_up(bucket, fault, says));
        }
    });
}

fn is_given_up(bucket: &Bucket, fault: Fault, says: &str) {
    let is_object = |request: &Request| request.target.contains("/one");
    let script = vec![Rule::nth(0, is_object, fault).times(u64::MAX)];
    let proxy = bucket.proxy(Plan { script, ..Plan::default() });
    let mut settings = settings(&proxy.endpoint(), "one");
    // A thousand times what an answer takes.
    settings.retry_timeout = Duration::from_secs(3);
    let (received, end) = read(&settings);
    let error = end.unwrap_err();
    assert!(error.message.contains("no byte came in"), "{error}");
    assert!(error.message.contains(says), "{error}");
    assert_eq!(error.object.as_deref(), Some("s3://bucket/one"));
    assert!(received.iter().all(|received| received.bytes.is_empty()));
    assert!(proxy.requests() > 2, "it was not tried again");
}

#[test]
fn an_error_that_will_not_pass_is_not_retried() {
    for (status, code, says) in [
        (403, "AccessDenied", "s3:GetObject"),
        (403, "InvalidObjectState", "restore it"),
        (400, "ExpiredToken", "renew them"),
        (404, "NoSuchKey", "don't remove objects while a run reads them"),
        (501, "NotImplemented", "the server can't do what was asked"),
    ] {
        let bucket = Bucket::with([("one", b"1")]);
        let fault = Fault::error(status, code);
        let script = vec![Rule::nth(0, |request| request.target.contains("/one"), fault)];
        let proxy = bucket.proxy(Plan { script, ..Plan::default() });
        let (_, end) = read(&settings(&proxy.endpoint(), "one"));
        let error = end.unwrap_err();
        assert!(error.message.contains(&format!("{status} {code}")), "{error}");
        assert!(error.remedy.contains(says), "{}", error.remedy);
        assert_eq!(error.missing, status == 404);
        assert_eq!(proxy.requests(), 2, "{:#?}", proxy.log());
    }
}

#[test]
fn a_listing_goes_on_after_faults() {
    let keys: Vec<_> = (0..2_500).map(|number| format!("k{number:05}")).collect();
    let bucket = Bucket::with(keys.iter().map(|key| (key, b"")));
    let plan = Plan::random(3, 0.5, &[Kind::SlowDown, Kind::ResetBefore, Kind::InternalError]);
    let proxy = bucket.proxy(plan);
    let (received, end) = read(&settings(&proxy.endpoint(), ""));
    assert_eq!(end.ok(), Some(1));
    let names: Vec<_> = received.into_iter().map(|received| received.name).collect();
    assert_eq!(names, keys);
}

#[test]
fn good_records_before_a_failure_are_all_there() {
    let object = bytes(2, 100_000);
    let bucket = Bucket::with([("a", &object[..20]), ("b", &object[..])]);
    // The third part of the second object can't be had.
    let third = |request: &Request| {
        request.range.as_deref().is_some_and(|range| range.starts_with("bytes=32768"))
    };
    let script = vec![Rule::nth(0, third, Fault::error(403, "AccessDenied"))];
    let proxy = bucket.proxy(Plan { script, ..Plan::default() });
    let (received, end) = read(&settings(&proxy.endpoint(), ""));
    assert!(end.unwrap_err().message.contains("403"));
    let expected = [("a", &object[..20]), ("b", &object[..32_768])];
    let expected: Vec<_> = expected
        .map(|(name, bytes)| ReceivedObject {
            epoch: 0,
            name: name.to_owned(),
            bytes: bytes.to_vec(),
        })
        .into();
    assert!(received == expected);
}
