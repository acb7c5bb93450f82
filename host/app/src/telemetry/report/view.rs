//! A channel as the page shows it: plain data, taken when the run is over.

use crate::config::{Pattern, Source, s3};
use crate::telemetry::{ChannelHandle, Sample, State};
use pipemill_channel::{DECODE_BUCKETS, EpochStats, Failure, StatsSnapshot};
use pipemill_types::ErrorKind;

/// How a channel ended.
pub(super) enum End {
    Ended,
    Stopped,
    Failed(Failure),
    /// The run ended before it did.
    CutOff,
}

impl End {
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Stopped => "stopped",
            Self::Failed(_) => "failed",
            Self::CutOff => "cut off",
        }
    }
}

/// A channel.
pub(super) struct View {
    pub(super) name: String,
    pub(super) decoder: String,
    pub(super) source: Source,
    pub(super) end: End,
    pub(super) totals: StatsSnapshot,
    /// Those that have ended.
    pub(super) epochs: Vec<EpochStats>,
    pub(super) calls: [u64; DECODE_BUCKETS.len() + 1],
    /// Bytes of the decoder's memory.
    pub(super) memory: u64,
    pub(super) decode_errors: [(ErrorKind, u64); ErrorKind::ALL.len()],
    pub(super) samples: Vec<Sample>,
}

impl View {
    pub(super) fn of(channel: &ChannelHandle, samples: Vec<Sample>) -> Self {
        let end = match channel.state() {
            State::Running => End::CutOff,
            State::Ended => End::Ended,
            State::Stopped => End::Stopped,
            State::Failed(failure) => End::Failed(failure.clone()),
        };
        let stats = &channel.stats;
        Self {
            name: channel.name.clone(),
            decoder: channel.decoder.clone(),
            source: channel.source.clone(),
            end,
            totals: stats.snapshot(),
            epochs: stats.epochs(),
            calls: stats.calls(),
            memory: stats.decoder_memory(),
            decode_errors: stats.decode_errors(),
            samples,
        }
    }

    /// Where its bytes came from, in short.
    pub(super) fn from(&self) -> String {
        match &self.source {
            Source::Fifo { dir, .. } => format!("FIFOs in {}", dir.display()),
            Source::Files { pattern: Pattern::File(file), .. } => file.display().to_string(),
            Source::Files { pattern: Pattern::Glob(pattern), .. } => pattern.clone(),
            Source::Files { pattern: Pattern::Folder(folder), .. } => {
                format!("files in {}", folder.display())
            }
            Source::S3(settings) => match &settings.what {
                s3::Selection::Prefixes(addresses) | s3::Selection::Objects(addresses) => {
                    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
                }
                s3::Selection::Named(address)
                | s3::Selection::Manifest(address)
                | s3::Selection::Augmented { manifest: address, .. } => address.to_string(),
            },
            Source::Stdin { .. } => "standard input".to_owned(),
        }
    }

    /// What was done behind the last epoch that has ended, if anything was; none also where there were so many epochs
    /// that not all of them are remembered.
    pub(super) fn rest(&self) -> Option<StatsSnapshot> {
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
