//! The state of a channel: what a program keeps in its checkpoint, and `run --resume` reads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pipemill_channel::{RecordOrder, Resume, Until, Window};
use pipemill_decode::Digest;
use pipemill_ring::host::{Beginning, Beginnings};
use pipemill_ring::protocol::{Hello, Resumed, Shard, State};
use pipemill_types::{BatchAcross, BatchPosition, BatchSize, Mode, Tail};
use serde::Deserialize;
use serde_json::Value;

use crate::config::{Channel, Config, DecoderRef, Mix, MixInput, Shuffle, Source, show_size};

/// Version of the states that this host reads.
const VERSION: u32 = State::VERSION;
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
    /// Part of the batches that the program was given: those whose number modulo `world` is `rank`.
    rank: u32,
    world: u32,
    /// Real records of the last batch that the program was given.
    given: u64,
    /// Numbers of batches after that one that are done, too: in a checkpoint of the host.
    #[serde(default)]
    done: Vec<u64>,
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
    let mut put = |name: &str, value: String| {
        settings.insert(name.to_owned(), value);
    };
    match &channel.source {
        Source::Mix(mix) => {
            put("mix", mix_text(mix));
            for input in channel.decoded() {
                put_reading(
                    &mut |name, value| put(&format!("{}: {name}", input.name), value),
                    input,
                );
            }
        }
        _ => put_reading(&mut put, channel),
    }
    put("batch", channel.batch.map_or("none".to_owned(), |batch| batch.records.to_string()));
    if let Some(batch) = channel.batch {
        put("tail", word(batch.tail).to_owned());
        put("batch_across", across_word(batch.across).to_owned());
    }
    if let Source::Mix(_) = channel.source {
        put("shuffle", seed_text(channel));
    }
    if channel.order == RecordOrder::Any {
        put(State::ORDER, State::ANY_ORDER.to_owned());
    }
    match channel.shuffle.and_then(|shuffle| shuffle.window) {
        Some(Window::Bytes(bytes)) => put("window", show_size(bytes)),
        Some(Window::Records(records)) => put("window", records.to_string()),
        None => {}
    }
    settings
}

/// Adds what the records of a channel that decodes depend on.
fn put_reading(put: &mut dyn FnMut(&str, String), channel: &Channel) {
    put("decoder", channel.decoder.as_ref().map(DecoderRef::text).unwrap_or_default());
    let mut options = channel.options.clone();
    options.sort();
    put("options", short(serde_json::json!(options).to_string()));
    put("shuffle", seed_text(channel));
    let (compression, order) = match &channel.source {
        Source::Files { reading, .. } => (reading.compression, Some(reading.order)),
        Source::S3(settings) => (settings.reading.compression, Some(settings.reading.order)),
        Source::Fifo { compression, .. } | Source::Stdin { compression } => (*compression, None),
        // A mix is not mixed.
        Source::Mix(_) => return,
    };
    put("compression", compression.to_string());
    if let Some(order) = order {
        let shard = order.shard.map_or("none".to_owned(), |shard| {
            format!("{}/{} by {:?}", shard.index, shard.count, shard.balance).to_lowercase()
        });
        put("shard", shard);
    }
}

/// What the order of a mix depends on, beside the records.
fn mix_text(mix: &Mix) -> String {
    let of_input = |input: &MixInput| {
        let (whole, part) = (input.weight / 1_000_000, input.weight % 1_000_000);
        format!("{} {whole}.{part:06}", input.channel.name)
    };
    let until = match mix.until {
        Until::First => "first".to_owned(),
        Until::All => "all".to_owned(),
        Until::Records(records) => records.to_string(),
    };
    let inputs: Vec<_> = mix.inputs.iter().map(of_input).collect();
    format!("{}, until {until}, seed {}", inputs.join(", "), mix.seed)
}

fn seed_text(channel: &Channel) -> String {
    channel.shuffle.map_or("none".to_owned(), |Shuffle { seed, .. }| seed.to_string())
}

/// The text, or its digest, if it takes much of a message.
fn short(text: String) -> String {
    if text.len() <= MAX_SHOWN_BYTES {
        text
    } else {
        format!("sha256:{}", Digest::of(text.as_bytes()))
    }
}

fn across_word(across: BatchAcross) -> &'static str {
    match across {
        BatchAcross::Object => "object",
        BatchAcross::Epoch => "epoch",
    }
}

fn word(tail: Tail) -> &'static str {
    match tail {
        Tail::Keep => "keep",
        Tail::Drop => "drop",
        Tail::Pad => "pad",
    }
}

/// Where a run of the channel begins.
pub fn beginning(channel: &Channel) -> Beginning {
    let place = |state: &&Resumed| (state.position.epoch, state.first_batch());
    let resumed = channel.resume.iter().min_by_key(place).cloned();
    let of_ranks = channel.resume.iter().filter(|_| channel.resume.len() > 1);
    let states = of_ranks.map(|state| (state.shard.rank, state.clone())).collect();
    let done = channel.done.iter().copied().collect();
    // In the middle of an epoch, the batches are divided as they were.
    let divided = resumed.as_ref().filter(|state| is_inside(state) && state.shard != Shard::ALL);
    let (mode, consumers) = match divided {
        Some(state) => (Mode::Shard, state.shard.world),
        None => (channel.mode, channel.consumers),
    };
    let (batch, settings) = (channel.batch, settings(channel));
    Beginning { mode, consumers, batch, resumed, states, done, settings }
}

/// Where the channel's thread begins.
pub fn resume(resumed: Resumed) -> Resume {
    let Resumed { given, schema, position, .. } = resumed;
    Resume { position, given, schema: Some(schema).filter(|schema| !schema.is_empty()) }
}

/// Whether the state is in the middle of an epoch.
fn is_inside(state: &Resumed) -> bool {
    state.given > 0
}

/// What consumers of a channel may ask for in the place of its beginning.
pub struct Origins {
    channel: Channel,
    can_begin_again: bool,
}

impl Origins {
    /// `can_begin_again`: whether the channel's source can be read again.
    pub fn new(channel: &Channel, can_begin_again: bool) -> Origins {
        Origins { channel: channel.clone(), can_begin_again }
    }

    fn batch(&self, now: &Beginning, hello: &Hello) -> Result<Option<BatchSize>, String> {
        let Some(asked) = hello.batch else { return Ok(now.batch) };
        let most = BatchSize::MAX_RECORDS;
        if !(1..=most).contains(&asked.records) {
            let found = asked.records;
            return Err(format!("batch: expected 1 to {most} records, found {found}"));
        }
        if self.channel.order == RecordOrder::Any && asked.across == BatchAcross::Object {
            return Err("batch: the configuration says order = \"any\", which mixes the records of \
                        objects, and this consumer asks for batch_across = \"object\"; change one of \
                        them"
                .to_owned());
        }
        match self.channel.batch {
            Some(own) if own != asked => Err(format!(
                "batch: the configuration says {}, and this consumer asks for {}; leave one of them \
                 out",
                batch_text(own),
                batch_text(asked)
            )),
            _ => Ok(Some(asked)),
        }
    }
}

fn batch_text(size: BatchSize) -> String {
    let BatchSize { records, tail, across } = size;
    format!(
        "{records} records, tail = \"{}\", batch_across = \"{}\"",
        word(tail),
        across_word(across)
    )
}

impl Beginnings for Origins {
    fn asked_for(&self, now: &Beginning, hello: &Hello) -> Result<Beginning, String> {
        let batch = self.batch(now, hello)?;
        let (mode, consumers) = match hello.shard {
            Some(Shard { world, .. }) => (Mode::Shard, world),
            None => (now.mode, now.consumers),
        };
        let configured = self.channel.consumers;
        if self.channel.mode == Mode::Shard && consumers != configured {
            return Err(format!(
                "shard: the configuration says consumers = {configured}, and this consumer is one of \
                 {consumers}; change one of them"
            ));
        }
        let channel = Channel { batch, ..self.channel.clone() };
        let resumed = match &hello.state {
            Some(state) => {
                let state = serde_json::from_value::<ChannelState>(state.clone());
                let state = state.map_err(|error| format!("state: is none: {error}"))?;
                Some(fitting(state, &channel).map_err(|faults| faults.join("; "))?)
            }
            None => None,
        };
        let world = if mode == Mode::Shard { consumers } else { 1 };
        let from = resumed.as_ref().or(now.resumed.as_ref());
        if let Some(from) = from.filter(|from| is_inside(from) && from.shard.world != world) {
            return Err(format!(
                "shard: the state of epoch {} was taken by one of {} ranks in the middle of the \
                 epoch, and this consumer is one of {world}; their number can change where an epoch \
                 begins",
                from.position.epoch, from.shard.world
            ));
        }
        let settings = settings(&channel);
        let (states, done) = Default::default();
        Ok(Beginning { mode, consumers, batch, resumed, states, done, settings })
    }

    fn can_begin_again(&self) -> bool {
        self.can_begin_again
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
        faults.extend(config.channels.iter().filter_map(check_ranks));
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

/// Whether the states of a channel are one, or one of each rank.
fn check_ranks(channel: &Channel) -> Option<String> {
    let states = &channel.resume;
    let world = states.first().map_or(1, |state| state.shard.world);
    let is_of_world = |state: &Resumed| state.shard.world == world;
    let ranks: BTreeSet<_> = states.iter().map(|state| state.shard.rank).collect();
    let is_whole = states.iter().all(is_of_world) && ranks.len() == states.len();
    if states.len() < 2 || is_whole && states.len() == world as usize {
        return None;
    }
    let given: Vec<_> = states.iter().map(|state| state.shard.to_string()).collect();
    Some(format!(
        "has {} states of `{}`, those of {}; give the state of one rank, or one of each",
        states.len(),
        channel.name,
        given.join(", ")
    ))
}

/// Lets the state's channel go on there. Returns what does not fit.
fn apply(state: ChannelState, config: &mut Config) -> Vec<String> {
    let known: Vec<_> = config.channels.iter().map(|channel| channel.name.clone()).collect();
    let Some(channel) = config.channels.iter_mut().find(|channel| channel.name == state.channel)
    else {
        let known = known.join("`, `");
        return vec![format!("has a state of `{}`; the channels are `{known}`", state.channel)];
    };
    let done = state.done.clone();
    match fitting(state, channel) {
        Ok(resumed) => {
            channel.resume.push(resumed);
            channel.done.extend(done);
            Vec::new()
        }
        Err(faults) => faults,
    }
}

/// The state as the place where the channel goes on, or what does not fit.
fn fitting(state: ChannelState, channel: &Channel) -> Result<Resumed, Vec<String>> {
    let (name, shard) = (&state.channel, Shard { rank: state.rank, world: state.world });
    if state.version != VERSION {
        return Err(vec![format!(
            "the state of `{name}` has version {}; this host reads version {VERSION}",
            state.version
        )]);
    }
    if channel.order == RecordOrder::Any && state.given > 0 {
        return Err(vec![format!(
            "channel `{name}` has order = \"any\": no place inside of an epoch says what came before \
             it; give a state that was taken between two epochs"
        )]);
    }
    if state.position.header > state.position.offset {
        return Err(vec![format!(
            "the state of `{name}` has header {} and offset {}; expected a header of at most the \
             offset",
            state.position.header, state.position.offset
        )]);
    }
    let BatchPosition { object, identity, .. } = &state.position;
    if object.len().max(identity.len()).max(state.schema.len()) > MAX_TEXT_BYTES {
        return Err(vec![format!("the state of `{name}` has a longer text than any state")]);
    }
    if shard.rank >= shard.world || shard.world > Shard::MAX_WORLD {
        let most = Shard::MAX_WORLD;
        return Err(vec![format!(
            "the state of `{name}` says {shard}; expected a rank below the number of ranks, at most \
             {most}"
        )]);
    }
    let now = settings(channel);
    let differs = |name: &&String| state.settings.get(*name) != now.get(*name);
    let names: BTreeSet<_> = state.settings.keys().chain(now.keys()).collect();
    // The decoder of a channel that names none is found later.
    let is_found = |name: &&String| {
        let is_of_decoder = name.ends_with("decoder") || name.ends_with("options");
        !is_of_decoder || channel.decoded().all(|channel| channel.decoder.is_some())
    };
    let faults: Vec<_> = names
        .into_iter()
        .filter(differs)
        .filter(is_found)
        .map(|setting| {
            let text = |settings: &BTreeMap<String, String>| {
                settings.get(setting).map_or("nothing".to_owned(), |value| format!("`{value}`"))
            };
            format!(
                "channel `{name}`: `{setting}` was {} when the state was taken, and is {} now; set \
                 it back, or begin without the state",
                text(&state.settings),
                text(&now)
            )
        })
        .collect();
    if !faults.is_empty() {
        return Err(faults);
    }
    let ChannelState { schema, given, position, .. } = state;
    Ok(Resumed { given, schema, shard, position })
}
