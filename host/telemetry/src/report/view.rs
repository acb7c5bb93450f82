//! The data of a channel that the page shows, copied when the run is over.

use std::time::Instant;

use pipemill_channel::{DECODE_BUCKETS, EpochStats, Failure, StatsSnapshot};
use pipemill_source::{Pattern, s3};
use pipemill_types::ErrorKind;

use crate::bottleneck::{Cores, were_missed};
use crate::waits::show_time;
use crate::{ChannelHandle, ChannelState, Sample};
use pipemill_config::Source;

/// How a channel ended.
pub(super) enum ChannelEnd {
    Ended,
    Stopped,
    Failed(Failure),
    /// The run ended while the channel was running.
    CutOff,
    /// The run ended, and no consumer had got any of the channel's batches.
    NeverRead,
}

impl ChannelEnd {
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Stopped => "stopped",
            Self::Failed(_) => "failed",
            Self::CutOff => "cut off",
            Self::NeverRead => "never read",
        }
    }
}

/// The data of one channel.
pub(super) struct ChannelView {
    pub(super) name: String,
    pub(super) decoder: String,
    pub(super) source: Source,
    pub(super) cores: Cores,
    pub(super) end: ChannelEnd,
    pub(super) totals: StatsSnapshot,
    /// The epochs that have ended; of very many only the last ones.
    pub(super) epochs: Vec<EpochStats>,
    /// Number of calls of the decoder in each bucket of [`DECODE_BUCKETS`], and of longer calls.
    pub(super) calls: [u64; DECODE_BUCKETS.len() + 1],
    /// Linear memory of the decoder, in bytes.
    pub(super) decoder_memory: u64,
    pub(super) decode_errors: [(ErrorKind, u64); ErrorKind::ALL.len()],
    pub(super) samples: Vec<Sample>,
    /// Whether most of the time spent on consumers was a wait for some that were not connected.
    pub(super) missed: bool,
    /// What it waited for when the run ended: a sentence without its period.
    pub(super) waited: Option<String>,
}

impl ChannelView {
    pub(super) fn of(channel: &ChannelHandle, samples: Vec<Sample>) -> Self {
        let (ring, now) = (channel.ring.status(), Instant::now());
        let totals = channel.stats.snapshot();
        let end = match channel.state() {
            _ if channel.is_unread(&ring) => ChannelEnd::NeverRead,
            ChannelState::Running => ChannelEnd::CutOff,
            ChannelState::Ended => ChannelEnd::Ended,
            ChannelState::Stopped => ChannelEnd::Stopped,
            ChannelState::Failed(failure) => ChannelEnd::Failed(failure.clone()),
        };
        let stopped =
            matches!(end, ChannelEnd::Stopped | ChannelEnd::CutOff | ChannelEnd::NeverRead);
        let waited = stopped.then(|| channel.last_wait(now)).flatten();
        let stats = &channel.stats;
        Self {
            name: channel.name.clone(),
            decoder: channel.decoder.clone(),
            source: channel.source.clone(),
            cores: channel.cores,
            end,
            totals,
            epochs: stats.epochs(),
            calls: stats.calls(),
            decoder_memory: stats.decoder_memory(),
            decode_errors: stats.decode_errors(),
            samples,
            missed: were_missed(ring.consumers_missed, &totals),
            waited: waited.map(|wait| {
                format!("it had waited {} for {}", show_time(wait.time(now)), wait.what)
            }),
        }
    }

    /// The source in short, for a person.
    pub(super) fn source_text(&self) -> String {
        match &self.source {
            Source::Fifo { dir, .. } => format!("FIFOs in {}", dir.display()),
            Source::Files { pattern: Pattern::File(file), .. } => file.display().to_string(),
            Source::Files { pattern: Pattern::Files(files), .. } => {
                files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
            }
            Source::Files { pattern: Pattern::Glob(pattern), .. } => pattern.clone(),
            Source::Files { pattern: Pattern::Folder(folder), .. } => {
                format!("files in {}", folder.display())
            }
            Source::S3(settings) => match &settings.selection {
                s3::Selection::Prefixes(addresses) | s3::Selection::Objects(addresses) => {
                    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
                }
                s3::Selection::Named(address)
                | s3::Selection::Manifest(address)
                | s3::Selection::Augmented { manifest: address, .. } => address.to_string(),
            },
            Source::Stdin { .. } => "standard input".to_owned(),
            Source::Mix(mix) => {
                let names = mix.inputs.iter().map(|input| input.channel.name.as_str());
                format!("a mix of {}", names.collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// Totals since the end of the last epoch that has ended. `None` if there are none, or if not
    /// all epochs are kept because there were too many.
    pub(super) fn unfinished_epoch(&self) -> Option<StatsSnapshot> {
        let mut rest = self.totals;
        for (at, epoch) in (0..).zip(&self.epochs) {
            let first = self.epochs.first()?.number;
            let done = &epoch.totals;
            if epoch.number - first != at || rest.bytes < done.bytes || rest.records < done.records
            {
                return None;
            }
            rest = rest.since(done);
        }
        (rest.bytes > 0 || rest.decode_errors > 0).then_some(rest)
    }
}
