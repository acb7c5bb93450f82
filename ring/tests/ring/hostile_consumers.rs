//! A consumer that breaks the protocol can only end its own connection.

use std::os::fd::AsRawFd;

use pipemill_ring::protocol::{ack, end_epoch, release};
use pipemill_ring::reader::Event;
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

use crate::child::Process;
use crate::raw_consumer::{Raw, hello};
use crate::setup::{RECORDS, check, config, folder, grant, host};

#[test]
fn a_wrong_grant_number_is_refused_and_loses_no_batch() {
    let host = host(config());
    let (raw, ..) = Raw::welcomed(&host.socket, 2);
    grant(&host.ring, 0, 0, RECORDS).unwrap();
    let (held, _) = raw.grant();
    raw.send(&release(held.grant + 1)).unwrap();
    let reason = raw.refusal();
    assert!(reason.contains("grant 1 is not held by this consumer"), "{reason}");
    let (raw, ..) = Raw::welcomed(&host.socket, 2);
    let (again, _) = raw.grant();
    assert_eq!(again.batch, held.batch);
    assert_ne!(again.grant, held.grant);
    // An ACK may be repeated, a RELEASE may not.
    raw.send(&ack(again.grant)).unwrap();
    raw.send(&ack(again.grant)).unwrap();
    raw.send(&release(again.grant)).unwrap();
    raw.send(&release(again.grant)).unwrap();
    assert!(raw.refusal().contains("RELEASEd already"));
    host.wait_until("free", |status| status.free == 8);
}

#[test]
fn a_message_may_name_several_grants_and_a_malformed_one_is_refused() {
    let host = host(config());
    let (raw, ..) = Raw::welcomed(&host.socket, 3);
    for batch in 0..3 {
        grant(&host.ring, 0, batch * RECORDS, RECORDS).unwrap();
    }
    let grants = [raw.grant().0.grant, raw.grant().0.grant, raw.grant().0.grant];
    let mut all = 3u32.to_le_bytes().to_vec();
    grants.iter().for_each(|grant| all.extend(grant.to_le_bytes()));
    raw.send(&all).unwrap();
    host.wait_until("free", |status| status.free == 8);
    raw.send(&all[..all.len() - 1]).unwrap();
    assert!(raw.refusal().contains("expected one or more grant numbers"));
    let cases: [(Vec<u8>, &str); 6] = [
        (vec![2, 0, 0, 0], "one or more grant numbers"),
        (vec![4, 0, 0, 0, 1], "expected 4"),
        (vec![99, 0, 0, 0], "unknown type 99"),
        (vec![0; 196_609], "longer than 196,608"),
        (vec![], "an empty message"),
        (hello("train", 1), "second HELLO"),
    ];
    for (message, reason) in cases {
        let (raw, ..) = Raw::welcomed(&host.socket, 1);
        raw.send(&message).unwrap();
        let refusal = raw.refusal();
        assert!(refusal.contains(reason), "{refusal}");
    }
}

/// If the host hung up with messages unread, its peer would get ECONNRESET before the reason.
#[test]
fn the_reason_of_a_refusal_arrives_where_the_host_has_messages_unread() {
    let host = host(config());
    for _ in 0..100 {
        let (raw, ..) = Raw::welcomed(&host.socket, 1);
        for _ in 0..50 {
            // An error means that the host has hung up already.
            let _ = raw.send(&release(77));
        }
        assert!(raw.refusal().contains("grant 77"));
    }
}

/// A message of random bytes. Most are almost valid.
fn garbage(random: &mut TestRng) -> Vec<u8> {
    let mut bytes = vec![0; (random.next_u32() % 64) as usize];
    random.fill_bytes(&mut bytes);
    if !random.next_u32().is_multiple_of(4) && bytes.len() >= 4 {
        bytes[..4].copy_from_slice(&(random.next_u32() % 8).to_le_bytes());
    }
    if !random.next_u32().is_multiple_of(4) && bytes.len() >= 12 {
        bytes[4..12].copy_from_slice(&u64::from(random.next_u32() % 50).to_le_bytes());
        bytes.truncate(12);
    }
    match random.next_u32() % 20 {
        0 => hello("train", random.next_u32() % 20),
        1 => end_epoch(7).to_vec(),
        2 => vec![1; 196_608],
        _ => bytes,
    }
}

#[test]
fn random_messages_do_no_harm_to_the_host_or_to_other_consumers() {
    const BATCHES: u64 = 2000;
    let host = host(config());
    let mut reader = host.reader(2);
    let seen = std::thread::scope(|scope| {
        scope.spawn(|| {
            for batch in 0..BATCHES {
                grant(&host.ring, 0, batch * RECORDS, RECORDS).unwrap();
            }
            host.ring.end_epoch(0, false).unwrap();
            host.ring.end_stream();
        });
        for seed in 0..2u8 {
            let socket = &host.socket;
            scope.spawn(move || {
                let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
                let devices = std::fs::File::open("/dev/null").unwrap();
                for _ in 0..1000 {
                    let raw = Raw::connect(socket);
                    if random.next_u32().is_multiple_of(2) {
                        // An error means that the host has hung up already; the same is true below.
                        let _ = raw.send(&hello("train", 1 + random.next_u32() % 3));
                    }
                    for _ in 0..random.next_u32() % 6 {
                        let fds = [devices.as_raw_fd()];
                        let fds = if random.next_u32().is_multiple_of(3) { &fds[..] } else { &[] };
                        let _ = raw.send_with(&garbage(&mut random), fds);
                    }
                }
            });
        }
        let mut seen = 0;
        while let Event::Batch(batch) = reader.next().unwrap() {
            check(&batch);
            seen += 1;
        }
        seen
    });
    // Some batches went to the other consumers, whose garbage has ACKed them by chance.
    assert!(seen > 0 && seen <= BATCHES);
    assert!(matches!(reader.next().unwrap(), Event::StreamEnd));
    host.wait_until("free, with one consumer", |status| {
        status.free == 8 && status.consumers.len() == 1
    });
}

fn usage(process: &Process) -> (usize, u64) {
    let folder = format!("/proc/{}", process.child.id());
    let fds = std::fs::read_dir(format!("{folder}/fd")).unwrap().count();
    let statm = std::fs::read_to_string(format!("{folder}/statm")).unwrap();
    let private = |n: usize| statm.split(' ').nth(n).unwrap().parse::<u64>().unwrap();
    (fds, private(1) - private(2))
}

#[test]
fn thousands_of_connections_leave_no_descriptors_or_memory() {
    let folder = folder();
    let socket = folder.path().join("socket");
    let mut process = Process::start("serve", &socket);
    assert_eq!(process.line().unwrap().1, "ready");
    let connect = |times: u32| {
        for at in 0..times {
            let raw = Raw::connect(&socket);
            if at % 3 == 1 {
                raw.send(b"what?").unwrap();
                raw.refusal();
            } else if at % 3 == 2 {
                raw.send(&hello("train", 3)).unwrap();
                raw.receive().unwrap();
                raw.grant();
            }
        }
    };
    connect(300);
    // When a consumer is granted all three batches, all connections before it are closed.
    let idle = || {
        let (last, ..) = Raw::welcomed(&socket, 3);
        for _ in 0..3 {
            last.grant();
        }
        last
    };
    let last = idle();
    let (fds_before, pages_before) = usage(&process);
    drop(last);
    connect(4000);
    let _last = idle();
    let (fds, pages) = usage(&process);
    assert_eq!(fds, fds_before);
    assert!(pages < pages_before + 64, "{pages_before} pages have become {pages}");
}
