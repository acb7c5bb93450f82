//! What happens to bytes that can't be decoded: they end the channel, or they are skipped and
//! perhaps kept in a file.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pipemill_types::{ErrorKind, Fault};

use super::Failure;

/// What to do with bytes that can't be decoded.
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

/// Bytes that are kept of one decode error. The rest is only counted.
pub(super) const MAX_KEPT_BYTES: usize = 8 << 20;

/// Applies [`OnError`] to a channel's decode errors.
pub struct ErrorPolicy {
    on_error: OnError,
    max_errors: u64,
    file: Option<File>,
    skipped: u64,
}

impl ErrorPolicy {
    /// A policy that skips at most `max_errors` decode errors, if it skips any.
    pub fn new(on_error: OnError, max_errors: u64) -> Self {
        Self { on_error, max_errors, file: None, skipped: 0 }
    }

    /// Whether decode errors are skipped.
    pub(super) fn skips_errors(&self) -> bool {
        self.on_error != OnError::Fail
    }

    /// Whether the bytes that are skipped are kept.
    pub(super) fn keeps_bytes(&self) -> bool {
        matches!(self.on_error, OnError::Quarantine(_))
    }

    /// Counts a decode error that was skipped: `length` bytes, of which `bytes` were kept.
    ///
    /// # Errors
    /// The quarantine can't be written, or there are more than `max_errors`.
    pub(super) fn error_skipped(
        &mut self,
        failure: &Failure,
        length: u64,
        bytes: &[u8],
    ) -> Result<(), Box<Failure>> {
        self.skipped += 1;
        self.quarantine(failure, length, bytes)?;
        if self.skipped <= self.max_errors {
            return Ok(());
        }
        let message = format!(
            "this is decode error number {}, more than `max_errors` = {} allows; it was: {}",
            self.skipped, self.max_errors, failure.fault.message
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
        let OnError::Quarantine(path) = &self.on_error else { return Ok(()) };
        let file = match &mut self.file {
            Some(file) => Ok(file),
            none => {
                let opened = File::options().append(true).create(true).open(path);
                opened.map(|file| none.insert(file))
            }
        };
        let line = quarantine_line(failure, length, bytes);
        file.and_then(|file| file.write_all(line.as_bytes())).map_err(|error| {
            let message = format!("the quarantine {} can't be written: {error}", path.display());
            let fault = Fault::new(ErrorKind::Host, message, "check `quarantine`");
            Box::new(Failure { fault, ..failure.clone() })
        })
    }
}

/// A line of the quarantine file: one JSON object.
fn quarantine_line(failure: &Failure, length: u64, bytes: &[u8]) -> String {
    let mut line = serde_json::json!({
        "channel": failure.channel,
        "epoch": failure.position.epoch,
        "object": failure.position.object,
        "offset": failure.position.offset,
        "length": length,
        "reason": failure.fault.message,
        "bytes": STANDARD.encode(bytes),
    });
    if (bytes.len() as u64) < length {
        line["truncated"] = true.into();
    }
    format!("{line}\n")
}
