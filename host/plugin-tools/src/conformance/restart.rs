//! Checks whether decoding can restart where the decoder says. A new stream gets the bytes that the
//! decoder says are needed, and then the input from that position on. It must return the same
//! records from there on. Elsewhere, a decoder may save its state: the new stream loads it, and
//! gets only the input from there on.

use std::sync::Arc;

use pipemill_types::{restart_extension, schema_extension};

use super::compare::difference;
use crate::decode_run::{DecodeRun, PluginUnderTest, Record};
use crate::trace::{Restart, Shown, Trace};

/// The result of the check.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CheckedPlaces {
    /// Number of positions at which no saved state is needed.
    pub(super) places: usize,
    /// Number of positions at which the decoder has saved its state.
    pub(super) saved: usize,
    /// Most bytes that it has saved.
    pub(super) saved_bytes: usize,
    /// Largest number of bytes that are needed from the input's start.
    pub(super) header: usize,
}

/// Number of pieces of the input after the needed bytes.
const PIECES: [usize; 6] = [1, 2, 3, 5, 8, 13];

/// Checks the positions up to which the decoder consumes the input if its first `at` bytes arrive,
/// and then the rest. An input with errors is not checked.
///
/// # Errors
/// The error is one line that says which position is wrong.
pub(super) fn check(
    tested: &PluginUnderTest,
    input: &Arc<[u8]>,
    at: usize,
) -> Result<CheckedPlaces, String> {
    let pieces = [at];
    let pieces = if at == 0 { &[][..] } else { &pieces };
    let mut checked = CheckedPlaces::default();
    let mut whole = tested.trace(input, Shown { pieces, ..Shown::default() });
    if !whole.run.errors.is_empty() {
        return Ok(checked);
    }
    if tested.plugin.save_distance().is_some() {
        let saving = tested.trace(input, Shown { pieces, saves: true, ..Shown::default() });
        let what = (input.len(), false);
        if let Some(other) = difference(&whole.run, &saving.run, what, "without `save` it is") {
            return Err(format!("`save` changes what the decoder does: {other}"));
        }
        whole = saving;
    }
    for restart in &whole.restarts {
        judge(tested, input, &whole, restart)?;
        match &restart.saved {
            Some(saved) => {
                checked.saved += 1;
                checked.saved_bytes = checked.saved_bytes.max(saved.bytes.len());
            }
            None => checked.places += 1,
        }
        checked.header = checked.header.max(restart.header);
    }
    Ok(checked)
}

/// Checks one position, with the rest in one piece and in several.
fn judge(
    tested: &PluginUnderTest,
    input: &[u8],
    whole: &Trace,
    restart: &Restart,
) -> Result<(), String> {
    let Restart { header, place, records, ref saved } = *restart;
    let schema = whole.run.schema.as_deref().and_then(schema_extension);
    let extension = restart_extension(header as u64, place as u64);
    let extensions: Vec<_> = schema.into_iter().chain([extension]).collect();
    let shown: Arc<[u8]> = [&input[..header], &input[place..]].concat().into();
    let moved = |record: &Record| Record {
        start: record.start.saturating_sub(place as u64) + header as u64,
        fields: record.fields.clone(),
    };
    let reference = DecodeRun {
        schema: whole.run.schema.clone(),
        metadata: whole.run.metadata.clone(),
        records: whole.run.records[records..].iter().map(moved).collect(),
        errors: Vec::new(),
    };
    let mut pieces = PIECES.to_vec();
    if header > 0 {
        pieces.insert(0, header);
    }
    for pieces in [&[][..], &pieces] {
        let saved = saved.as_ref();
        let from = Shown { pieces, extensions: &extensions, saved, ..Shown::default() };
        let run = tested.trace(&shown, from).run;
        if let Some(other) = difference(&reference, &run, (shown.len(), false), "it should be") {
            if saved.is_some() {
                return Err(format!(
                    "decoding can't go on at byte {place} with what the decoder has saved there: \
                     another stream, which is shown the input from there on, gives something else: \
                     {other}"
                ));
            }
            return Err(format!(
                "decoding can't begin again at byte {place}, though `pipemill.restart` is {header} \
                 there: shown the first {header} bytes of the input and those from {place} on, \
                 another stream gives something else: {other}"
            ));
        }
    }
    Ok(())
}
