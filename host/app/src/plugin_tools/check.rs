//! What must hold of every input, good or damaged: the same records in whatever pieces it comes,
//! nothing invented where it is cut off, and a decoder that neither fails nor breaks its contract.

use std::sync::Arc;

use super::decode_run::{DecodeRun, PluginUnderTest, Record};
use crate::json;
use pipemill_channel::Failure;
use pipemill_types::{ErrorKind, Field, Scalar};

/// An input and what is done with it.
#[derive(Debug, Clone)]
pub struct Case {
    /// The input.
    pub input: Arc<[u8]>,
    /// What must hold of it.
    pub property: Property,
}

/// What must hold of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Property {
    /// It gives the same in one piece as in pieces of these sizes, with all the rest in the last.
    Pieces(Vec<usize>),
    /// Its first so many bytes give no record that it does not have itself; but the last may be cut
    /// short, where the end of the input is as good as the end of a record.
    Cut(usize),
}

/// What the end of an input that was cut off is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AtEnd {
    /// An error, or the end of a record that the whole input has, too.
    Sound,
    /// The end of a record that is a longer one in the whole input.
    Short,
}

pub(super) const CUT_SHORT: &str = "the end of the input silently cuts the last record short";

impl Case {
    /// Whether the property holds. With `strict_end`, a last record that is cut short breaks it, too.
    ///
    /// # Errors
    /// What does not hold, in a line.
    pub fn holds(&self, subject: &PluginUnderTest, strict_end: bool) -> Result<(), String> {
        match self.check(subject)? {
            AtEnd::Short if strict_end => Err(CUT_SHORT.to_owned()),
            _ => Ok(()),
        }
    }

    /// Checks the property; an error says in a line what does not hold.
    pub(super) fn check(&self, subject: &PluginUnderTest) -> Result<AtEnd, String> {
        match &self.property {
            Property::Pieces(pieces) => self.check_pieces(subject, pieces).map(|()| AtEnd::Sound),
            Property::Cut(at) => self.check_cut(subject, *at),
        }
    }

    fn check_pieces(&self, subject: &PluginUnderTest, pieces: &[usize]) -> Result<(), String> {
        for skip in [false, true] {
            let whole = subject.read(&self.input, &[], skip);
            self.check_reading(&whole)?;
            let split = subject.read(&self.input, pieces, skip);
            self.check_reading(&split)?;
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

    fn check_cut(&self, subject: &PluginUnderTest, at: usize) -> Result<AtEnd, String> {
        let at = at.min(self.input.len());
        let whole = subject.read(&self.input, &[], false);
        let part = subject.read(&self.input[..at].into(), &[], false);
        self.check_reading(&part)?;
        let (known, count) = (whole.records.len(), part.records.len());
        let differs = part.records.iter().zip(&whole.records).position(|(a, b)| a != b);
        let first = differs.or((count > known).then_some(known));
        match first {
            None => Ok(AtEnd::Sound),
            // Another error further on than the end of the part says nothing about it.
            Some(record) if record + 1 == count && part.errors.is_empty() => Ok(AtEnd::Short),
            Some(record) => {
                let fields = part.schema.as_deref().unwrap_or_default();
                let (invented, true_one) = (part.records.get(record), whole.records.get(record));
                Err(format!(
                    "cut off after {at} bytes, it gives a record {record} that the whole input does \
                     not have: {}, instead of {}",
                    show(fields, invented),
                    show(fields, true_one)
                ))
            }
        }
    }

    /// What must hold of any reading.
    fn check_reading(&self, reading: &DecodeRun) -> Result<(), String> {
        let of_decoder = |failure: &&Failure| {
            matches!(failure.fault.kind, ErrorKind::Plugin | ErrorKind::Limit | ErrorKind::Host)
        };
        if let Some(failure) = reading.errors.iter().find(of_decoder) {
            let place =
                failure.position.offset.map_or(String::new(), |at| format!(" at byte offset {at}"));
            return Err(format!("{}{place}", failure.fault.message));
        }
        let mut before = 0;
        for (index, record) in reading.records.iter().enumerate() {
            if record.start < before || record.start > self.input.len() as u64 {
                let (start, length) = (record.start, self.input.len());
                return Err(format!(
                    "record {index} is said to begin at {start}; the one before it begins at {before}, \
                     and the input has {length} bytes"
                ));
            }
            before = record.start;
            let fields = reading.schema.as_deref().unwrap_or_default();
            for (field, value) in fields.iter().zip(&record.fields) {
                let fault = value.as_deref().and_then(|value| wrong_value(field, value));
                if let Some(fault) = fault {
                    return Err(format!("record {index}, field `{}`: {fault}", field.name));
                }
            }
        }
        Ok(())
    }
}

/// What the host does not look at in a channel, because it would have to look at every byte.
fn wrong_value(field: &Field, value: &[u8]) -> Option<String> {
    match field.scalar {
        Scalar::Utf8 => std::str::from_utf8(value)
            .err()
            .map(|error| format!("is declared utf8, but holds other bytes: {error}")),
        Scalar::Boolean => value
            .iter()
            .find(|byte| **byte > 1)
            .map(|byte| format!("is declared boolean, but holds the byte {byte:02x}")),
        _ => None,
    }
}

/// What differs first.
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
    let told = |failure: Option<&Failure>| match failure {
        None => "none".to_owned(),
        Some(failure) => {
            let at = failure.position.offset.unwrap_or_default();
            format!("{:?} at byte offset {at}", failure.fault.message)
        }
    };
    if let Some((a, b)) = a.clone().zip(b.clone()).find(differs) {
        return Some(format!(
            "the error is {}; in one piece it is {}",
            told(Some(b)),
            told(Some(a))
        ));
    }
    if a.len() != b.len() {
        let at = a.len().min(b.len());
        let (a, b) = (told(whole.errors.get(at)), told(split.errors.get(at)));
        return Some(format!("error number {} is {b}; in one piece it is {a}", at + 1));
    }
    None
}

/// Longest text of a record in a message.
const SHOWN: usize = 300;

/// A record as a person reads it.
pub(super) fn show(fields: &[Field], record: Option<&Record>) -> String {
    let Some(record) = record else { return "none".to_owned() };
    let mut text = format!("{:.SHOWN$}", fields_as_json(fields, record));
    if text.len() >= SHOWN {
        text.push('…');
    }
    format!("{text} from byte {}", record.start)
}

/// The fields of a record as `pipemill cat` prints them.
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
