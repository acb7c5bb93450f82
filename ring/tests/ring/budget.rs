//! The channel's memory budget: a request beyond it waits for consumers, or is an error.

use std::sync::Arc;
use std::thread;

use pipemill_ring::host::{MemoryError, Ring, RingError, WriteError};
use pipemill_types::MemoryBudget;

use crate::setup::{check, config, grant_dedicated, next_batch, serve};

/// Bytes of the ring's slots.
const SLOTS: u64 = 8 * 8192;
/// Smallest size in bytes of a dedicated buffer of [`grant_dedicated`].
const BUFFER: u64 = 3 * 8192;

fn ring(more: u64) -> (Arc<Ring>, Arc<MemoryBudget>) {
    let budget = MemoryBudget::new(SLOTS + more);
    (Ring::within(config(), 0, budget.clone()).unwrap(), budget)
}

fn is_over_budget(error: &WriteError) -> bool {
    matches!(error, WriteError::Failed(RingError::Memory(MemoryError::OverBudget(_))))
}

#[test]
fn slots_count() {
    assert!(Ring::within(config(), 1, MemoryBudget::new(SLOTS)).is_err());
    let (ring, budget) = ring(0);
    assert_eq!(budget.taken(), SLOTS);
    drop(ring);
    assert_eq!(budget.taken(), 0);
}

#[test]
fn a_buffer_beyond_the_budget_is_an_error_and_frees_its_place() {
    let (ring, budget) = ring(BUFFER);
    ring.set_schema(crate::setup::fields()).unwrap();
    let error = ring.acquire_dedicated(2 * BUFFER as usize).unwrap_err();
    assert!(is_over_budget(&error), "{error}");
    let says = format!("the channel has {SLOTS} bytes already and may have {}", SLOTS + BUFFER);
    assert!(error.to_string().contains(&says), "{error}");
    let mut writer = ring.acquire_dedicated(100).unwrap();
    writer.payload()[..100].fill(1);
    assert!(is_over_budget(&writer.ensure(2 * BUFFER as usize).unwrap_err()));
    // The bytes that were written stay.
    assert_eq!(writer.payload()[..100], [1; 100]);
    drop(writer);
    assert_eq!((budget.taken(), ring.status().dedicated), (SLOTS, 0));
}

/// Two buffers don't fit: the second one comes when the consumer has released the first.
#[test]
fn a_buffer_waits_for_consumers() {
    // With its index, one takes more than half of this.
    let (ring, budget) = ring(2 * BUFFER);
    let limit = budget.limit();
    let host = serve(ring);
    let mut reader = host.reader(2);
    let ring = host.ring.clone();
    let writer =
        thread::spawn(move || (0..20).try_for_each(|n| grant_dedicated(&ring, 0, n).map(drop)));
    let mut before = None;
    for _ in 0..20 {
        // While one is held, the next one can't be made.
        drop(before.take());
        let batch = next_batch(&mut reader);
        check(&batch);
        assert!(budget.taken() <= limit);
        before = Some(batch);
    }
    writer.join().unwrap().unwrap();
    drop(before);
    host.wait_until("empty", |status| status.free == 8 && status.dedicated == 0);
}

#[test]
fn other_memory_of_the_writer_counts() {
    let (ring, budget) = ring(2 * BUFFER);
    let mut taken = None;
    ring.take_memory(&mut taken, 2 * BUFFER).unwrap();
    assert!(is_over_budget(&ring.acquire_dedicated(1).unwrap_err()));
    assert!(is_over_budget(&ring.take_memory(&mut taken, 2 * BUFFER + 1).unwrap_err()));
    assert_eq!(budget.taken(), SLOTS + 2 * BUFFER);
    ring.take_memory(&mut taken, 0).unwrap();
    // A free buffer is returned if other memory is needed.
    let host = serve(ring);
    grant_dedicated(&host.ring, 0, 0).unwrap();
    drop(next_batch(&mut host.reader(1)));
    host.wait_until("free", |status| status.dedicated == 0);
    assert!(budget.taken() > SLOTS);
    host.ring.take_memory(&mut taken, 2 * BUFFER).unwrap();
    assert_eq!(budget.taken(), SLOTS + 2 * BUFFER);
}
