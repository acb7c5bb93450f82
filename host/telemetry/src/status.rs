//! The status of a host: a snapshot in JSON, for requests over the ring's socket or HTTP.
//! `docs/operate.md` describes its keys.

use std::time::Duration;

use pipemill_channel::{EpochStats, Failure, Stage, StatsSnapshot};
use pipemill_ring::host::WaitTimes;
use pipemill_source::cache::CacheCounts;
use pipemill_types::json;
use serde::{Deserialize, Serialize};

use super::bottleneck::remedy;
use super::waits::WaitReason;
use super::{ChannelSnapshot, ChannelState, HostSnapshot};

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
    /// The stage that its thread is in now: `source`, `decoder`, `batch` or `consumer`.
    pub stage: Option<String>,
    pub epoch: u32,
    /// Share of the epoch's bytes that this host has read, from 0 to 1; `None` if it is not known.
    #[serde(default)]
    pub epoch_share: Option<f64>,
    /// What its cache has done; `None` if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheCounts>,
    pub object: Option<String>,
    /// The channel's wait; `None` if it needs nothing from others.
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

/// A wait of a channel that others have to end.
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

/// A channel's totals, and the seconds of each stage.
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
    pub batch: f64,
    pub consumer: f64,
    pub cores: f64,
}

/// The bottleneck of a channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the page on operating documents them")]
pub struct BottleneckStatus {
    pub stage: String,
    pub percent: u32,
    pub remedy: String,
}

/// The remedy for each stage, if it is the bottleneck.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the page on operating documents them")]
pub struct Remedies {
    pub source: String,
    pub decoder: String,
    pub batch: String,
    pub consumer: String,
    pub cores: String,
}

impl Remedies {
    /// The remedy if this stage is the bottleneck.
    pub fn of(&self, stage: Stage) -> &str {
        match stage {
            Stage::Source => &self.source,
            Stage::Decoder => &self.decoder,
            Stage::Batch => &self.batch,
            Stage::Consumer => &self.consumer,
            Stage::Cores => &self.cores,
        }
    }
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
    /// Its rank, if batches are dealt to ranks.
    pub rank: Option<u32>,
    pub waits: WaitTimesStatus,
}

/// How long a consumer waited for its batches, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the page on operating documents them")]
pub struct WaitTimesStatus {
    pub count: u64,
    pub total: f64,
    pub longest: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
}

impl Status {
    /// The status of this host.
    pub fn of(host: &HostSnapshot<'_>) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime: host.uptime.as_secs_f64(),
            cpu: host.usage.cpu.as_secs_f64(),
            memory: host.usage.own,
            not_ready: host.not_ready.clone(),
            channels: host.channels.iter().map(channel).collect(),
        }
    }

    /// The status as JSON.
    pub fn json(&self) -> Vec<u8> {
        json::to_string(self)
            .expect("writing to memory can't fail, and there are no keys but names")
            .into_bytes()
    }
}

fn channel(now: &ChannelSnapshot<'_>) -> ChannelStatus {
    let misses_now = now.wait.as_ref().is_some_and(|wait| wait.reason == WaitReason::Consumers);
    let remedy = |stage, missed| remedy(stage, now.source, now.cores, missed);
    let bottleneck = now.bottleneck().map(|bottleneck| BottleneckStatus {
        stage: bottleneck.stage.word().to_owned(),
        percent: bottleneck.percent,
        remedy: remedy(bottleneck.stage, now.missed_consumers()),
    });
    let epochs = &now.epochs;
    let decode_errors = now.decode_errors.into_iter().filter(|(_, count)| *count > 0);
    ChannelStatus {
        name: now.name.to_owned(),
        state: now.state.word().to_owned(),
        error: match now.state {
            ChannelState::Failed(failure) => Some(error(failure)),
            _ => None,
        },
        source: now.source.word().to_owned(),
        decoder: now.decoder.to_owned(),
        decoder_memory: now.decoder_memory,
        stage: now.stage.map(|stage: Stage| stage.word().to_owned()),
        epoch: now.epoch,
        epoch_share: now.epoch_share,
        cache: now.cache,
        object: now.object.clone(),
        waits_for: now.wait.as_ref().map(|wait| WaitStatus {
            reason: wait.reason.word().to_owned(),
            seconds: wait.time(now.at).as_secs_f64(),
            what: wait.what.clone(),
            remedy: wait.remedy.clone(),
        }),
        totals: now.totals.into(),
        decode_errors: decode_errors.map(|(kind, count)| (kind.word().to_owned(), count)).collect(),
        bottleneck,
        remedies: Remedies {
            source: remedy(Stage::Source, false),
            decoder: remedy(Stage::Decoder, false),
            batch: remedy(Stage::Batch, false),
            consumer: remedy(Stage::Consumer, misses_now),
            cores: remedy(Stage::Cores, false),
        },
        epochs: epochs[epochs.len().saturating_sub(MAX_EPOCHS)..].iter().map(epoch).collect(),
        ring: ring(now),
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

fn ring(now: &ChannelSnapshot<'_>) -> RingStatus {
    let status = &now.ring;
    let consumer = |consumer: &pipemill_ring::host::ConsumerStatus| ConsumerStatus {
        pid: consumer.pid,
        client: consumer.client.clone(),
        credits: consumer.credits,
        held: consumer.held,
        unacked: consumer.unacked,
        oldest: consumer.oldest.as_ref().map(Duration::as_secs_f64),
        rank: consumer.rank,
        waits: consumer.waits.into(),
    };
    RingStatus {
        slot_bytes: now.slot_bytes,
        free: status.free,
        filling: status.filling,
        ready: status.ready,
        granted: status.granted,
        dedicated: status.dedicated,
        consumers: status.consumers.iter().map(consumer).collect(),
    }
}

impl From<WaitTimes> for WaitTimesStatus {
    fn from(times: WaitTimes) -> Self {
        let WaitTimes { count, total, longest, p50, p95, p99 } = times;
        let [total, longest, p50, p95, p99] =
            [total, longest, p50, p95, p99].map(|time| time.as_secs_f64());
        Self { count, total, longest, p50, p95, p99 }
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
            source: totals.of(Stage::Source).as_secs_f64(),
            decoder: totals.of(Stage::Decoder).as_secs_f64(),
            batch: totals.of(Stage::Batch).as_secs_f64(),
            consumer: totals.of(Stage::Consumer).as_secs_f64(),
            cores: totals.of(Stage::Cores).as_secs_f64(),
        }
    }
}

impl StatsStatus {
    /// The seconds of a stage.
    pub fn of(&self, stage: Stage) -> f64 {
        match stage {
            Stage::Source => self.source,
            Stage::Decoder => self.decoder,
            Stage::Batch => self.batch,
            Stage::Consumer => self.consumer,
            Stage::Cores => self.cores,
        }
    }
}
