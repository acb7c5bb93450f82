//! Writes the configuration as TOML with all defaults: `pipemill config show` prints it.
//! `parse` reads this text back to the same configuration.

use std::fmt::{Display, Write};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use pipemill_channel::{OnError, OnPluginError, Until, Window};
use pipemill_source::cache::CacheSettings;
use pipemill_source::{ListPart, Order, Pattern, ReadSettings, s3};
use pipemill_types::{Mode, is_hidden};

use super::keys::*;
use super::model::{
    Channel, Checkpoint, Config, DecoderRef, IndexedData, Listen, Mix, MixInput, Shuffle, Source,
    WorkerCount,
};
use super::skip_list::SkipList;
use super::values::{show_duration, show_size};

/// Writes a configuration as TOML. Bytes of a path that are not UTF-8 are replaced; times are
/// truncated to whole milliseconds.
pub fn show(config: &Config) -> String {
    let mut writer = TomlWriter::default();
    if let Some(socket) = &config.socket {
        writer.line(SOCKET.name, path(socket));
    }
    writer.line(ALLOW_OTHER_USERS.name, config.allow_other_users);
    writer.line(MAX_CONNECTIONS.name, config.max_connections);
    if let Some(cores) = config.cores {
        writer.line(CORES.name, cores);
    }
    match &config.metrics {
        Some(Listen::Tcp(address)) => writer.line(METRICS.name, quote(&address.to_string())),
        Some(Listen::Unix(file)) => writer.line(METRICS.name, path(file)),
        None => {}
    }
    writer.line(STOP_TIMEOUT.name, time(config.stop_timeout));
    writer.line(FAIL_GRACE.name, time(config.fail_grace));
    if let Some(budget) = config.s3_budget {
        writer.header("[s3]");
        writer.line(BUDGET.name, size(budget));
    }
    for channel in &config.channels {
        if let Source::Mix(mix) = &channel.source {
            for MixInput { channel: input, .. } in &mix.inputs {
                writer.header("[[channel]]");
                writer.line(NAME.name, quote(&input.name));
                writer.line(SOURCE.name, source(input, true));
                reading_lines(&mut writer, input);
                shuffle_line(&mut writer, input);
                limits_lines(&mut writer, input);
            }
        }
        writer.header("[[channel]]");
        channel_lines(&mut writer, channel);
    }
    writer.text
}

fn channel_lines(writer: &mut TomlWriter, channel: &Channel) {
    let is_mix = matches!(channel.source, Source::Mix(_));
    writer.line(NAME.name, quote(&channel.name));
    writer.line(SOURCE.name, source(channel, false));
    if !is_mix {
        reading_lines(writer, channel);
    }
    serving_lines(writer, channel);
    if !is_mix {
        limits_lines(writer, channel);
    } else if channel.batch_memory.is_some() {
        writer.header("[channel.limits]");
        batches_line(writer, channel);
    }
}

/// How the channel decodes.
fn reading_lines(writer: &mut TomlWriter, channel: &Channel) {
    match &channel.decoder {
        Some(DecoderRef::Name(name)) => writer.line(DECODER.name, quote(name)),
        Some(DecoderRef::File(file)) => writer.line(DECODER.name, path(file)),
        None => {}
    }
    if let Some(digest) = &channel.sha256 {
        writer.line(SHA256.name, word(&digest.to_string()));
    }
    if !channel.trust.is_empty() {
        let digests = channel.trust.iter().map(|digest| word(&format!("sha256:{digest}")));
        writer.line(TRUST.name, format!("[{}]", digests.collect::<Vec<_>>().join(", ")));
    }
    if !channel.options.is_empty() {
        let options = channel.options.iter().map(|(name, value)| (key(name), quote(value)));
        writer.line(OPTIONS.name, inline(options));
    }
    if !channel.added_fields.is_empty() {
        let names = channel.added_fields.iter().map(|field| quote(&field.word()));
        writer.line(ADD_FIELDS.name, format!("[{}]", names.collect::<Vec<_>>().join(", ")));
    }
    let (policy, file) = match &channel.on_error {
        OnError::Fail => (Policy::Fail, None),
        OnError::Skip => (Policy::Skip, None),
        OnError::Quarantine(file) => (Policy::Quarantine, Some(file)),
    };
    writer.line(ON_ERROR.name, word(ON_ERROR.word(policy)));
    if let Some(file) = file {
        writer.line(QUARANTINE.name, path(file));
    }
    writer.line(ON_PLUGIN_ERROR.name, word(ON_PLUGIN_ERROR.word(channel.on_plugin_error)));
    if policy != Policy::Fail || channel.on_plugin_error != OnPluginError::Fail {
        writer.line(MAX_ERRORS.name, channel.max_errors);
    }
    writer.line(MAX_RECORD.name, size(channel.max_record));
    match channel.workers {
        WorkerCount::Exactly(count) => writer.line(WORKERS.name, count),
        WorkerCount::Auto => writer.line(WORKERS.name, word(AUTO.word(()))),
    }
    writer.line(ORDER.name, word(ORDER.word(channel.order)));
}

/// Writes the keys for the channel's consumers.
fn serving_lines(writer: &mut TomlWriter, channel: &Channel) {
    writer.line(MODE.name, word(MODE.word(channel.mode)));
    if channel.mode != Mode::Share {
        writer.line(CONSUMERS.name, channel.consumers);
    }
    if let Some(size) = channel.batch {
        writer.line(BATCH.name, size.records);
        writer.line(TAIL.name, word(TAIL.word(size.tail)));
        writer.line(BATCH_ACROSS.name, word(BATCH_ACROSS.word(size.across)));
    }
    shuffle_line(writer, channel);
    if let Some(Checkpoint { path: file, every }) = &channel.checkpoint {
        let pairs = vec![(CHECKPOINT_PATH.name, path(file)), (EVERY.name, time(*every))];
        writer.line(CHECKPOINT.name, inline(pairs));
    }
    writer.header("[channel.ring]");
    writer.line(SLOTS.name, channel.ring.slots);
    if !channel.ring.fits_batches {
        writer.line(SLOT_SIZE.name, size(channel.ring.slot_size as u64));
    }
    writer.line(CREDITS.name, channel.ring.credits);
    writer.line(LINGER.name, time(channel.ring.linger));
}

fn shuffle_line(writer: &mut TomlWriter, channel: &Channel) {
    if let Some(Shuffle { seed, blocks, shards, window }) = channel.shuffle {
        let mut pairs = vec![(SEED.name, seed.to_string())];
        pairs.extend(blocks.map(|blocks| (BLOCKS.name, size(blocks))));
        pairs.extend(shards.map(|shards| (SHARDS.name, shards.to_string())));
        pairs.extend(window.map(|window| (WINDOW.name, window_value(window))));
        writer.line(SHUFFLE.name, inline(pairs));
    }
}

fn limits_lines(writer: &mut TomlWriter, channel: &Channel) {
    writer.header("[channel.limits]");
    writer.line(MEMORY.name, size(channel.limits.memory));
    writer.line(CALL_TIMEOUT.name, time(channel.limits.call_timeout));
    writer.line(OUTPUT.name, size(channel.limits.output));
    batches_line(writer, channel);
}

fn batches_line(writer: &mut TomlWriter, channel: &Channel) {
    if let Some(bytes) = channel.batch_memory {
        writer.line(BATCHES.name, size(bytes));
    }
}

fn window_value(window: Window) -> String {
    match window {
        Window::Bytes(bytes) => size(bytes),
        Window::Records(records) => records.to_string(),
    }
}

/// A source. `is_mixed`: the epochs are those of a mix, which has them.
fn source(channel: &Channel, is_mixed: bool) -> String {
    let mut pairs: Vec<(&'static str, String)> = Vec::new();
    let compression = match &channel.source {
        Source::Fifo {
            dir,
            epochs,
            first_epoch,
            open_timeout,
            idle_timeout,
            pipe_size,
            compression,
            epoch_file,
        } => {
            pairs.push((FIFO.name, path(dir)));
            pairs.extend(epochs.map(|epochs| (EPOCHS.name, epochs.to_string())));
            pairs.push((FIRST_EPOCH.name, first_epoch.to_string()));
            pairs.push((OPEN_TIMEOUT.name, open_timeout.map_or(word(FOREVER), time)));
            pairs.push((IDLE_TIMEOUT.name, idle_timeout.map_or(word(FOREVER), time)));
            pairs.push((PIPE_SIZE.name, size(*pipe_size as u64)));
            pairs.extend(epoch_file.as_ref().map(|file| (EPOCH_FILE.name, path(file))));
            compression
        }
        Source::Files { pattern, reading } => {
            pairs.push(match pattern {
                Pattern::File(file) => (FILE.name, path(file)),
                Pattern::Files(files) => {
                    let paths: Vec<_> = files.iter().map(|file| path(file)).collect();
                    (FILES.name, format!("[{}]", paths.join(", ")))
                }
                Pattern::Glob(pattern) => (GLOB.name, quote(pattern)),
                Pattern::Folder(folder) => (FOLDER.name, path(folder)),
                Pattern::Known { index, .. } => (INDEX.name, quote(index)),
            });
            pairs.extend(reading_pairs(reading));
            // Files that are named one by one don't have these keys.
            if matches!(pattern, Pattern::Folder(_) | Pattern::Glob(_)) {
                pairs.push((HIDDEN.name, reading.hidden.to_string()));
                pairs.push((LIST.name, word(LIST.word(reading.relist))));
            }
            &reading.compression
        }
        Source::S3(settings) => {
            pairs.extend(s3_pairs(settings));
            pairs.extend(reading_pairs(&settings.reading));
            if matches!(settings.selection, s3::Selection::Prefixes(_)) {
                pairs.push((HIDDEN.name, settings.reading.hidden.to_string()));
                pairs.push((LIST.name, word(LIST.word(settings.reading.relist))));
                let inventory = settings.reading.inventory.as_ref();
                pairs.extend(inventory.map(|it| (INVENTORY.name, quote(&it.to_string()))));
            }
            &settings.reading.compression
        }
        Source::Index(index) => {
            match &index.data {
                Some(IndexedData::Folder(folder)) => pairs.push((FOLDER.name, path(folder))),
                Some(IndexedData::Prefix(address)) => {
                    pairs.push((S3.name, quote(&address.to_string())));
                }
                None => pairs.push((INDEX.name, quote(&index.file.to_string()))),
            }
            pairs.extend(index.data.as_ref().map(|_| (INDEXED.name, "true".to_owned())));
            pairs.extend(index.root.as_ref().map(|root| (ROOT.name, path(root))));
            pairs.extend(skip_list(&index.skip).map(|list| (SKIP.name, list)));
            if !matches!(index.data, Some(IndexedData::Folder(_))) {
                pairs.extend(s3_pairs(&index.settings));
            }
            pairs.extend(reading_pairs(&index.settings.reading));
            // The index knows it.
            pairs.retain(|(name, _)| *name != WRAP.name);
            return inline(without_mixed(pairs, is_mixed));
        }
        Source::Stdin { compression } => {
            pairs.push((STDIN.name, "true".to_owned()));
            compression
        }
        Source::Mix(mix) => return inline(mix_pairs(mix)),
    };
    pairs.extend(channel.learn_from.as_ref().map(|object| (LEARN_FROM.name, quote(object))));
    pairs.push((COMPRESSION.name, word(COMPRESSION.word(*compression))));
    inline(without_mixed(pairs, is_mixed))
}

/// Leaves out the keys that a channel that is mixed can't have.
fn without_mixed<T>(mut pairs: Vec<(&'static str, T)>, is_mixed: bool) -> Vec<(&'static str, T)> {
    pairs.retain(|(name, _)| !is_mixed || ![EPOCHS.name, FIRST_EPOCH.name].contains(name));
    pairs
}

fn mix_pairs(mix: &Mix) -> Vec<(&'static str, String)> {
    let weight = |weight: u64| format!("{}.{:06}", weight / 1_000_000, weight % 1_000_000);
    let of_input = |input: &MixInput| (key(&input.channel.name), weight(input.weight));
    let until = match mix.until {
        Until::Records(records) => records.to_string(),
        until => word(UNTIL_WORDS.word(until)),
    };
    vec![
        (MIX.name, inline(mix.inputs.iter().map(of_input))),
        (UNTIL.name, until),
        (MIX_SEED.name, mix.seed.to_string()),
        (EPOCHS.name, mix.epochs.to_string()),
    ]
}

fn reading_pairs(reading: &ReadSettings) -> Vec<(&'static str, String)> {
    let mut pairs = vec![(EPOCHS.name, reading.epochs.to_string())];
    // The shuffle is written as the channel's `shuffle`.
    let Order { part, .. } = reading.order;
    if let Some(ListPart { index, count, balance }) = part {
        let both = [(PART_INDEX.name, index.to_string()), (PART_COUNT.name, count.to_string())];
        pairs.push((PART.name, inline(both)));
        // Not every source has this key; a source without it has the default.
        if balance != BALANCE.default {
            pairs.push((BALANCE.name, word(BALANCE.word(balance))));
        }
    }
    pairs.push((WRAP.name, word(WRAP.word(reading.wrap))));
    let records = |cache| (CACHE.name, inline(cache_pairs(cache, CacheOf::Records)));
    pairs.extend(reading.records.as_ref().map(records));
    pairs
}

/// A skip list. `None` if it is empty.
fn skip_list(list: &SkipList) -> Option<String> {
    match list {
        SkipList::Records(ranges) if ranges.is_empty() => None,
        SkipList::Records(ranges) => {
            let ranges = ranges.iter().map(|Range { start, end }| match end - start {
                1 => start.to_string(),
                _ => format!("\"{start}-{}\"", end - 1),
            });
            Some(format!("[{}]", ranges.collect::<Vec<_>>().join(", ")))
        }
        SkipList::File(location) => Some(quote(&location.to_string())),
    }
}

fn s3_pairs(settings: &s3::Settings) -> Vec<(&'static str, String)> {
    let list = |texts: Vec<String>| format!("[{}]", texts.join(", "));
    let all = |addresses: &[s3::Address]| {
        list(addresses.iter().map(|address| quote(&address.to_string())).collect())
    };
    let mut pairs = match &settings.selection {
        // An index has a key of its own.
        s3::Selection::Known { .. } => Vec::new(),
        s3::Selection::Objects(addresses) if addresses.is_empty() => Vec::new(),
        // Only the command line makes names; a file has no key that means the same.
        s3::Selection::Prefixes(addresses) | s3::Selection::Named(addresses) => {
            vec![(S3.name, all(addresses))]
        }
        s3::Selection::Objects(addresses) => vec![(S3_OBJECT.name, all(addresses))],
        s3::Selection::Manifest(address) => vec![(MANIFEST.name, quote(&address.to_string()))],
        s3::Selection::Augmented { manifest, attributes } => vec![
            (AUGMENTED_MANIFEST.name, quote(&manifest.to_string())),
            (ATTRIBUTES.name, list(attributes.iter().map(|name| quote(name)).collect())),
        ],
    };
    let access = &settings.access;
    let given =
        [(&REGION, &access.region), (&ENDPOINT, &access.endpoint), (&PROFILE, &access.profile)];
    pairs.extend(
        given.into_iter().filter_map(|(key, value)| Some((key.name, quote(value.as_ref()?)))),
    );
    pairs.extend([
        (ADDRESSING.name, word(ADDRESSING.word(access.addressing))),
        (ANONYMOUS.name, access.anonymous.to_string()),
        (REQUESTER_PAYS.name, access.requester_pays.to_string()),
        (ALLOW_EMPTY.name, settings.allow_empty.to_string()),
        (PART_SIZE.name, size(settings.part_size)),
        (CONCURRENCY.name, settings.concurrency.to_string()),
        (STALL_TIMEOUT.name, time(settings.stall_timeout)),
        (RETRY_TIMEOUT.name, time(settings.retry_timeout)),
        (CHECKSUM.name, word(CHECKSUM.word(settings.verify))),
        (ON_CHANGE.name, word(ON_CHANGE.word(settings.on_change))),
    ]);
    let cache = |cache| (CACHE.name, inline(cache_pairs(cache, CacheOf::Bytes)));
    pairs.extend(settings.cache.as_ref().map(cache));
    pairs
}

fn cache_pairs(cache: &CacheSettings, of: CacheOf) -> [(&'static str, String); 3] {
    [
        (CACHE_PATH.name, path(&cache.path)),
        (CACHE_SIZE.name, size(cache.size)),
        (CACHE_OF.name, word(CACHE_OF.word(of))),
    ]
}

/// Writes a line for each key, and a blank line before each header.
#[derive(Default)]
struct TomlWriter {
    text: String,
}

impl TomlWriter {
    fn header(&mut self, header: &str) {
        self.text.push('\n');
        self.text.push_str(header);
        self.text.push('\n');
    }

    fn line(&mut self, key: &str, value: impl Display) {
        // Writing to a String can't fail.
        let _ = writeln!(self.text, "{key} = {value}");
    }
}

fn inline<K: Display>(pairs: impl IntoIterator<Item = (K, String)>) -> String {
    let pairs: Vec<_> = pairs.into_iter().map(|(key, value)| format!("{key} = {value}")).collect();
    format!("{{ {} }}", pairs.join(", "))
}

fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { toml_string(name) }
}

fn path(path: &Path) -> String {
    quote(&path.to_string_lossy())
}

fn size(bytes: u64) -> String {
    word(&show_size(bytes))
}

fn time(time: Duration) -> String {
    word(&show_duration(time))
}

/// A word of pipemill in quotes. It needs no escape.
fn word(text: &str) -> String {
    format!("\"{text}\"")
}

/// A string that `parse` reads without replacing variables.
pub fn quote(text: &str) -> String {
    toml_string(&text.replace('$', "$$"))
}

fn toml_string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if is_hidden(c) => {
                // Writing to a String can't fail.
                let _ = write!(out, "\\U{:08X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
