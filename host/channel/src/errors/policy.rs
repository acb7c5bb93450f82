//! Decides about each error by its class.
//!
//! - Bytes that can't be decoded end the channel, or they are skipped and perhaps kept in a file.
//! - A failure of the decoder ends the channel, or the rest of the object is skipped.
//! - Everything else ends the channel, and so does input that the decoder refuses.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use pipemill_types::{ErrorKind, Fault};

use crate::Failure;
use crate::errors::quarantine::Quarantine;

/// The reaction to bytes that can't be decoded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum OnError {
    /// End the channel.
    #[default]
    Fail,
    /// Skip them.
    Skip,
    /// Skip them, and append them to this file, one JSON object per line.
    Quarantine(PathBuf),
}

/// The reaction to a failure of the decoder itself: a trap, a limit, a broken contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnPluginError {
    /// End the channel.
    #[default]
    Fail,
    /// Skip the rest of the object.
    SkipObject,
}

/// Bytes that are kept of one decode error. The rest is only counted.
pub(crate) const MAX_KEPT_BYTES: usize = 8 << 20;
/// Bytes that the allocations of an error's texts take, without the texts.
const TEXTS_BYTES: usize = 128;
/// Upper limit of remembered places. Beyond it, a place may be counted or kept twice.
const MAX_PLACES: usize = 1 << 20;
/// Largest number of bytes of a place in a table that grows: at least 3 in 7 of its entries are
/// used, and the table before it still exists.
const PLACE_BYTES: u64 = 32;
/// Memory of a kept error, in multiples of its bytes: it exists as bytes, as base64 and as a line.
const COPIES_OF_KEPT: u64 = 6;

impl OnError {
    /// Bytes of memory that a channel takes at most for the errors that it skips. `max_errors` are
    /// counted in an epoch.
    pub fn memory(&self, max_errors: u64) -> u64 {
        let most = MAX_PLACES as u64;
        let counted = max_errors.min(most) * PLACE_BYTES;
        match self {
            Self::Fail => 0,
            Self::Skip => counted,
            Self::Quarantine(_) => {
                counted + most * PLACE_BYTES + COPIES_OF_KEPT * MAX_KEPT_BYTES as u64
            }
        }
    }
}

/// Applies [`OnError`] and [`OnPluginError`] to a channel's errors.
pub struct ErrorPolicy {
    on_error: OnError,
    on_plugin_error: OnPluginError,
    max_errors: u64,
    quarantine: Option<Quarantine>,
    /// The places of this epoch's errors. `max_errors` limits their number.
    counted: Places,
    /// The places in the quarantine.
    kept: Places,
    epoch: u32,
    /// The first error that was skipped.
    first: Option<Failure>,
    /// Takes all errors, in place of the fields above.
    forward: Option<Box<dyn FnMut(SkippedError) + Send>>,
}

/// A decode error that was skipped.
#[derive(Debug)]
pub(crate) struct SkippedError {
    pub(crate) failure: Failure,
    /// Number of bytes that were skipped.
    pub(crate) length: u64,
    /// The skipped bytes that were kept.
    pub(crate) kept: Vec<u8>,
}

impl SkippedError {
    /// Bytes of memory that it takes, or a little more.
    pub(crate) fn bytes(&self) -> usize {
        let Failure { fault, channel, position, decoder, bytes, .. } = &self.failure;
        let object = position.object.as_ref().map_or(0, String::len);
        let texts = fault.message.len() + fault.remedy.len() + channel.len() + decoder.len();
        size_of::<Self>() + TEXTS_BYTES + texts + object + bytes.len() + self.kept.len()
    }
}

/// A set of places in the input, as hashes. It also counts places beyond those that it remembers.
#[derive(Default)]
struct Places {
    known: HashSet<u64>,
    count: u64,
}

impl Places {
    /// Adds the place of an error. Returns whether it is new.
    fn add(&mut self, failure: &Failure) -> bool {
        let is_new = if self.known.len() < MAX_PLACES {
            self.known.insert(place_hash(failure))
        } else {
            self.is_new(failure)
        };
        self.count += u64::from(is_new);
        is_new
    }

    fn is_new(&self, failure: &Failure) -> bool {
        !self.known.contains(&place_hash(failure))
    }
}

fn place_hash(failure: &Failure) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&failure.position.object, failure.position.offset).hash(&mut hasher);
    hasher.finish()
}

impl ErrorPolicy {
    /// A policy that skips errors of at most `max_errors` places an epoch, if it skips any.
    pub fn new(on_error: OnError, on_plugin_error: OnPluginError, max_errors: u64) -> Self {
        let quarantine = match &on_error {
            OnError::Quarantine(path) => Some(Quarantine::new(path.clone())),
            OnError::Fail | OnError::Skip => None,
        };
        Self {
            on_error,
            on_plugin_error,
            max_errors,
            quarantine,
            counted: Places::default(),
            kept: Places::default(),
            epoch: 0,
            first: None,
            forward: None,
        }
    }

    /// The reaction to errors in the data.
    pub(crate) fn on_error(&self) -> &OnError {
        &self.on_error
    }

    /// The reaction to failures of the decoder.
    pub(crate) fn on_plugin_error(&self) -> OnPluginError {
        self.on_plugin_error
    }

    /// A policy with the same settings that has seen no error.
    pub(crate) fn unused(&self) -> Self {
        Self::new(self.on_error.clone(), self.on_plugin_error, self.max_errors)
    }

    /// The policy of a worker: it skips the same errors as this one, and hands them to `forward`,
    /// for the thread that applies this one.
    pub(crate) fn of_worker(&self, forward: impl FnMut(SkippedError) + Send + 'static) -> Self {
        Self { forward: Some(Box::new(forward)), ..self.unused() }
    }

    /// Whether an error of this kind is skipped.
    pub(crate) fn skips(&self, kind: ErrorKind) -> bool {
        match kind {
            ErrorKind::Decode | ErrorKind::TooLarge => self.on_error != OnError::Fail,
            ErrorKind::Plugin | ErrorKind::Limit => {
                self.on_plugin_error == OnPluginError::SkipObject
            }
            ErrorKind::Refused | ErrorKind::Source | ErrorKind::Host => false,
        }
    }

    /// Number of decode errors of this epoch that will certainly be skipped.
    pub(crate) fn errors_left(&self, epoch: u32) -> u64 {
        match self.skips(ErrorKind::Decode) {
            false => 0,
            true if epoch != self.epoch => self.max_errors,
            true => self.max_errors.saturating_sub(self.counted.count),
        }
    }

    /// Whether this error, which is skipped, is one more than `max_errors`.
    pub(crate) fn ends_with(&self, failure: &Failure) -> bool {
        let is_of_this = failure.position.epoch == self.epoch;
        let counted = if is_of_this { self.counted.count } else { 0 };
        counted >= self.max_errors && (!is_of_this || self.counted.is_new(failure))
    }

    /// Whether the bytes that are skipped are kept.
    pub(crate) fn keeps_bytes(&self) -> bool {
        matches!(self.on_error, OnError::Quarantine(_))
    }

    /// The first error that was skipped; `None` if none was.
    pub(crate) fn first_skipped(&self) -> Option<&Failure> {
        self.first.as_ref()
    }

    /// Counts an error that was skipped: `length` bytes, of which `bytes` were kept.
    ///
    /// # Errors
    /// The quarantine can't be written, or the epoch has errors in more than `max_errors` places.
    pub(crate) fn error_skipped(
        &mut self,
        failure: &Failure,
        length: u64,
        bytes: &[u8],
    ) -> Result<(), Box<Failure>> {
        if let Some(forward) = &mut self.forward {
            forward(SkippedError { failure: failure.clone(), length, kept: bytes.to_vec() });
            self.counted.count += 1;
            self.epoch = failure.position.epoch;
            // All of these are errors of one object. The receiver fails at the same one.
            return self.check_count(failure);
        }
        self.first.get_or_insert_with(|| failure.clone());
        if failure.position.epoch != self.epoch {
            self.epoch = failure.position.epoch;
            self.counted = Places::default();
        }
        if self.keeps_bytes() && self.kept.add(failure) {
            self.quarantine(failure, length, bytes)?;
        }
        if self.counted.add(failure) { self.check_count(failure) } else { Ok(()) }
    }

    /// # Errors
    /// With this one, the epoch has errors in more than `max_errors` places.
    fn check_count(&self, failure: &Failure) -> Result<(), Box<Failure>> {
        if self.counted.count <= self.max_errors {
            return Ok(());
        }
        let message = format!(
            "this is decode error number {} of the epoch, more than `max_errors` = {} allows; it \
             was: {}",
            self.counted.count, self.max_errors, failure.fault.message
        );
        let remedy = "check the input, or raise `max_errors`";
        let fault = Fault::new(ErrorKind::Limit, message, remedy);
        Err(Box::new(Failure { fault, ..failure.clone() }))
    }

    /// Writes a decode error to the quarantine, if there is one.
    fn quarantine(
        &mut self,
        failure: &Failure,
        length: u64,
        bytes: &[u8],
    ) -> Result<(), Box<Failure>> {
        let Some(quarantine) = &mut self.quarantine else { return Ok(()) };
        quarantine.write(failure, length, bytes).map_err(|error| {
            let path = quarantine.path().display();
            let message = format!("the quarantine {path} can't be written: {error}");
            let remedy = "check `quarantine`: it is a file in a folder that is there, on a disk \
                          that has room";
            let fault = Fault::new(ErrorKind::Host, message, remedy);
            Box::new(Failure { fault, ..failure.clone() })
        })
    }
}
