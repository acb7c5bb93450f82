//! Batches that do not fit a slot: the first ones have dedicated buffers and say how large slots
//! must be, and the others have larger slots, for which nothing is made, cleared or passed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;

use pipemill_ring::host::{Ring, RingConfig, WriteError};
use pipemill_ring::protocol::{self, Hello, ToConsumer};
use pipemill_ring::reader::{Batch, Reader, ReaderError};
use pipemill_types::{HUGE_PAGE, MemoryBudget};
use proptest::prelude::*;

use crate::raw_consumer::Raw;
use crate::setup::{Host, check, config, content, fill_with, next_batch, serve};

/// Number of slots, and of larger slots.
const SLOTS: u32 = 4;
/// Bytes of the usual slots.
const USUAL: u64 = SLOTS as u64 * 8192;
/// Bytes of a larger slot.
const LARGER: u64 = HUGE_PAGE as u64;
/// Bytes of a batch that fits one.
const BATCH: usize = 20_000;

/// A ring that may have larger slots, and its budget with this many bytes beside its slots.
fn ring(bytes: u64) -> (Arc<Ring>, Arc<MemoryBudget>) {
    let budget = MemoryBudget::new(USUAL + bytes);
    let config = RingConfig { slots: SLOTS, dedicated: SLOTS, ..config() };
    let ring = Ring::within(config, 0, budget.clone()).unwrap();
    ring.let_slots_grow(USUAL + bytes / 2, true);
    (ring, budget)
}

/// Grants a batch of one record, in memory for batches of about this size.
fn grant(ring: &Arc<Ring>, number: u64, bytes: usize) -> Result<bool, WriteError> {
    let mut writer = ring.acquire_about(bytes)?;
    writer.ensure(bytes)?;
    // New memory has zeros.
    let last = writer.payload().last_mut().unwrap();
    let is_new = std::mem::replace(last, 1) == 0;
    fill_with(writer, 0, number, &[content(number, bytes)]);
    Ok(is_new)
}

fn next(reader: &mut Reader, number: u64, bytes: usize) -> Batch {
    let batch = next_batch(reader);
    check(&batch);
    let length = batch.field(0, 0).map(<[u8]>::len);
    assert_eq!((batch.first_record(), length), (number, Some(bytes)));
    batch
}

fn wait_until_free(host: &Host) {
    host.wait_until("free", |status| status.granted == 0 && status.dedicated == 0);
}

#[test]
fn a_long_run_makes_maps_and_passes_nothing_for_a_batch() {
    let (ring, budget) = ring(4 * SLOTS as u64 * LARGER);
    let host = serve(ring);
    let raw = Raw::connect(&host.socket);
    let hello = Hello { larger_slots: true, ..Hello::new("train", "raw") };
    raw.send(&protocol::hello(&hello)).unwrap();
    let (mut made, mut passed, mut messages) = (0, 0, Vec::new());
    for number in 0..200 {
        made += u32::from(grant(&host.ring, number, BATCH).unwrap());
        let granted = loop {
            let (message, fd) = raw.receive().expect("the host is there");
            passed += u32::from(fd.is_some());
            match message {
                ToConsumer::Grant(granted) => break granted,
                ToConsumer::LargerSlots(slots) => messages.push((number, slots)),
                _ => {}
            }
        };
        if number > 2 {
            assert!((SLOTS..2 * SLOTS).contains(&granted.slot), "{granted:?}");
        }
        raw.send(&protocol::release(granted.grant)).unwrap();
        wait_until_free(&host);
    }
    // The first two batches say how large the others are.
    assert_eq!(messages.len(), 1, "{messages:?}");
    let (number, slots) = messages[0];
    let found = (number, slots.first, slots.slots, slots.slot_bytes);
    assert_eq!(found, (2, SLOTS, SLOTS, LARGER));
    // The ring, the first buffers and the larger slots; one buffer and one slot are used again.
    assert_eq!((passed, made), (4, 2));
    assert_eq!(budget.taken(), USUAL + u64::from(SLOTS) * LARGER);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Slots, larger slots and dedicated buffers, in any order, held by consumers that come and go.
    #[test]
    fn batches_of_any_sizes_are_whole(
        sizes in proptest::collection::vec(
            prop_oneof![Just(0_usize), 9_000..30_000_usize, Just(3 << 20)], 1..40),
        holds in proptest::collection::vec(0..3_usize, 40),
        leaves in proptest::collection::vec(0..8_u8, 40),
    ) {
        let (ring, budget) = ring(64 << 20);
        let host = serve(ring.clone());
        let writer = thread::spawn({
            let sizes = sizes.clone();
            move || sizes.iter().zip(0..).try_for_each(|(&bytes, number)| match bytes {
                0 => {
                    fill_with(ring.acquire()?, 0, number, &[content(number, 100)]);
                    Ok(())
                }
                _ => grant(&ring, number, bytes).map(drop),
            })
        });
        let mut reader = host.reader(3);
        let mut held = VecDeque::new();
        for (number, &bytes) in (0..).zip(&sizes) {
            held.push_back(next(&mut reader, number, bytes.max(100)));
            held.iter().for_each(check);
            prop_assert!(budget.taken() <= budget.limit());
            while held.len() > holds[number as usize] {
                held.pop_front();
            }
            if leaves[number as usize] == 0 {
                held.iter().for_each(Batch::ack);
                drop((std::mem::take(&mut held), reader));
                reader = host.reader(3);
            }
        }
        writer.join().unwrap().unwrap();
        drop(held);
        host.wait_until("all free", |status| status.granted + status.dedicated + status.ready == 0);
    }
}

/// They stay as they are while a consumer knows them, and are made again for others.
#[test]
fn batches_that_outgrow_them_get_others_once_no_consumer_knows_them() {
    let (ring, budget) = ring(200 << 20);
    let host = serve(ring);
    let mut number = 0;
    let mut read = |reader: &mut Reader, batches, bytes| {
        for _ in 0..batches {
            grant(&host.ring, number, bytes).unwrap();
            drop(next(reader, number, bytes));
            wait_until_free(&host);
            number += 1;
        }
    };
    let mut first = host.reader(2);
    read(&mut first, 10, BATCH);
    let taken = budget.taken();
    assert_eq!(taken, USUAL + u64::from(SLOTS) * LARGER);
    // A single large one changes nothing.
    read(&mut first, 1, 5 << 20);
    read(&mut first, 10, BATCH);
    read(&mut first, 10, 5 << 20);
    let large = budget.taken() - taken;
    assert!((5 << 20..20 << 20).contains(&large), "{large}");
    drop(first);
    host.wait_until("gone", |status| status.consumers.is_empty());
    let mut second = host.reader(2);
    read(&mut second, 10, 5 << 20);
    assert_eq!(budget.taken(), USUAL + u64::from(SLOTS) * 4 * LARGER);
}

#[test]
fn without_memory_batches_have_dedicated_buffers() {
    let (ring, budget) = ring(3 * LARGER);
    let host = serve(ring);
    let mut reader = host.reader(2);
    let mut made = 0;
    for number in 0..100 {
        made += u32::from(grant(&host.ring, number, BATCH).unwrap());
        let batch = next(&mut reader, number, BATCH);
        assert_eq!(host.ring.status().dedicated, 1);
        drop(batch);
        wait_until_free(&host);
    }
    // The spare buffer is given back when larger slots are tried, once.
    assert_eq!(made, 2);
    assert!(budget.taken() < USUAL + LARGER);
}

/// While its size is to be learned, later batches do not get buffers.
#[test]
fn later_batches_get_larger_slots_without_a_wait() {
    let (ring, _) = ring(64 << 20);
    let host = serve(ring);
    let mut reader = host.reader(2);
    let writers: Vec<_> = std::iter::from_fn(|| host.ring.try_acquire_about(BATCH)).collect();
    assert_eq!(writers.len(), 2);
    assert!(writers.iter().all(|writer| writer.is_dedicated() && writer.can_grow()));
    for (number, writer) in (0..).zip(writers) {
        fill_with(writer, 0, number, &[content(number, BATCH)]);
        drop(next(&mut reader, number, BATCH));
    }
    wait_until_free(&host);
    let writers: Vec<_> = std::iter::from_fn(|| host.ring.try_acquire_about(BATCH)).collect();
    assert_eq!(writers.len(), SLOTS as usize);
    assert!(writers.iter().all(|writer| !writer.is_dedicated() && writer.can_grow()));
}

/// A reader that does not know LARGER_SLOTS is served as long as there are none.
#[test]
fn an_older_reader_keeps_them_away_or_is_refused() {
    let (ring, budget) = ring(64 << 20);
    let host = serve(ring);
    let (raw, _, _) = Raw::welcomed(&host.socket, 2);
    for number in 0..10 {
        grant(&host.ring, number, BATCH).unwrap();
        let (granted, fd) = raw.grant();
        assert!(fd.is_some());
        raw.send(&protocol::release(granted.grant)).unwrap();
        wait_until_free(&host);
    }
    assert!(budget.taken() < USUAL + LARGER);
    drop(raw);
    host.wait_until("gone", |status| status.consumers.is_empty());
    let mut reader = host.reader(2);
    for number in 10..20 {
        grant(&host.ring, number, BATCH).unwrap();
        drop(next(&mut reader, number, BATCH));
        wait_until_free(&host);
    }
    let refused = Raw::welcomed(&host.socket, 2).0.refusal();
    assert!(refused.contains("use a reader of the host's release"), "{refused}");
    grant(&host.ring, 20, BATCH).unwrap();
    drop(next(&mut reader, 20, BATCH));
    drop(reader);
    let error = Reader::connect(&host.socket, "nobody", None).map(drop).unwrap_err();
    assert!(matches!(error, ReaderError::Refused(_)));
}
