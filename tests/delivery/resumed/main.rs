//! Jobs that are killed and go on, again and again: each rank is given what it would have been given
//! without a kill, byte by byte.
//!
//! A case follows from its seed alone (`case`). Its input lies in files, comes through FIFOs, or from S3
//! behind a proxy that makes the server fail (`origin`). It is read once without a kill, and then in
//! several lives (`lives`): each has a new host, or new consumers of the same one, and goes on at
//! states that were taken at random. All hosts but a few are in this process (`running`).

mod case;
mod changed;
mod inputs;
mod lives;
mod origin;
mod running;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use case::{Case, Kind};
use origin::Server;
use running::Hosts;

/// Cases that run at once: most of the time they wait for each other's threads.
const AT_ONCE: usize = 4;

/// The variable with the seed of the only case that is to be run.
const ONLY: &str = "PIPEMILL_CASE";

#[test]
fn from_files() {
    run_all(
        "from_files",
        (0..1000).filter(|seed| Kind::of(*seed) == Kind::Files),
        Hosts::InProcess,
    );
}

#[test]
fn from_fifos() {
    run_all(
        "from_fifos",
        (0..1000).filter(|seed| Kind::of(*seed) == Kind::Fifos),
        Hosts::InProcess,
    );
}

#[test]
fn from_s3() {
    run_all("from_s3", (0..1000).filter(|seed| Kind::of(*seed) == Kind::S3), Hosts::InProcess);
}

#[test]
fn of_hosts_that_are_processes() {
    // A host that has no batch ends before anybody connects.
    let seeds = (1000..).filter(|seed| Case::new(*seed).has_batches).take(30);
    run_all("of_hosts_that_are_processes", seeds, Hosts::Processes);
}

/// Seeds of the cases in which something changes while the job is down.
const CHANGED: std::ops::Range<u64> = 10_000..13_800;
/// Cases that have a change, at least: the others have no place inside of an epoch.
const LEAST_CHANGED: u64 = 2_000;

#[test]
fn after_a_change() {
    let changed = AtomicU64::new(0);
    run_cases("after_a_change", CHANGED, |case, server| {
        let has_changed = changed::check(case, Hosts::InProcess, server);
        changed.fetch_add(u64::from(has_changed), Ordering::Relaxed);
    });
    let changed = changed.into_inner();
    let is_alone = std::env::var_os(ONLY).is_some();
    assert!(is_alone || changed >= LEAST_CHANGED, "{changed} cases had a change");
}

/// Runs the cases of these seeds. `test` is the name of the test.
fn run_all(test: &str, seeds: impl Iterator<Item = u64>, hosts: Hosts) {
    run_cases(test, seeds, |case, server| lives::check(case, hosts, server));
}

/// Checks the cases of these seeds.
fn run_cases(
    test: &str,
    seeds: impl Iterator<Item = u64>,
    check: impl Fn(&Case, Option<&Server>) + Sync,
) {
    let only = std::env::var(ONLY).ok().and_then(|seed| seed.parse::<u64>().ok());
    let seeds: Vec<_> = seeds.filter(|seed| only.is_none_or(|only| only == *seed)).collect();
    let server = seeds.iter().any(|seed| Kind::of(*seed) == Kind::S3).then(Server::start);
    let (next, failed) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    let run = || check(&Case::new(*seed), server.as_ref());
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
                        let text = panic.downcast_ref::<String>().cloned();
                        failed.lock().expect("nothing panics here").push((*seed, text));
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().expect("nothing panics there");
    failed.sort();
    if let Some((seed, text)) = failed.first() {
        let seeds: Vec<_> = failed.iter().map(|(seed, _)| seed).collect();
        panic!(
            "{} cases failed, {seeds:?}; the first one says: {}\nto run it alone: {ONLY}={seed} cargo \
             nextest run --workspace -E 'binary(resumed) & test(={test})'",
            failed.len(),
            text.as_deref().unwrap_or("see above")
        );
    }
}
