//! Exit codes, taken from BSD's sysexits, and the report of a command that fails.

use std::fmt::Display;
use std::process::ExitCode;

use log::kv::Source;

use pipemill_channel::Failure;
use pipemill_types::log::NO_FIELDS;
use pipemill_types::{ErrorKind, Printable};

use pipemill_telemetry::log::last_words;

/// The command line or the configuration is wrong.
pub(super) const USAGE: u8 = 64;
/// The input can't be decoded, or a decoder failed.
pub(super) const DATA: u8 = 65;
/// The input does not exist.
pub(super) const MISSING: u8 = 66;
/// Something on this machine failed.
pub(super) const SYSTEM: u8 = 71;

/// Reports why the command fails, and returns the code.
pub(super) fn because(code: u8, why: impl Display) -> ExitCode {
    because_of(&NO_FIELDS, code, why)
}

/// Like [`because`], with several reasons, one in each line.
pub(super) fn because_all(code: u8, reasons: &[impl Display]) -> ExitCode {
    reasons.iter().for_each(|why| last_words(why, &NO_FIELDS));
    code.into()
}

/// Like [`because`], with fields for programs that read the log.
pub(super) fn because_of(fields: &dyn Source, code: u8, why: impl Display) -> ExitCode {
    last_words(&why, fields);
    code.into()
}

/// The reason why a command fails, which is not reported yet.
pub(super) struct Refusal {
    /// The exit code.
    pub(super) code: u8,
    /// The reasons.
    pub(super) why: Vec<String>,
}

impl Refusal {
    /// A refusal with one reason.
    pub(super) fn new(code: u8, why: impl Display) -> Self {
        Self { code, why: vec![why.to_string()] }
    }

    /// Reports it and returns the exit code.
    pub(super) fn report(self) -> ExitCode {
        because_all(self.code, &self.why)
    }

    /// The reasons as text for people, one in each line.
    pub(super) fn text(&self) -> String {
        let lines: Vec<_> = self.why.iter().map(|why| Printable::line(why).to_string()).collect();
        lines.join("\n")
    }
}

/// The code for a channel that failed.
pub(super) fn of_failure(failure: &Failure) -> u8 {
    match failure.fault.kind {
        _ if failure.missing => MISSING,
        ErrorKind::Refused => USAGE,
        _ => DATA,
    }
}

/// The code for a run with these failures: [`MISSING`] only if all of them are missing inputs.
pub(super) fn of_failures(failures: &[Failure]) -> u8 {
    let other = failures.iter().find(|failure| !failure.missing);
    other.or(failures.first()).map_or(0, of_failure)
}
