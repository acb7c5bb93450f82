//! Whether bytes between records vanish: bytes that are inserted where a record begins must give an
//! error or change a record. They may not be passed over without a word.

use std::sync::Arc;

use super::structure::Structure;
use crate::plugin_tools::decode_run::PluginUnderTest;
use crate::plugin_tools::trace::Shown;

/// What is inserted: letters, and bytes that are no text. Neither has blanks or signs that begin a
/// comment.
pub(super) const GARBAGE: [&[u8]; 2] =
    [b"Qj7xZ", b"\xe9\x81\xd4\xb2\xfe\x97\xc6\xaa\xbd\x8f\xf3\xd1\x9c\xe2\xb7\x85"];

/// Checks bytes that are inserted at a place.
///
/// # Errors
/// One line that says that they vanish.
pub(super) fn check(
    tested: &PluginUnderTest,
    input: &Arc<[u8]>,
    at: usize,
    bytes: &[u8],
) -> Result<(), String> {
    let Some(structure) = Structure::of(tested, input) else { return Ok(()) };
    judge(tested, &structure, at, bytes)
}

/// As [`check`], of an input whose structure is known.
pub(super) fn judge(
    tested: &PluginUnderTest,
    structure: &Structure,
    at: usize,
    bytes: &[u8],
) -> Result<(), String> {
    let at = at.min(structure.input.len());
    let (before, after) = structure.input.split_at(at);
    let input = [before, bytes, after].concat();
    let run = tested.trace(&input.into(), Shown::default()).run;
    let records = &structure.run.records;
    let vanished = run.errors.is_empty()
        && run.records.len() == records.len()
        && run.records.iter().zip(records).all(|(found, record)| {
            // A record that still begins before the bytes has them inside of it.
            let shift = if record.start < at as u64 { 0 } else { bytes.len() as u64 };
            found.fields == record.fields && found.start == record.start + shift
        });
    if !vanished {
        return Ok(());
    }
    Err(format!(
        "silently skipped garbage: {} bytes that are inserted at byte {at} ({}) give no error and \
         change no record; if the format allows such bytes between records: --allow-gaps",
        bytes.len(),
        hex::encode(bytes)
    ))
}
