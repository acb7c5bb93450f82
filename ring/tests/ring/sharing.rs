//! The distribution of batches to consumers: credits, ACK and RELEASE, two consumers, broadcast;
//! and the refusals of HELLO, batch and ring.

use std::collections::BTreeSet;

use pipemill_ring::host::{BatchInfo, Column, Ring, RingError, Server, ServerConfig, WriteError};
use pipemill_ring::protocol::{Mode, ToConsumer, ack, release};
use pipemill_ring::reader::{Batch, Event, Reader, ReaderError};

use crate::raw_consumer::{Raw, hello};
use crate::setup::{RECORDS, check, config, fields, folder, grant, host, next_batch, position};

#[test]
fn an_ack_alone_gives_no_credit_back_and_a_release_does() {
    let host = host(config());
    let mut reader = host.reader(2);
    for batch in 0..4 {
        grant(&host.ring, 0, batch * RECORDS, RECORDS).unwrap();
    }
    let held = [next_batch(&mut reader), next_batch(&mut reader)];
    held.iter().for_each(Batch::ack);
    let acked = |status: &pipemill_ring::host::Status| status.consumers[0].unacked == 0;
    host.wait_until("ACKed", acked);
    let status = host.ring.status();
    assert_eq!((status.consumers[0].held, status.granted, status.ready), (2, 2, 2));
    assert_eq!(status.consumers[0].pid, std::process::id() as i32);
    assert!(status.consumers[0].client.starts_with("rust"));
    // A batch stays readable while it is kept, even when later ones are granted.
    let [first, second] = held;
    drop(second);
    let third = next_batch(&mut reader);
    assert_eq!(third.number(), 2);
    check(&first);
    // A batch may be dropped in another thread.
    std::thread::spawn(move || drop((first, third))).join().unwrap();
    assert_eq!(next_batch(&mut reader).number(), 3);
}

#[test]
fn two_consumers_share_all_batches_each_in_order() {
    const BATCHES: u64 = 500;
    let host = host(config());
    let ids: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let consumers = [host.reader(2), host.reader(3)].map(|mut reader| {
            scope.spawn(move || {
                let mut seen = Vec::new();
                while let Event::Batch(batch) = reader.next().unwrap() {
                    check(&batch);
                    seen.push(batch.number());
                }
                seen
            })
        });
        for batch in 0..BATCHES {
            grant(&host.ring, 0, batch * RECORDS, RECORDS).unwrap();
        }
        host.ring.end_stream();
        consumers.map(|consumer| consumer.join().unwrap()).into()
    });
    for seen in &ids {
        assert!(seen.is_sorted() && !seen.is_empty());
    }
    let all: BTreeSet<u64> = ids.iter().flatten().copied().collect();
    assert!(all.into_iter().eq(0..BATCHES));
    assert_eq!(ids.iter().map(Vec::len).sum::<usize>() as u64, BATCHES);
}

#[test]
fn in_broadcast_all_get_all_batches_at_the_pace_of_the_slowest() {
    const BATCHES: u64 = 100;
    let mut config = config();
    config.mode = Mode::Broadcast;
    config.consumers = 2;
    let host = host(config);
    let (slow, ..) = Raw::welcomed(&host.socket, 1);
    for batch in 0..3 {
        grant(&host.ring, 0, batch * RECORDS, RECORDS).unwrap();
    }
    assert_eq!(host.ring.status().granted, 0, "no grant before the second consumer");
    let mut fast = host.reader(2);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for batch in 3..BATCHES {
                grant(&host.ring, 0, batch * RECORDS, RECORDS).unwrap();
            }
            host.ring.end_stream();
        });
        // There are eight slots. The fast consumer gets eight batches, and the next one only after
        // the slow consumer has released one.
        for batch in 0..8 {
            assert_eq!(next_batch(&mut fast).number(), batch);
        }
        let (held, _) = slow.grant();
        assert_eq!(held.batch, 0);
        host.wait_until("full, with a writer that waits", |status| {
            status.writer_waits && status.consumers.iter().any(|consumer| consumer.held == 0)
        });
        slow.send(&release(held.grant)).unwrap();
        assert_eq!(next_batch(&mut fast).number(), 8);
        let rest = scope.spawn(move || {
            let mut seen = Vec::new();
            while let Event::Batch(batch) = fast.next().unwrap() {
                check(&batch);
                seen.push(batch.number());
            }
            seen
        });
        for batch in 1..BATCHES {
            let (held, _) = slow.grant();
            assert_eq!(held.batch, batch);
            slow.send(&ack(held.grant)).unwrap();
            slow.send(&release(held.grant)).unwrap();
        }
        assert!(matches!(slow.receive(), Some((ToConsumer::StreamEnd, None))));
        assert!(rest.join().unwrap().into_iter().eq(9..BATCHES));
        writer.join().unwrap();
    });
}

#[test]
fn in_broadcast_a_consumer_that_dies_holds_up_nobody_and_the_last_one_loses_no_batch() {
    let mut config = config();
    config.mode = Mode::Broadcast;
    config.consumers = 2;
    let host = host(config);
    let (dying, ..) = Raw::welcomed(&host.socket, 2);
    let (last, ..) = Raw::welcomed(&host.socket, 2);
    for batch in 0..4 {
        grant(&host.ring, 0, batch * RECORDS, RECORDS).unwrap();
    }
    dying.grant();
    drop(dying);
    let (held, _) = last.grant();
    last.send(&ack(held.grant)).unwrap();
    assert_eq!(last.grant().0.batch, 1);
    drop(last);
    host.wait_until("without consumers", |status| status.consumers.is_empty());
    let mut reader = host.reader(2);
    assert_eq!([1, 2, 3].map(|_| next_batch(&mut reader).number()), [1, 2, 3]);
}

#[test]
fn a_hello_with_a_wrong_protocol_channel_or_credits_is_refused() {
    let folder = folder();
    let socket = folder.path().join("socket");
    let ring = |name: &str| {
        let mut config = config();
        config.channel = name.into();
        Ring::new(config).unwrap()
    };
    let _server =
        Server::start(&socket, &ServerConfig::default(), vec![ring("train"), ring("test")], None)
            .unwrap();
    match Reader::connect(&socket, "trian", None) {
        Err(ReaderError::Refused(why)) => {
            assert_eq!(why, r#"no channel "trian" here; there are: "test", "train""#);
        }
        other => panic!("expected a refusal, got {other:?}"),
    }
    let refusal = |message: &[u8]| {
        let raw = Raw::connect(&socket);
        raw.send(message).unwrap();
        raw.refusal()
    };
    let text = |json: &str| [&1u32.to_le_bytes(), json.as_bytes()].concat();
    let older = refusal(&text(r#"{"protocol":1,"channel":"train","old":[]}"#));
    assert!(older.contains("protocol 2") && older.contains("protocol 1"), "{older}");
    assert!(refusal(&hello("train", 0)).contains("credits: expected 1 or more, found 0"));
    assert!(refusal(&ack(0)).contains("must be HELLO"));
    // Without credits in HELLO the channel's setting applies. More than the slots allow is reduced.
    assert_eq!(Reader::connect(&socket, "train", None).unwrap().welcome().credits, 2);
    assert_eq!(Reader::connect(&socket, "train", Some(9999)).unwrap().welcome().credits, 7);
    let same = Server::start(
        &folder.path().join("other"),
        &ServerConfig::default(),
        vec![ring("a"), ring("a")],
        None,
    );
    assert!(same.unwrap_err().to_string().contains(r#"two channels have the name "a""#));
}

#[test]
fn an_invalid_batch_is_an_error_and_frees_its_slot() {
    let ring = Ring::new(config()).unwrap();
    let info = BatchInfo { position: position(0), ..BatchInfo::default() };
    let grant = |info: &BatchInfo<'_>, columns: &[Column]| match ring
        .acquire()
        .unwrap()
        .grant(info, columns)
    {
        Err(WriteError::Failed(error)) => error,
        other => panic!("{other:?}"),
    };
    let column = |records| Column::of_lists(vec![0; records], vec![0; records]);
    assert!(matches!(grant(&info, &[column(1)]), RingError::NoSchema));
    ring.set_schema(fields()).unwrap();
    ring.set_schema(fields()).unwrap();
    assert!(matches!(ring.set_schema(vec![]), Err(RingError::SchemaChanged { .. })));
    assert!(matches!(grant(&info, &[]), RingError::Columns { fields: 1, columns: 0, .. }));
    let uneven = Column::of_lists(vec![0; 2], vec![0; 1]);
    assert!(matches!(grant(&info, &[uneven]), RingError::Columns { .. }));
    assert!(matches!(grant(&info, &[column(5000)]), RingError::TooLarge { .. }));
    let long = BatchInfo { payload_bytes: usize::MAX, ..info };
    assert!(matches!(grant(&long, &[column(1)]), RingError::TooLarge { .. }));
    assert_eq!(ring.status().free, 8);
    let mut slot = ring.acquire().unwrap();
    assert!(slot.ensure(8192 - 128).is_ok());
    let larger = slot.ensure(8192 - 127);
    assert!(matches!(larger, Err(WriteError::Failed(RingError::TooLarge { .. }))));
    assert!(ring.acquire_dedicated(usize::MAX).is_err());
    assert_eq!(ring.status().dedicated, 0);
}

#[test]
fn a_ring_with_an_invalid_setting_is_refused() {
    let wrong = |change: fn(&mut pipemill_ring::host::RingConfig)| {
        let mut config = config();
        change(&mut config);
        Ring::new(config).unwrap_err().to_string()
    };
    assert!(wrong(|config| config.slots = 1).contains("expected 2 or more, found 1"));
    assert!(wrong(|config| config.slot_bytes = 5000).contains("multiple of 4096"));
    assert!(wrong(|config| config.slot_bytes = 0).contains("found 0"));
    assert!(wrong(|config| config.credits = 0).contains("expected 1 or more"));
    assert!(wrong(|config| config.channel.clear()).contains("must not be empty"));
}
