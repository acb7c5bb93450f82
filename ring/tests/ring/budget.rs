//! The channel's memory budget: a request beyond it waits for consumers, or is an error.

use std::sync::Arc;
use std::thread;

use pipemill_ring::host::{MemoryError, Ring, RingConfig, RingError, WriteError};
use pipemill_types::MemoryBudget;

use crate::setup::{check, config, content, fill_with, grant_dedicated, next_batch, serve};

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

/// Buffers for later batches leave half of the budget, and are used again: those of a long run are
/// the first ones.
#[test]
fn later_batches_get_buffers_while_half_of_the_budget_stays_free() {
    let budget = MemoryBudget::new(2 * SLOTS + 6 * BUFFER);
    let most = RingConfig { dedicated: 8, ..config() };
    let host = serve(Ring::within(most, 0, budget.clone()).unwrap());
    let mut reader = host.reader(6);
    // With the header, a buffer has whole pages.
    let bytes = BUFFER as usize - 4096;
    let (mut made, mut batches) = (0, 0);
    for round in 0..20 {
        let mut writers = vec![host.ring.acquire_dedicated(bytes).unwrap()];
        writers.extend(std::iter::from_fn(|| host.ring.try_acquire_dedicated(bytes)));
        assert_eq!(writers.len(), 3, "round {round}");
        assert_eq!(budget.taken(), SLOTS + 3 * BUFFER);
        for mut writer in writers {
            // New memory has zeros.
            let last = writer.payload().last_mut().unwrap();
            made += u32::from(std::mem::replace(last, 1) == 0);
            fill_with(writer, 0, batches, &[content(batches, bytes - 4096)]);
            batches += 1;
        }
        (0..3).for_each(|_| check(&next_batch(&mut reader)));
        host.wait_until("free", |status| status.dedicated == 0);
    }
    assert_eq!((made, batches), (3, 60));
}

/// Their number is limited, and nothing waits after a stop.
#[test]
fn later_batches_get_no_more_buffers_than_there_may_be() {
    let (ring, _) = ring(1 << 30);
    let _next = ring.acquire_dedicated(100).unwrap();
    let later = ring.try_acquire_dedicated(100).expect("there may be two");
    assert!(ring.try_acquire_dedicated(100).is_none());
    assert!(ring.try_acquire_dedicated(usize::MAX).is_none());
    drop(later);
    assert!(ring.try_acquire_dedicated(100).is_some());
    ring.stop();
    assert!(ring.try_acquire_dedicated(100).is_none());
}
