//! Exit codes, taken from BSD's sysexits, and the report of a command that fails.

use std::fmt::Display;
use std::process::ExitCode;

use log::kv::Source;

use pipemill_channel::Failure;
use pipemill_types::ErrorKind;
use pipemill_types::log::NO_FIELDS;

use crate::telemetry::log::last_words;

/// The command line or the configuration is wrong.
pub(super) const USAGE: u8 = 64;
/// The input can't be decoded, or a decoder failed.
pub(super) const DATA: u8 = 65;
/// The input does not exist.
pub(super) const MISSING: u8 = 66;
/// Something on this machine failed.
pub(super) const SYSTEM: u8 = 71;

/// Reports why the command fails, one line for each reason, and returns the code.
pub(super) fn because(code: u8, why: impl Display) -> ExitCode {
    because_of(&NO_FIELDS, code, why)
}

/// Like [`because`], with fields for programs that read the log.
pub(super) fn because_of(fields: &dyn Source, code: u8, why: impl Display) -> ExitCode {
    last_words(&why.to_string(), fields);
    code.into()
}

/// Why a command fails; not reported yet.
pub(super) struct Refusal {
    /// The exit code.
    pub(super) code: u8,
    pub(super) why: String,
}

impl Refusal {
    /// Reports it and returns the exit code.
    pub(super) fn report(self) -> ExitCode {
        because(self.code, self.why)
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
