//! `--report`: a page that tells an operator how a run went, written when it is over.
//!
//! `view` is what is known of a channel; `page`, `channel` and `over_time` write it as HTML, with `plot` on the axes
//! of `scale`. `units` writes numbers, and `markup` all that comes from outside. `target` is the file.

mod channel;
mod markup;
mod over_time;
mod page;
mod plot;
mod scale;
mod target;
#[cfg(test)]
mod tests;
mod units;
mod view;

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use super::channel_handle::ChannelHandle;
use super::history::History;
use page::Run;
use target::Target;
use view::View;

/// A report that is to be written.
pub struct Report {
    target: Target,
    began: SystemTime,
    since: Instant,
    command: String,
    config: Option<String>,
    channels: Vec<Arc<ChannelHandle>>,
    history: Option<History>,
}

impl Report {
    /// A report on a run of this command that begins now, into this file.
    ///
    /// # Errors
    /// The file can't be written: why, and what to do.
    pub fn new(file: &Path, command: &[OsString]) -> Result<Self, String> {
        let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        Ok(Self {
            target: Target::new(file)?,
            began: SystemTime::now(),
            since: Instant::now(),
            command: words.join(" "),
            config: None,
            channels: Vec::new(),
            history: None,
        })
    }

    /// The run has this configuration, as TOML.
    pub fn configured(&mut self, config: String) {
        self.config = Some(config);
    }

    /// These are the run's channels, which begin now.
    pub fn watch(&mut self, channels: &[Arc<ChannelHandle>]) {
        self.channels = channels.to_vec();
        match History::start(self.channels.clone()) {
            Ok(history) => self.history = Some(history),
            Err(error) => log::warn!("the report will have no plots: {error}"),
        }
    }

    /// The run is over, with this exit code, and why if it is not 0. A report that can't be written is a warning.
    pub fn write(self, code: u8, why: &str) {
        let samples = self.history.map(History::finish).unwrap_or_default();
        let samples = samples.into_iter().chain(std::iter::repeat_with(Vec::new));
        let channels: Vec<_> =
            self.channels.iter().zip(samples).map(|(c, samples)| View::of(c, samples)).collect();
        let run = Run {
            began: self.began,
            took: self.since.elapsed(),
            host: host(),
            command: self.command,
            code,
            why,
            config: self.config.as_deref(),
            channels: &channels,
        };
        match self.target.write(&run.page()) {
            Ok(()) => log::info!("the report is in {}", self.target.path().display()),
            Err(error) => {
                let file = self.target.path().display();
                log::warn!("the report {file} can't be written: {error}");
            }
        }
    }
}

/// The machine's name.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "unknown".to_owned() } else { name.to_owned() }
}
