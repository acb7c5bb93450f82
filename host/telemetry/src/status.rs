//! The status of a host: a snapshot in JSON, for requests over the ring's socket or HTTP.
//! `docs/operate.md` describes its keys.

use std::time::{Duration, Instant};

use pipemill_channel::{EpochStats, Failure, Stage, StatsSnapshot};
use pipemill_types::json;
use serde::{Deserialize, Serialize};

use super::bottleneck::{remedy, were_missed};
use super::process::Usage;
use super::waits::WaitReason;
use super::{Bottleneck, ChannelHandle, ChannelState, HostState};

/// Largest number of ended epochs in a status; older ones are left out.
const MAX_EPOCHS: usize = 10;

/// A snapshot of a host. Times are in seconds, sizes in bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the page on operating documents them")]
pub struct Status {
    pub version: String,
    pub pid: u32,
    pub uptime: f64,
    pub cpu: f64,
    /// Resident memory outside of rings.
    pub memory: u64,
    /// Reasons why consumers should not connect. Empty if they can.
    pub not_ready: Vec<String>,
    pub channels: Vec<ChannelStatus>,
}

/// A channel in a [`Status`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the page on operating documents them")]
pub struct ChannelStatus {
    pub name: String,
    /// `running`, `ended`, `stopped` or `failed`.
    pub state: String,
    pub error: Option<ErrorStatus>,
    /// `fifo`, `files`, `s3` or `stdin`.
    pub source: String,
    pub decoder: String,
    pub decoder_memory: u64,
    /// The stage that its thread is in now: `source`, `decoder` or `consumer`.
    pub stage: Option<String>,
    pub epoch: u32,
    /// Share of the epoch's bytes that this host has read, from 0 to 1; `None` if it is not known.
    #[serde(default)]
    pub epoch_share: Option<f64>,
    pub object: Option<String>,
    /// What it waits for and does not get; `None` if it goes on by itself.
    #[serde(default)]
    pub waits_for: Option<WaitStatus>,
    pub totals: StatsStatus,
    /// Number of decode errors skipped, by kind of error. Kinds without an error are left out.
    pub decode_errors: Vec<(String, u64)>,
    /// The bottleneck of the channel's whole time.
    pub bottleneck: Option<BottleneckStatus>,
    pub remedies: Remedies,
    /// The last epochs that have ended, the oldest first.
    pub epochs: Vec<EpochStatus>,
    pub ring: RingStatus,
}

/// What a channel waits for and does not get.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the page on operating documents them")]
pub struct WaitStatus {
    /// `consumers`, `fifo`, `bytes` or `object`.
    pub reason: String,
    /// For a person: the words after "waiting for".
    pub what: String,
    pub seconds: f64,
    pub remedy: String,
}

/// What a channel did, and the seconds that each stage took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the page on operating documents them")]
pub struct StatsStatus {
    pub bytes: u64,
    pub records: u64,
    pub batches: u64,
    pub objects: u64,
    pub decode_errors: u64,
    pub source: f64,
    pub decoder: f64,
    pub consumer: f64,
}

/// The bottleneck of a channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the page on operating documents them")]
pub struct BottleneckStatus {
    pub stage: String,
    pub percent: u32,
    pub remedy: String,
}

/// What to do if the stage is the bottleneck.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the page on operating documents them")]
pub struct Remedies {
    pub source: String,
    pub decoder: String,
    pub consumer: String,
}

/// An epoch that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the page on operating documents them")]
pub struct EpochStatus {
    pub epoch: u32,
    pub early: bool,
    pub totals: StatsStatus,
}

/// Why a channel failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the page on operating documents them")]
pub struct ErrorStatus {
    pub kind: String,
    /// The whole message, for a person.
    pub message: String,
    pub epoch: u32,
    pub object: Option<String>,
    pub offset: Option<u64>,
    pub record: Option<u64>,
    pub remedy: String,
}

/// A channel's ring.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the page on operating documents them")]
pub struct RingStatus {
    pub slot_bytes: u64,
    pub free: u32,
    pub filling: u32,
    pub ready: u32,
    pub granted: u32,
    /// Batches in dedicated buffers.
    pub dedicated: u32,
    pub consumers: Vec<ConsumerStatus>,
}

/// A consumer of a channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the page on operating documents them")]
pub struct ConsumerStatus {
    pub pid: i32,
    pub client: String,
    pub credits: u32,
    /// Number of grants that it holds.
    pub held: u32,
    /// Number of grants that it holds and has not ACKed.
    pub unacked: u32,
    /// Age of the oldest grant that it holds.
    pub oldest: Option<f64>,
}

impl Status {
    /// A snapshot of this host.
    pub fn of(host: &HostState) -> Self {
        let usage = Usage::now();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime: host.uptime().as_secs_f64(),
            cpu: usage.cpu.as_secs_f64(),
            memory: usage.own,
            not_ready: host.not_ready(),
            channels: host.channels.iter().map(|handle| channel(handle)).collect(),
        }
    }

    /// The status as JSON.
    pub fn json(&self) -> Vec<u8> {
        json::to_string(self)
            .expect("writing to memory can't fail, and there are no keys but names")
            .into_bytes()
    }
}

fn channel(handle: &ChannelHandle) -> ChannelStatus {
    let stats = &handle.stats;
    let state = handle.state();
    let totals = stats.snapshot();
    let (status, now) = (handle.ring.status(), Instant::now());
    let wait = handle.wait(&status, now);
    let missed = were_missed(status.consumers_missed, &totals);
    let misses_now = wait.as_ref().is_some_and(|wait| wait.reason == WaitReason::Consumers);
    let bottleneck = Bottleneck::of(&totals).map(|bottleneck| BottleneckStatus {
        stage: bottleneck.stage.word().to_owned(),
        percent: bottleneck.percent,
        remedy: remedy(bottleneck.stage, &handle.source, handle.cores, missed),
    });
    let epochs = stats.epochs();
    let decode_errors = stats.decode_errors().into_iter().filter(|(_, count)| *count > 0);
    ChannelStatus {
        name: handle.name.clone(),
        state: state.word().to_owned(),
        error: match state {
            ChannelState::Failed(failure) => Some(error(failure)),
            _ => None,
        },
        source: handle.source.word().to_owned(),
        decoder: handle.decoder.clone(),
        decoder_memory: stats.decoder_memory(),
        stage: stats.stage().map(|stage: Stage| stage.word().to_owned()),
        epoch: handle.epoch(),
        epoch_share: handle.epoch_share(),
        object: stats.object(),
        waits_for: wait.map(|wait| WaitStatus {
            reason: wait.reason.word().to_owned(),
            seconds: wait.time(now).as_secs_f64(),
            what: wait.what,
            remedy: wait.remedy,
        }),
        totals: totals.into(),
        decode_errors: decode_errors.map(|(kind, count)| (kind.word().to_owned(), count)).collect(),
        bottleneck,
        remedies: Remedies {
            source: remedy(Stage::Source, &handle.source, handle.cores, false),
            decoder: remedy(Stage::Decoder, &handle.source, handle.cores, false),
            consumer: remedy(Stage::Consumer, &handle.source, handle.cores, misses_now),
        },
        epochs: epochs[epochs.len().saturating_sub(MAX_EPOCHS)..].iter().map(epoch).collect(),
        ring: ring(handle, &status),
    }
}

fn epoch(epoch: &EpochStats) -> EpochStatus {
    EpochStatus { epoch: epoch.number, early: epoch.early, totals: epoch.totals.into() }
}

fn error(failure: &Failure) -> ErrorStatus {
    ErrorStatus {
        kind: failure.fault.kind.word().to_owned(),
        message: failure.to_string(),
        epoch: failure.position.epoch,
        object: failure.position.object.clone(),
        offset: failure.position.offset,
        record: failure.position.record,
        remedy: failure.fault.remedy.clone(),
    }
}

fn ring(handle: &ChannelHandle, status: &pipemill_ring::host::Status) -> RingStatus {
    let consumer = |consumer: &pipemill_ring::host::ConsumerStatus| ConsumerStatus {
        pid: consumer.pid,
        client: consumer.client.clone(),
        credits: consumer.credits,
        held: consumer.held,
        unacked: consumer.unacked,
        oldest: consumer.oldest.as_ref().map(Duration::as_secs_f64),
    };
    RingStatus {
        slot_bytes: handle.ring.config().slot_bytes as u64,
        free: status.free,
        filling: status.filling,
        ready: status.ready,
        granted: status.granted,
        dedicated: status.dedicated,
        consumers: status.consumers.iter().map(consumer).collect(),
    }
}

impl From<StatsSnapshot> for StatsStatus {
    fn from(totals: StatsSnapshot) -> Self {
        Self {
            bytes: totals.bytes,
            records: totals.records,
            batches: totals.batches,
            objects: totals.objects,
            decode_errors: totals.decode_errors,
            source: totals.source.as_secs_f64(),
            decoder: totals.decoder.as_secs_f64(),
            consumer: totals.consumer.as_secs_f64(),
        }
    }
}
