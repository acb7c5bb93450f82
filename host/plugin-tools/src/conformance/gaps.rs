//! Checks whether bytes between records vanish: bytes that are inserted at the start of a record
//! must give an error or change a record. They must not be skipped silently.
//!
//! Garbage is tried at each position. Then comes padding: one byte, repeated. Each byte is tried,
//! because a decoder may skip only one of them. See [`insertions`].

use std::sync::Arc;

use super::positions::spread;
use super::structure::Structure;
use crate::decode_run::PluginUnderTest;
use crate::trace::Shown;

/// Letters, and bytes that are not text. Neither has blanks or signs that begin a comment.
const GARBAGE: [&[u8]; 2] =
    [b"Qj7xZ", b"\xe9\x81\xd4\xb2\xfe\x97\xc6\xaa\xbd\x8f\xf3\xd1\x9c\xe2\xb7\x85"];
/// Number of insertions of garbage.
const MAX_GARBAGE: usize = 64;
/// Bytes that formats use as padding. They are tried at several places.
const PADDING: [u8; 6] = [0, 0xff, b' ', b'\n', b'\r', b'\t'];
/// Number of positions at which each of them is tried.
const PADDING_PLACES: usize = 6;
/// Repetitions of a byte: once, and enough to fill words of any size.
const LENGTHS: [usize; 2] = [1, 16];
/// Size in bytes of an archive's block, which may be filled with zeros.
const BLOCK: usize = 512;
/// If the neighbouring bytes, this many, equal the inserted byte, the insertion only lengthens
/// padding.
const SAME_AROUND: usize = 8;
/// Bytes that are allowed between records of a text: blanks, ends of lines, and the end-of-file
/// byte of DOS.
const TEXT_BLANKS: &[u8] = b"\t\n\x0b\x0c\r \x1a";

/// A position, and the bytes that are inserted there.
pub(super) type Insertion = (usize, Vec<u8>);

/// All insertions into an input, the most telling ones first: garbage at the end of each record;
/// then each padding at some of them; then each byte at one of them.
pub(super) fn insertions(structure: &Structure) -> Vec<Insertion> {
    let input = &structure.input;
    let mut places: Vec<usize> = structure.units.iter().map(|start| *start as usize).collect();
    places.push(input.len());
    let order: Vec<usize> = spread(places.len()).map(|index| places[index]).collect();
    let garbage = order.iter().flat_map(|at| GARBAGE.map(|bytes| (*at, bytes.to_vec())));
    let mut all: Vec<_> = garbage.take(MAX_GARBAGE).collect();
    // The ends of the input come first: many formats have padding only there.
    let ends = [input.len(), places[0]];
    let others = order.iter().copied().filter(|at| !ends.contains(at));
    let some: Vec<_> = ends.into_iter().chain(others).take(PADDING_PLACES).collect();
    let is_text = is_text(input);
    let mut add = |at: usize, byte: u8, length: usize| {
        let is_blank = is_text && TEXT_BLANKS.contains(&byte);
        if !is_blank && !is_among_the_same(input, at, byte) {
            all.push((at, vec![byte; length]));
        }
    };
    for byte in PADDING {
        for length in LENGTHS {
            some.iter().for_each(|at| add(*at, byte, length));
        }
    }
    some.iter().for_each(|at| add(*at, 0, BLOCK));
    for (number, byte) in (0..=u8::MAX).enumerate() {
        for length in LENGTHS {
            add(order[number % order.len()], byte, length);
        }
    }
    all
}

/// Whether the input is a text in some encoding: it has no control characters except for blanks.
fn is_text(input: &[u8]) -> bool {
    input.iter().all(|byte| *byte >= b' ' || TEXT_BLANKS.contains(byte))
}

/// Whether the bytes before the position, or after it, are this byte.
fn is_among_the_same(input: &[u8], at: usize, byte: u8) -> bool {
    let is_same = |part: &[u8]| part.len() >= SAME_AROUND && part.iter().all(|one| *one == byte);
    let (before, after) = input.split_at(at);
    is_same(&before[before.len().saturating_sub(SAME_AROUND)..])
        || is_same(&after[..after.len().min(SAME_AROUND)])
}

/// Checks bytes that are inserted at a position.
///
/// # Errors
/// The error is one line that says that they vanish.
pub(super) fn check(
    tested: &PluginUnderTest,
    input: &Arc<[u8]>,
    at: usize,
    bytes: &[u8],
) -> Result<(), String> {
    let Some(structure) = Structure::of(tested, input) else { return Ok(()) };
    judge(tested, &structure, at, bytes)
}

/// As [`check`], for an input whose structure is known.
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
            // A record that begins before the inserted bytes contains them.
            let shift = if record.start < at as u64 { 0 } else { bytes.len() as u64 };
            found.fields == record.fields && found.start == record.start + shift
        });
    if !vanished {
        return Ok(());
    }
    Err(format!(
        "silently skipped {} at byte {at} give no error and change no record; if the format allows \
         such bytes between records: --allow-gaps",
        describe(bytes),
    ))
}

/// The inserted bytes for a message.
fn describe(bytes: &[u8]) -> String {
    match bytes {
        [byte, rest @ ..] if rest.iter().all(|other| other == byte) => {
            format!("padding: {} bytes {byte:02x} that are inserted", bytes.len())
        }
        _ => {
            format!("garbage: {} bytes that are inserted ({})", bytes.len(), hex::encode(bytes))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{is_among_the_same, is_text};

    #[test]
    fn a_text_has_no_control_characters() {
        assert!(is_text("a,b\r\n1,\u{e9}\n\x1a".as_bytes()));
        assert!(is_text(b"caf\xe9\n"));
        assert!(!is_text(b"\x03abc"));
        assert!(!is_text(b"a\0"));
    }

    #[test]
    fn padding_next_to_the_same_padding_is_no_other_input() {
        let input = [&[7; 8][..], &[0; 8], &[0xa5; 3]].concat();
        assert!(is_among_the_same(&input, 8, 0));
        assert!(is_among_the_same(&input, 16, 0));
        assert!(!is_among_the_same(&input, 18, 0));
        assert!(!is_among_the_same(&input, 19, 0xa5));
        assert!(is_among_the_same(&input, 8, 7));
    }
}
