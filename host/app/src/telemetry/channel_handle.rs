//! A channel as it is seen from outside, while it runs and after.

use std::sync::{Arc, OnceLock};

use log::{Level, kv};
use pipemill_ring::host::Ring;

use super::summary;
use crate::config::Source;
use pipemill_channel::{ChannelStats, Failure, Outcome};
use pipemill_types::log::log_with;

/// How a channel stands.
#[derive(Debug, Clone, Copy)]
pub enum State<'a> {
    /// It runs, or is about to.
    Running,
    /// Its source is at its end.
    Ended,
    /// Somebody asked to stop.
    Stopped,
    /// It failed.
    Failed(&'a Failure),
}

impl State<'_> {
    /// The words for all of them.
    pub const WORDS: [&'static str; 4] = ["running", "ended", "stopped", "failed"];

    /// The word for it in metrics and reports.
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

/// A channel that is watched.
pub struct ChannelHandle {
    /// Its name.
    pub name: String,
    /// Where its bytes come from, as configured.
    pub source: Source,
    /// The decoder's name.
    pub decoder: String,
    /// What it has done.
    pub stats: ChannelStats,
    /// Where its records go.
    pub ring: Arc<Ring>,
    outcome: OnceLock<Outcome>,
}

impl ChannelHandle {
    /// A channel that has not begun.
    pub fn new(name: &str, source: &Source, decoder: &str, ring: Arc<Ring>) -> Self {
        let stats = ChannelStats::default();
        let (name, source, decoder) = (name.to_owned(), source.clone(), decoder.to_owned());
        Self { name, source, decoder, stats, ring, outcome: OnceLock::new() }
    }

    /// It has ended so: logs what it did.
    pub fn end(&self, outcome: Outcome) {
        let totals = self.stats.snapshot();
        let fields: [&dyn kv::Source; 2] = [&("channel", &self.name), &totals];
        let line = summary::of_channel(&self.name, &self.source, &totals, &outcome);
        log_with(Level::Info, &fields, format_args!("{line}"));
        // It ends once.
        let _ = self.outcome.set(outcome);
    }

    /// How it stands.
    pub fn state(&self) -> State<'_> {
        match self.outcome.get() {
            None => State::Running,
            Some(Outcome::Ended) => State::Ended,
            Some(Outcome::Stopped) => State::Stopped,
            Some(Outcome::Failed(failure)) => State::Failed(failure),
        }
    }
}
