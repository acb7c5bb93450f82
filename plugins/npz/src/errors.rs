//! The messages of errors that several parts of the decoder have.

use pipemill_plugin::DecodeError;

/// The input ends where `expected` was expected; `at` is where the unconsumed bytes start, and there
/// are `held` of them.
#[cold]
pub(crate) fn cut_short(at: usize, expected: &str, held: usize) -> DecodeError {
    let message = format!(
        "expected {expected}, found the end of the input after {held} bytes; the archive is cut short"
    );
    DecodeError::fatal(at, message)
}

/// Something is wrong with a member.
#[cold]
pub(crate) fn of_member(name: &str, why: &str) -> String {
    format!("member `{}`: {why}", name.escape_debug())
}

/// A member has another checksum. `what` says what may be damaged.
#[cold]
pub(crate) fn wrong_crc(expected: u32, found: u32, what: &str) -> String {
    format!("expected the CRC-32 {expected:08x}, found {found:08x}; {what}")
}
