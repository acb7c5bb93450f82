//! Converts text to a [`Config`]: walks through the tables of the file and checks the rules that
//! several values share. `keys.rs` has the ranges of single values, `read.rs` reads them.

use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::channel::{Taken, channel, is_channel_name};
use super::document::{Document, Purpose, ReadResult};
use super::fault::Fault;
use super::keys::*;
use super::mix::{self, ReadChannel};
use super::model::{Channel, Config, Listen};
use super::presets::Presets;
use super::rank;
use super::read::{Reader, describe};
use super::values::Invalid;

/// Reads a configuration. `file` is its name for messages; `env` looks up environment variables.
///
/// Only the text is checked. Whether files exist and decoders are known is checked by the run:
/// it finds the places for its messages in `Channel::decoder_place` and `option_places`.
///
/// # Errors
/// All faults, at least one, in the order of the file. Text that is not TOML is one fault.
pub fn parse(
    text: &str,
    file: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, Vec<Fault>> {
    parse_for(Purpose::Run, &Presets::default(), text, file, env)
}

/// Reads a configuration whose channels are fed through FIFOs: no channel needs a decoder, and a
/// source without `epochs` has no end.
///
/// # Errors
/// The same as [`parse`].
pub fn parse_to_feed(
    text: &str,
    file: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, Vec<Fault>> {
    parse_for(Purpose::Feed, &Presets::default(), text, file, env)
}

/// Reads a configuration that completes `presets`: a preset applies to every key that the file
/// leaves out. The file may leave out channels of the presets, even all of them, and may have
/// others.
///
/// # Errors
/// The same as [`parse`].
pub fn parse_over(
    presets: &Presets,
    text: &str,
    file: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, Vec<Fault>> {
    parse_for(Purpose::Run, presets, text, file, env)
}

fn parse_for(
    purpose: Purpose,
    presets: &Presets,
    text: &str,
    file: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, Vec<Fault>> {
    let doc = Document::new(text, file, env, purpose, presets);
    let config = match DeTable::parse(text) {
        Ok(table) => config(&doc, table.get_ref()).ok(),
        Err(error) => {
            let message = format!("not TOML: {}", error.message().replace('\n', " "));
            let at = error.span().map_or(0, |span| span.start);
            doc.report(at, None, String::new(), Invalid { message, remedy: String::new() });
            None
        }
    };
    let faults = doc.into_faults();
    config.filter(|_| faults.is_empty()).ok_or(faults)
}

fn config<'a>(doc: &'a Document<'a>, table: &'a DeTable<'a>) -> ReadResult<Config> {
    let root = Reader::new(doc, table, 0, String::new(), None).refuse_unknown_keys(&ROOT_TABLE);
    let socket = root.path(&SOCKET).and_then(|path| match path {
        Some(path) if path.as_os_str().len() > MAX_SOCKET_PATH => {
            let found = format!("one of {}", path.as_os_str().len());
            Err(root.wrong(SOCKET.name, SOCKET.expected, &found, String::new()))
        }
        path => Ok(path),
    });
    let allow_other_users = root.flag(&ALLOW_OTHER_USERS);
    let max_connections = root.number(&MAX_CONNECTIONS);
    let cores = root.optional_number(&CORES);
    let metrics = listen(&root);
    let stop_timeout = root.number(&STOP_TIMEOUT);
    let fail_grace = root.number(&FAIL_GRACE);
    let s3_budget = root
        .table(&S3_TABLE_KEY, "begin it with a line [s3]")
        .and_then(|table| table.refuse_unknown_keys(&S3_TABLE).optional_number(&BUDGET));
    if let Ok(rank) = rank::read(doc, &root) {
        doc.set_rank(rank);
    }
    let channels = channels(doc, &root, table.get(CHANNEL.name))?;
    let max_connections = max_connections.and_then(|number| enough(&root, number, &channels));
    Ok(Config {
        file: doc.file().to_owned(),
        socket: socket?,
        allow_other_users: allow_other_users?,
        max_connections: max_connections?,
        cores: cores?.map(|number| number as u32), // its range fits
        metrics: metrics?,
        stop_timeout: Duration::from_millis(stop_timeout?),
        fail_grace: Duration::from_millis(fail_grace?),
        s3_budget: s3_budget?,
        channels,
    })
}

/// `number` connections, if all consumers that the channels wait for are among them.
fn enough(root: &Reader<'_>, number: u64, channels: &[Channel]) -> ReadResult<u32> {
    let needed: u64 = channels.iter().map(|channel| u64::from(channel.consumers)).sum();
    if number < needed {
        let message = format!("the channels wait for {needed} consumers, and {number} may connect");
        let remedy = format!("give at least {needed}");
        return Err(root.fault(MAX_CONNECTIONS.name, message, remedy));
    }
    Ok(number as u32) // its range fits
}

fn listen(root: &Reader<'_>) -> ReadResult<Option<Listen>> {
    let Some(text) = root.non_empty_text(&METRICS)? else { return Ok(None) };
    if text.contains('/') && text.len() <= MAX_SOCKET_PATH {
        return Ok(Some(Listen::Unix(text.into())));
    }
    let address = text.parse().map_err(|_| {
        let remedy = if text.starts_with("localhost:") {
            text.replacen("localhost", "127.0.0.1", 1)
        } else if text.starts_with(':') {
            format!("0.0.0.0{text}")
        } else {
            String::new()
        };
        let remedy = if remedy.is_empty() { remedy } else { format!("write {remedy:?}") };
        root.wrong(METRICS.name, METRICS.expected, &format!("{text:?}"), remedy)
    });
    address.map(|address| Some(Listen::Tcp(address)))
}

fn channels<'a>(
    doc: &'a Document<'a>,
    root: &Reader<'a>,
    value: Option<&'a Spanned<DeValue<'a>>>,
) -> ReadResult<Vec<Channel>> {
    let remedy = "begin each channel with a line [[channel]]";
    if value.is_none() && !doc.presets().channels.is_empty() {
        return Ok(Vec::new());
    }
    let value = root.required(&CHANNEL, Ok(value))?;
    let tables: Vec<&Spanned<DeValue>> = match value.get_ref() {
        DeValue::Array(array) if !array.is_empty() => array.iter().collect(),
        // Reads its content anyway: most likely it is a channel.
        DeValue::Table(_) => {
            root.wrong(CHANNEL.name, CHANNEL.expected, "a single table", remedy.to_owned());
            vec![value]
        }
        DeValue::Array(_) => {
            let found = "an empty list";
            return Err(root.wrong(CHANNEL.name, CHANNEL.expected, found, remedy.to_owned()));
        }
        other => {
            let found = describe(other);
            return Err(root.wrong(CHANNEL.name, CHANNEL.expected, &found, remedy.to_owned()));
        }
    };
    let mut taken = Taken::default();
    let channels = tables.into_iter().enumerate().map(|(index, value)| {
        let path = format!("{}[{index}]", CHANNEL.name);
        let at = value.span().start;
        let DeValue::Table(table) = value.get_ref() else {
            let message = format!("expected a table, found {}", describe(value.get_ref()));
            return Err(doc.report(at, None, path, Invalid { message, remedy: remedy.to_owned() }));
        };
        let name = table.get(NAME.name).and_then(|value| value.get_ref().as_str());
        let name = name.and_then(|name| doc.expand(name).ok()).filter(|name| is_channel_name(name));
        let reader = Reader::new(doc, table, at, path, name).refuse_unknown_keys(&CHANNEL_TABLE);
        let channel = channel(&reader, &mut taken)?;
        Ok(ReadChannel { reader, channel })
    });
    // Reads all channels first, to find the faults of each.
    let read: ReadResult<Vec<_>> = channels.collect::<Vec<_>>().into_iter().collect();
    mix::resolve(read?, doc.purpose())
}
