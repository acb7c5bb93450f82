//! The data of a channel that the page shows: the channel when the run is over, and samples of the
//! run.

use pipemill_channel::StatsSnapshot;
use pipemill_source::{Pattern, s3};

use crate::waits::show_time;
use crate::{ChannelSnapshot, ChannelState, Sample};
use pipemill_config::Source;

/// The data of one channel.
pub(super) struct ChannelView<'a> {
    pub(super) now: ChannelSnapshot<'a>,
    pub(super) samples: Vec<Sample>,
}

impl ChannelView<'_> {
    /// How the channel ended, in a word.
    pub(super) fn end(&self) -> &'static str {
        match self.now.state {
            _ if self.now.is_unread() => "never read",
            ChannelState::Running => "cut off",
            state => state.word(),
        }
    }

    /// The channel's wait when the run ended: a sentence without its period.
    pub(super) fn waited(&self) -> Option<String> {
        let over = matches!(self.now.state, ChannelState::Ended | ChannelState::Failed(_));
        let wait = self.now.last_wait.as_ref().filter(|_| !over || self.now.is_unread())?;
        let time = show_time(wait.time(self.now.at));
        Some(format!("it had waited {time} for {}", wait.what))
    }

    /// The source in short, for a person.
    pub(super) fn source_text(&self) -> String {
        match self.now.source {
            Source::Fifo { dir, .. } => format!("FIFOs in {}", dir.display()),
            Source::Files { pattern: Pattern::File(file), .. } => file.display().to_string(),
            Source::Files { pattern: Pattern::Files(files), .. } => {
                files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
            }
            Source::Files { pattern: Pattern::Glob(pattern), .. } => pattern.clone(),
            Source::Files { pattern: Pattern::Folder(folder), .. } => {
                format!("files in {}", folder.display())
            }
            Source::Files { pattern: Pattern::Known { index, .. }, .. } => index.clone(),
            Source::Index(index) => index.file.to_string(),
            Source::S3(settings) => match &settings.selection {
                s3::Selection::Prefixes(addresses)
                | s3::Selection::Objects(addresses)
                | s3::Selection::Named(addresses) => {
                    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
                }
                s3::Selection::Manifest(address)
                | s3::Selection::Augmented { manifest: address, .. } => address.to_string(),
                s3::Selection::Known { index, .. } => index.clone(),
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
        let mut rest = self.now.totals;
        for (at, epoch) in (0..).zip(&self.now.epochs) {
            let first = self.now.epochs.first()?.number;
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
