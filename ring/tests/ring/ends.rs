//! The ends of epochs and streams: when they are sent, to whom, and how they wake a waiting writer.

use std::time::Duration;

use pipemill_ring::host::{Interrupt, WriteError};
use pipemill_ring::protocol::{EpochEnd, ErrorKind, ErrorReport, Mode, ToConsumer, release};
use pipemill_ring::reader::{Event, Reader, ReaderError};

use crate::raw_consumer::Raw;
use crate::setup::{RECORDS, config, grant, host, next_batch};

fn epoch_end(reader: &mut Reader) -> EpochEnd {
    match reader.next().unwrap() {
        Event::EpochEnd(end) => end,
        other => panic!("expected EPOCH_END, got {other:?}"),
    }
}

fn report() -> ErrorReport {
    ErrorReport {
        kind: ErrorKind::Decode,
        message: "a bad record".into(),
        channel: "train".into(),
        epoch: Some(0),
        object: Some("made-up".into()),
        offset: Some(1234),
        record: Some(17),
        decoder: None,
    }
}

#[test]
fn an_epoch_ends_for_all_when_every_batch_is_acked() {
    let host = host(config());
    let (slow, ..) = Raw::welcomed(&host.socket, 1);
    grant(&host.ring, 0, 0, RECORDS).unwrap();
    let (held, _) = slow.grant();
    let mut fast = host.reader(2);
    grant(&host.ring, 0, 10, RECORDS).unwrap();
    host.ring.end_epoch(0, false).unwrap();
    grant(&host.ring, 1, 0, RECORDS).unwrap();
    drop(next_batch(&mut fast));
    // While one batch is not ACKed, no EPOCH_END is sent and no batch of the next epoch is granted.
    host.wait_until("free of the other batch", |status| status.free == 6);
    assert_eq!(host.ring.status().ready, 1);
    slow.send(&release(held.grant)).unwrap();
    assert_eq!(epoch_end(&mut fast), EpochEnd { batches: 2, records: 20, epoch: 0, early: false });
    assert!(matches!(slow.receive(), Some((ToConsumer::EpochEnd(EpochEnd { epoch: 0, .. }), _))));
}

#[test]
fn an_error_comes_after_the_batches_before_it_and_to_late_consumers_too() {
    let host = host(config());
    grant(&host.ring, 0, 0, RECORDS).unwrap();
    host.ring.fail(report());
    let mut reader = host.reader(2);
    let batch = next_batch(&mut reader);
    for _ in 0..2 {
        match reader.next() {
            Err(ReaderError::Failed(found)) => assert_eq!(*found, report()),
            other => panic!("expected the report, got {other:?}"),
        }
    }
    drop(batch);
    let late = Reader::connect(&host.socket, "train", None).unwrap().next();
    assert!(matches!(late, Err(ReaderError::Failed(found)) if *found == report()));
}

#[test]
fn a_late_consumer_gets_the_next_epoch_or_the_end_of_the_stream() {
    let host = host(config());
    let mut first = host.reader(2);
    grant(&host.ring, 0, 0, RECORDS).unwrap();
    host.ring.end_epoch(0, false).unwrap();
    drop(next_batch(&mut first));
    assert_eq!(epoch_end(&mut first).epoch, 0);
    drop(first);
    let mut second = host.reader(2);
    grant(&host.ring, 1, 0, RECORDS).unwrap();
    host.ring.end_stream();
    assert_eq!(next_batch(&mut second).epoch(), 1);
    assert!(matches!(second.next().unwrap(), Event::StreamEnd));
    let mut third = host.reader(2);
    assert!(matches!(third.next().unwrap(), Event::StreamEnd));
    assert_eq!(third.fields().unwrap(), crate::setup::fields());
}

/// The end of an epoch is not lost if its last consumer dies just before it is sent.
#[test]
fn the_end_of_an_epoch_waits_until_a_consumer_is_connected() {
    let host = host(config());
    grant(&host.ring, 0, 0, RECORDS).unwrap();
    let mut first = host.reader(2);
    drop(next_batch(&mut first));
    host.wait_until("free", |status| status.free == 8);
    drop(first);
    host.wait_until("without consumers", |status| status.consumers.is_empty());
    host.ring.end_epoch(0, false).unwrap();
    assert_eq!(epoch_end(&mut host.reader(2)).batches, 1);
}

#[test]
fn a_consumer_that_holds_every_slot_can_still_end_the_epoch() {
    let mut config = config();
    config.slots = 3;
    let host = host(config);
    let mut reader = host.reader(2);
    for batch in 0..3 {
        grant(&host.ring, 0, batch * RECORDS, RECORDS).unwrap();
    }
    let held = [next_batch(&mut reader), next_batch(&mut reader)];
    std::thread::scope(|scope| {
        // END_EPOCH frees the slot that nobody holds. Nevertheless the writer must not fill it: it
        // must learn that this epoch is ending.
        let writer = scope.spawn(|| host.ring.acquire());
        reader.end_epoch(0);
        assert!(matches!(
            writer.join().unwrap(),
            Err(WriteError::Interrupted(Interrupt::EndEpoch(0)))
        ));
    });
    assert_eq!(host.ring.epoch_end_requested(), Some(0));
    host.ring.end_epoch(0, true).unwrap();
    assert_eq!(host.ring.epoch_end_requested(), None);
    assert_eq!(epoch_end(&mut reader), EpochEnd { batches: 2, records: 20, epoch: 0, early: true });
    // Another request for the old epoch has no effect on the next one.
    reader.end_epoch(0);
    grant(&host.ring, 1, 0, RECORDS).unwrap();
    drop(held);
    assert_eq!(next_batch(&mut reader).epoch(), 1);
    assert_eq!(host.ring.epoch_end_requested(), None);
}

#[test]
fn in_broadcast_an_epoch_ends_early_when_all_have_requested_it() {
    let mut config = config();
    config.mode = Mode::Broadcast;
    config.consumers = 2;
    let host = host(config);
    let (mut one, mut other) = (host.reader(2), host.reader(2));
    grant(&host.ring, 0, 0, RECORDS).unwrap();
    // In this order: once the host has the RELEASE, it has the END_EPOCH too.
    let batch = next_batch(&mut one);
    one.end_epoch(0);
    drop(batch);
    drop(next_batch(&mut other));
    host.wait_until("free", |status| status.free == 8);
    // The first gets no more batches of this epoch, the second does.
    grant(&host.ring, 0, 10, RECORDS).unwrap();
    assert_eq!(next_batch(&mut other).first_record(), 10);
    assert_eq!(host.ring.epoch_end_requested(), None);
    other.end_epoch(0);
    assert!(matches!(
        (0..).map(|_| host.ring.acquire()).find(Result::is_err),
        Some(Err(WriteError::Interrupted(Interrupt::EndEpoch(0))))
    ));
    host.ring.end_epoch(0, true).unwrap();
    for reader in [&mut one, &mut other] {
        assert_eq!(epoch_end(reader), EpochEnd { batches: 2, records: 20, epoch: 0, early: true });
    }
}

#[test]
fn stop_wakes_a_writer_that_waits() {
    let mut config = config();
    config.slots = 2;
    let host = host(config);
    let _held = [host.ring.acquire().unwrap(), host.ring.acquire().unwrap()];
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| host.ring.acquire());
        host.wait_until("full, with a writer that waits", |status| status.writer_waits);
        host.ring.stop();
        assert!(matches!(writer.join().unwrap(), Err(WriteError::Interrupted(Interrupt::Stop))));
    });
    assert!(matches!(
        host.ring.acquire_dedicated(1),
        Err(WriteError::Interrupted(Interrupt::Stop))
    ));
}

#[test]
fn draining_waits_for_the_last_ack() {
    let host = host(config());
    let mut reader = host.reader(2);
    grant(&host.ring, 0, 0, RECORDS).unwrap();
    host.ring.end_stream();
    let batch = next_batch(&mut reader);
    assert!(!host.ring.wait_drained(Some(Duration::from_millis(1))));
    batch.ack();
    assert!(host.ring.wait_drained(None));
    assert!(matches!(reader.next().unwrap(), Event::StreamEnd));
}

#[test]
fn messages_that_do_not_fit_a_socket_arrive_later_and_in_order() {
    let host = host(config());
    let mut deaf = host.reader(2);
    grant(&host.ring, 0, 0, RECORDS).unwrap();
    drop(next_batch(&mut deaf));
    host.wait_until("free", |status| status.free == 8);
    // Fills the socket, whose capacity depends on the machine.
    let mut epochs = 0;
    while host.ring.wait_drained(Some(Duration::ZERO)) {
        host.ring.end_epoch(epochs, false).unwrap();
        epochs += 1;
    }
    // These and the end of the stream wait in the table. Their number makes a writer wait.
    for _ in 0..100 {
        host.ring.end_epoch(epochs, false).unwrap();
        epochs += 1;
    }
    host.ring.end_stream();
    assert_eq!(host.ring.status().consumers.len(), 1, "it was not hung up on");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| host.ring.acquire().map(drop));
        host.wait_until("full, with a writer that waits", |status| status.writer_waits);
        for epoch in 0..epochs {
            assert_eq!(epoch_end(&mut deaf).epoch, epoch);
        }
        assert!(matches!(deaf.next().unwrap(), Event::StreamEnd));
        writer.join().unwrap().unwrap();
    });
    assert!(host.ring.wait_drained(None));
}
