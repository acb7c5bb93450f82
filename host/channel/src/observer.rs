//! The observers of a channel: they get each step of its thread as an event.

use std::time::Instant;

use log::Level;
use log::kv::Source;
use pipemill_types::Fault;
use pipemill_types::log::log_with;

use super::{EpochStats, Failure, Stage};

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

/// Sees what a channel's thread does.
pub trait Observer: Send + Sync {
    /// Called for each event, with the moment at which it happened. It must be quick, because the
    /// channel's thread calls it several times per chunk.
    fn event(&self, at: Instant, event: &Event<'_>);
}

/// Writes a warning to the log for each decode error that is skipped.
pub struct DecodeErrorLog;

impl Observer for DecodeErrorLog {
    fn event(&self, _: Instant, event: &Event<'_>) {
        let Event::DecodeErrorSkipped { failure, bytes } = *event else { return };
        // The remedy is left out: skipping is what the operator chose to do.
        let fault = Fault { remedy: String::new(), ..failure.fault.clone() };
        let failure = Failure { fault, ..failure.clone() };
        let fields: [&dyn Source; 2] = [&failure, &("length", bytes)];
        log_with(Level::Warn, &fields, format_args!("skipped {bytes} bytes: {failure}"));
    }
}
