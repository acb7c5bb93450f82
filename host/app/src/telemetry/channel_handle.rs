//! The handle to a channel for all threads but its own: its ring, its statistics and its state,
//! while it runs and after.

use std::sync::{Arc, OnceLock};

use log::{Level, kv};
use pipemill_channel::{ChannelStats, Failure, Outcome};
use pipemill_ring::host::Ring;
use pipemill_types::log::log_with;

use super::summary;
use crate::config::Source;

/// The state of a channel.
#[derive(Debug, Clone, Copy)]
pub enum ChannelState<'a> {
    /// It runs, or is about to start.
    Running,
    /// Its source ended.
    Ended,
    /// It was stopped before its source ended.
    Stopped,
    /// It failed.
    Failed(&'a Failure),
}

impl ChannelState<'_> {
    /// The words of all states, as in metrics and reports.
    pub const WORDS: [&'static str; 4] = ["running", "ended", "stopped", "failed"];

    /// The word of this state.
    pub fn word(self) -> &'static str {
        let [running, ended, stopped, failed] = Self::WORDS;
        match self {
            Self::Running => running,
            Self::Ended => ended,
            Self::Stopped => stopped,
            Self::Failed(_) => failed,
        }
    }
}

/// A channel, as threads other than its own see it.
pub struct ChannelHandle {
    /// The channel's name.
    pub name: String,
    /// Its source, as configured.
    pub source: Source,
    /// The decoder's name.
    pub decoder: String,
    /// Counts and times. Only the channel's thread writes them.
    pub stats: ChannelStats,
    /// The ring that its batches go to.
    pub ring: Arc<Ring>,
    outcome: OnceLock<Outcome>,
}

impl ChannelHandle {
    /// The handle to a channel that has not started.
    pub fn new(name: &str, source: &Source, decoder: &str, ring: Arc<Ring>) -> Self {
        let stats = ChannelStats::default();
        let (name, source, decoder) = (name.to_owned(), source.clone(), decoder.to_owned());
        Self { name, source, decoder, stats, ring, outcome: OnceLock::new() }
    }

    /// Sets the outcome, and logs a summary of the channel.
    pub fn end(&self, outcome: Outcome) {
        let totals = self.stats.snapshot();
        let fields: [&dyn kv::Source; 2] = [&("channel", &self.name), &totals];
        let line = summary::of_channel(&self.name, &self.source, &totals, &outcome);
        log_with(Level::Info, &fields, format_args!("{line}"));
        // A channel ends only once, so this can't fail.
        let _ = self.outcome.set(outcome);
    }

    /// The current state.
    pub fn state(&self) -> ChannelState<'_> {
        match self.outcome.get() {
            None => ChannelState::Running,
            Some(Outcome::Ended) => ChannelState::Ended,
            Some(Outcome::Stopped) => ChannelState::Stopped,
            Some(Outcome::Failed(failure)) => ChannelState::Failed(failure),
        }
    }
}
