//! The state of a channel: what a program keeps in its checkpoint, and `run --resume` reads.

use std::collections::BTreeMap;
use std::path::Path;

use pipemill_channel::{BatchAcross, Resume, Tail, Window};
use pipemill_decode::Digest;
use pipemill_types::BatchPosition;
use serde::Deserialize;
use serde_json::Value;

use crate::config::{Channel, Config, DecoderRef, Shuffle, Source, show_size};

/// Version of the states that this host reads.
const VERSION: u32 = 1;
/// The largest file of states, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The state of one channel, as Python's `Stream.state_dict()` makes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChannelState {
    version: u32,
    channel: String,
    settings: BTreeMap<String, String>,
    schema: String,
    /// Real records of the last batch that the program was given.
    given: u64,
    #[serde(flatten)]
    position: BatchPosition,
}

/// The longest text in a state, in bytes. All of it fits into a message.
const MAX_TEXT_BYTES: usize = 32 << 10;
/// The longest setting that is kept as it is, in bytes: the message in which consumers get the
/// settings holds 64 KiB.
const MAX_SHOWN_BYTES: usize = 4 << 10;

/// What must be the same when a channel goes on, as names and values for people.
pub fn settings(channel: &Channel) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    let mut put = |name: &str, value: String| settings.insert(name.to_owned(), value);
    put("decoder", channel.decoder.as_ref().map(DecoderRef::text).unwrap_or_default());
    let mut options = channel.options.clone();
    options.sort();
    put("options", short(serde_json::json!(options).to_string()));
    put("batch", channel.batch.map_or("none".to_owned(), |batch| batch.records.to_string()));
    if let Some(batch) = channel.batch {
        put("tail", word(batch.tail).to_owned());
        let across = if batch.across == BatchAcross::Object { "object" } else { "epoch" };
        put("batch_across", across.to_owned());
    }
    let (compression, order) = match &channel.source {
        Source::Files { reading, .. } => (reading.compression, Some(reading.order)),
        Source::S3(settings) => (settings.reading.compression, Some(settings.reading.order)),
        Source::Fifo { compression, .. } | Source::Stdin { compression } => (*compression, None),
    };
    put("compression", compression.to_string());
    if let Some(order) = order {
        let shard = order.shard.map_or("none".to_owned(), |shard| {
            format!("{}/{} by {:?}", shard.index, shard.count, shard.balance).to_lowercase()
        });
        put("shard", shard);
    }
    let seed = channel.shuffle.map_or("none".to_owned(), |Shuffle { seed, .. }| seed.to_string());
    put("shuffle", seed);
    match channel.shuffle.and_then(|shuffle| shuffle.window) {
        Some(Window::Bytes(bytes)) => put("window", show_size(bytes)),
        Some(Window::Records(records)) => put("window", records.to_string()),
        None => None,
    };
    settings
}

/// The text, or its digest, if it takes much of a message.
fn short(text: String) -> String {
    if text.len() <= MAX_SHOWN_BYTES {
        text
    } else {
        format!("sha256:{}", Digest::of(text.as_bytes()))
    }
}

fn word(tail: Tail) -> &'static str {
    match tail {
        Tail::Keep => "keep",
        Tail::Drop => "drop",
        Tail::Pad => "pad",
    }
}

/// Reads a file of states, and lets the channels that it names go on there.
///
/// # Errors
/// All faults: the file can't be read or has another form, or a state does not fit its channel.
pub fn resume_from(file: &Path, config: &mut Config) -> Result<(), Vec<String>> {
    let name = file.display();
    let values = read(file).map_err(|why| vec![format!("{name}: {why}")])?;
    let mut faults = Vec::new();
    for value in values {
        match serde_json::from_value::<ChannelState>(value) {
            Ok(state) => faults.extend(apply(state, config)),
            Err(error) => faults.push(format!("is no state of a channel: {error}")),
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    Err(faults.into_iter().map(|fault| format!("{name}: {fault}")).collect())
}

/// The states in the file of `run --resume`: of one channel, or a list of them.
fn read(file: &Path) -> Result<Vec<Value>, String> {
    let size = std::fs::metadata(file).map_err(|error| format!("can't read it: {error}"))?.len();
    if size > MAX_FILE_BYTES {
        return Err(format!("has {size} bytes; a file of states has at most {MAX_FILE_BYTES}"));
    }
    let text = std::fs::read(file).map_err(|error| format!("can't read it: {error}"))?;
    match serde_json::from_slice(&text) {
        Ok(Value::Array(states)) => Ok(states),
        Ok(state) => Ok(vec![state]),
        Err(error) => Err(format!("is not JSON: {error}")),
    }
}

/// Lets the state's channel go on there. Returns what does not fit.
fn apply(state: ChannelState, config: &mut Config) -> Vec<String> {
    if state.version != VERSION {
        return vec![format!(
            "the state of `{}` has version {}; this host reads version {VERSION}",
            state.channel, state.version
        )];
    }
    if state.position.header > state.position.offset {
        return vec![format!(
            "the state of `{}` has header {} and offset {}; expected a header of at most the offset",
            state.channel, state.position.header, state.position.offset
        )];
    }
    let BatchPosition { object, identity, .. } = &state.position;
    if object.len().max(identity.len()).max(state.schema.len()) > MAX_TEXT_BYTES {
        return vec![format!("the state of `{}` has a longer text than any state", state.channel)];
    }
    let known: Vec<_> = config.channels.iter().map(|channel| channel.name.clone()).collect();
    let Some(channel) = config.channels.iter_mut().find(|channel| channel.name == state.channel)
    else {
        let known = known.join("`, `");
        return vec![format!("has a state of `{}`; the channels are `{known}`", state.channel)];
    };
    let now = settings(channel);
    let differs = |name: &&String| state.settings.get(*name) != now.get(*name);
    let names: std::collections::BTreeSet<_> = state.settings.keys().chain(now.keys()).collect();
    // The decoder of a channel that names none is found later.
    let is_found = |name: &&String| {
        channel.decoder.is_some() || !matches!(name.as_str(), "decoder" | "options")
    };
    let faults: Vec<_> = names
        .into_iter()
        .filter(differs)
        .filter(is_found)
        .map(|name| {
            let text = |settings: &BTreeMap<String, String>| {
                settings.get(name).map_or("nothing".to_owned(), |value| format!("`{value}`"))
            };
            format!(
                "channel `{}`: `{name}` was {} when the state was taken, and is {} now; set it back, \
                 or begin without the state",
                state.channel,
                text(&state.settings),
                text(&now)
            )
        })
        .collect();
    if faults.is_empty() {
        let schema = Some(state.schema).filter(|schema| !schema.is_empty());
        channel.resume = Some(Resume { position: state.position, given: state.given, schema });
    }
    faults
}
