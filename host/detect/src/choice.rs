//! Chooses a decoder by an object's name and first bytes, with the reason; or refuses, and names
//! the possible decoders.

use pipemill_decode::DetectionRule;
use pipemill_source::SourceError;

use super::Format;
use super::bytes::Sniffed;
use super::dialect::Dialect;
use super::name::{self, NameSays, by_name};
use super::obstacle::Obstacle;
use super::text::{Json, Text};

/// The decoder of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The object by which it was chosen.
    pub object: String,
    pub(super) format: Format,
    /// Options of the format that its first rows show, and that were not given.
    pub(super) found: Vec<(&'static str, String)>,
    /// The reason, for people.
    why: String,
}

/// The options of csv when it was found, because then the user has not described the columns.
const CSV_OPTIONS: [(&str, &str); 2] = [("header", "auto"), ("types", "auto")];

impl Choice {
    /// The name of the decoder.
    pub fn decoder(&self) -> &str {
        self.format.decoder()
    }

    /// The reason in one line, with the decoder and its options.
    pub fn explanation(&self, given: &[(String, String)]) -> String {
        let mut options = self.options(given);
        options.retain(|option| !given.contains(option));
        let options: Vec<_> =
            options.iter().map(|(name, value)| format!("{name}={}", shown(value))).collect();
        let options = match options.as_slice() {
            [] => String::new(),
            options => format!(" with {}", options.join(", ")),
        };
        format!("decoder {}{options}: {}", self.decoder(), self.why)
    }

    /// Whether the data is a table whose first rows show if there is a header.
    pub(super) fn may_have_header(&self, dialect: &Dialect) -> bool {
        matches!(self.format, Format::Csv { .. }) && dialect.finds_header
    }

    /// The same choice for a table whose header the next object shows: the delimiter comes from
    /// that object, too.
    pub(super) fn with_header_as(mut self, next: &Self) -> Self {
        if matches!(next.format, Format::Csv { .. }) {
            (self.format, self.found) = (next.format.clone(), next.found.clone());
            self.found.push(("header", "true".to_owned()));
            self.why += &format!("; its only row is the header of {}", next.object);
        }
        self
    }

    /// The options of the decoder: the given ones, and those of the format that were not given.
    pub fn options(&self, given: &[(String, String)]) -> Vec<(String, String)> {
        let mut options = given.to_vec();
        for (name, value) in &self.found {
            // The value `auto` is replaced by the value that the first rows show.
            let asked = |(other, value): &&mut (String, String)| other == name && value == "auto";
            options.iter_mut().filter(asked).for_each(|option| option.1.clone_from(value));
        }
        let has = |name: &str| given.iter().any(|(given, _)| given == name);
        let mut add = |name: &str, value: &str| {
            if !options.iter().any(|(other, _)| other == name) {
                options.push((name.to_owned(), value.to_owned()));
            }
        };
        if let Format::Csv { delimiter } = &self.format {
            match delimiter {
                None | Some(b',') => {}
                Some(b'\t') => add("delimiter", "tab"),
                Some(other) => add("delimiter", &(*other as char).to_string()),
            }
            for (name, value) in &self.found {
                add(name, value);
            }
            for (name, value) in CSV_OPTIONS {
                // `types` means nothing for rows and tensors, and a row has no header.
                let applies = !has("emit") || given.iter().any(|(_, value)| value == "fields");
                if applies || name == "header" {
                    add(name, value);
                }
            }
        }
        options
    }
}

fn shown(value: &str) -> String {
    if value.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        value.to_owned()
    } else {
        format!("{value:?}")
    }
}

/// The reason why no decoder is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) kind: RefusalKind,
    message: String,
    remedy: String,
}

/// The kinds of refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RefusalKind {
    /// No decoder reads the format.
    Unsupported,
    /// The name and the bytes show different formats.
    Disagree,
    /// Neither the name nor the bytes show the format.
    Unsure,
}

impl Refusal {
    pub(super) fn new(
        kind: RefusalKind,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { kind, message: message.into(), remedy: remedy.into() }
    }

    /// The refusal as an error of this object.
    pub(super) fn of(self, object: &str) -> SourceError {
        SourceError::new(object, self.message, self.remedy)
    }
}

/// The advice to name the decoder.
pub(super) fn say_it(candidates: &[&str]) -> String {
    let names = match candidates {
        [] => "a decoder".to_owned(),
        [one] => format!("for example `{one}`"),
        several => {
            let several: Vec<_> = several.iter().map(|name| format!("`{name}`")).collect();
            format!("for example {}", several.join(" or "))
        }
    };
    format!("say which decoder reads it: `-d NAME`, in a file `decoder = \"NAME\"`; {names}")
}

/// Chooses the decoder of an object.
pub(super) fn choose(
    object: &str,
    sniffed: &Sniffed,
    head: &[u8],
    plugins: &[(String, DetectionRule)],
) -> Result<Choice, Refusal> {
    let found = match plugin(object, head, sniffed, plugins)? {
        Some(found) => Ok(found),
        None => builtin(object, sniffed),
    };
    found.map(|Found { format, why }| {
        let found = match (&format, sniffed) {
            (Format::Csv { delimiter }, Sniffed::Text(text)) => text.found_options(*delimiter),
            _ => Vec::new(),
        };
        Choice { object: object.to_owned(), format, found, why }
    })
}

/// A format, and the reason.
struct Found {
    format: Format,
    why: String,
}

/// Chooses a built-in decoder.
fn builtin(object: &str, sniffed: &Sniffed) -> Result<Found, Refusal> {
    match sniffed {
        Sniffed::Unsupported(what, remedy) => {
            Err(Refusal::new(RefusalKind::Unsupported, format!("it is {what}"), *remedy))
        }
        Sniffed::Compressed(kind) => {
            let message = format!("its first bytes are compressed data ({kind})");
            let remedy = "set its compression, or unpack it: it may be compressed twice";
            Err(Refusal::new(RefusalKind::Unsupported, message, remedy))
        }
        _ => match by_name(object) {
            NameSays::Format(format, ending) => named(format, &ending, sniffed),
            NameSays::Ambiguous(ending, candidates) => ambiguous(&ending, candidates, sniffed),
            NameSays::Nothing => unnamed(sniffed),
        },
    }
}

/// Chooses for an object whose name shows its format.
fn named(format: Format, ending: &str, sniffed: &Sniffed) -> Result<Found, Refusal> {
    let chosen = |format: Format, and: &str| {
        Ok(Found { why: format!("its name ends in {ending}{and}"), format })
    };
    let disagree = |bytes: &str, other: &str| {
        let message = format!(
            "its name ends in {ending}, which is {format}, but its first bytes are {bytes}"
        );
        Err(Refusal::new(RefusalKind::Disagree, message, say_it(&[format.decoder(), other])))
    };
    match (&format, sniffed) {
        (_, Sniffed::Empty) => chosen(format, ", and it is empty"),
        (Format::RecordIoProtobuf, Sniffed::Format(Format::RecordIo)) => {
            chosen(format, ", and it begins like RecordIO")
        }
        (one, Sniffed::Format(other)) if one == other => {
            chosen(format, ", and its first bytes say the same")
        }
        (_, Sniffed::Format(other)) => disagree(&other.to_string(), other.decoder()),
        (Format::MessagePack, Sniffed::Unknown { msgpack: true, .. }) => {
            chosen(format, ", and its first bytes can be that")
        }
        (one, Sniffed::Text(text)) if one.is_text() => named_text(format, ending, text),
        (_, Sniffed::Text(_)) => disagree("text", "lines"),
        (one, Sniffed::Unknown { odd: Some((byte, at, line)), .. }) if one.is_text() => {
            let name = control_name(*byte);
            disagree(
                &format!("no text: byte 0x{byte:02x}{name} stands at offset {at}, in line {line}"),
                "fixed",
            )
        }
        (one, _) => {
            let bytes = if one.is_text() { "no text" } else { "something else" };
            disagree(bytes, "fixed")
        }
    }
}

/// The name of a control code in a text, for a message.
fn control_name(byte: u8) -> &'static str {
    match byte {
        0 => " (NUL)",
        0x0b => " (a vertical tab)",
        0x1a => " (the end of a file for DOS)",
        0x7f => " (DEL)",
        _ => "",
    }
}

/// Chooses for a text whose name shows a format of text.
fn named_text(format: Format, ending: &str, text: &Text) -> Result<Found, Refusal> {
    let refuse = |kind, message: String, candidates: &[&str]| {
        Err(Refusal::new(kind, message, say_it(candidates)))
    };
    let disagree = |other: &Format| {
        let message = format!(
            "its name ends in {ending}, which is {format}, but its first lines are {other}"
        );
        refuse(RefusalKind::Disagree, message, &[format.decoder(), other.decoder()])
    };
    let chosen = |format: Format, and: &str| {
        Ok(Found { why: format!("its name ends in {ending}, and it is text{and}"), format })
    };
    match (&format, text.json) {
        (Format::JsonLines, Json::Objects | Json::Arrays) => {
            return chosen(format, " with a JSON value in each line");
        }
        (Format::JsonLines, Json::Cut) => return chosen(format, " that begins like JSON"),
        (_, Json::Document) => return Err(document()),
        (Format::JsonLines, Json::No) => {
            let other = if text.tables.is_empty() {
                Format::Lines
            } else {
                Format::Csv { delimiter: text.delimiter() }
            };
            return disagree(&other);
        }
        (_, Json::Objects | Json::Arrays) => return disagree(&Format::JsonLines),
        (_, Json::Cut | Json::No) => {}
    }
    match &format {
        Format::Lines if text.lone_cr => Err(Refusal::new(
            RefusalKind::Unsupported,
            "its lines end at CR, which `lines` reads as one line",
            "convert it: `tr '\\r' '\\n'`; if it is a table, say `-d csv -o lone_cr=true`, in a \
             file `decoder = \"csv\"` and `options = { lone_cr = true }`",
        )),
        Format::Lines => match text.tables.iter().find(|(_, columns)| *columns > 2) {
            Some((delimiter, _)) => disagree(&Format::Csv { delimiter: Some(*delimiter) }),
            None => chosen(format, ""),
        },
        Format::Csv { delimiter } => named_csv(*delimiter, ending, text),
        _ => chosen(format, ""),
    }
}

/// Chooses for a text that is named as a table, with this delimiter if its name shows one.
fn named_csv(named: Option<u8>, ending: &str, text: &Text) -> Result<Found, Refusal> {
    let chosen = |delimiter: Option<u8>, and: &str| {
        let why = format!("its name ends in {ending}, and it is text{and}");
        Ok(Found { why, format: Format::Csv { delimiter } })
    };
    let other = "whose rows have the same number of fields with this delimiter";
    match (&text.obstacle, text.given_delimiter) {
        (Some(Obstacle::Quotes(b'\t')), _) => {
            return chosen(Some(b'\t'), " whose quotes are part of its text");
        }
        (Some(obstacle), _) => return Err(obstacle.refusal()),
        (None, Some(given)) => return chosen(Some(given), ""),
        (None, None) => {}
    }
    if let Some(delimiter) = text.named_delimiter {
        return chosen(Some(delimiter), " whose first line names the delimiter");
    }
    if named == Some(b'\t') {
        return match text.tables.first() {
            _ if text.tables.iter().any(|(delimiter, _)| *delimiter == b'\t') => {
                chosen(Some(b'\t'), "")
            }
            Some((delimiter, _)) => {
                let found = Format::Csv { delimiter: Some(*delimiter) };
                let message = format!(
                    "its name ends in {ending}, which is text delimited by tabs, but its first \
                     lines are {found}"
                );
                Err(Refusal::new(RefusalKind::Disagree, message, say_it(&["csv"])))
            }
            None if text.is_open => chosen(Some(b'\t'), ""),
            None => Err(Refusal::new(
                RefusalKind::Unsure,
                format!("its name ends in {ending}, but tabs don't cut its first rows into fields"),
                "if it is a table, say `-d csv -o delimiter=tab`, in a file `decoder = \"csv\"` \
                 and `options = { delimiter = \"tab\" }`; else name another decoder",
            )),
        };
    }
    match (text.delimiter(), text.tables.is_empty()) {
        (delimiter, true) => chosen(delimiter, ""),
        (Some(b','), false) => chosen(Some(b','), ""),
        (Some(delimiter), false) => chosen(Some(delimiter), &format!(" {other}")),
        (None, false) => Err(several_delimiters(text)),
    }
}

fn document() -> Refusal {
    Refusal::new(
        RefusalKind::Unsupported,
        "it is one JSON document over several lines",
        "`jsonl` reads one value in each line: `jq -c '.[]'` makes lines of an array",
    )
}

fn several_delimiters(text: &Text) -> Refusal {
    let name = |(delimiter, columns): &(u8, usize)| {
        format!("`{}` ({columns} fields)", delimiter.escape_ascii())
    };
    let names: Vec<_> = text.tables.iter().map(name).collect();
    Refusal::new(
        RefusalKind::Unsure,
        format!("several delimiters fit its rows: {}", names.join(", ")),
        "say which it is: `-d csv -o delimiter=…`, in a file `decoder = \"csv\"` and \
         `options = { delimiter = … }`",
    )
}

/// Chooses for an object whose ending many formats use.
fn ambiguous(
    ending: &str,
    candidates: &'static [&'static str],
    sniffed: &Sniffed,
) -> Result<Found, Refusal> {
    match sniffed {
        Sniffed::Format(format) => {
            Ok(Found { format: format.clone(), why: format!("its first bytes are {format}") })
        }
        Sniffed::Text(text) if ending == ".json" => match text.json {
            Json::Objects => Ok(Found {
                format: Format::JsonLines,
                why: "each of its first lines is a JSON object".to_owned(),
            }),
            Json::Document | Json::Arrays | Json::Cut => Err(document()),
            Json::No => Err(unsure(&format!("its name ends in {ending}"), candidates)),
        },
        _ => {
            let why = format!("its name ends in {ending}, as files of many formats do");
            Err(unsure(&why, candidates))
        }
    }
}

fn unsure(why: &str, candidates: &[&str]) -> Refusal {
    let message = format!("its decoder is not known: {why}");
    Refusal::new(RefusalKind::Unsure, message, say_it(candidates))
}

/// Chooses for an object whose name shows nothing.
fn unnamed(sniffed: &Sniffed) -> Result<Found, Refusal> {
    match sniffed {
        Sniffed::Format(format) => {
            Ok(Found { why: format!("its first bytes are {format}"), format: format.clone() })
        }
        Sniffed::Text(text) => match (text.json, text.tables.as_slice()) {
            (Json::Objects, _) => Ok(Found {
                format: Format::JsonLines,
                why: "each of its first lines is a JSON object".to_owned(),
            }),
            (Json::Document, _) => Err(document()),
            (Json::No, [.., (_, columns)]) if *columns > 2 => match text.delimiter() {
                Some(delimiter) => Ok(Found {
                    why: format!("its first rows have {columns} fields each"),
                    format: Format::Csv { delimiter: Some(delimiter) },
                }),
                None => Err(several_delimiters(text)),
            },
            _ => Err(unsure("it is text, which lines and tables are", &["lines", "csv"])),
        },
        Sniffed::Empty => Err(unsure("it is empty, and its name says nothing", &["lines"])),
        _ => Err(unsure(
            "its name says nothing, and its first bytes are no known signature",
            &["fixed", "msgpack"],
        )),
    }
}

/// The plugin whose own rule matches the object.
fn plugin(
    object: &str,
    head: &[u8],
    sniffed: &Sniffed,
    plugins: &[(String, DetectionRule)],
) -> Result<Option<Found>, Refusal> {
    let ending = name::ending(object);
    let has_ending =
        |rule: &DetectionRule| ending.as_ref().is_some_and(|ending| rule.endings.contains(ending));
    let has_magic = |rule: &DetectionRule| rule.magic.iter().any(|magic| head.starts_with(magic));
    let is_empty = *sniffed == Sniffed::Empty;
    let fits = |rule: &DetectionRule| match (rule.endings.is_empty(), rule.magic.is_empty()) {
        (_, true) => has_ending(rule),
        (true, false) => has_magic(rule),
        (false, false) => has_ending(rule) && is_empty || has_magic(rule),
    };
    let fitting: Vec<_> =
        plugins.iter().filter(|(_, rule)| fits(rule)).map(|(name, _)| name).collect();
    let builtin = match (by_name(object), sniffed) {
        (NameSays::Format(format, _), _) => Some(format),
        (_, Sniffed::Format(format)) => Some(format.clone()),
        _ => None,
    };
    match (fitting.as_slice(), builtin) {
        ([], _) => {
            let named = plugins.iter().find(|(_, rule)| has_ending(rule) && !is_empty);
            let Some((name, _)) = named else { return Ok(None) };
            let ending = ending.as_deref().unwrap_or_default();
            let message = format!(
                "its name ends in {ending}, which the plugin `{name}` reads, but its first bytes \
                 are others than the plugin says"
            );
            Err(Refusal::new(RefusalKind::Disagree, message, say_it(&[name])))
        }
        ([name], None) => Ok(Some(Found {
            why: "the plugin says so of this ending or of these first bytes".to_owned(),
            format: Format::Plugin((*name).clone()),
        })),
        (names, builtin) => {
            let mut names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
            names.extend(builtin.as_ref().map(Format::decoder));
            let message = "several decoders fit its name and its first bytes";
            Err(Refusal::new(RefusalKind::Unsure, message, say_it(&names)))
        }
    }
}

impl Text {
    /// The delimiter, if one fits best.
    pub(super) fn delimiter(&self) -> Option<u8> {
        let tables: Vec<u8> = self.tables.iter().map(|(delimiter, _)| *delimiter).collect();
        match tables.as_slice() {
            [one] => Some(*one),
            // A bar or semicolon may be in each value; rows with semicolons may contain numbers
            // with decimal commas.
            [b',', b'|'] => Some(b','),
            [b',', b';'] | [b',', b';', b'|'] if !self.decimal_commas => Some(b','),
            [b'\t', b'|'] => Some(b'\t'),
            _ => None,
        }
    }

    /// Options of `csv` that the rows show, with this delimiter.
    fn found_options(&self, delimiter: Option<u8>) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        if self.lone_cr {
            found.push(("lone_cr", "true".to_owned()));
        }
        if let Some(Obstacle::Quotes(other)) = self.obstacle
            && delimiter == Some(other)
        {
            found.push(("quote", "none".to_owned()));
        }
        found
    }
}
