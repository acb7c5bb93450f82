//! How a ring stands, for reports, and the log line about a consumer that holds others up.

use std::time::{Duration, Instant};

use super::ring::Inner;
use super::table::{Consumer, Granted};

/// A consumer that holds others up is logged when a grant is so old, and again each time as much.
const STUCK: Duration = Duration::from_secs(30);

/// A snapshot of one ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Name of the channel.
    pub channel: String,
    /// Slots that hold nothing.
    pub free: u32,
    /// Slots that are being filled.
    pub filling: u32,
    /// Slots that wait for a consumer with credit.
    pub ready: u32,
    /// Slots that one or more consumers hold.
    pub granted: u32,
    /// Batches with memory of their own, in whatever state.
    pub extents: u32,
    /// Batches granted by the writer so far.
    pub batches: u64,
    /// The writer waits for memory.
    pub writer_waits: bool,
    /// Those connected, in the order in which they came.
    pub consumers: Vec<ConsumerStatus>,
}

/// One consumer in a [`Status`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerStatus {
    /// Process; 0 where it is in a namespace that the host can't see.
    pub pid: i32,
    /// User.
    pub uid: u32,
    /// What it says it is.
    pub client: String,
    /// Grants that it may hold.
    pub credits: u32,
    /// Grants that it holds (not RELEASEd).
    pub held: u32,
    /// Those of them that it has not ACKed.
    pub unacked: u32,
    /// Age of the oldest.
    pub oldest: Option<Duration>,
}

pub(super) fn snapshot(channel: &str, batches: u64, inner: &Inner, now: Instant) -> Status {
    let [free, filling, ready, granted, extents] = inner.table.census();
    let consumer = |consumer: &Consumer| {
        let link = inner.links.iter().find(|link| link.id == consumer.id)?;
        Some(ConsumerStatus {
            pid: link.peer.pid,
            uid: link.peer.uid,
            client: link.client.clone(),
            credits: consumer.credits,
            held: consumer.grants.len() as u32,
            unacked: consumer.grants.iter().filter(|granted| !granted.acked).count() as u32,
            oldest: consumer.grants.first().map(|granted| age(granted, now)),
        })
    };
    Status {
        channel: channel.into(),
        free,
        filling,
        ready,
        granted,
        extents,
        batches,
        writer_waits: inner.writer_waits,
        consumers: inner.table.consumers().iter().filter_map(consumer).collect(),
    }
}

/// One line per consumer and 30 s of age, and only where the writer waits for memory or the end of
/// an epoch for an ACK: a long pause that holds up nobody is the consumer's own affair.
pub(super) fn report_stuck(channel: &str, inner: &mut Inner, now: Instant) {
    for consumer in inner.table.consumers() {
        let holds_up = |g: &&Granted| inner.writer_waits || (inner.table.end_waits() && !g.acked);
        let Some(oldest) = consumer.grants.iter().find(holds_up) else { continue };
        let times = age(oldest, now).as_secs() / STUCK.as_secs();
        let Some(link) = inner.links.iter_mut().find(|link| link.id == consumer.id) else {
            continue;
        };
        if times == 0 || link.reported == (oldest.grant, times) {
            continue;
        }
        link.reported = (oldest.grant, times);
        log::warn!(
            "channel {channel:?}: process {} ({:?}) has held batch {} (slot {}, {}) for {} s, and \
             {} waits for it; it holds {} of its {} credits. Memory is not taken back from it: \
             let it go on, or end it",
            link.peer.pid,
            link.client,
            oldest.batch,
            oldest.place,
            if oldest.acked { "ACKed, not RELEASEd" } else { "not ACKed" },
            age(oldest, now).as_secs(),
            if inner.writer_waits { "the channel" } else { "the end of the epoch" },
            consumer.grants.len(),
            consumer.credits,
        );
    }
}

fn age(granted: &Granted, now: Instant) -> Duration {
    now.saturating_duration_since(granted.since)
}
