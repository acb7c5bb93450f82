//! A typed reader for a TOML table. It records each fault and goes on: one pass finds all faults.

use std::path::PathBuf;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use pipemill_source::{OtherAddress, other_address};
use pipemill_types::nearest;

use super::document::{Document, Purpose, ReadResult, Reported};
use super::fault::TextPosition;
use super::key::{Choice, Flag, FreeForm, Key, Number, Table, Unit};
use super::keys::{FOREVER, TABLES, WEIGHT, WEIGHTS};
use super::presets::{Preset, Rank};
use super::values::{self, Invalid, quoted};

/// A string value with its variables replaced.
pub(super) struct StringValue {
    pub(super) text: String,
    /// The text as the file has it, if variables changed it.
    raw: Option<String>,
}

impl StringValue {
    /// The text that follows "found" in a message.
    pub(super) fn found(&self) -> String {
        format!("{}{}", quoted(&self.text), self.origin())
    }

    fn origin(&self) -> String {
        self.raw.as_ref().map_or(String::new(), |raw| format!(" (from {})", quoted(raw)))
    }
}

/// Reads one table of the file.
pub(super) struct Reader<'a> {
    doc: &'a Document<'a>,
    table: &'a DeTable<'a>,
    /// Byte offset of the table. For a missing table: the offset of the table around it.
    at: usize,
    path: String,
    /// The name of the channel that the table belongs to, if the name is valid.
    channel: Option<String>,
    /// Keys that an unknown key was most likely meant to be: they are not reported as missing.
    likely_meant: Vec<(&'static str, Reported)>,
    /// The fault of the last unknown key.
    unknown: Option<Reported>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        doc: &'a Document<'a>,
        table: &'a DeTable<'a>,
        at: usize,
        path: String,
        channel: Option<String>,
    ) -> Reader<'a> {
        Reader { doc, table, at, path, channel, likely_meant: Vec::new(), unknown: None }
    }

    /// Records a fault for every key that the table does not have.
    pub(super) fn refuse_unknown_keys(mut self, schema: &'static Table) -> Reader<'a> {
        let known = schema.names();
        for (key, _) in self.table {
            let name = key.get_ref().as_ref();
            if known.contains(&name) {
                continue;
            }
            let home = TABLES.iter().find(|table| table.names().contains(&name));
            let near = nearest(name, &known).filter(|_| home.is_none());
            let remedy = match (home, near) {
                (Some(home), _) => format!("it belongs in {}", home.name),
                (None, Some(near)) => format!("did you mean `{near}`?"),
                (None, None) => format!("known here: {}", known.join(", ")),
            };
            let fault = Invalid { message: "unknown key".to_owned(), remedy };
            let reported = self.report(key.span().start, name, fault);
            self.unknown = Some(reported);
            self.likely_meant.extend(near.map(|near| (near, reported)));
        }
        self
    }

    /// The platform's description of this channel.
    pub(super) fn preset(&self) -> Option<&'a Preset> {
        self.doc.presets().channels.get(self.channel.as_deref()?)
    }

    pub(super) fn rank(&self) -> Result<Rank, String> {
        self.doc.rank()
    }

    pub(super) fn purpose(&self) -> Purpose {
        self.doc.purpose()
    }

    fn report(&self, at: usize, name: &str, fault: Invalid) -> Reported {
        let path = match (self.path.as_str(), key_text(name)) {
            ("", key) => key,
            (path, key) => format!("{path}.{key}"),
        };
        self.doc.report(at, self.channel.as_deref(), path, fault)
    }

    /// Records a fault of one key, at its value if it has one.
    pub(super) fn fault(&self, name: &str, message: String, remedy: String) -> Reported {
        self.report(self.offset(name), name, Invalid { message, remedy })
    }

    /// Records that a key has another value than expected.
    pub(super) fn wrong(
        &self,
        name: &str,
        expected: &str,
        found: &str,
        remedy: String,
    ) -> Reported {
        self.fault(name, format!("expected {expected}, found {found}"), remedy)
    }

    fn value(&self, name: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table.get(name)
    }

    pub(super) fn has(&self, key: &dyn Key) -> bool {
        self.value(key.name()).is_some()
    }

    fn offset(&self, name: &str) -> usize {
        self.value(name).map_or(self.at, |value| value.span().start)
    }

    /// The place of the key's value. For a missing key: the place of the table.
    pub(super) fn place(&self, name: &str) -> TextPosition {
        self.doc.place(self.offset(name))
    }

    /// The names of all keys, in the order of the file.
    pub(super) fn names(&self) -> Vec<&'a str> {
        let mut keys: Vec<_> = self.table.keys().collect();
        keys.sort_by_key(|key| key.span().start);
        keys.into_iter().map(|key| key.get_ref().as_ref()).collect()
    }

    /// The value of a required key.
    pub(super) fn required<T>(&self, key: &dyn Key, value: ReadResult<Option<T>>) -> ReadResult<T> {
        value?.ok_or_else(|| {
            let likely = self.likely_meant.iter().find(|(name, _)| *name == key.name());
            likely.map_or_else(|| self.missing(key), |(_, reported)| *reported)
        })
    }

    fn missing(&self, key: &dyn Key) -> Reported {
        self.fault(key.name(), "missing".to_owned(), format!("give {}", key.expected()))
    }

    /// The fault of an unknown key, if there was one: it may be what a missing key was meant to be.
    pub(super) fn unknown(&self) -> Option<Reported> {
        self.unknown
    }

    /// A string or a list of strings. An empty list or an empty string is a fault.
    pub(super) fn texts(&self, key: &FreeForm) -> ReadResult<Option<Vec<String>>> {
        let list = match self.value(key.name).map(Spanned::get_ref) {
            None => return Ok(None),
            Some(DeValue::Array(list)) => list,
            Some(_) => {
                let one = self.text(key.name, key.expected)?;
                return self.not_empty(key, one.into_iter().collect());
            }
        };
        let given = list.iter().map(|value| match value.get_ref() {
            DeValue::String(raw) => self.expanded(value, raw, key.name),
            other => Err(self.wrong(key.name, key.expected, &describe(other), String::new())),
        });
        // Reads all of them first, to find each fault.
        let given: Vec<_> = given.collect();
        self.not_empty(key, given.into_iter().collect::<ReadResult<_>>()?)
    }

    /// A list of whole numbers and strings, all as texts.
    pub(super) fn numbers_and_texts(&self, key: &FreeForm) -> ReadResult<Option<Vec<String>>> {
        let list = match self.value(key.name).map(Spanned::get_ref) {
            None => return Ok(None),
            Some(DeValue::Array(list)) => list,
            Some(other) => {
                let remedy = "write a list, in brackets".to_owned();
                return Err(self.wrong(key.name, key.expected, &describe(other), remedy));
            }
        };
        let given = list.iter().map(|value| match value.get_ref() {
            DeValue::String(raw) => Ok(self.expanded(value, raw, key.name)?.text),
            DeValue::Integer(number) => {
                Ok(whole(number).map_or_else(|| number.to_string(), |number| number.to_string()))
            }
            other => {
                let found = format!("{} in it", describe(other));
                Err(self.wrong(key.name, key.expected, &found, String::new()))
            }
        });
        given.collect::<ReadResult<_>>().map(Some)
    }

    fn not_empty(
        &self,
        key: &FreeForm,
        given: Vec<StringValue>,
    ) -> ReadResult<Option<Vec<String>>> {
        if given.is_empty() {
            return Err(self.wrong(key.name, key.expected, "an empty list", String::new()));
        }
        if let Some(empty) = given.iter().find(|given| given.text.is_empty()) {
            return Err(self.wrong(key.name, key.expected, &empty.found(), String::new()));
        }
        Ok(Some(given.into_iter().map(|given| given.text).collect()))
    }

    /// A string with its variables replaced.
    pub(super) fn text(&self, name: &str, expected: &str) -> ReadResult<Option<StringValue>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let DeValue::String(raw) = value.get_ref() else {
            return Err(self.wrong(name, expected, &describe(value.get_ref()), String::new()));
        };
        self.expanded(value, raw, name).map(Some)
    }

    fn expanded(&self, value: &Spanned<DeValue>, raw: &str, name: &str) -> ReadResult<StringValue> {
        match self.doc.expand(raw) {
            Ok(text) => {
                let raw = Some(raw.to_string()).filter(|raw| *raw != text);
                Ok(StringValue { text, raw })
            }
            Err(faults) => {
                let report = |_, fault| Some(self.report(value.span().start, name, fault));
                let last = faults.into_iter().fold(None, report);
                // `expand` reports at least one fault when it fails, so the default is never used.
                Err(last.unwrap_or_else(|| self.fault(name, "a bad `$`".to_owned(), String::new())))
            }
        }
    }

    /// A path that is not empty and has no zero byte.
    pub(super) fn path(&self, key: &FreeForm) -> ReadResult<Option<PathBuf>> {
        let Some(text) = self.non_empty_text(key)? else { return Ok(None) };
        self.refuse_other_address(key, &text)?;
        Ok(Some(PathBuf::from(text)))
    }

    /// Refuses an address of a store that is not read.
    pub(super) fn refuse_other_address(&self, key: &FreeForm, text: &str) -> ReadResult<()> {
        let Some(OtherAddress { what, remedy }) = other_address(text) else { return Ok(()) };
        Err(self.fault(key.name, format!("{text:?} is {what}"), remedy.to_owned()))
    }

    /// A string that is not empty and has no zero byte.
    pub(super) fn non_empty_text(&self, key: &FreeForm) -> ReadResult<Option<String>> {
        let Some(given) = self.text(key.name, key.expected)? else { return Ok(None) };
        if given.text.is_empty() || given.text.contains('\0') {
            return Err(self.wrong(key.name, key.expected, &given.found(), String::new()));
        }
        Ok(Some(given.text))
    }

    /// The value of a choice.
    pub(super) fn choice<T: Copy + PartialEq + Sync>(&self, key: &Choice<T>) -> ReadResult<T> {
        let expected = key.expected();
        let Some(given) = self.text(key.name, &expected)? else { return Ok(key.default) };
        if let Some((_, value)) = key.words.iter().find(|(word, _)| *word == given.text) {
            return Ok(*value);
        }
        let words: Vec<_> = key.words.iter().map(|(word, _)| *word).collect();
        let near = nearest(&given.text, &words);
        let remedy = near.map_or(String::new(), |near| format!("did you mean \"{near}\"?"));
        Err(self.wrong(key.name, &expected, &given.found(), remedy))
    }

    /// `true` or `false`, or a string whose variable contains one of them.
    pub(super) fn flag(&self, key: &Flag) -> ReadResult<bool> {
        Ok(self.boolean(key.name, &key.expected())?.unwrap_or(false))
    }

    /// Like [`Reader::flag`], without a default.
    pub(super) fn boolean(&self, name: &str, expected: &str) -> ReadResult<Option<bool>> {
        match self.value(name).map(Spanned::get_ref) {
            None => Ok(None),
            Some(DeValue::Boolean(value)) => Ok(Some(*value)),
            Some(DeValue::String(raw)) if raw.contains('$') => {
                let Some(given) = self.text(name, expected)? else { return Ok(None) };
                let value = given.text.parse().map(Some);
                value.map_err(|_| self.wrong(name, expected, &given.found(), String::new()))
            }
            Some(other) => Err(self.wrong(name, expected, &describe(other), String::new())),
        }
    }

    /// Whether the value is a whole number, or a string whose variable contains one.
    pub(super) fn is_count(&self, key: &FreeForm) -> bool {
        match self.value(key.name).map(Spanned::get_ref) {
            Some(DeValue::Integer(_)) => true,
            Some(DeValue::String(raw)) if raw.contains('$') => {
                self.doc.expand(raw).is_ok_and(|text| text.parse::<u64>().is_ok())
            }
            _ => false,
        }
    }

    /// Whether the value is a string.
    pub(super) fn is_text(&self, key: &FreeForm) -> bool {
        matches!(self.value(key.name).map(Spanned::get_ref), Some(DeValue::String(_)))
    }

    /// A number that has a default.
    pub(super) fn number(&self, key: &Number<u64>) -> ReadResult<u64> {
        Ok(self.optional_number(key)?.unwrap_or(key.default))
    }

    /// A time, or `None` for "forever".
    pub(super) fn timeout<D>(
        &self,
        key: &Number<D>,
        default: Option<Duration>,
    ) -> ReadResult<Option<Duration>> {
        if let Some(DeValue::String(raw)) = self.value(key.name).map(Spanned::get_ref)
            && self.doc.expand(raw).is_ok_and(|text| text == FOREVER)
        {
            return Ok(None);
        }
        Ok(self.optional_number(key)?.map_or(default, |millis| Some(Duration::from_millis(millis))))
    }

    /// A number without a default.
    pub(super) fn optional_number<D>(&self, key: &Number<D>) -> ReadResult<Option<u64>> {
        let Some(value) = self.value(key.name) else { return Ok(None) };
        let (number, found) = match (key.unit, value.get_ref()) {
            (Unit::Count, DeValue::Integer(number)) => (whole(number), number.to_string()),
            (Unit::Count, DeValue::String(raw)) if raw.contains('$') => {
                let Some(given) = self.text(key.name, &key.range())? else { return Ok(None) };
                (given.text.parse().ok(), given.found())
            }
            (Unit::Count, other) => {
                let quotes = other.as_str().is_some_and(|text| text.parse::<u64>().is_ok());
                let remedy = if quotes { "write it without quotes" } else { "" };
                return Err(self.wrong(
                    key.name,
                    &key.range(),
                    &describe(other),
                    remedy.to_owned(),
                ));
            }
            (unit, DeValue::Integer(number)) => {
                let found = format!("{number} without a unit");
                let remedy = unit_remedy(unit, whole(number));
                return Err(self.wrong(key.name, &key.range(), &found, remedy));
            }
            (unit, _) => {
                let Some(given) = self.text(key.name, &key.range())? else { return Ok(None) };
                (Some(self.measure(key.name, unit, &given)?), given.found())
            }
        };
        match number.filter(|number| (key.min..=key.max).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(key.name, &key.range(), &found, String::new())),
        }
    }

    /// A size in bytes or a time in milliseconds.
    fn measure(&self, name: &str, unit: Unit, given: &StringValue) -> ReadResult<u64> {
        let value = if unit == Unit::Size {
            values::parse_size(&given.text)
        } else {
            // Whole milliseconds made from a u64, so the cast back loses nothing.
            values::parse_duration(&given.text).map(|time| time.as_millis() as u64)
        };
        value.map_err(|Invalid { message, remedy }| {
            self.fault(name, format!("{message}{}", given.origin()), remedy)
        })
    }

    /// The weight of a mixed channel, in millionths.
    pub(super) fn weight(&self, name: &str) -> ReadResult<u64> {
        let Some(value) = self.value(name) else { return Ok(0) };
        let number = match value.get_ref() {
            DeValue::Float(number) => number.as_str().replace('_', "").parse::<f64>().ok(),
            DeValue::Integer(number) => parse_integer(number).map(|number| number as f64),
            _ => None,
        };
        let millionths = number.map_or(0.0, |number| (number * 1e6).round());
        let (least, most) = WEIGHTS;
        if (least as f64..=most as f64).contains(&millionths) {
            return Ok(millionths as u64);
        }
        Err(self.wrong(name, WEIGHT, &describe(value.get_ref()), String::new()))
    }

    /// A table inside this one. A missing table is read like an empty one.
    pub(super) fn table(&self, key: &FreeForm, remedy: &str) -> ReadResult<Reader<'a>> {
        let inner = match self.value(key.name).map(Spanned::get_ref) {
            None => self.doc.empty(),
            Some(DeValue::Table(table)) => table,
            Some(other) => {
                return Err(self.wrong(
                    key.name,
                    key.expected,
                    &describe(other),
                    remedy.to_owned(),
                ));
            }
        };
        let path = match self.path.as_str() {
            "" => key.name.to_owned(),
            path => format!("{path}.{}", key.name),
        };
        Ok(Reader::new(self.doc, inner, self.offset(key.name), path, self.channel.clone()))
    }

    /// The plain text of a string, whole number or boolean.
    pub(super) fn scalar(&self, name: &str, expected: &str) -> ReadResult<String> {
        match self.value(name).map(Spanned::get_ref) {
            Some(DeValue::Integer(number)) => match parse_integer(number) {
                Some(number) => Ok(number.to_string()),
                None => Err(self.wrong(name, expected, &number.to_string(), String::new())),
            },
            Some(DeValue::Boolean(value)) => Ok(value.to_string()),
            _ => Ok(self.text(name, expected)?.map_or(String::new(), |given| given.text)),
        }
    }
}

/// A key as part of a path: quoted if it is not a bare key.
fn key_text(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { quoted(name) }
}

/// The text that follows "found" in a message.
pub(super) fn describe(value: &DeValue) -> String {
    match value {
        DeValue::String(text) => quoted(text),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(_) => "a date or time".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

fn parse_integer(number: &DeInteger) -> Option<i128> {
    i128::from_str_radix(number.as_str(), number.radix()).ok()
}

/// The number, if it is a `u64`.
fn whole(number: &DeInteger) -> Option<u64> {
    parse_integer(number).and_then(|number| u64::try_from(number).ok())
}

/// The remedy for a number without a unit.
fn unit_remedy(unit: Unit, number: Option<u64>) -> String {
    match (unit, number) {
        (Unit::Size, Some(bytes)) => {
            format!("give the unit, in quotes: \"{}\" if bytes are meant", values::show_size(bytes))
        }
        (_, Some(seconds)) => {
            format!("give the unit, in quotes: \"{seconds}s\" if seconds are meant")
        }
        (_, None) => "give a whole number with its unit, in quotes".to_owned(),
    }
}
