//! Consumers and hosts that are killed: no batch that was ACKed comes again, no batch is lost, and
//! the other side gets an error.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use pipemill_ring::host::Ring;
use pipemill_ring::layout::DEDICATED;
use pipemill_ring::reader::{Batch, Event, ReaderError};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

use crate::child::Process;
use crate::raw_consumer::Raw;
use crate::setup::{
    Host, RECORDS, check, config, folder, grant, grant_dedicated, host, next_batch,
};

const KILLS: usize = 100;

/// The reports of all consumers about one batch.
#[derive(Default)]
struct BatchReports {
    first_record: u64,
    records: u64,
    /// The time when it was received.
    got: Vec<u128>,
    /// The time when its ACK had been sent.
    acked: Vec<u128>,
    /// Number of consumers that were about to send its ACK. Consumers that died then may not have
    /// sent it.
    acking: usize,
}

#[derive(Default)]
struct Reports(BTreeMap<u64, BatchReports>);

impl Reports {
    /// Processes one line of the process. Returns false at its end.
    fn read(&mut self, process: &mut Process) -> bool {
        let Some((time, line)) = process.line() else { return false };
        let words: Vec<&str> = line.split(' ').collect();
        let [what, number, first_record, records] = words[..] else { return true };
        let batch = self.0.entry(number.parse().unwrap()).or_default();
        batch.first_record = first_record.parse().unwrap();
        batch.records = records.parse().unwrap();
        match what {
            "got" => batch.got.push(time),
            "acking" => batch.acking += 1,
            "acked" => batch.acked.push(time),
            other => panic!("an unknown report: {other}"),
        }
        true
    }

    /// Checks all batches; returns the number of records.
    fn check(&self) -> u64 {
        let mut next_record = 0;
        for (number, batch) in &self.0 {
            assert!(batch.acking >= 1, "batch {number} was never ACKed");
            assert!(batch.acked.len() <= 1, "batch {number} was ACKed twice");
            if let Some(acked) = batch.acked.first() {
                assert!(batch.got.iter().all(|got| got < acked), "batch {number} came again");
            }
            assert_eq!(batch.first_record, next_record, "records are missing before {number}");
            next_record += batch.records;
        }
        assert!(self.0.keys().copied().eq(0..self.0.len() as u64), "a batch is missing");
        next_record
    }
}

/// Grants batches until `enough`, ends the stream, and returns the number of records.
fn write(ring: &Arc<Ring>, enough: &AtomicBool) -> u64 {
    let (mut record, mut batch) = (0, 0);
    while !enough.load(Ordering::Relaxed) || batch % 7 != 0 {
        if batch % 7 == 3 {
            grant_dedicated(ring, 0, record).unwrap();
            record += 1;
        } else {
            grant(ring, 0, record, RECORDS).unwrap();
            record += RECORDS;
        }
        batch += 1;
    }
    ring.end_epoch(0, false).unwrap();
    ring.end_stream();
    record
}

#[test]
fn a_hundred_killed_consumers_lose_no_batch_and_repeat_no_acked_batch() {
    let host = host(config());
    let enough = AtomicBool::new(false);
    let mut random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut reports = Reports::default();
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&host.ring, &enough));
        let start = || Process::start("consume", &host.socket);
        let mut consumers = [start(), start()];
        for kill in 0..KILLS {
            let victim = &mut consumers[kill % 2];
            // It continues while these lines are read, so it dies at any point of its work.
            for _ in 0..1 + random.next_u32() % 20 {
                assert!(reports.read(victim), "the consumer ended by itself");
            }
            victim.kill();
            while reports.read(victim) {}
            consumers[kill % 2] = start();
        }
        enough.store(true, Ordering::Relaxed);
        for consumer in &mut consumers {
            while reports.read(consumer) {}
            assert!(consumer.child.wait().unwrap().success());
        }
        writer.join().unwrap()
    });
    assert_eq!(reports.check(), written);
    assert!(host.ring.wait_drained(None));
    host.wait_until("empty", |status| status.free == 8 && status.dedicated == 0);
}

#[test]
fn unacked_batches_of_a_dead_consumer_come_first_and_in_order() {
    let host = host(config());
    let (dying, ..) = Raw::welcomed(&host.socket, 4);
    for batch in 0..2 {
        grant(&host.ring, 0, batch * RECORDS, RECORDS).unwrap();
    }
    grant_dedicated(&host.ring, 0, 20).unwrap();
    grant(&host.ring, 0, 21, RECORDS).unwrap();
    grant(&host.ring, 0, 31, RECORDS).unwrap();
    let grants: Vec<_> = (0..4).map(|_| dying.grant()).collect();
    assert_eq!(grants[2].0.slot, DEDICATED);
    assert!(grants[2].1.is_some());
    // It ACKs the second one and hangs up.
    dying.send(&pipemill_ring::protocol::ack(grants[1].0.grant)).unwrap();
    drop(dying);
    host.wait_until("without consumers", |status| status.consumers.is_empty());
    let mut reader = host.reader(2);
    let seen: Vec<_> = (0..4)
        .map(|_| {
            let batch = next_batch(&mut reader);
            check(&batch);
            (batch.number(), batch.records())
        })
        .collect();
    assert_eq!(seen, [(0, 10), (2, 1), (3, 10), (4, 10)]);
}

/// The consumer hangs up with an unread grant. The kernel may report this to the host, as
/// ECONNRESET and as a hang-up, before it delivers the ACK.
#[test]
fn an_ack_counts_when_its_consumer_hangs_up_right_after_it() {
    const CONSUMERS: u64 = 1000;
    let host = host(config());
    let ring = host.ring.clone();
    std::thread::spawn(move || {
        for batch in 0..CONSUMERS + 2 {
            grant(&ring, 0, batch * RECORDS, RECORDS).unwrap();
        }
    });
    for expected in 0..CONSUMERS {
        host.wait_until("two batches ahead", |status| {
            status.ready >= 2 && status.consumers.is_empty()
        });
        let (hasty, ..) = Raw::welcomed(&host.socket, 2);
        let (held, _) = hasty.grant();
        assert_eq!(held.batch, expected);
        hasty.send(&pipemill_ring::protocol::ack(held.grant)).unwrap();
    }
    host.wait_until("without consumers", |status| status.consumers.is_empty());
    let mut reader = host.reader(2);
    for expected in CONSUMERS..CONSUMERS + 2 {
        assert_eq!(next_batch(&mut reader).number(), expected);
    }
}

/// The kernel may report the hang-up before the message, see `HangUpCheck` in `socket`.
#[test]
fn a_stream_end_arrives_when_its_host_hangs_up_right_after_it() {
    for _ in 0..300 {
        let mut host = host(config());
        let mut reader = host.reader(2);
        let waiting = std::thread::spawn(move || reader.next());
        host.ring.end_stream();
        host.server = None;
        assert!(matches!(waiting.join().unwrap(), Ok(Event::StreamEnd)));
    }
}

#[test]
fn a_panic_does_not_ack_the_batch_that_it_drops() {
    let host = host(config());
    grant(&host.ring, 0, 0, RECORDS).unwrap();
    grant(&host.ring, 0, 10, RECORDS).unwrap();
    let mut reader = host.reader(2);
    let batch = next_batch(&mut reader);
    let result = std::thread::spawn(move || {
        let _batch = batch;
        std::panic::resume_unwind(Box::new("a panic for the test"));
    });
    assert!(result.join().is_err());
    drop(reader);
    host.wait_until("without consumers", |status| status.consumers.is_empty());
    // The next consumer gets it again. A consumer that continues after a panic thereby ACKs it.
    let mut reader = host.reader(1);
    let batch = next_batch(&mut reader);
    assert_eq!(batch.number(), 0);
    let result = std::thread::spawn(move || {
        let _batch = batch;
        std::panic::resume_unwind(Box::new("a panic for the test"));
    });
    assert!(result.join().is_err());
    assert_eq!(next_batch(&mut reader).number(), 1);
}

#[test]
fn when_the_host_dies_the_reader_gets_what_was_granted_and_then_an_error() {
    let folder = folder();
    let socket = folder.path().join("socket");
    let mut process = Process::start("serve", &socket);
    assert_eq!(process.line().unwrap().1, "ready");
    let mut reader = pipemill_ring::reader::Reader::connect(&socket, "train", Some(3)).unwrap();
    let first = next_batch(&mut reader);
    assert_eq!(process.line().unwrap().1, "granted");
    process.kill();
    process.child.wait().unwrap();
    let second = next_batch(&mut reader);
    let third = next_batch(&mut reader);
    assert!(matches!(reader.next(), Err(ReaderError::HostDied { channel }) if channel == "train"));
    assert!(matches!(reader.next(), Err(ReaderError::HostDied { .. })));
    for batch in [&first, &second, &third] {
        check(batch);
    }
    drop(reader);
    check(&third);
}

#[test]
fn a_reader_that_waits_gets_an_error_when_the_host_dies() {
    let folder = folder();
    let socket = folder.path().join("socket");
    let mut process = Process::start("serve", &socket);
    assert_eq!(process.line().unwrap().1, "ready");
    let mut reader = pipemill_ring::reader::Reader::connect(&socket, "train", None).unwrap();
    for _ in 0..3 {
        drop(next_batch(&mut reader));
    }
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| reader.next());
        process.kill();
        assert!(matches!(waiting.join().unwrap(), Err(ReaderError::HostDied { .. })));
    });
}

#[test]
fn a_forked_child_can_not_use_its_parents_connection() {
    let host = host(config());
    grant(&host.ring, 0, 0, RECORDS).unwrap();
    grant(&host.ring, 0, 10, RECORDS).unwrap();
    let mut reader = host.reader(2);
    let batch = next_batch(&mut reader);
    // SAFETY: another thread's lock can't stop the child: it needs no lock except for malloc's,
    // which the C library keeps usable after a fork. It ends without returning.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            let forked = matches!(reader.next(), Err(ReaderError::Forked { .. }));
            drop(batch);
            // SAFETY: ends the process.
            unsafe { nix::libc::_exit(if forked { 7 } else { 1 }) }
        }
        ForkResult::Parent { child } => {
            assert_eq!(waitpid(child, None), Ok(WaitStatus::Exited(child, 7)));
        }
    }
    assert_eq!(next_batch(&mut reader).number(), 1);
    check(&batch);
    host.wait_until("ACKed", |status| status.consumers[0].unacked == 0);
    assert_eq!(host.ring.status().consumers[0].held, 1);
}

/// A process that another thread starts has all descriptors until it runs its own program.
#[test]
fn a_reader_hangs_up_while_another_process_has_a_copy_of_its_descriptor() {
    let host = host(config());
    let reader = host.reader(1);
    let copy = reader.as_fd().try_clone_to_owned().unwrap();
    drop(reader);
    host.wait_until("hung up", |status| status.consumers.is_empty());
    drop(copy);
}

/// When the parent RELEASEs a batch, the host writes another one to the same memory. So a child
/// must not read it, even where a new ring was mapped since.
#[test]
fn a_forked_child_is_ended_where_it_reads_its_parents_batch() {
    let host = host(config());
    grant(&host.ring, 0, 0, RECORDS).unwrap();
    grant_dedicated(&host.ring, 0, RECORDS).unwrap();
    let mut reader = host.reader(3);
    // The memory of a reader that has ended is reused, and is no longer hidden.
    drop(host.reader(1));
    let _second = host.reader(1);
    for batch in [next_batch(&mut reader), next_batch(&mut reader)] {
        for connects in [false, true] {
            check_ended_where_it_reads(&host, &batch, connects);
            check(&batch);
        }
    }
}

fn check_ended_where_it_reads(host: &Host, batch: &Batch, connects: bool) {
    // SAFETY: as above.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            if connects {
                std::mem::forget(host.reader(1));
            }
            std::hint::black_box(batch.payload()[0]);
            // SAFETY: ends the process.
            unsafe { nix::libc::_exit(0) }
        }
        ForkResult::Parent { child } => {
            let ended = waitpid(child, None);
            assert!(matches!(ended, Ok(WaitStatus::Signaled(_, Signal::SIGSEGV, _))), "{ended:?}");
        }
    }
}

#[test]
fn a_host_that_ends_in_good_order_causes_no_error() {
    let mut host = host(config());
    let mut reader = host.reader(2);
    grant(&host.ring, 0, 0, RECORDS).unwrap();
    host.ring.end_stream();
    let batch = next_batch(&mut reader);
    batch.ack();
    assert!(host.ring.wait_drained(None));
    host.server = None;
    assert!(!host.socket.exists());
    drop(batch);
    assert!(matches!(reader.next().unwrap(), Event::StreamEnd));
    assert!(matches!(reader.next().unwrap(), Event::StreamEnd));
}
