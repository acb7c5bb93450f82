//! Extra slots, which are filled in addition to the next batch: they never take a slot from it, nor
//! from consumers.

use pipemill_ring::host::Ring;
use pipemill_ring::reader::Event;
use pipemill_types::MemoryBudget;

use crate::setup::{config, fill, grant, serve};

#[test]
fn as_many_as_there_are_for_this_and_no_more() {
    let ring = Ring::within(config(), 2, MemoryBudget::unlimited()).unwrap();
    let (first, second) = (ring.acquire_extra().unwrap(), ring.acquire_extra().unwrap());
    assert!(ring.acquire_extra().is_none());
    // The writer can use all slots of the configuration.
    let next: Vec<_> = (0..config().slots).map(|_| ring.acquire().unwrap()).collect();
    drop(first);
    drop(ring.acquire_extra().expect("one is free"));
    drop((second, next));
    assert_eq!(ring.status().free, config().slots + 2);
}

#[test]
fn none_where_the_ring_has_none_for_this_and_after_a_stop() {
    let ring = Ring::new(config()).unwrap();
    assert!(ring.acquire_extra().is_none());
    let ring = Ring::within(config(), 1, MemoryBudget::unlimited()).unwrap();
    ring.stop();
    assert!(ring.acquire_extra().is_none());
}

/// Batches leave in the order of their grants, and a consumer that holds all that it may leaves a
/// slot for the next batch.
#[test]
fn an_extra_slot_leaves_as_any_batch() {
    let host = serve(Ring::within(config(), 3, MemoryBudget::unlimited()).unwrap());
    let credits = config().slots - 1;
    let mut reader = host.reader(credits);
    let mut extra: Vec<_> = (0..3).map(|_| host.ring.acquire_extra().unwrap()).collect();
    let (mut first, mut held) = (0, Vec::new());
    for _ in 0..credits {
        grant(&host.ring, 0, first, 1).unwrap();
        let Ok(Event::Batch(batch)) = reader.next() else { panic!("expected a batch") };
        assert_eq!(batch.first_record(), first);
        held.push(batch);
        first += 1;
    }
    // All slots are held, but there is still a slot for the next batch.
    assert!(host.ring.acquire_extra().is_none());
    grant(&host.ring, 0, first, 1).unwrap();
    first += 1;
    drop(held);
    for writer in extra.drain(..) {
        fill(writer, 0, first, 1);
        first += 1;
    }
    host.ring.end_stream();
    let mut rest = Vec::new();
    while let Ok(Event::Batch(batch)) = reader.next() {
        rest.push(batch.first_record());
    }
    assert_eq!(rest, (u64::from(credits)..first).collect::<Vec<_>>());
    host.wait_until("free", |status| status.free == config().slots + 3);
    assert!(host.ring.acquire_extra().is_some());
}
