//! A mix: a channel whose source is other channels of the file. They move into the mix: none of
//! them is served separately.

use pipemill_channel::Until;
use pipemill_types::{BatchAcross, nearest};

use super::document::{Purpose, ReadResult, Reported};
use super::key::Key;
use super::keys::*;
use super::model::{Channel, Mix, MixInput, Source};
use super::read::Reader;

/// Keys that only a channel with its own source and decoder has; a mix has none of them.
static READING_KEYS: [&dyn Key; 12] = [
    &DECODER,
    &SHA256,
    &TRUST,
    &OPTIONS,
    &ADD_FIELDS,
    &ON_ERROR,
    &QUARANTINE,
    &ON_PLUGIN_ERROR,
    &MAX_ERRORS,
    &MAX_RECORD,
    &WORKERS,
    &ORDER,
];
/// As `READING_KEYS`, for `[channel.limits]`.
static READING_LIMITS: [&dyn Key; 3] = [&MEMORY, &CALL_TIMEOUT, &OUTPUT];
/// Keys of a channel that is served: one that is mixed has none of them.
static SERVING_KEYS: [&dyn Key; 7] =
    [&MODE, &CONSUMERS, &BATCH, &TAIL, &BATCH_ACROSS, &CHECKPOINT, &RING];

/// Reads the mix of a source. Its channels are found once all are read: see [`resolve`].
pub(super) fn read(reader: &Reader, epochs: ReadResult<Option<u32>>) -> ReadResult<Source> {
    let until = until(reader);
    let seed = reader.number(&MIX_SEED);
    let epochs = epochs?.unwrap_or(1);
    Ok(Source::Mix(Box::new(Mix {
        inputs: Vec::new(),
        until: until?,
        seed: seed?,
        epochs,
        shards: None,
    })))
}

fn until(reader: &Reader) -> ReadResult<Until> {
    if reader.is_count(&UNTIL) {
        let records = reader.optional_number(&UNTIL_RECORDS)?;
        return Ok(records.map_or(Until::First, Until::Records));
    }
    let default = UNTIL_WORDS.default;
    let Some(given) = reader.text(UNTIL.name, UNTIL.expected)? else { return Ok(default) };
    let known = UNTIL_WORDS.words.iter().find(|(word, _)| *word == given.text);
    let wrong = || reader.wrong(UNTIL.name, UNTIL.expected, &given.found(), String::new());
    known.map(|(_, until)| *until).ok_or_else(wrong)
}

/// A channel of the file, as it was read.
pub(super) struct ReadChannel<'a> {
    pub(super) reader: Reader<'a>,
    pub(super) channel: Channel,
}

/// Moves the channels that are mixed into their mixes.
pub(super) fn resolve(
    mut read: Vec<ReadChannel<'_>>,
    purpose: Purpose,
) -> ReadResult<Vec<Channel>> {
    let is_mix = |read: &ReadChannel| matches!(read.channel.source, Source::Mix(_));
    let (mixes, mut others): (Vec<_>, Vec<_>) =
        read.drain(..).enumerate().partition(|(_, read)| is_mix(read));
    if purpose == Purpose::Feed {
        // The channels are fed one by one, mixed or not.
        return Ok(others.into_iter().map(|(_, read)| read.channel).collect());
    }
    let mut taken: Vec<(String, String)> = Vec::new();
    let mut resolved = Vec::new();
    let mut result = Ok(());
    for (place, mut read) in mixes {
        let checked = check_mix(&read);
        let inputs = inputs(&read, &mut others, &mut taken);
        match (checked, inputs, &mut read.channel.source) {
            (Ok(()), Ok(found), Source::Mix(mix)) => mix.inputs = found,
            (Err(fault), ..) | (_, Err(fault), _) => result = Err(fault),
            _ => {}
        }
        resolved.push((place, read));
    }
    result?;
    resolved.extend(others);
    resolved.sort_by_key(|(place, _)| *place);
    Ok(resolved.into_iter().map(|(_, read)| read.channel).collect())
}

/// Checks the rules for the mix alone, without its inputs.
fn check_mix(read: &ReadChannel<'_>) -> ReadResult<()> {
    let ReadChannel { reader, channel } = read;
    let mut result = Ok(());
    for key in READING_KEYS.into_iter().filter(|key| reader.has(*key)) {
        let message = "a mix decodes nothing".to_owned();
        let remedy = "set it in the channels that are mixed".to_owned();
        result = Err(reader.fault(key.name(), message, remedy));
    }
    let limits = reader.table(&LIMITS, "")?;
    for key in READING_LIMITS.into_iter().filter(|key| limits.has(*key)) {
        let message = "a mix decodes nothing".to_owned();
        let remedy = "set it in the channels that are mixed".to_owned();
        result = Err(limits.fault(key.name(), message, remedy));
    }
    match channel.batch {
        None => {
            let message = format!("a mix needs `{}`", BATCH.name);
            let remedy = "give the number of records of each batch, such as batch = 256";
            result = Err(reader.fault(SOURCE.name, message, remedy.to_owned()));
        }
        Some(size) if size.across == BatchAcross::Object => {
            let message = "a mix has no objects".to_owned();
            let remedy = "leave it out: batches reach across objects then".to_owned();
            result = Err(reader.fault(BATCH_ACROSS.name, message, remedy));
        }
        Some(_) => {}
    }
    result
}

/// The channels of a mix, taken out of `others`, in the order of their names.
fn inputs(
    read: &ReadChannel<'_>,
    others: &mut Vec<(usize, ReadChannel<'_>)>,
    taken: &mut Vec<(String, String)>,
) -> ReadResult<Vec<MixInput>> {
    let source = read.reader.table(&SOURCE, "")?;
    let table = source.table(&MIX, "write mix = { web = 0.7, code = 0.3 }")?;
    let mut names = table.names();
    names.sort_unstable();
    let (least, most) = MIXED_CHANNELS;
    if !(least..=most).contains(&names.len()) {
        let message = format!("expected {least} to {most} channels, found {}", names.len());
        return Err(source.fault(MIX.name, message, String::new()));
    }
    let mut found = Vec::new();
    let mut result = Ok(());
    for name in names {
        let weight = table.weight(name);
        let input = match others.iter().position(|(_, other)| other.channel.name == name) {
            Some(at) => {
                let (_, input) = others.remove(at);
                taken.push((name.to_owned(), read.channel.name.clone()));
                as_input(input, read)
            }
            None => Err(not_there(&table, name, others, taken)),
        };
        match (weight, input) {
            (Ok(weight), Ok(channel)) => found.push(MixInput { channel, weight }),
            (Err(fault), _) | (_, Err(fault)) => result = Err(fault),
        }
    }
    result.map(|()| found)
}

/// The fault of a name that can't be mixed: the file has no such channel, or another mix has it.
fn not_there(
    table: &Reader,
    name: &str,
    others: &[(usize, ReadChannel<'_>)],
    taken: &[(String, String)],
) -> Reported {
    if let Some((_, mix)) = taken.iter().find(|(input, _)| input == name) {
        let remedy = "a channel can be mixed once; give each mix channels of its own".to_owned();
        return table.fault(name, format!("is mixed into `{mix}` already"), remedy);
    }
    let known: Vec<_> = others.iter().map(|(_, other)| other.channel.name.as_str()).collect();
    let remedy = match (nearest(name, &known), known.as_slice()) {
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, []) => "add a [[channel]] of this name".to_owned(),
        (None, known) => format!("the file's other channels are `{}`", known.join("`, `")),
    };
    table.fault(name, "the file has no such channel that can be mixed".to_owned(), remedy)
}

/// The channel as a part of the mix: its epochs are those of the mix.
fn as_input(input: ReadChannel<'_>, mix: &ReadChannel<'_>) -> ReadResult<Channel> {
    let ReadChannel { reader, mut channel } = input;
    let name = &mix.channel.name;
    let mut result = Ok(());
    for key in SERVING_KEYS.into_iter().filter(|key| reader.has(*key)) {
        let message = format!("this channel is mixed into `{name}`, and has no consumers");
        result = Err(reader.fault(key.name(), message, format!("set it in `{name}`")));
    }
    let limits = reader.table(&LIMITS, "")?;
    if limits.has(&BATCHES) {
        let message = format!("this channel is mixed into `{name}`, and has no batches");
        result = Err(limits.fault(BATCHES.name, message, format!("set it in `{name}`")));
    }
    if channel.order != ORDER.default {
        let message = format!(
            "this channel is mixed into `{name}`, whose order follows from that of its channels"
        );
        result = Err(reader.fault(ORDER.name, message, "leave it out".to_owned()));
    }
    if channel.shuffle.is_some_and(|shuffle| shuffle.shards.is_some()) {
        let message = format!("this channel is mixed into `{name}`, and has no shards");
        result = Err(reader.fault(SHUFFLE.name, message, "leave `shards` out".to_owned()));
    }
    if channel.shuffle.is_some_and(|shuffle| shuffle.window.is_some()) {
        let message = format!("this channel is mixed into `{name}`, and has no window");
        let remedy = format!("set the window in `{name}`");
        result = Err(reader.fault(SHUFFLE.name, message, remedy));
    }
    let source = reader.table(&SOURCE, "")?;
    for key in [&EPOCHS as &dyn Key, &FIRST_EPOCH, &EPOCH_FILE] {
        if source.has(key) {
            let message = format!("this channel has the epochs of the mix `{name}`");
            let remedy = format!("leave it out, or set `epochs` in `{name}`");
            result = Err(source.fault(key.name(), message, remedy));
        }
    }
    result?;
    let Source::Mix(mix) = &mix.channel.source else { return Ok(channel) };
    let endless = matches!(mix.until, Until::Records(_));
    match &mut channel.source {
        Source::Fifo { epochs, .. } => *epochs = (!endless).then_some(mix.epochs),
        source => {
            if let Some(reading) = source.reading_mut() {
                reading.epochs = if endless { u32::MAX } else { mix.epochs };
            }
        }
    }
    Ok(channel)
}
