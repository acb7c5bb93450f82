//! Who hears of all that a channel's thread does, as a trace does.

use std::time::Instant;

use super::{Failure, Stage};
use pipemill_types::ErrorKind;

/// What a channel's thread does.
#[derive(Debug, Clone, Copy)]
pub enum Act<'a> {
    /// A stage begins, and the one before it ends.
    Enter(Stage),
    /// It has ended, and with it the stage that it was at.
    Stop,
    /// So many bytes were read.
    Read(usize),
    /// The call of the decoder that ended last emitted so many records.
    Placed(usize),
    /// An object begins.
    Object {
        /// From 0.
        epoch: u32,
        /// Its name.
        name: &'a str,
    },
    /// The object is at its end.
    ObjectEnd,
    /// An epoch is at its end.
    EpochEnd {
        /// From 0.
        number: u32,
        /// Its consumers wanted no more of it.
        early: bool,
    },
    /// A bad place was passed over.
    BadPlace(ErrorKind),
    /// The channel failed.
    Failed(&'a Failure),
}

/// Hears of a channel, in its thread, for each chunk: it must be quick.
pub trait Witness: Send + Sync {
    /// This happened then.
    fn saw(&self, at: Instant, act: Act<'_>);
}
