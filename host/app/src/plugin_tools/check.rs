//! The properties that must hold for every input, valid or damaged. The pieces in which the input
//! arrives must not change the records. An input that is cut off must give no records that the
//! whole input does not have. The decoder must not fail or break its contract.

use std::sync::Arc;

use pipemill_channel::Failure;
use pipemill_types::{ErrorKind, Field, Scalar, category, list_elements};

use super::decode_run::{DecodeRun, PluginUnderTest, Record};
use crate::json;

/// An input and the property that is checked with it.
#[derive(Debug, Clone)]
pub struct Case {
    /// The input.
    pub input: Arc<[u8]>,
    /// What must hold for it.
    pub property: Property,
}

/// What must hold for an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Property {
    /// The input gives the same result in one piece as in pieces of these sizes, in bytes. One more
    /// piece has the rest.
    Pieces(Vec<usize>),
    /// The first `n` bytes of the input give no record that the whole input does not give. The last
    /// record may be shorter, because in some formats the end of the input ends a record.
    Cut(usize),
}

/// How a property held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CaseOutcome {
    /// Without exception.
    Holds,
    /// The last record of the input that was cut off is shorter than in the whole input.
    LastRecordShortened,
}

/// The message for a last record that is shortened, where that is a fault.
pub(super) const CUT_SHORT: &str = "the end of the input silently cuts the last record short";

impl Case {
    /// Checks the property. With `strict_end`, a shortened last record is a fault, too.
    ///
    /// # Errors
    /// One line that says what does not hold.
    pub fn holds(&self, tested: &PluginUnderTest, strict_end: bool) -> Result<(), String> {
        match self.check(tested)? {
            CaseOutcome::LastRecordShortened if strict_end => Err(CUT_SHORT.to_owned()),
            _ => Ok(()),
        }
    }

    /// Checks the property.
    ///
    /// # Errors
    /// One line that says what does not hold.
    pub(super) fn check(&self, tested: &PluginUnderTest) -> Result<CaseOutcome, String> {
        match &self.property {
            Property::Pieces(pieces) => {
                self.check_pieces(tested, pieces).map(|()| CaseOutcome::Holds)
            }
            Property::Cut(at) => self.check_cut(tested, *at),
        }
    }

    fn check_pieces(&self, tested: &PluginUnderTest, pieces: &[usize]) -> Result<(), String> {
        for skip in [false, true] {
            let whole = tested.decode(&self.input, &[], skip);
            self.check_run(&whole)?;
            if pieces.is_empty() && !skip {
                check_at_once(tested, &self.input, &whole)?;
            }
            let split = tested.decode(&self.input, pieces, skip);
            self.check_run(&split)?;
            if let Some(difference) = difference(&whole, &split) {
                let skipping = if skip { ", decode errors skipped" } else { "" };
                return Err(format!("in pieces it gives something else{skipping}: {difference}"));
            }
            if whole.errors.is_empty() {
                break;
            }
        }
        Ok(())
    }

    fn check_cut(&self, tested: &PluginUnderTest, at: usize) -> Result<CaseOutcome, String> {
        let at = at.min(self.input.len());
        let whole = tested.decode(&self.input, &[], false);
        let input = self.input[..at].into();
        let part = tested.decode(&input, &[], false);
        self.check_run(&part)?;
        check_at_once(tested, &input, &part)
            .map_err(|broken| format!("cut off after {at} bytes: {broken}"))?;
        let (whole_count, count) = (whole.records.len(), part.records.len());
        let differs = part.records.iter().zip(&whole.records).position(|(a, b)| a != b);
        let first = differs.or((count > whole_count).then_some(whole_count));
        match first {
            None => Ok(CaseOutcome::Holds),
            // Only the last record may differ, and only without an error: then the cut ended it.
            Some(record) if record + 1 == count && part.errors.is_empty() => {
                Ok(CaseOutcome::LastRecordShortened)
            }
            Some(record) => {
                let fields = part.schema.as_deref().unwrap_or_default();
                let (found, expected) = (part.records.get(record), whole.records.get(record));
                Err(format!(
                    "cut off after {at} bytes, it gives a record {record} that the whole input \
                     does not have: {}, instead of {}",
                    show(fields, found),
                    show(fields, expected)
                ))
            }
        }
    }

    /// Checks what must hold for every run: no fault of the decoder, starts in order, valid values.
    fn check_run(&self, run: &DecodeRun) -> Result<(), String> {
        let of_decoder = |failure: &&Failure| {
            matches!(failure.fault.kind, ErrorKind::Plugin | ErrorKind::Limit | ErrorKind::Host)
        };
        if let Some(failure) = run.errors.iter().find(of_decoder) {
            let offset =
                failure.position.offset.map_or(String::new(), |at| format!(" at byte offset {at}"));
            return Err(format!("{}{offset}", failure.fault.message));
        }
        let mut before = 0;
        for (index, record) in run.records.iter().enumerate() {
            if record.start < before || record.start > self.input.len() as u64 {
                let (start, length) = (record.start, self.input.len());
                return Err(format!(
                    "record {index} is said to begin at {start}; the one before it begins at \
                     {before}, and the input has {length} bytes"
                ));
            }
            before = record.start;
            let fields = run.schema.as_deref().unwrap_or_default();
            for (field, value) in fields.iter().zip(&record.fields) {
                let problem = value.as_deref().and_then(|value| problem_of_value(field, value));
                if let Some(problem) = problem {
                    return Err(format!("record {index}, field `{}`: {problem}", field.name));
                }
            }
        }
        Ok(())
    }
}

/// Checks that the input gives the same as in `run` if its end is shown together with its bytes. An
/// input larger than a record may be is not checked: no decoder need take it at once.
fn check_at_once(
    tested: &PluginUnderTest,
    input: &Arc<[u8]>,
    run: &DecodeRun,
) -> Result<(), String> {
    if input.is_empty() || input.len() as u64 > tested.max_record {
        return Ok(());
    }
    const SHOWN: &str = "shown together with its end, the input gives something else";
    let once = tested.decode_at_once(input).map_err(|fault| format!("{SHOWN}: {fault}"))?;
    let fields = run.schema.as_deref().unwrap_or_default();
    let (a, b) = (&run.records, &once.records);
    if let Some(at) = (0..a.len().max(b.len())).find(|at| a.get(*at) != b.get(*at)) {
        let (a, b) = (show(fields, a.get(at)), show(fields, b.get(at)));
        return Err(format!("{SHOWN}: record {at} is {b}; it should be {a}"));
    }
    if run.errors.is_empty() != once.error.is_none() {
        let first = run.errors.first().map(|failure| failure.fault.message.as_str());
        return Err(format!(
            "{SHOWN}: the error is {:?}; it should be {:?}",
            once.error.as_deref().unwrap_or("none"),
            first.unwrap_or("none")
        ));
    }
    Ok(())
}

/// Why the value does not have its field's type. A channel does not check this, because it would
/// have to read every byte.
fn problem_of_value(field: &Field, value: &[u8]) -> Option<String> {
    let not_utf8 = |text: &[u8]| {
        let error = std::str::from_utf8(text).err()?;
        Some(format!("is declared utf8, but holds other bytes: {error}"))
    };
    match field.scalar {
        Scalar::Utf8 if field.is_list() => list_elements(value).find_map(not_utf8),
        Scalar::Utf8 => not_utf8(value),
        _ if !field.categories.is_empty() && category(field, value).is_none() => {
            let count = field.categories.len();
            Some(format!("has {count} categories, but holds {value:02x?}, an index beyond them"))
        }
        Scalar::Boolean => value
            .iter()
            .find(|byte| **byte > 1)
            .map(|byte| format!("is declared boolean, but holds the byte {byte:02x}")),
        _ => None,
    }
}

/// The first difference between two runs of the same input.
fn difference(whole: &DecodeRun, split: &DecodeRun) -> Option<String> {
    let fields = whole.schema.as_deref().unwrap_or_default();
    let (a, b) = (&whole.records, &split.records);
    if whole.schema != split.schema && !(a.is_empty() && b.is_empty()) {
        return Some("its schema is another one".to_owned());
    }
    if let Some(at) = (0..a.len().max(b.len())).find(|at| a.get(*at) != b.get(*at)) {
        let (a, b) = (show(fields, a.get(at)), show(fields, b.get(at)));
        return Some(format!("record {at} is {b}; in one piece it is {a}"));
    }
    let (a, b) = (whole.errors.iter(), split.errors.iter());
    let differs = |(a, b): &(&Failure, &Failure)| {
        (a.position.offset, &a.fault.message) != (b.position.offset, &b.fault.message)
    };
    let show_error = |failure: Option<&Failure>| match failure {
        None => "none".to_owned(),
        Some(failure) => {
            let at = failure.position.offset.unwrap_or_default();
            format!("{:?} at byte offset {at}", failure.fault.message)
        }
    };
    if let Some((a, b)) = a.clone().zip(b.clone()).find(differs) {
        return Some(format!(
            "the error is {}; in one piece it is {}",
            show_error(Some(b)),
            show_error(Some(a))
        ));
    }
    if a.len() != b.len() {
        let at = a.len().min(b.len());
        let (a, b) = (show_error(whole.errors.get(at)), show_error(split.errors.get(at)));
        return Some(format!("error number {} is {b}; in one piece it is {a}", at + 1));
    }
    None
}

/// Characters of a record that a message shows.
const MAX_SHOWN: usize = 300;

/// A record for a message: its fields, shortened, and its start.
pub(super) fn show(fields: &[Field], record: Option<&Record>) -> String {
    let Some(record) = record else { return "none".to_owned() };
    let mut text = format!("{:.MAX_SHOWN$}", fields_as_json(fields, record));
    if text.len() >= MAX_SHOWN {
        text.push('…');
    }
    format!("{text} from byte {}", record.start)
}

/// The fields of a record as a JSON object, as `pipemill cat` prints them.
pub(super) fn fields_as_json(fields: &[Field], record: &Record) -> String {
    let pairs = fields.iter().zip(&record.fields).map(|(field, value)| {
        let mut text = Vec::new();
        match value {
            // Writing to a Vec can't fail.
            Some(value) => drop(json::print(&mut text, field, value)),
            None => text.extend(b"null"),
        }
        format!(
            "{}:{}",
            serde_json::Value::from(field.name.as_str()),
            String::from_utf8_lossy(&text)
        )
    });
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
}
