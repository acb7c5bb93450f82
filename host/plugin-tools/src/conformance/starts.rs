//! Checks whether records begin where the decoder says: with their framing, and not earlier.
//!
//! Two facts about a decoder show where it takes a record to begin. If the input ends right before
//! a record, there is no error; an error names the place at which the record really begins. In
//! formats without state, decoding from the start of a record gives that record and all later ones.
//! So a start is wrong if decoding from it does not give these records, but decoding from another
//! position close by does. In formats with state, neither does, and nothing is known.

use std::sync::Arc;

use super::structure::Structure;
use crate::decode_run::{PluginUnderTest, Record};

/// The result for the start of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StartVerdict {
    /// Decoding from it gives the record and all later ones.
    Right,
    /// Nothing is known.
    Unknown,
    /// It is wrong; the text says why.
    Wrong(String),
}

/// Checks the start of one record.
///
/// # Errors
/// The error is one line that says where the record begins.
pub(super) fn check(
    tested: &PluginUnderTest,
    input: &Arc<[u8]>,
    record: usize,
) -> Result<(), String> {
    let Some(structure) = Structure::of(tested, input) else { return Ok(()) };
    match judge(tested, &structure, record)? {
        StartVerdict::Wrong(broken) => Err(broken),
        StartVerdict::Right | StartVerdict::Unknown => Ok(()),
    }
}

/// Number of bytes after its start that are searched for a record.
const MAX_EARLY: u64 = 16;

/// Checks the start of a record.
///
/// # Errors
/// The start is certainly wrong: an input that ends there already gives the record.
pub(super) fn judge(
    tested: &PluginUnderTest,
    structure: &Structure,
    record: usize,
) -> Result<StartVerdict, String> {
    let (input, records) = (&structure.input, &structure.run.records);
    let Some(start) = records.get(record).map(|record| record.start) else {
        return Ok(StartVerdict::Unknown);
    };
    let before = record.checked_sub(1).map(|before| records[before].start);
    if start == 0 || start >= input.len() as u64 || before == Some(start) {
        return Ok(StartVerdict::Unknown);
    }
    let cut = tested.trace_cut(input, start as usize);
    if cut.records.len() > record && cut.records[..=record] == records[..=record] {
        return Err(format!(
            "a start is late: record {record} is said to begin at byte {start}, but an input that \
             ends there already gives it"
        ));
    }
    // The bytes before the first record may belong to the file, as the names of columns do.
    if record == 0 {
        return Ok(StartVerdict::Unknown);
    }
    // An error at such an input says where the record begins. This comes first: if all records have
    // the same length, decoding from late starts gives the right records, too.
    let said = cut.errors.first().map(|error| error.offset);
    let real = said.filter(|at| *at < start && before.is_none_or(|before| *at > before));
    if cut.records.len() == record
        && let Some(real) = real
    {
        let first = first_start(tested, structure).min(real);
        if fits(tested, structure, record, real, first) {
            return Ok(StartVerdict::Wrong(format!(
                "a start is late, or without its framing: record {record} is said to begin at byte \
                 {start}, but an input that ends there is said to end inside of a record that \
                 begins at {real}, and decoding from {real} on gives it"
            )));
        }
    }
    let header = records[0].start;
    if fits(tested, structure, record, start, header) {
        return Ok(StartVerdict::Right);
    }
    let next = records[record + 1..].iter().find(|next| next.start > start);
    let end = next.map_or(input.len() as u64, |next| next.start);
    for real in (start + 1..end).take(MAX_EARLY as usize) {
        if fits(tested, structure, record, real, header) {
            return Ok(StartVerdict::Wrong(format!(
                "a start is early: record {record} is said to begin at byte {start}, but decoding \
                 from {real} on gives it, and decoding from {start} on does not"
            )));
        }
    }
    Ok(StartVerdict::Unknown)
}

/// The start of the first record, according to the decoder's error for an input that ends there.
fn first_start(tested: &PluginUnderTest, structure: &Structure) -> u64 {
    let first = structure.run.records[0].start;
    let cut = tested.trace_cut(&structure.input, first as usize);
    match cut.errors.first() {
        Some(error) if cut.records.is_empty() => error.offset.min(first),
        _ => first,
    }
}

/// Whether the first `header` bytes of the input and the input from `at` on, as one input, give the
/// record with this number and all later ones.
fn fits(
    tested: &PluginUnderTest,
    structure: &Structure,
    record: usize,
    at: u64,
    header: u64,
) -> bool {
    let (header, rest) = (&structure.input[..header as usize], &structure.input[at as usize..]);
    let run = tested.trace_cut(&[header, rest].concat(), header.len() + rest.len());
    let fields = |records: &[Record]| -> Vec<_> {
        records.iter().map(|record| record.fields.clone()).collect()
    };
    run.errors.is_empty()
        && run.schema == structure.run.schema
        && fields(&run.records) == fields(&structure.run.records[record..])
}
