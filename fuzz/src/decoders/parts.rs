//! Compares the parts of a Parquet file's plan with the whole file.

use pipemill_parquet::{OUT_OF_ORDER, Parquet};
use pipemill_plugin::testing::{self, Outcome, Setup, decode_split, decode_whole};

use super::case::Case;

/// Longer than a file that is shown whole.
const LONG: usize = 17 << 10;
/// Bytes after a footer: its length and a mark.
const TAIL: usize = 8;

/// The parts of the file, made longer, have its records and its error.
pub(super) fn compare(case: &Case) {
    let Some(file) = longer(&case.input) else { return };
    let Ok(Some(parts)) = testing::parts::<Parquet>(&case.setup, &file) else { return };
    let parts = parts.concat();
    // It holds for a whole file, and for a row group.
    let setup = Setup { max_record: 64 << 20, ..case.setup.clone() };
    let planned = setup.clone().planned();
    let found = decode_whole::<Parquet>(&planned, &parts);
    assert_eq!(found, decode_split::<Parquet>(&planned, &parts, &case.pieces));
    let whole = decode_whole::<Parquet>(&setup, &file);
    let (of_parts, of_whole) = (first_message(&found), first_message(&whole));
    if whole.errors.last().is_some_and(|(.., message)| message.ends_with(OUT_OF_ORDER)) {
        assert!(found.records.starts_with(&whole.records));
        assert!(of_whole.zip(of_parts).is_some_and(|(whole, part)| whole.starts_with(part)));
    } else {
        assert_eq!((&found.records, of_parts), (&whole.records, of_whole));
    }
}

fn first_message(outcome: &Outcome) -> Option<&str> {
    outcome.errors.first().map(|(.., message)| message.as_str())
}

/// The file with bytes before its footer that mean nothing.
fn longer(file: &[u8]) -> Option<Vec<u8>> {
    let body = file.len().checked_sub(TAIL)?;
    let length = u32::from_le_bytes(*file[body..].first_chunk()?);
    let footer = body.checked_sub(length as usize)?;
    let (pages, footer) = file.split_at(footer);
    Some([pages, &vec![0; LONG], footer].concat())
}
