//! A snapshot of a ring for reports, and the log line about a consumer that holds others up.

use std::time::{Duration, Instant};

use super::state::RingState;
use super::table::{Consumer, HeldGrant};
use super::waits::WaitTimes;
use crate::protocol::Mode;

/// A consumer that holds others up is logged when its grant has this age, and again each time that
/// this much more has passed.
const STUCK_REPORT_INTERVAL: Duration = Duration::from_secs(30);

/// A snapshot of one ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Name of the channel.
    pub channel: String,
    /// Number of slots that hold no batch.
    pub free: u32,
    /// Number of slots that the writer fills.
    pub filling: u32,
    /// Number of slots that are filled and that no consumer holds.
    pub ready: u32,
    /// Number of slots that one or more consumers hold.
    pub granted: u32,
    /// Number of dedicated buffers, in whatever state.
    pub dedicated: u32,
    /// Number of batches that the writer has filled so far.
    pub batches: u64,
    /// The writer waits for memory.
    pub writer_waits: bool,
    /// The end of the stream, or the error, was sent to a consumer.
    pub end_sent: bool,
    /// Number of grants so far.
    pub grants: u64,
    /// As many consumers as the ring needs were connected at once: since then it grants.
    pub started: bool,
    /// A consumer was connected at some time.
    pub ever_connected: bool,
    /// When a consumer last connected or disconnected; the ring's start before that.
    pub consumers_since: Instant,
    /// For how long the writer, or [`wait_drained`](super::Ring::wait_drained), waited while no
    /// consumer was connected, or too few were.
    pub consumers_missed: Duration,
    /// The consumers, in the order in which they connected.
    pub consumers: Vec<ConsumerStatus>,
    /// Where batches are dealt to ranks: the ranks that were connected and have left, each with its
    /// process id.
    pub left_ranks: Vec<(u32, i32)>,
}

/// One consumer in a [`Status`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerStatus {
    /// Process id; 0 where it is in a namespace that the host can't see.
    pub pid: i32,
    /// User id.
    pub uid: u32,
    /// The name that it gives itself, of at most 200 characters.
    pub client: String,
    /// Number of grants that it may hold at once.
    pub credits: u32,
    /// Number of grants that it holds: those not RELEASEd.
    pub held: u32,
    /// Number of grants that it holds and has not ACKed.
    pub unacked: u32,
    /// Age of the oldest grant that it holds.
    pub oldest: Option<Duration>,
    /// Its rank, where batches are dealt to ranks.
    pub rank: Option<u32>,
    /// How long it waited for its batches: from the moment at which it had ACKed all that it was
    /// granted, or had connected, to the next grant. The wait for the first batch after the end of
    /// an epoch is not counted.
    pub waits: WaitTimes,
}

pub(super) fn snapshot(channel: &str, batches: u64, state: &RingState, now: Instant) -> Status {
    let counts = state.table.slot_counts();
    let consumers = state.table.consumers().iter();
    Status {
        channel: channel.into(),
        free: counts.free,
        filling: counts.filling,
        ready: counts.ready,
        granted: counts.granted,
        dedicated: counts.dedicated,
        batches,
        writer_waits: state.writer_waits.is_some(),
        end_sent: state.table.end_sent(),
        grants: state.table.grants(),
        started: state.table.has_started(),
        ever_connected: state.missing.ever,
        consumers_since: state.missing.since,
        consumers_missed: state.missing.missed(now),
        consumers: consumers.filter_map(|one| consumer(state, one, now)).collect(),
        left_ranks: left_ranks(state),
    }
}

/// The status of one consumer; `None` if its socket is gone.
pub(super) fn consumer(
    state: &RingState,
    consumer: &Consumer,
    now: Instant,
) -> Option<ConsumerStatus> {
    let socket = state.sockets.iter().find(|socket| socket.id == consumer.id)?;
    let has_ranks = state.table.division().0 == Mode::Rank;
    Some(ConsumerStatus {
        pid: socket.peer.pid,
        uid: socket.peer.uid,
        client: socket.client.clone(),
        credits: consumer.credits,
        held: consumer.grants.len() as u32,
        unacked: consumer.grants.iter().filter(|held| !held.acked).count() as u32,
        oldest: consumer.grants.first().map(|held| age(held, now)),
        rank: has_ranks.then_some(consumer.rank),
        waits: socket.waits.times(),
    })
}

/// The ranks that have left, while others are there.
fn left_ranks(state: &RingState) -> Vec<(u32, i32)> {
    let (mode, world) = state.table.division();
    let is_missing =
        |(rank, _): &(u32, i32)| *rank < world && state.table.consumer_of(*rank).is_none();
    let left = state.missing.left.iter().map(|(rank, pid)| (*rank, *pid));
    if mode == Mode::Rank { left.filter(is_missing).collect() } else { Vec::new() }
}

/// One line for each consumer and each 30 s of age. Only where the writer waits for memory, or the
/// end of an epoch waits for an ACK: a consumer may pause for long where nothing waits for it.
pub(super) fn stuck(channel: &str, state: &mut RingState, now: Instant) -> Vec<String> {
    let (writer_waits, end_waits) = (state.writer_waits.is_some(), state.table.end_is_next());
    let mut lines = Vec::new();
    for consumer in state.table.consumers() {
        let holds_up = |held: &&HeldGrant| writer_waits || (end_waits && !held.acked);
        let socket = state.sockets.iter_mut().find(|socket| socket.id == consumer.id);
        let (Some(oldest), Some(socket)) = (consumer.grants.iter().find(holds_up), socket) else {
            continue;
        };
        let times = age(oldest, now).as_secs() / STUCK_REPORT_INTERVAL.as_secs();
        if times == 0 || socket.reported == (oldest.grant, times) {
            continue;
        }
        socket.reported = (oldest.grant, times);
        lines.push(format!(
            "channel {channel:?}: process {} ({:?}) has held batch {} (slot {}, {}) for {} s, and \
             {} waits for it; it holds {} of its {} credits. Memory is never taken back from a \
             consumer that lives: let it go on, or end it",
            socket.peer.pid,
            socket.client,
            oldest.batch,
            oldest.slot,
            if oldest.acked { "ACKed, not RELEASEd" } else { "not ACKed" },
            age(oldest, now).as_secs(),
            if writer_waits { "the channel" } else { "the end of the epoch" },
            consumer.grants.len(),
            consumer.credits,
        ));
    }
    lines
}

fn age(held: &HeldGrant, now: Instant) -> Duration {
    now.saturating_duration_since(held.since)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nix::sys::epoll::{Epoll, EpollCreateFlags};
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

    use super::*;
    use crate::host::{BatchInfo, Ring, RingConfig};
    use crate::protocol::{Hello, Mode, ToHost, release};
    use crate::socket::Peer;

    const CONSUMER: u64 = 7;

    fn ring() -> Arc<Ring> {
        let ring = Ring::new(RingConfig {
            channel: "train".into(),
            slots: 4,
            slot_bytes: 4096,
            dedicated: RingConfig::FEW_DEDICATED,
            credits: 2,
            mode: Mode::Share,
            consumers: 1,
        })
        .unwrap();
        ring.set_schema(vec![]).unwrap();
        ring
    }

    /// Without a server, whose thread would ask the ring for stuck consumers, too.
    fn connect(ring: &Ring) -> std::os::fd::OwnedFd {
        let (unix, flags) = (AddressFamily::Unix, SockFlag::SOCK_CLOEXEC);
        let (ours, theirs) = socketpair(unix, SockType::SeqPacket, None, flags).unwrap();
        let hello = Hello::new("train", "tester");
        let poller = Arc::new(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).unwrap());
        let peer = Peer { pid: 123, uid: 0 };
        let admitted = ring.admit(&hello).ok().unwrap();
        ring.connect(CONSUMER, peer, &hello, admitted, Arc::new(ours), poller).unwrap();
        theirs
    }

    #[test]
    fn a_consumer_that_holds_up_the_end_is_reported_every_30_seconds() {
        let ring = ring();
        let _consumer = connect(&ring);
        ring.acquire().unwrap().grant(&BatchInfo::default(), &[]).unwrap();
        let held = ring.lock().table.consumers()[0].grants[0];
        let after = |seconds| held.since + Duration::from_secs(seconds);
        assert!(ring.stuck(after(100)).is_empty(), "nothing waits for it");
        ring.end_stream();
        assert!(ring.stuck(after(29)).is_empty());
        let [line] = &ring.stuck(after(31))[..] else { panic!("expected one line") };
        let start = "channel \"train\": process 123 (\"tester\") has held batch 0 (slot 0, not \
                     ACKed) for 31 s, and the end of the epoch waits for it";
        assert!(line.starts_with(start), "{line}");
        assert!(line.contains("it holds 1 of its 2 credits"), "{line}");
        assert!(ring.stuck(after(45)).is_empty());
        assert_eq!(ring.stuck(after(61)).len(), 1);
        let message = release(held.grant);
        ring.obey(CONSUMER, &ToHost::decode(&message).unwrap()).unwrap();
        assert!(ring.wait_drained(None));
        assert!(ring.stuck(after(1000)).is_empty());
    }

    #[test]
    fn the_waits_of_a_consumer_are_known_after_it_has_left() {
        let ring = ring();
        let _consumer = connect(&ring);
        let ack = |grant| {
            let message = crate::protocol::ack(grant);
            ring.obey(CONSUMER, &ToHost::decode(&message).unwrap()).unwrap();
        };
        for _ in 0..2 {
            ring.acquire().unwrap().grant(&BatchInfo::default(), &[]).unwrap();
        }
        // The second grant came before the first was ACKed.
        let waits = || ring.status().consumers[0].waits;
        assert_eq!((waits().count, waits().total), (2, waits().longest));
        let grants: Vec<_> =
            ring.lock().table.consumers()[0].grants.iter().map(|held| held.grant).collect();
        let first = waits().total;
        ack(grants[0]);
        ack(grants[1]);
        ring.acquire().unwrap().grant(&BatchInfo::default(), &[]).unwrap();
        // Two credits: a third grant needs a RELEASE.
        assert_eq!(waits().count, 2);
        let message = release(grants[0]);
        ring.obey(CONSUMER, &ToHost::decode(&message).unwrap()).unwrap();
        assert_eq!(waits().count, 3);
        assert!(waits().total > first, "it waited from its last ACK on");
        let last = waits();
        ring.disconnect(CONSUMER);
        assert!(ring.status().consumers.is_empty());
        assert_eq!(ring.left_consumers().iter().map(|one| one.waits).collect::<Vec<_>>(), [last]);
    }
}
