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
    /// The end of the stream, or the error, was told to a consumer.
    pub told: bool,
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
        told: inner.table.is_told(),
        consumers: inner.table.consumers().iter().filter_map(consumer).collect(),
    }
}

/// One line per consumer and 30 s of age, and only where the writer waits for memory or the end of
/// an epoch for an ACK: a long pause that holds up nobody is the consumer's own affair.
pub(super) fn stuck(channel: &str, inner: &mut Inner, now: Instant) -> Vec<String> {
    let (writer_waits, end_waits) = (inner.writer_waits, inner.table.end_waits());
    let mut lines = Vec::new();
    for consumer in inner.table.consumers() {
        let holds_up = |held: &&Granted| writer_waits || (end_waits && !held.acked);
        let link = inner.links.iter_mut().find(|link| link.id == consumer.id);
        let (Some(oldest), Some(link)) = (consumer.grants.iter().find(holds_up), link) else {
            continue;
        };
        let times = age(oldest, now).as_secs() / STUCK.as_secs();
        if times == 0 || link.reported == (oldest.grant, times) {
            continue;
        }
        link.reported = (oldest.grant, times);
        lines.push(format!(
            "channel {channel:?}: process {} ({:?}) has held batch {} (slot {}, {}) for {} s, and \
             {} waits for it; it holds {} of its {} credits. Memory is never taken back from a \
             consumer that lives: let it go on, or end it",
            link.peer.pid,
            link.client,
            oldest.batch,
            oldest.place,
            if oldest.acked { "ACKed, not RELEASEd" } else { "not ACKed" },
            age(oldest, now).as_secs(),
            if writer_waits { "the channel" } else { "the end of the epoch" },
            consumer.grants.len(),
            consumer.credits,
        ));
    }
    lines
}

fn age(granted: &Granted, now: Instant) -> Duration {
    now.saturating_duration_since(granted.since)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{BatchInfo, Ring, RingConfig, Server};
    use crate::protocol::Mode;
    use crate::reader::{Event, Reader};

    #[test]
    fn a_consumer_that_holds_up_the_end_is_reported_every_30_seconds() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("made/socket");
        let ring = Ring::new(RingConfig {
            channel: "train".into(),
            slots: 4,
            slot_bytes: 4096,
            credits: 2,
            mode: Mode::Share,
            consumers: 1,
        })
        .unwrap();
        let _server = Server::start(&socket, false, vec![ring.clone()], None).unwrap();
        let mut reader = Reader::connect(&socket, "train", None).unwrap();
        ring.set_schema(vec![]).unwrap();
        let info = BatchInfo {
            epoch: 0,
            object: "",
            first_record: 0,
            object_offset: 0,
            payload_bytes: 0,
            has_absent: false,
        };
        ring.acquire().unwrap().grant(&info, &[]).unwrap();
        let Event::Batch(batch) = reader.next().unwrap() else { panic!("expected a batch") };
        let after = |seconds| Instant::now() + Duration::from_secs(seconds);
        assert!(ring.stuck(after(100)).is_empty(), "nobody waits for it");
        ring.end_stream();
        assert!(ring.stuck(after(29)).is_empty());
        let [line] = &ring.stuck(after(31))[..] else { panic!("expected one line") };
        let start = format!("channel \"train\": process {} (\"rust,", std::process::id());
        assert!(line.starts_with(&start), "{line}");
        assert!(line.contains("has held batch 0 (slot 0, not ACKed) for 31 s"), "{line}");
        assert!(line.contains("it holds 1 of its 2 credits"), "{line}");
        assert!(ring.stuck(after(45)).is_empty());
        assert_eq!(ring.stuck(after(61)).len(), 1);
        drop(batch);
        assert!(ring.wait_drained(None));
        assert!(ring.stuck(after(1000)).is_empty());
    }
}
