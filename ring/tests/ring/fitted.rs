//! A ring with fewer slots than its setting says: dedicated buffers come where a consumer would
//! wait for a slot that others hold, and nowhere else.

use std::sync::Arc;
use std::thread;

use pipemill_ring::host::{MemoryError, Ring, RingConfig, RingError, WriteError};
use pipemill_types::MemoryBudget;

use crate::setup::{Host, RECORDS, check, config, grant, next_batch, serve};

/// Number of slots.
const SLOTS: u32 = 2;
/// Number of batches that may exist at once.
const BATCHES: u32 = 5;
/// Bytes of a slot.
const SLOT: u64 = 8192;

/// A ring with memory for this many dedicated buffers.
fn ring(buffers: u64) -> Arc<Ring> {
    let budget = MemoryBudget::new((u64::from(SLOTS) + buffers) * SLOT);
    let config = RingConfig { slots: BATCHES, dedicated: BATCHES, ..config() };
    Ring::fitted(config, SLOTS, budget).unwrap()
}

/// Grants this many batches, in a thread.
fn grant_all(host: &Host, batches: u64) -> thread::JoinHandle<Result<(), WriteError>> {
    let ring = host.ring.clone();
    thread::spawn(move || {
        (0..batches).try_for_each(|n| grant(&ring, 0, n * RECORDS, RECORDS).map(drop))
    })
}

#[test]
fn consumers_can_hold_as_many_batches_as_the_setting_says() {
    let host = serve(ring(10));
    assert_eq!((host.ring.slots(), host.ring.config().slots), (SLOTS, BATCHES));
    let writer = grant_all(&host, 3 * u64::from(BATCHES));
    host.wait_until("full", |status| status.free == 0 && status.ready == SLOTS);
    // Nobody waits for a batch.
    assert_eq!(host.ring.status().dedicated, 0);
    let mut reader = host.reader(BATCHES - 1);
    for round in 0..3 {
        let held: Vec<_> = (1..BATCHES).map(|_| next_batch(&mut reader)).collect();
        held.iter().for_each(check);
        let status = host.ring.status();
        assert!(status.dedicated <= BATCHES - SLOTS, "round {round}: {status:?}");
    }
    (0..3).for_each(|_| check(&next_batch(&mut reader)));
    writer.join().unwrap().unwrap();
    host.wait_until("empty", |status| status.free == SLOTS && status.dedicated == 0);
}

#[test]
fn all_slots_are_filled_at_once_without_a_wait() {
    let host = serve(ring(10));
    let writers = [host.ring.acquire().ok(), host.ring.try_acquire()];
    assert!(writers.iter().all(Option::is_some), "{writers:?}");
    // Only a batch that a consumer waits for has a dedicated buffer.
    assert!(host.ring.try_acquire().is_none());
}

/// A consumer that holds a batch less than there are slots is never the reason for one.
#[test]
fn there_are_no_dedicated_buffers_while_slots_are_enough() {
    let budget = MemoryBudget::new(u64::from(SLOTS) * SLOT);
    let config = RingConfig { slots: BATCHES, dedicated: BATCHES, ..config() };
    let host = serve(Ring::fitted(config, SLOTS, budget.clone()).unwrap());
    let writer = grant_all(&host, 100);
    let mut reader = host.reader(1);
    (0..100).for_each(|_| check(&next_batch(&mut reader)));
    writer.join().unwrap().unwrap();
    assert_eq!(budget.taken(), u64::from(SLOTS) * SLOT);
}

/// The budget has room for one dedicated buffer, and the consumer wants two.
#[test]
fn a_buffer_beyond_the_budget_waits_for_a_slot() {
    let host = serve(ring(1));
    let writer = grant_all(&host, 40);
    let mut reader = host.reader(BATCHES - 1);
    let mut held: Vec<_> = (0..=SLOTS).map(|_| next_batch(&mut reader)).collect();
    for n in 0..40 - held.len() {
        held.iter().for_each(check);
        drop(held.remove(n % held.len()));
        held.push(next_batch(&mut reader));
    }
    writer.join().unwrap().unwrap();
    assert_eq!(host.ring.status().dedicated, 1);
}

/// Nobody but the writer has the slots, so none would ever be free.
#[test]
fn it_is_an_error_if_the_writer_holds_all_slots_and_there_is_no_memory() {
    let host = serve(ring(0));
    let _slots = [host.ring.acquire().unwrap(), host.ring.acquire().unwrap()];
    let _reader = host.reader(1);
    let error = host.ring.acquire().unwrap_err();
    let is_over_budget =
        matches!(error, WriteError::Failed(RingError::Memory(MemoryError::OverBudget(_))));
    assert!(is_over_budget, "{error}");
    assert_eq!(host.ring.status().dedicated, 0);
}

#[test]
fn a_stop_ends_the_wait() {
    let host = serve(ring(0));
    let writer = grant_all(&host, 10);
    let mut reader = host.reader(BATCHES - 1);
    let _held: Vec<_> = (0..SLOTS).map(|_| next_batch(&mut reader)).collect();
    host.ring.stop();
    assert!(matches!(writer.join().unwrap(), Err(WriteError::Interrupted(_))));
}
