//! The progress display on a terminal: one line for each channel, redrawn in place below the log.
//! Without a terminal nothing is shown.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use indicatif::{HumanCount, MultiProgress, ProgressBar, ProgressStyle};
use pipemill_channel::ChannelStats;
use pipemill_source::TotalSize;
use pipemill_types::Printable;

use super::{ChannelSnapshot, ChannelState, log};

/// Interval at which the lines are redrawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(200);
/// The line of a channel whose number of bytes is not known.
const UNKNOWN_SIZE: &str =
    "{prefix}{spinner} {binary_bytes} {binary_bytes_per_sec} {elapsed} {wide_msg}";
/// The line of a channel whose number of bytes is known.
const KNOWN_SIZE: &str = "{prefix}[{bar:20}] {binary_bytes}/{binary_total_bytes} \
                          {binary_bytes_per_sec} eta {eta} {wide_msg}";
/// The line of a channel that waits.
const WAITING: &str = "{prefix}{spinner} {binary_bytes} {elapsed} {wide_msg}";
/// The line of a channel that waits and whose number of bytes is known.
const WAITING_KNOWN_SIZE: &str =
    "{prefix}[{bar:20}] {binary_bytes}/{binary_total_bytes} {wide_msg}";

/// A channel to show.
pub struct ShownChannel {
    /// Its name, if there may be several channels. The line begins with it.
    pub name: Option<String>,
    /// The number of bytes of each epoch, if it is known.
    pub total: TotalSize,
    /// The progress of the channel; `None` at its end.
    pub snapshot: Box<dyn Fn() -> Option<ProgressSnapshot> + Send>,
}

/// The progress of a channel.
pub struct ProgressSnapshot {
    /// Number of the epoch, from 0.
    pub epoch: u32,
    /// Inflated bytes read in this epoch.
    pub bytes: u64,
    /// Records decoded in this epoch; `None` if nothing decodes, as in `pipemill feed`.
    pub records: Option<u64>,
    /// The object that it reads.
    pub object: Option<String>,
    /// The channel's wait as a text. During a wait, the time left is not known.
    pub waits_for: Option<String>,
}

impl ProgressSnapshot {
    /// Takes the values from these statistics.
    pub fn of(stats: &ChannelStats) -> Self {
        let totals = stats.this_epoch();
        let (bytes, records) = (totals.bytes, Some(totals.records));
        Self { epoch: stats.epoch(), bytes, records, object: stats.object(), waits_for: None }
    }

    /// Takes the values from a channel of a run; `None` if it does not run any more.
    pub fn of_run(now: &ChannelSnapshot<'_>) -> Option<Self> {
        if !matches!(now.state, ChannelState::Running) {
            return None;
        }
        let rest = || {
            let batches = now.ring.ready + now.ring.granted + now.ring.dedicated;
            format!("consumers to read the rest, {batches} batches")
        };
        let wait = now.wait.as_ref().map(|wait| wait.what.clone());
        let what = wait.or_else(|| now.is_draining.then(rest));
        Some(Self {
            epoch: now.epoch,
            bytes: now.this_epoch.bytes,
            records: Some(now.this_epoch.records),
            object: now.object.clone(),
            waits_for: what.map(|what| format!("waiting for {what}")),
        })
    }
}

/// Whether a person watches: standard error is a terminal, and the log on it is text of level
/// `info` or more.
pub fn is_watched() -> bool {
    log::is_watched()
}

/// The progress display. Dropping it removes the lines, unless nobody reads the terminal.
pub struct Progress {
    // `drop` drops this first: that ends the thread.
    stop: Option<Sender<()>>,
    drawing: Option<JoinHandle<()>>,
}

impl Progress {
    /// Shows these channels from now on. If the system gives no thread, nothing is shown.
    pub fn of(channels: Vec<ShownChannel>) -> Self {
        let all = MultiProgress::new();
        log::set_progress_bars(all.clone());
        let (stop, stopped) = channel::<()>();
        // Only this thread waits for a terminal that nobody reads, because nothing else draws.
        let draw = move || {
            let mut lines: Vec<_> =
                channels.into_iter().map(|shown| ProgressLine::new(&all, shown)).collect();
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(DRAW_INTERVAL) {
                lines.iter_mut().for_each(ProgressLine::draw);
            }
            lines.iter().for_each(|line| line.bar.finish_and_clear());
        };
        let drawing = Builder::new().name("pipemill-progress".to_owned()).spawn(draw).ok();
        Self { stop: Some(stop), drawing }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(drawing) = self.drawing.take() {
            // Fails only if the thread panicked: then its lines stay.
            let _ = log::join(drawing);
        }
    }
}

struct ProgressLine {
    shown: ShownChannel,
    bar: ProgressBar,
    epoch: u32,
    /// Its style.
    template: &'static str,
}

impl ProgressLine {
    fn new(all: &MultiProgress, shown: ShownChannel) -> Self {
        let bar = all.add(ProgressBar::no_length().with_style(style(UNKNOWN_SIZE)));
        let line = Self { shown, bar, epoch: 0, template: UNKNOWN_SIZE };
        line.name();
        line
    }

    fn name(&self) {
        if let Some(name) = &self.shown.name {
            self.bar.set_prefix(format!("{name}, epoch {} ", self.epoch));
        }
    }

    fn draw(&mut self) {
        let Some(snapshot) = (self.shown.snapshot)() else {
            self.bar.finish_and_clear();
            return;
        };
        if snapshot.epoch != self.epoch {
            self.epoch = snapshot.epoch;
            self.bar.reset();
            self.name();
        }
        // Compressed input can be larger than its total, which counts stored bytes. In that case
        // the total is not shown.
        let total =
            self.shown.total.of(snapshot.epoch).filter(|total| *total >= snapshot.bytes.max(1));
        let template = match (total, &snapshot.waits_for) {
            (None, None) => UNKNOWN_SIZE,
            (Some(_), None) => KNOWN_SIZE,
            (None, Some(_)) => WAITING,
            (Some(_), Some(_)) => WAITING_KNOWN_SIZE,
        };
        if template != std::mem::replace(&mut self.template, template) {
            self.bar.set_style(style(template));
        }
        match total {
            Some(total) => self.bar.set_length(total),
            None => self.bar.unset_length(),
        }
        let records = snapshot.records.map(|count| format!("{} records", HumanCount(count)));
        // A narrow terminal cuts the end of the line.
        let object = snapshot.object.filter(|_| snapshot.waits_for.is_none());
        let words: Vec<_> = [snapshot.waits_for, records, object].into_iter().flatten().collect();
        self.bar.set_message(Printable::name(words.join(", ")).to_string());
        self.bar.set_position(snapshot.bytes);
        self.bar.tick();
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates are constants, and a test parses them.
    ProgressStyle::with_template(template)
        .map_or_else(|_| ProgressStyle::default_spinner(), |style| style.progress_chars("=> "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_valid() {
        for template in [UNKNOWN_SIZE, KNOWN_SIZE, WAITING, WAITING_KNOWN_SIZE] {
            ProgressStyle::with_template(template).unwrap();
        }
    }
}
