//! `--report`: a page for an operator about a run, written when the run is over.
//!
//! `view` is the data of a channel. `page`, `channel` and `over_time` write it as HTML; `plot`
//! draws plots, with axes of `scale`. `units` formats numbers, `markup` escapes text from outside.
//! `target` is the file.

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
use super::sampler::Sampler;
use page::Run;
use target::ReportFile;
use view::ChannelView;

/// The report about a run, written at its end.
pub struct Report {
    target: ReportFile,
    began: SystemTime,
    began_instant: Instant,
    command: String,
    config: Option<String>,
    channels: Vec<Arc<ChannelHandle>>,
    sampler: Option<Sampler>,
}

impl Report {
    /// A report into this file, about a run that begins now. `command` is empty if there is none.
    ///
    /// # Errors
    /// The file can't be written. The message says why, and what to do.
    pub fn new(file: &Path, command: &[OsString]) -> Result<Self, String> {
        let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        Ok(Self {
            target: ReportFile::new(file)?,
            began: SystemTime::now(),
            began_instant: Instant::now(),
            command: words.join(" "),
            config: None,
            channels: Vec::new(),
            sampler: None,
        })
    }

    /// Sets the configuration of the run, as TOML.
    pub fn set_config(&mut self, config: String) {
        self.config = Some(config);
    }

    /// Sets the channels of the run, which have not started yet, and starts to take samples of
    /// them.
    pub fn watch(&mut self, channels: &[Arc<ChannelHandle>]) {
        self.channels = channels.to_vec();
        match Sampler::start(self.channels.clone()) {
            Ok(sampler) => self.sampler = Some(sampler),
            Err(error) => log::warn!("the report will have no plots: {error}"),
        }
    }

    /// Writes the report after the run. `code` is the exit code, and `why` says why it is not 0. If
    /// the report can't be written, a warning is logged.
    pub fn write(self, code: u8, why: &str) {
        let samples = self.sampler.map(Sampler::finish).unwrap_or_default();
        let samples = samples.into_iter().chain(std::iter::repeat_with(Vec::new));
        let channels: Vec<_> = self
            .channels
            .iter()
            .zip(samples)
            .map(|(channel, samples)| ChannelView { now: channel.snapshot(), samples })
            .collect();
        let run = Run {
            began: self.began,
            elapsed: self.began_instant.elapsed(),
            host: host_name(),
            command: self.command,
            code,
            why,
            config: self.config.as_deref(),
            channels: &channels,
        };
        // Without channels, the run was refused before it began.
        let has_begun = !channels.is_empty();
        let file = self.target.path().display();
        match self.target.write(&run.page()) {
            Ok(()) if has_begun => log::info!("the report is in {file}"),
            Ok(()) => log::info!("the run has not begun; {file} has only the reason"),
            Err(error) => log::warn!("the report {file} can't be written: {error}"),
        }
    }
}

/// The name of the machine.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "unknown".to_owned() } else { name.to_owned() }
}
