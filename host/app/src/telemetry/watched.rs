//! A channel as it is seen from outside, while it runs and after.

use std::sync::{Arc, OnceLock};

use log::{Level, kv};
use pipemill_ring::host::Ring;

use super::summary;
use crate::config::Source;
use pipemill_channel::{Failure, Meter, Outcome};
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
pub struct Watched {
    /// Its name.
    pub name: String,
    /// Where its bytes come from, as configured.
    pub source: Source,
    /// The decoder's name.
    pub decoder: String,
    /// What it has done.
    pub meter: Meter,
    /// Where its records go.
    pub ring: Arc<Ring>,
    outcome: OnceLock<Outcome>,
}

impl Watched {
    /// A channel that has not begun. Each of its epochs that ends is logged.
    pub fn new(name: &str, source: &Source, decoder: &str, ring: Arc<Ring>) -> Self {
        let (told_name, told_source) = (name.to_owned(), source.clone());
        let meter = Meter::telling(move |epoch| {
            let fields: [&dyn kv::Source; 3] =
                [&("channel", &told_name), &("epoch", epoch.number), &epoch.totals];
            let line = summary::of_epoch(&told_name, &told_source, epoch);
            log_with(Level::Info, &fields, format_args!("{line}"));
        });
        let (name, source, decoder) = (name.to_owned(), source.clone(), decoder.to_owned());
        Self { name, source, decoder, meter, ring, outcome: OnceLock::new() }
    }

    /// It has ended so: logs what it did.
    pub fn end(&self, outcome: Outcome) {
        let totals = self.meter.totals();
        let fields: [&dyn kv::Source; 2] = [&("channel", &self.name), &totals];
        let line = summary::of_channel(&self.name, &self.source, &totals, &outcome);
        log_with(Level::Info, &fields, format_args!("{line}"));
        if let Outcome::Failed(failure) = &outcome {
            self.meter.failed(failure);
        }
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
