//! The messages of errors that several parts of the decoder share.

use pipemill_plugin::DecodeError;

/// The error of an input that ends where `expected` was expected; `at` is the start of the
/// unconsumed bytes, and `held` their number.
#[cold]
pub(crate) fn cut_short(at: usize, expected: &str, held: usize) -> DecodeError {
    let message = format!(
        "expected {expected}, found the end of the input after {held} bytes; the archive is cut short"
    );
    DecodeError::fatal(at, message)
}

/// The error of a member.
#[cold]
pub(crate) fn of_member(name: &str, why: &str) -> String {
    format!("member `{}`: {why}", name.escape_debug())
}

/// The error of a member with another checksum. `what` says what may be damaged.
#[cold]
pub(crate) fn wrong_crc(expected: u32, found: u32, what: &str) -> String {
    format!("expected the CRC-32 {expected:08x}, found {found:08x}; {what}")
}
