//! The errors of a length. After each one, the start of the next record is unknown.

use pipemill_plugin::DecodeError;

use crate::prefix::MAX_VARINT;
use crate::rules::Rules;

/// The varint at `at` has more than 64 bits. `bytes` start there.
#[cold]
pub(crate) fn varint(bytes: &[u8], at: usize) -> DecodeError {
    let found: Vec<_> = bytes.iter().take(MAX_VARINT).map(|byte| format!("{byte:02x}")).collect();
    let message = format!(
        "expected a length as a varint of 64 bits (option `prefix`), found {}; this is not of that \
         format, or it is damaged here or before, and what follows can't be found",
        found.join(" ")
    );
    DecodeError::fatal(at, message)
}

/// The length at `at` is smaller than its own size, which it should include.
#[cold]
pub(crate) fn shorter_than_itself(
    rules: &Rules,
    value: u64,
    size: usize,
    at: usize,
) -> DecodeError {
    let message = format!(
        "expected a length that counts its own {size} bytes (option `includes_prefix`), found {value}; \
         set includes_prefix = false if lengths do not, or prefix if it is not {}",
        rules.kind
    );
    DecodeError::fatal(at, message)
}

/// The record at `at` is larger than `max_record`. Its length may be damaged, so it does not show
/// where the next record starts.
#[cold]
pub(crate) fn too_large(rules: &Rules, length: u64, at: usize) -> DecodeError {
    let message = format!(
        "record of {length} bytes is larger than max_record ({} bytes); raise max_record if records \
         may be that large, or set prefix if lengths are not {}",
        rules.max_record, rules.kind
    );
    DecodeError::fatal(at, message)
}
