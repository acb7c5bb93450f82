//! How far channels are, on a terminal: a line each, redrawn in place, below what the log says. Elsewhere nothing is
//! shown.

use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use indicatif::{HumanCount, MultiProgress, ProgressBar, ProgressStyle};

use super::log;
use pipemill_channel::ChannelStats;
use pipemill_source::TotalSize;

/// How often they are drawn.
const TICK: Duration = Duration::from_millis(200);
/// What is seen of a channel whose end is not known, and of one whose end is.
const OPEN: &str = "{prefix}{spinner} {binary_bytes} {binary_bytes_per_sec} {elapsed} {wide_msg}";
const CLOSED: &str = "{prefix}[{bar:20}] {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} eta {eta} {wide_msg}";

/// A channel to show.
pub struct Shown {
    /// What its line begins with, if there may be several.
    pub name: Option<String>,
    /// How many bytes there are.
    pub total: TotalSize,
    /// How far it is; none at its end.
    pub look: Box<dyn Fn() -> Option<Look> + Send>,
}

/// How far a channel is.
pub struct Look {
    /// From 0.
    pub epoch: u32,
    /// Bytes read in this epoch, inflated.
    pub bytes: u64,
    /// Records decoded in this epoch, where somebody decodes.
    pub records: Option<u64>,
    /// What it is at: an object, or what it waits for.
    pub at: Option<String>,
}

impl Look {
    /// As a stats has it.
    pub fn at(stats: &ChannelStats) -> Self {
        let totals = stats.this_epoch();
        let (bytes, records) = (totals.bytes, Some(totals.records));
        Self { epoch: stats.epoch(), bytes, records, at: stats.object() }
    }
}

/// Whether a person watches: standard error is a terminal, and the log is text there that tells what happens.
pub fn is_watched() -> bool {
    stderr().is_terminal() && log::is_for_people()
}

/// Lines that are shown. They are gone when this is dropped.
pub struct Progress {
    // Dropped first: that ends the thread.
    over: Option<Sender<()>>,
    drawing: Option<JoinHandle<()>>,
}

impl Progress {
    /// Shows them from now on. Without a thread to draw them, nothing is shown.
    pub fn of(channels: Vec<Shown>) -> Self {
        let all = MultiProgress::new();
        log::stay_above(all.clone());
        let mut lines: Vec<_> = channels.into_iter().map(|shown| Line::new(&all, shown)).collect();
        let (over, asked) = channel::<()>();
        let draw = move || {
            while let Err(RecvTimeoutError::Timeout) = asked.recv_timeout(TICK) {
                lines.iter_mut().for_each(Line::draw);
            }
            lines.iter().for_each(|line| line.bar.finish_and_clear());
        };
        let drawing = Builder::new().name("pipemill-progress".to_owned()).spawn(draw).ok();
        Self { over: Some(over), drawing }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.over.take());
        if let Some(drawing) = self.drawing.take() {
            // It does not panic; were it so, there would be nothing to clear.
            let _ = drawing.join();
        }
    }
}

struct Line {
    shown: Shown,
    bar: ProgressBar,
    epoch: u32,
    /// Whether its style has an end.
    closed: bool,
}

impl Line {
    fn new(all: &MultiProgress, shown: Shown) -> Self {
        let bar = all.add(ProgressBar::no_length().with_style(style(OPEN)));
        let line = Self { shown, bar, epoch: 0, closed: false };
        line.name();
        line
    }

    fn name(&self) {
        if let Some(name) = &self.shown.name {
            self.bar.set_prefix(format!("{name}, epoch {} ", self.epoch));
        }
    }

    fn draw(&mut self) {
        let Some(look) = (self.shown.look)() else {
            self.bar.finish_and_clear();
            return;
        };
        if look.epoch != self.epoch {
            self.epoch = look.epoch;
            self.bar.reset();
            self.name();
        }
        // What is inflated after all is longer than was thought.
        let total = self.shown.total.of(look.epoch).filter(|total| *total >= look.bytes.max(1));
        if total.is_some() != self.closed {
            self.closed = total.is_some();
            self.bar.set_style(style(if self.closed { CLOSED } else { OPEN }));
        }
        match total {
            Some(total) => self.bar.set_length(total),
            None => self.bar.unset_length(),
        }
        let records = look.records.map(|count| format!("{} records", HumanCount(count)));
        let words: Vec<_> = records.into_iter().chain(look.at).collect();
        self.bar.set_message(words.join(", "));
        self.bar.set_position(look.bytes);
        self.bar.tick();
    }
}

fn style(template: &str) -> ProgressStyle {
    // Constants; were one wrong, the plain one would do.
    ProgressStyle::with_template(template)
        .map_or_else(|_| ProgressStyle::default_spinner(), |style| style.progress_chars("=> "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_can_be_read() {
        for template in [OPEN, CLOSED] {
            ProgressStyle::with_template(template).unwrap();
        }
    }
}
