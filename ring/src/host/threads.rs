//! Tests the threads of a host at one ring in many orders: the writer, the server, and one that
//! waits until everything is delivered. Shuttle reports an order in which all of them wait: a
//! wake-up was lost.
//!
//! Memory and sockets are real. The server's own state belongs to one thread, so it is not tested
//! here: these tests make the server's calls of the ring.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::sys::epoll::{Epoll, EpollCreateFlags};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use pipemill_types::BatchPosition;
use shuttle::thread;

use super::config::{Interrupt, RingConfig, WriteError};
use super::ring::Ring;
use super::table::ConsumerId;
use super::writer::{BatchInfo, Writer};
use crate::protocol::{self, Hello, Mode, ToConsumer, ToHost};
use crate::socket::{Peer, Received, buffer, receive_with_fd};

const ORDERS: usize = 2000;

fn ring(mode: Mode) -> Arc<Ring> {
    Ring::new(RingConfig {
        channel: "train".into(),
        slots: 2,
        slot_bytes: 4096,
        dedicated: RingConfig::FEW_DEDICATED,
        credits: 1,
        mode,
        consumers: 1,
    })
    .unwrap()
}

fn grant(writer: Writer, epoch: u32) {
    let position = BatchPosition::of_epoch(epoch);
    writer.grant(&BatchInfo { position, ..BatchInfo::default() }, &[]).unwrap();
}

/// The writer: two epochs of three batches. It skips an epoch if consumers request it.
fn write(ring: &Arc<Ring>) {
    ring.set_schema(vec![]).unwrap();
    for epoch in 0..2 {
        for _ in 0..3 {
            match ring.acquire() {
                Ok(writer) => grant(writer, epoch),
                Err(WriteError::Interrupted(Interrupt::EndEpoch(skipped))) => {
                    assert_eq!(skipped, epoch);
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
        ring.end_epoch(epoch, false).unwrap();
    }
    ring.end_stream();
}

/// Both ends of a consumer's socket, and the messages that it has received.
struct Consumer {
    id: ConsumerId,
    theirs: OwnedFd,
    batches: Vec<u64>,
    ended: bool,
}

impl Consumer {
    fn connect(ring: &Ring, id: ConsumerId) -> Consumer {
        let (unix, flags) = (AddressFamily::Unix, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK);
        let (ours, theirs) = socketpair(unix, SockType::SeqPacket, None, flags).unwrap();
        let hello = Hello::new("train", "tester");
        let poller = Arc::new(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).unwrap());
        let admitted = ring.admit(&hello).ok().unwrap();
        ring.connect(id, Peer { pid: 1, uid: 0 }, &hello, admitted, Arc::new(ours), poller)
            .unwrap();
        Consumer { id, theirs, batches: Vec::new(), ended: false }
    }

    /// Receives one message, and reacts to it. With `skips`, the first batch makes it end its
    /// epoch.
    fn turn(&mut self, ring: &Ring, skips: bool) {
        let mut buffer = buffer();
        let bytes = match receive_with_fd(&self.theirs, &mut buffer).unwrap() {
            Received::Message(bytes, _) => bytes,
            Received::WouldBlock => return thread::yield_now(),
            Received::HungUp | Received::Invalid(_) => panic!("the ring has hung up"),
        };
        match ToConsumer::decode(&buffer[..bytes]).unwrap() {
            ToConsumer::Grant(grant) => {
                if skips && self.batches.is_empty() {
                    ring.obey(self.id, &ToHost::EndEpoch(grant.epoch)).unwrap();
                }
                self.batches.push(grant.batch);
                let message = protocol::release(grant.grant);
                ring.obey(self.id, &ToHost::decode(&message).unwrap()).unwrap();
            }
            ToConsumer::StreamEnd => self.ended = true,
            _ => {}
        }
    }
}

/// The server's thread: serves two consumers to the end of the stream. With `dies`, the second one
/// hangs up while it holds its first grant.
fn serve(ring: &Ring, dies: bool, skips: bool) -> [Vec<u64>; 2] {
    let mut first = Consumer::connect(ring, 7);
    let mut second = Consumer::connect(ring, 8);
    if dies {
        thread::yield_now();
        ring.disconnect(second.id);
        second.ended = true;
    }
    while !(first.ended && second.ended) {
        first.turn(ring, skips);
        if !second.ended {
            second.turn(ring, false);
        }
    }
    [first.batches, second.batches]
}

/// Runs all threads in one order. Returns what each of the two consumers received.
fn run(mode: Mode, dies: bool, skips: bool) -> [Vec<u64>; 2] {
    let ring = ring(mode);
    let writer = thread::spawn({
        let ring = ring.clone();
        move || write(&ring)
    });
    let waiter = thread::spawn({
        let ring = ring.clone();
        move || ring.wait_drained(None)
    });
    let seen = serve(&ring, dies, skips);
    writer.join().unwrap();
    assert!(waiter.join().unwrap());
    assert!(ring.wait_drained(None));
    let status = ring.status();
    assert_eq!((status.free, status.writer_waits, status.end_sent), (2, false, true));
    seen
}

#[test]
fn shared_batches_arrive_once_in_any_order_of_threads() {
    let orders = || {
        let mut seen = run(Mode::Share, false, false).concat();
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3, 4, 5]);
    };
    shuttle::check_random(orders, ORDERS);
}

#[test]
fn batches_of_a_consumer_that_dies_arrive_in_any_order_of_threads() {
    let orders = || {
        let [mut first, _] = run(Mode::Share, true, false);
        // The batches that the other one held come after those that were granted to this one
        // meanwhile.
        first.sort_unstable();
        assert_eq!(first, [0, 1, 2, 3, 4, 5]);
    };
    shuttle::check_random(orders, ORDERS);
}

#[test]
fn broadcast_batches_arrive_at_both_in_any_order_of_threads() {
    let orders = || {
        let [first, second] = run(Mode::Broadcast, false, false);
        assert_eq!(first, [0, 1, 2, 3, 4, 5]);
        // It connects later, and gets the batches that are granted from then on.
        assert!(first.ends_with(&second));
    };
    shuttle::check_random(orders, ORDERS);
}

#[test]
fn a_skipped_epoch_ends_in_any_order_of_threads() {
    shuttle::check_random(|| drop(run(Mode::Share, false, true)), ORDERS);
}

#[test]
fn a_writer_that_waits_is_stopped_in_any_order_of_threads() {
    let orders = || {
        let ring = ring(Mode::Share);
        let writer = thread::spawn({
            let ring = ring.clone();
            move || {
                ring.set_schema(vec![]).unwrap();
                loop {
                    match ring.acquire() {
                        Ok(writer) => grant(writer, 0),
                        Err(error) => {
                            return matches!(error, WriteError::Interrupted(Interrupt::Stop));
                        }
                    }
                }
            }
        });
        ring.stop();
        assert!(writer.join().unwrap());
    };
    shuttle::check_random(orders, ORDERS);
}
