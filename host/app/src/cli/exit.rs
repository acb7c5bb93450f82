//! Exit codes, after BSD's sysexits, and how a command that fails says why.

use std::fmt::Display;
use std::process::ExitCode;

use log::kv::Source;

use crate::telemetry::log::last_words;
use pipemill_channel::Failure;
use pipemill_types::log::NO_FIELDS;

/// The command line or the configuration is wrong.
pub(super) const USAGE: u8 = 64;
/// The input can't be decoded, or a decoder failed.
pub(super) const DATA: u8 = 65;
/// The input is not there.
pub(super) const MISSING: u8 = 66;
/// Something on this machine failed.
pub(super) const SYSTEM: u8 = 71;

/// Says why, and gives the code. More than one reason are a line each.
pub(super) fn because(code: u8, why: impl Display) -> ExitCode {
    because_of(&NO_FIELDS, code, why)
}

/// The same, with what a machine that reads it has to know.
pub(super) fn because_of(what: &dyn Source, code: u8, why: impl Display) -> ExitCode {
    last_words(&why.to_string(), what);
    code.into()
}

/// Why a command can't go on, before anybody was told.
pub(super) struct Refusal {
    pub(super) code: u8,
    pub(super) why: String,
}

impl Refusal {
    /// Tells it, and gives the code.
    pub(super) fn told(self) -> ExitCode {
        because(self.code, self.why)
    }
}

/// The code for a channel that failed.
pub(super) fn of_failure(failure: &Failure) -> u8 {
    if failure.missing { MISSING } else { DATA }
}

/// The code for a run with these failures: an input that is missing is the reason only if nothing else is.
pub(super) fn of_failures(failures: &[Failure]) -> u8 {
    let bad = failures.iter().find(|failure| !failure.missing);
    bad.or(failures.first()).map_or(0, of_failure)
}
