//! The settings that must be the same when a channel resumes, as names and values for people, and
//! their comparison with a state.

use std::collections::{BTreeMap, BTreeSet};

use pipemill_channel::{OnError, RecordOrder, Until, Window};
use pipemill_decode::{Digest, Plugin};
use pipemill_ring::protocol::State;
use pipemill_types::{Accepted, AddedField, BatchAcross, Tail};

use pipemill_config::{Channel, Mix, MixInput, Shuffle, Source, show_size};

/// Names and values.
pub type Settings = BTreeMap<String, String>;

/// The longest setting that is kept unchanged, in bytes: the message in which consumers get the
/// settings holds 64 KiB.
const MAX_SHOWN_BYTES: usize = 4 << 10;

/// A setting that is a limit; it is compared only if both sides have it, because records above it
/// were skipped.
const SKIPS: &str = "skips";

/// The identity of a decoder: not its path, but its bytes, and its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecoderIdentity {
    /// The digest of a plugin; or the name of a built-in decoder, with a number that grows when its
    /// records change.
    decoder: String,
    /// The options that differ from their defaults, as JSON.
    options: String,
}

impl DecoderIdentity {
    /// The identity of a plugin with these options.
    pub fn of(plugin: &Plugin, options: &[(String, String)]) -> Self {
        let is_default = |(name, value): &(String, String)| {
            let mut specs = plugin.options().iter();
            let default =
                specs.find(|spec| spec.name == *name).and_then(|spec| spec.default.as_ref());
            default == Some(value)
        };
        let own: BTreeMap<_, _> =
            options.iter().filter(|option| !is_default(option)).cloned().collect();
        Self { decoder: plugin.identity(), options: short(serde_json::json!(own).to_string()) }
    }
}

/// The settings that must be the same when a channel resumes. `decoders` are those of the channel,
/// or of the channels that it mixes; without them their settings are left out.
pub fn settings(channel: &Channel, decoders: &[DecoderIdentity]) -> Settings {
    let mut settings = Settings::new();
    let mut put = |name: &str, value: String| {
        settings.insert(name.to_owned(), value);
    };
    let mut decoders = decoders.iter();
    if let Some(shards) = channel.shards() {
        // These are the same for any number of hosts. The index determines the decoder.
        put(State::SHARDS, format!("{} of {} records", shards.count(), shards.per_round()));
        put("index", channel.indexed.as_ref().map_or(String::new(), |one| one.digest()));
        if let Some(skipped) = skipped_text(channel) {
            put("skip", skipped);
        }
        put("shuffle", seed_text(channel));
        put("tail", channel.batch.map_or("none", |batch| tail_word(batch.tail)).to_owned());
        // A state of shards has no other text of the fields.
        if !channel.added_fields.is_empty() {
            let names = channel.added_fields.iter().map(AddedField::word);
            put("schema", format!("with {}", names.collect::<Vec<_>>().join(", ")));
        }
        return settings;
    }
    match &channel.source {
        Source::Mix(mix) => {
            put("mix", mix_text(mix));
            for input in channel.decoded() {
                put_reading(
                    &mut |name, value| put(&format!("{}: {name}", input.name), value),
                    input,
                    decoders.next(),
                );
            }
        }
        _ => put_reading(&mut put, channel, decoders.next()),
    }
    put("batch", channel.batch.map_or("none".to_owned(), |batch| batch.records.to_string()));
    if let Some(batch) = channel.batch {
        put("tail", tail_word(batch.tail).to_owned());
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

/// Adds the settings that determine the records of a channel that decodes.
fn put_reading(
    put: &mut dyn FnMut(&str, String),
    channel: &Channel,
    decoder: Option<&DecoderIdentity>,
) {
    if let Some(DecoderIdentity { decoder, options }) = decoder {
        put("decoder", decoder.clone());
        put("options", options.clone());
    }
    if channel.on_error != OnError::Fail {
        put(SKIPS, format!("records of more than {}", show_size(channel.max_record)));
    }
    if let Some(skipped) = skipped_text(channel) {
        put("skip", skipped);
    }
    put("shuffle", seed_text(channel));
    let (compression, reading) = match &channel.source {
        Source::Files { reading, .. } => (reading.compression, Some(reading)),
        Source::S3(settings) => (settings.reading.compression, Some(&settings.reading)),
        Source::Index(index) => (index.settings.reading.compression, Some(&index.settings.reading)),
        Source::Fifo { compression, .. } | Source::Stdin { compression } => (*compression, None),
        // A mix has no mix as input.
        Source::Mix(_) => return,
    };
    put("compression", compression.to_string());
    if let Some(reading) = reading {
        let part = reading.order.part.map_or("none".to_owned(), |part| {
            format!("{}/{} by {:?}", part.index, part.count, part.balance).to_lowercase()
        });
        put("part", part);
        if reading.wrap {
            put("wrap", "recordio".to_owned());
        }
    }
}

/// The settings that determine the order of a mix.
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

/// The records of the index that are skipped: their number, and a digest. `None` if there are none.
fn skipped_text(channel: &Channel) -> Option<String> {
    let skipped = &channel.indexed.as_ref()?.skipped;
    let count = skipped.count();
    (count > 0).then(|| format!("{count}: {:016x}", skipped.digest()))
}

fn seed_text(channel: &Channel) -> String {
    match channel.shuffle {
        None => "none".to_owned(),
        Some(Shuffle { seed, blocks: None, .. }) => seed.to_string(),
        Some(Shuffle { seed, blocks: Some(bytes), .. }) => {
            let places = channel.indexed.as_ref().map_or("", |indexed| &indexed.places);
            let places = places.get(..16).unwrap_or(places);
            format!("{seed}, blocks of {} at the places {places}", show_size(bytes))
        }
    }
}

/// The text, or its digest if the text is long for a message.
fn short(text: String) -> String {
    if text.len() <= MAX_SHOWN_BYTES {
        text
    } else {
        format!("sha256:{}", Digest::of(text.as_bytes()))
    }
}

/// The word that the configuration uses.
pub fn across_word(across: BatchAcross) -> &'static str {
    match across {
        BatchAcross::Object => "object",
        BatchAcross::Epoch => "epoch",
    }
}

/// The word that the configuration uses.
pub fn tail_word(tail: Tail) -> &'static str {
    match tail {
        Tail::Keep => "keep",
        Tail::Drop => "drop",
        Tail::Pad => "pad",
    }
}

/// The last word of a setting's name: the settings of a mix's input begin with the input's name.
fn word_of(name: &str) -> &str {
    name.rsplit(": ").next().unwrap_or(name)
}

/// Whether a setting depends on the decoder, which the host may have to find.
pub fn is_of_decoder(name: &str) -> bool {
    matches!(word_of(name), "decoder" | "options")
}

/// The differences between the settings of a state and those of a channel now, a sentence for each.
/// Settings that are not compared, or whose difference is accepted, are left out.
pub fn differences(
    channel: &str,
    then: &Settings,
    now: &Settings,
    accepted: Accepted,
    is_compared: impl Fn(&str) -> bool,
) -> Vec<String> {
    let names: BTreeSet<_> = then.keys().chain(now.keys()).collect();
    let differs = |name: &&String| {
        let (then, now) = (then.get(*name), now.get(*name));
        let counts = word_of(name) != SKIPS || then.is_some() && now.is_some();
        then != now && counts && is_compared(name) && !accepted.has(word_of(name))
    };
    let text = |settings: &Settings, name: &str| {
        settings.get(name).map_or("nothing".to_owned(), |value| format!("`{value}`"))
    };
    let sentence = |name: &String| {
        let accept = match word_of(name) {
            word if Accepted::WORDS.contains(&word) => format!(", or accept it: `{word}`"),
            _ => String::new(),
        };
        format!(
            "channel `{channel}`: `{name}` was {} when the state was taken, and is {} now; set it \
             back, or begin without the state{accept}",
            text(then, name),
            text(now, name)
        )
    };
    names.into_iter().filter(differs).map(sentence).collect()
}
