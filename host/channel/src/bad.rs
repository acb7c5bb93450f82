//! Bytes that can't be decoded: whether that ends the channel, and where the bytes go if not.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use log::Level;
use log::kv::Source;

use super::Failure;
use pipemill_types::log::log_with;
use pipemill_types::{ErrorKind, Fault};

/// What to do with bytes that can't be decoded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum OnError {
    /// End the channel.
    #[default]
    Fail,
    /// Pass them over.
    Skip,
    /// Pass them over and keep them in this file, a JSON object a line.
    Quarantine(PathBuf),
}

/// Bytes of a bad place that are kept; the rest of it is only counted.
pub(super) const KEPT: usize = 8 << 20;

/// Hears of each place, and how many bytes are passed over.
type Heed = Box<dyn FnMut(&Failure, u64) + Send>;

/// The channel's dealings with bad places.
pub struct Policy {
    on_error: OnError,
    max_errors: u64,
    file: Option<File>,
    heed: Heed,
    /// Bad places so far.
    pub count: u64,
}

impl Policy {
    /// A policy that ends the channel at the bad place behind the `max_errors`th.
    pub fn new(on_error: OnError, max_errors: u64) -> Self {
        let heed = |place: &Failure, length| {
            // What to do about it is what was done.
            let fault = Fault { remedy: String::new(), ..place.fault.clone() };
            let place = Failure { fault, ..place.clone() };
            let fields: [&dyn Source; 2] = [&place, &("length", length)];
            log_with(Level::Warn, &fields, format_args!("passed over {length} bytes: {place}"));
        };
        let heed = Box::new(heed);
        Self { on_error, max_errors, file: None, heed, count: 0 }
    }

    /// The same policy, that tells somebody of each place and how many bytes are passed over; without
    /// this it is a warning in the log.
    pub fn heeded(self, heed: impl FnMut(&Failure, u64) + Send + 'static) -> Self {
        Self { heed: Box::new(heed), ..self }
    }

    /// Whether bad places are passed over.
    pub(super) fn goes_on(&self) -> bool {
        self.on_error != OnError::Fail
    }

    /// Whether the bytes that are passed over are wanted.
    pub(super) fn keeps_bytes(&self) -> bool {
        matches!(self.on_error, OnError::Quarantine(_))
    }

    /// Takes note of a place that was passed over: `length` bytes, of which `bytes` were kept.
    pub(super) fn passed(
        &mut self,
        place: &Failure,
        length: u64,
        bytes: &[u8],
    ) -> Result<(), Box<Failure>> {
        self.count += 1;
        (self.heed)(place, length);
        if let OnError::Quarantine(path) = &self.on_error {
            let written = match &mut self.file {
                Some(file) => Ok(file),
                none => File::options()
                    .append(true)
                    .create(true)
                    .open(path)
                    .map(|file| none.insert(file)),
            }
            .and_then(|file| file.write_all(line(place, length, bytes).as_bytes()));
            if let Err(error) = written {
                let message =
                    format!("the quarantine {} can't be written: {error}", path.display());
                let fault = Fault::new(ErrorKind::Host, message, "check `quarantine`");
                return Err(Box::new(Failure { fault, ..place.clone() }));
            }
        }
        if self.count > self.max_errors {
            let fault = Fault::new(
                ErrorKind::Limit,
                format!(
                    "this is bad place number {}, more than `max_errors` = {} allows; it was: {}",
                    self.count, self.max_errors, place.fault.message
                ),
                "check the input, or raise `max_errors`",
            );
            return Err(Box::new(Failure { fault, ..place.clone() }));
        }
        Ok(())
    }
}

fn line(place: &Failure, length: u64, bytes: &[u8]) -> String {
    let mut line = serde_json::json!({
        "channel": place.channel,
        "epoch": place.position.epoch,
        "object": place.position.object,
        "offset": place.position.offset,
        "length": length,
        "reason": place.fault.message,
        "bytes": STANDARD.encode(bytes),
    });
    if (bytes.len() as u64) < length {
        line["truncated"] = true.into();
    }
    format!("{line}\n")
}
