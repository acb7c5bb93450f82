//! A host at one moment, for the status, the metrics, the report, the progress display and the
//! summary. Each of them renders a single snapshot, so its numbers fit each other.

use std::time::{Duration, Instant, SystemTime};

use pipemill_channel::{DECODE_BUCKETS, EpochStats, Stage, StatsSnapshot};
use pipemill_config::Source;
use pipemill_ring::host::{ConsumerStatus, Status};
use pipemill_source::cache::CacheCounts;
use pipemill_types::ErrorKind;

use super::bottleneck::{Bottleneck, Cores, were_missed};
use super::channel_handle::{ChannelHandle, ChannelState};
use super::host_state::HostState;
use super::log;
use super::process::Usage;
use super::waits::Wait;

/// A host at one moment.
pub struct HostSnapshot<'a> {
    /// Time since its start.
    pub uptime: Duration,
    /// When it started.
    pub started_at: SystemTime,
    /// Its memory and CPU time.
    pub usage: Usage,
    /// Lines of its log that nobody will read.
    pub lost_log_lines: u64,
    /// Reasons why consumers should not connect. Empty if they can.
    pub not_ready: Vec<String>,
    /// Its channels, in the order of the configuration.
    pub channels: Vec<ChannelSnapshot<'a>>,
}

/// A channel at one moment.
#[derive(Clone)]
pub struct ChannelSnapshot<'a> {
    /// The moment.
    pub at: Instant,
    /// The channel's name.
    pub name: &'a str,
    /// Its source, as configured.
    pub source: &'a Source,
    /// The cores that decode it.
    pub cores: Cores,
    /// The decoder's name.
    pub decoder: &'a str,
    /// Number of slots of its ring.
    pub slots: u32,
    /// Bytes of each of them.
    pub slot_bytes: u64,
    /// Number of consumers that it is configured to need.
    pub needed: u32,
    /// Its state.
    pub state: ChannelState<'a>,
    /// Its ring, with its consumers.
    pub ring: Status,
    /// The last consumers that have disconnected, the oldest first.
    pub left_consumers: Vec<ConsumerStatus>,
    /// Its totals since its start.
    pub totals: StatsSnapshot,
    /// Its totals in the current epoch.
    pub this_epoch: StatsSnapshot,
    /// The epochs that have ended, the oldest first. Only the last ones if there were very many.
    pub epochs: Vec<EpochStats>,
    /// Number of the epoch that it is in or waits for, from 0.
    pub epoch: u32,
    /// Share of the epoch's bytes that were read, from 0 to 1. `None` if it is not known.
    pub epoch_share: Option<f64>,
    /// What its cache has done. `None` if it has none.
    pub cache: Option<CacheCounts>,
    /// The object that it reads.
    pub object: Option<String>,
    /// The stage that its thread is in.
    pub stage: Option<Stage>,
    /// Its current wait. `None` if it needs nothing from others, or does not run any more.
    pub wait: Option<Wait>,
    /// Its wait when it was last looked at, if that was long enough to be reported.
    pub last_wait: Option<Wait>,
    /// Whether its source has ended, and consumers read the rest.
    pub is_draining: bool,
    /// Number of calls of the decoder in each bucket of [`DECODE_BUCKETS`]. The last number counts
    /// longer calls.
    pub calls: [u64; DECODE_BUCKETS.len() + 1],
    /// The time of all calls.
    pub call_time: Duration,
    /// Linear memory of the decoder, in bytes.
    pub decoder_memory: u64,
    /// Decode errors that were skipped, by kind.
    pub decode_errors: [(ErrorKind, u64); ErrorKind::ALL.len()],
}

impl HostState {
    /// The host now.
    pub fn snapshot(&self) -> HostSnapshot<'_> {
        HostSnapshot {
            uptime: self.uptime(),
            started_at: self.started_at(),
            usage: Usage::now(),
            lost_log_lines: log::lost_lines(),
            not_ready: self.not_ready(),
            channels: self.channels.iter().map(|channel| channel.snapshot()).collect(),
        }
    }
}

impl ChannelHandle {
    /// The channel now.
    pub fn snapshot(&self) -> ChannelSnapshot<'_> {
        let (at, stats, config) = (Instant::now(), &self.stats, self.ring.config());
        let ring = self.ring.status();
        ChannelSnapshot {
            at,
            name: &self.name,
            source: &self.source,
            cores: self.cores,
            decoder: &self.decoder,
            slots: self.ring.slots(),
            slot_bytes: config.slot_bytes as u64,
            needed: config.consumers,
            state: self.state(),
            wait: self.wait(&ring, at),
            ring,
            left_consumers: self.ring.left_consumers(),
            totals: stats.snapshot(),
            this_epoch: stats.this_epoch(),
            epochs: stats.epochs(),
            epoch: self.epoch(),
            epoch_share: self.epoch_share(),
            cache: self.cache(),
            object: stats.object(),
            stage: stats.stage(),
            last_wait: self.last_wait(at),
            is_draining: self.is_draining(),
            calls: stats.calls(),
            call_time: stats.call_time(),
            decoder_memory: stats.decoder_memory(),
            decode_errors: stats.decode_errors(),
        }
    }
}

impl ChannelSnapshot<'_> {
    /// Whether the channel has batches, and no consumer has got any of them. False for a channel
    /// that failed: its failure says more.
    pub fn is_unread(&self) -> bool {
        let failed = matches!(self.state, ChannelState::Failed(_));
        !failed && self.ring.batches > 0 && self.ring.grants == 0
    }

    /// The bottleneck of its whole time.
    pub fn bottleneck(&self) -> Option<Bottleneck> {
        Bottleneck::of(&self.totals)
    }

    /// Whether most of the time spent on consumers was a wait for some that were not connected.
    pub(super) fn missed_consumers(&self) -> bool {
        were_missed(self.ring.consumers_missed, &self.totals)
    }
}
