//! The observers of a channel: they get each step of its thread as an event.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use log::Level;
use log::kv::Source;
use pipemill_types::Fault;
use pipemill_types::log::log_with;

use crate::{EpochStats, Failure, Stage};

/// A step of a channel's thread.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// A stage begins, and the one before it ends.
    StageBegins(Stage),
    /// The channel's thread has ended its last stage.
    Stopped,
    /// The source gave this many bytes.
    BytesRead(usize),
    /// The call of the decoder that ended last emitted this many records.
    RecordsDecoded(usize),
    /// An object begins.
    ObjectBegins {
        /// Number of the epoch, from 0.
        epoch: u32,
        /// Path or URL of the object.
        name: &'a str,
    },
    /// The object is at its end.
    ObjectEnds,
    /// An epoch is at its end.
    EpochEnds(&'a EpochStats),
    /// A decode error was skipped.
    DecodeErrorSkipped {
        /// The error, with its position.
        failure: &'a Failure,
        /// Bytes that are skipped with it.
        bytes: u64,
    },
    /// The channel failed.
    Failed(&'a Failure),
}

/// Follows the work of a channel's thread.
pub trait Observer: Send + Sync {
    /// Called for each event, with the moment at which it happened. It must be quick, because the
    /// channel's thread calls it several times per chunk.
    fn event(&self, at: Instant, event: &Event<'_>);
}

/// Errors of a channel that the log shows one by one. It shows only the number of the others.
const SHOWN_ERRORS: u64 = 10;

/// Writes a warning to the log for each of the first ten errors that are skipped, and at the end of
/// an epoch or of the channel the number of the others.
pub struct DecodeErrorLog {
    channel: String,
    /// Says where to find the errors that are not shown.
    see: String,
    /// Errors so far.
    count: AtomicU64,
    /// Errors that no line of the log has reported.
    untold: AtomicU64,
}

impl DecodeErrorLog {
    /// The log of a channel's errors. `see` says where to find those that are not shown.
    pub fn new(channel: &str, see: impl Into<String>) -> Self {
        Self {
            channel: channel.to_owned(),
            see: see.into(),
            count: AtomicU64::new(0),
            untold: AtomicU64::new(0),
        }
    }

    fn skipped(&self, failure: &Failure, bytes: u64) {
        if self.count.fetch_add(1, Ordering::Relaxed) >= SHOWN_ERRORS {
            self.untold.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // The remedy is left out: the operator has chosen to skip errors.
        let fault = Fault { remedy: String::new(), ..failure.fault.clone() };
        let failure = Failure { fault, ..failure.clone() };
        let fields: [&dyn Source; 2] = [&failure, &("length", bytes)];
        log_with(Level::Warn, &fields, format_args!("skipped {bytes} bytes: {failure}"));
    }

    fn tell_number(&self) {
        let untold = self.untold.swap(0, Ordering::Relaxed);
        if untold > 0 {
            let (channel, see) = (&self.channel, &self.see);
            let fields: [(&str, &str); 1] = [("channel", channel)];
            let line = format_args!("channel `{channel}`: skipped {untold} more errors; see {see}");
            log_with(Level::Warn, &fields, line);
        }
    }
}

impl Observer for DecodeErrorLog {
    fn event(&self, _: Instant, event: &Event<'_>) {
        match *event {
            Event::DecodeErrorSkipped { failure, bytes } => self.skipped(failure, bytes),
            Event::EpochEnds(_) | Event::Failed(_) | Event::Stopped => self.tell_number(),
            _ => {}
        }
    }
}
