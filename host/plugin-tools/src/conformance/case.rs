//! One case of a test: an input, and a property that must hold for it. A report prints a case as
//! options of the command, which repeat it.

use std::fmt;
use std::sync::Arc;

use pipemill_types::ErrorKind;

use super::compare::{difference, show};
use super::run_check::check_run;
use super::{gaps, max_record, needs, restart, resume, starts};
use crate::decode_run::{DecodeRun, PluginUnderTest, RunError};
use crate::trace::Shown;

/// An input and the property that is checked with it.
#[derive(Debug, Clone)]
pub struct Case {
    /// The input.
    pub input: Arc<[u8]>,
    /// The property that must hold for it.
    pub property: Property,
}

/// A property that must hold for an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Property {
    /// The input gives the same result in one piece as in pieces of these sizes, in bytes. One more
    /// piece has the rest. Its end may be passed together with the last piece.
    Pieces(Vec<usize>),
    /// The input gives the same result in pieces of these sizes if the decoder sees them in its
    /// window, without a copy.
    Window(Vec<usize>),
    /// The first `n` bytes of the input give no record that the whole input does not give, and
    /// nothing is lost without an error. The last record may be shorter, because in some formats
    /// the end of the input ends a record.
    Cut(usize),
    /// The number of bytes that the decoder says it needs is the smallest with which it makes
    /// progress.
    Needs,
    /// This record begins where the decoder says.
    Start(usize),
    /// These bytes, inserted at this position, do not vanish.
    Gap(usize, Vec<u8>),
    /// If the byte at this position has this value, decoding continues at the next record, and few
    /// other records are lost.
    Damage(usize, u8),
    /// With this largest record, only larger records are refused, however the input is split.
    MaxRecord(u64),
    /// If the input arrives in two pieces, and the first one has this many bytes, decoding can
    /// restart where the decoder says.
    Restart(usize),
}

/// The way in which a property holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CaseOutcome {
    /// It holds without exception.
    Holds,
    /// The last record of the input that was cut off is shorter than in the whole input.
    LastRecordShortened,
    /// The input was cut off before its first record, and there is no error.
    NoRecord,
    /// The bytes of a record that was cut off give neither a record nor an error. The text says
    /// which bytes.
    TailSwallowed(String),
}

/// The message for a shortened last record, if that is a fault.
pub(super) const CUT_SHORT: &str = "the end of the input silently cuts the last record short";
/// The message for an input that ends before its first record, if that is a fault.
pub(super) const NO_RECORD: &str =
    "the end of the input silently cuts off what comes before the first record";

impl fmt::Display for Property {
    /// Formats the property as an option of `pipemill plugin test`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pieces(sizes) if sizes.is_empty() => Ok(()),
            Self::Pieces(sizes) => write!(f, "--pieces '{}'", shown_sizes(sizes)),
            Self::Window(sizes) if sizes.is_empty() => f.write_str("--case window"),
            Self::Window(sizes) => write!(f, "--case window={}", shown_sizes(sizes)),
            Self::Cut(at) => write!(f, "--cut {at}"),
            Self::Needs => f.write_str("--case needs"),
            Self::Start(record) => write!(f, "--case start={record}"),
            Self::Gap(at, bytes) => write!(f, "--case gap={at}:{}", hex::encode(bytes)),
            Self::Damage(at, byte) => write!(f, "--case damage={at}:{byte:02x}"),
            Self::MaxRecord(max) => write!(f, "--case max-record={max}"),
            Self::Restart(at) => write!(f, "--case restart={at}"),
        }
    }
}

fn shown_sizes(sizes: &[usize]) -> String {
    sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

impl Property {
    /// Parses the value of `--case`.
    ///
    /// # Errors
    /// The error is a line that says what is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (kind, value) = text.split_once('=').unwrap_or((text, ""));
        let (at, bytes) = value.split_once(':').unwrap_or((value, ""));
        let parsed = match (kind, at.parse::<u64>(), hex::decode(bytes)) {
            ("window", ..) => {
                let sizes = value.split(',').filter(|size| !size.is_empty()).map(str::parse);
                sizes.collect::<Result<_, _>>().ok().map(Self::Window)
            }
            ("needs", _, _) => Some(Self::Needs),
            ("start", Ok(record), _) => Some(Self::Start(record as usize)),
            ("max-record", Ok(max), _) => Some(Self::MaxRecord(max)),
            ("restart", Ok(at), _) => Some(Self::Restart(at as usize)),
            ("gap", Ok(at), Ok(bytes)) => Some(Self::Gap(at as usize, bytes)),
            ("damage", Ok(at), Ok(bytes)) => {
                bytes.first().map(|byte| Self::Damage(at as usize, *byte))
            }
            _ => None,
        };
        parsed.ok_or_else(|| {
            "expected needs, window=SIZES, start=RECORD, max-record=BYTES, restart=OFFSET, \
             gap=OFFSET:HEX or damage=OFFSET:HEX"
                .to_owned()
        })
    }
}

impl Case {
    /// Checks the property. With `strict_end`, a shortened last record is a fault, too.
    ///
    /// # Errors
    /// The error is one line that says what does not hold.
    pub fn holds(&self, tested: &PluginUnderTest, strict_end: bool) -> Result<(), String> {
        match self.check(tested)? {
            CaseOutcome::LastRecordShortened if strict_end => Err(CUT_SHORT.to_owned()),
            CaseOutcome::NoRecord if strict_end => Err(NO_RECORD.to_owned()),
            CaseOutcome::TailSwallowed(broken) => Err(broken),
            _ => Ok(()),
        }
    }

    /// Checks the property.
    ///
    /// # Errors
    /// The error is one line that says what does not hold.
    pub(super) fn check(&self, tested: &PluginUnderTest) -> Result<CaseOutcome, String> {
        match &self.property {
            Property::Pieces(pieces) => self.check_pieces(tested, pieces)?,
            Property::Window(pieces) => self.check_window(tested, pieces)?,
            Property::Cut(at) => return self.check_cut(tested, *at),
            Property::Needs => needs::check(tested, &self.input).map(|_| ())?,
            Property::Start(record) => starts::check(tested, &self.input, *record)?,
            Property::Gap(at, bytes) => gaps::check(tested, &self.input, *at, bytes)?,
            Property::Damage(at, byte) => resume::check(tested, &self.input, *at, *byte)?,
            Property::MaxRecord(max) => max_record::check(tested, &self.input, *max)?,
            Property::Restart(at) => restart::check(tested, &self.input, *at).map(|_| ())?,
        }
        Ok(CaseOutcome::Holds)
    }

    fn check_pieces(&self, tested: &PluginUnderTest, pieces: &[usize]) -> Result<(), String> {
        let size = self.input.len();
        for skip in [false, true] {
            let whole = tested.decode_whole(&self.input, skip);
            check_run(tested, &whole, size)?;
            let skipping = if skip { ", decode errors skipped" } else { "" };
            // If there is only one piece, another instance must give the same result.
            let split = tested.decode(&self.input, pieces, skip);
            check_run(tested, &split, size)?;
            if let Some(other) = difference(&whole, &split, (size, skip), "in one piece it is") {
                return Err(format!("in pieces it gives something else{skipping}: {other}"));
            }
            check_at_once(tested, &self.input, pieces, skip, &whole)?;
            if whole.errors.is_empty() {
                break;
            }
        }
        Ok(())
    }

    fn check_window(&self, tested: &PluginUnderTest, pieces: &[usize]) -> Result<(), String> {
        let size = self.input.len();
        for skip in [false, true] {
            let whole = tested.decode_whole(&self.input, skip);
            let shown = tested.decode_in_window(&self.input, pieces, skip)?;
            check_run(tested, &shown, size)?;
            let skipping = if skip { ", decode errors skipped" } else { "" };
            if let Some(other) = difference(&whole, &shown, (size, skip), "of a copy it is") {
                return Err(format!("in its window it gives something else{skipping}: {other}"));
            }
            if whole.errors.is_empty() {
                break;
            }
        }
        Ok(())
    }

    fn check_cut(&self, tested: &PluginUnderTest, at: usize) -> Result<CaseOutcome, String> {
        let at = at.min(self.input.len());
        let input: Arc<[u8]> = self.input[..at].into();
        let mut outcome = CaseOutcome::Holds;
        for skip in [false, true] {
            let whole = tested.decode_whole(&self.input, skip);
            let part = tested.decode(&input, &[], skip);
            let checked = check_run(tested, &part, at)
                .and_then(|()| check_at_once(tested, &input, &[], skip, &part));
            checked.map_err(|broken| format!("cut off after {at} bytes: {broken}"))?;
            let of_mode = compare_cut(&self.input, at, &whole, &part)?;
            if outcome == CaseOutcome::Holds {
                outcome = of_mode;
            }
            if whole.errors.is_empty() {
                break;
            }
        }
        Ok(outcome)
    }
}

/// Compares the run of the first `at` bytes of an input with the run of all of it.
fn compare_cut(
    input: &[u8],
    at: usize,
    whole: &DecodeRun,
    part: &DecodeRun,
) -> Result<CaseOutcome, String> {
    let (whole_count, count) = (whole.records.len(), part.records.len());
    let differs = part.records.iter().zip(&whole.records).position(|(a, b)| a != b);
    if let Some(record) = differs.or((count > whole_count).then_some(whole_count)) {
        let start = part.records[record].start;
        let has_error = part.errors.iter().any(|error| error.offset >= start);
        // Only the last record may differ, and only without an error: the cut ended it then.
        if record + 1 == count && !has_error {
            return Ok(CaseOutcome::LastRecordShortened);
        }
        let fields = part.fields();
        let (found, expected) = (part.records.get(record), whole.records.get(record));
        return Err(format!(
            "cut off after {at} bytes, it gives a record {record} that the whole input does not \
             have: {}, instead of {}",
            show(fields, found),
            show(fields, expected)
        ));
    }
    let key = |error: &RunError| (error.offset, error.message.clone());
    let is_new = |error: &RunError| !whole.errors.iter().any(|known| key(known) == key(error));
    if part.errors.iter().any(is_new) {
        return Ok(CaseOutcome::Holds);
    }
    // A search for a record that reached the end has skipped the bytes there: they belong to the
    // error.
    let is_open = |error: &RunError| error.resumed.place().is_some_and(|place| place >= at as u64);
    if part.errors.iter().any(is_open) {
        return Ok(CaseOutcome::Holds);
    }
    // Without another error, there must be a record for all bytes except for blanks.
    let Some(next) = whole.records.get(count).map(|record| record.start as usize) else {
        return Ok(CaseOutcome::Holds);
    };
    if next >= at {
        let is_first = count == 0 && at > 0 && at < next;
        return Ok(if is_first { CaseOutcome::NoRecord } else { CaseOutcome::Holds });
    }
    let tail = &input[next..at];
    if tail.iter().all(u8::is_ascii_whitespace) {
        return Ok(CaseOutcome::Holds);
    }
    Ok(CaseOutcome::TailSwallowed(format!(
        "a truncated tail is swallowed: cut off after {at} bytes, record {count}, which begins at \
         byte {next}, gives neither a record nor an error: the last {} bytes are silently lost",
        tail.len()
    )))
}

/// Checks that the input in these pieces gives the same result as in `run` if its end is passed
/// together with the last piece. An input larger than a record may be is not checked: no decoder
/// has to accept it at once.
fn check_at_once(
    tested: &PluginUnderTest,
    input: &Arc<[u8]>,
    pieces: &[usize],
    skip: bool,
    run: &DecodeRun,
) -> Result<(), String> {
    let too_large = run.errors.iter().any(|error| error.kind == ErrorKind::TooLarge);
    if input.is_empty() || input.len() as u64 > tested.max_record || too_large {
        return Ok(());
    }
    const SHOWN: &str = "shown together with its end, the input gives something else";
    let shown = Shown { pieces, end_with_last: true, skip, ..Shown::default() };
    let once = tested.trace(input, shown).run;
    check_run(tested, &once, input.len()).map_err(|broken| format!("{SHOWN}: {broken}"))?;
    let skipping = if skip { ", decode errors skipped" } else { "" };
    match difference(run, &once, (input.len(), skip), "it should be") {
        None => Ok(()),
        Some(other) => Err(format!("{SHOWN}{skipping}: {other}")),
    }
}
