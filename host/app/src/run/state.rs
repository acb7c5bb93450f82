//! The state of a channel: what a program keeps in its checkpoint, and `run --resume` reads.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use pipemill_channel::{Comparison, RecordOrder, Resume, is_same_input};
use pipemill_ring::host::{Beginning, Beginnings, Match};
use pipemill_ring::protocol::{Hello, Resumed, Shard, State};
use pipemill_types::{Accepted, BatchAcross, BatchPosition, BatchSize, Mode};
use serde::Deserialize;
use serde_json::Value;

use super::settings::{
    DecoderIdentity, Settings, across_word, differences, is_of_decoder, settings, tail_word,
};
use crate::config::{Channel, Config};

/// Version of the states that this host reads.
const VERSION: u32 = State::VERSION;
/// The largest file of states, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The state of one channel, as Python's `Stream.state_dict()` makes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChannelState {
    version: u32,
    channel: String,
    settings: Settings,
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

/// Where a run of the channel begins.
pub fn beginning(channel: &Channel, decoders: &[DecoderIdentity]) -> Beginning {
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
    let (batch, settings) = (channel.batch, settings(channel, decoders));
    Beginning { mode, consumers, batch, resumed, states, done, settings }
}

/// Where the channel's thread begins.
pub fn resume(resumed: Resumed) -> Resume {
    let Resumed { given, schema, position, accepted, .. } = resumed;
    let schema = Some(schema).filter(|schema| !schema.is_empty());
    Resume { position, given, schema, accepted }
}

/// Whether the state is in the middle of an epoch.
fn is_inside(state: &Resumed) -> bool {
    state.given > 0
}

/// What consumers of a channel may ask for in the place of its beginning.
pub struct Origins {
    channel: Channel,
    decoders: Vec<DecoderIdentity>,
    can_begin_again: bool,
}

impl Origins {
    /// `can_begin_again`: whether the channel's source can be read again.
    pub fn new(
        channel: &Channel,
        decoders: Vec<DecoderIdentity>,
        can_begin_again: bool,
    ) -> Origins {
        Origins { channel: channel.clone(), decoders, can_begin_again }
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
        tail_word(tail),
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
                let accepted = Accepted::of_words(&hello.accept)?;
                let now = settings(&channel, &self.decoders);
                let is_compared = |_: &str| true;
                let resumed = fitting(&state, &channel, &now, accepted, is_compared);
                Some(resumed.map_err(|faults| faults.join("; "))?)
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
        let settings = settings(&channel, &self.decoders);
        let (states, done) = Default::default();
        Ok(Beginning { mode, consumers, batch, resumed, states, done, settings })
    }

    fn can_begin_again(&self) -> bool {
        self.can_begin_again
    }

    fn is_same_batch(&self, state: &Resumed, batch: &Resumed, how: Match) -> bool {
        let has_window = self.channel.shuffle.is_some_and(|shuffle| shuffle.window.is_some());
        let comparison = match how {
            Match::Strict => Comparison::Whole,
            Match::Tolerant if has_window => Comparison::Lists,
            Match::Tolerant => Comparison::Known,
        };
        let place = |at: &Resumed| {
            let BatchPosition { epoch, object_number, first_record, .. } = at.position;
            let record = (object_number, first_record);
            (at.given, epoch, if comparison == Comparison::Lists { (0, 0) } else { record })
        };
        let (then, now) = (&state.position.identity, &batch.position.identity);
        place(state) == place(batch)
            && (state.accepted.objects || is_same_input(then, now, comparison))
    }
}

/// Reads a file of states, and lets the channels that it names go on there. Whether their decoders are
/// still the same is checked when these are loaded: see [`check_decoders`].
///
/// # Errors
/// All faults: the file can't be read or has another form, or a state does not fit its channel.
pub fn resume_from(
    file: &Path,
    accepted: Accepted,
    config: &mut Config,
) -> Result<(), Vec<String>> {
    let name = file.display();
    let values = read(file).map_err(|why| vec![format!("{name}: {why}")])?;
    let mut faults = Vec::new();
    for value in values {
        match serde_json::from_value::<ChannelState>(value) {
            Ok(state) => faults.extend(apply(state, accepted, config)),
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
    let mut text = Vec::new();
    // One that is no regular file, or grows, may have any number of bytes.
    let read =
        std::fs::File::open(file).and_then(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut text));
    read.map_err(|error| format!("can't read it: {error}"))?;
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
fn apply(state: ChannelState, accepted: Accepted, config: &mut Config) -> Vec<String> {
    let known: Vec<_> = config.channels.iter().map(|channel| channel.name.clone()).collect();
    let Some(channel) = config.channels.iter_mut().find(|channel| channel.name == state.channel)
    else {
        let known = known.join("`, `");
        return vec![format!("has a state of `{}`; the channels are `{known}`", state.channel)];
    };
    let (now, is_compared) = (settings(channel, &[]), |name: &str| !is_of_decoder(name));
    match fitting(&state, channel, &now, accepted, is_compared) {
        Ok(resumed) => {
            channel.resume.push(resumed);
            channel.resume_settings.push(state.settings);
            channel.done.extend(state.done);
            Vec::new()
        }
        Err(faults) => faults,
    }
}

/// What differs between the decoders of a channel and those of the states that it goes on from.
pub fn check_decoders(channel: &Channel, decoders: &[DecoderIdentity]) -> Vec<String> {
    let now = settings(channel, decoders);
    let states = channel.resume.iter().zip(&channel.resume_settings);
    let faults = states.flat_map(|(state, then)| {
        differences(&channel.name, then, &now, state.accepted, is_of_decoder)
    });
    // Those of several ranks mostly are the same.
    faults.collect::<BTreeSet<_>>().into_iter().collect()
}

/// The state as the place where the channel goes on, or what does not fit. Of the settings, those
/// are compared that `is_compared` says.
fn fitting(
    state: &ChannelState,
    channel: &Channel,
    now: &Settings,
    accepted: Accepted,
    is_compared: impl Fn(&str) -> bool,
) -> Result<Resumed, Vec<String>> {
    check_form(state, channel).map_err(|fault| vec![fault])?;
    // Objects can be divided in another way where an epoch begins.
    let is_inside = state.given > 0;
    let is_due = |name: &str| is_compared(name) && (is_inside || !name.ends_with("shard"));
    let faults = differences(&state.channel, &state.settings, now, accepted, is_due);
    if !faults.is_empty() {
        return Err(faults);
    }
    let shard = Shard { rank: state.rank, world: state.world };
    let ChannelState { schema, given, position, .. } = state.clone();
    let schema = if accepted.schema { String::new() } else { schema };
    Ok(Resumed { given, schema, shard, position, accepted })
}

/// Whether the state has the form of one that this host reads.
fn check_form(state: &ChannelState, channel: &Channel) -> Result<(), String> {
    let (name, shard) = (&state.channel, Shard { rank: state.rank, world: state.world });
    if state.version != VERSION {
        return Err(format!(
            "the state of `{name}` has version {}; this host reads version {VERSION}",
            state.version
        ));
    }
    if channel.order == RecordOrder::Any && state.given > 0 {
        return Err(format!(
            "channel `{name}` has order = \"any\": no place inside of an epoch says what came before \
             it; give a state that was taken between two epochs"
        ));
    }
    if state.position.header > state.position.offset {
        return Err(format!(
            "the state of `{name}` has header {} and offset {}; expected a header of at most the \
             offset",
            state.position.header, state.position.offset
        ));
    }
    if shard.rank >= shard.world || shard.world > Shard::MAX_WORLD {
        let most = Shard::MAX_WORLD;
        return Err(format!(
            "the state of `{name}` says {shard}; expected a rank below the number of ranks, at most \
             {most}"
        ));
    }
    Ok(())
}
