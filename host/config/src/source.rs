//! The table `source` of a channel: exactly one kind of source, and only keys that go with it.

use std::path::PathBuf;
use std::time::Duration;

use pipemill_source::s3::{Address, Selection};
use pipemill_source::{Compression, ListPart, Location, Order, Pattern, ReadSettings};
use pipemill_types::Companions;

use super::document::{Purpose, ReadResult, Reported};
use super::key::{FreeForm, Key, KeyGroup, one_of};
use super::keys::*;
use super::model::{IndexSource, IndexedData, Source};
use super::read::Reader;
use super::skip_list::{SkipList, record_range};
use super::{mix, s3_source};

#[derive(Clone, Copy)]
enum SourceKind {
    Fifo,
    File,
    Files,
    Glob,
    Folder,
    S3,
    S3Object,
    Manifest,
    AugmentedManifest,
    Index,
    Stdin,
    Mix,
}

/// A kind of source with its key and its other keys.
struct SourceForm {
    kind: SourceKind,
    key: &'static FreeForm,
    other_keys: &'static [KeyGroup],
}

/// Keys for a path that stands for several files of known size.
const LISTED: &[KeyGroup] =
    &[COMMON_KEYS, EPOCH_KEYS, OBJECT_KEYS, ORDER_KEYS, SIZE_KEYS, FOLDER_KEYS, CACHE_KEYS];
/// Keys for a folder.
const IN_FOLDER: &[KeyGroup] = &[
    COMMON_KEYS,
    EPOCH_KEYS,
    OBJECT_KEYS,
    ORDER_KEYS,
    SIZE_KEYS,
    FOLDER_KEYS,
    CACHE_KEYS,
    INDEXED_KEYS,
    SKIP_KEYS,
];
/// Keys for prefixes in S3.
const IN_S3: &[KeyGroup] = &[
    COMMON_KEYS,
    EPOCH_KEYS,
    OBJECT_KEYS,
    ORDER_KEYS,
    SIZE_KEYS,
    FOLDER_KEYS,
    PREFIX_KEYS,
    S3_KEYS,
    CACHE_KEYS,
    INDEXED_KEYS,
    SKIP_KEYS,
];
/// Keys for objects that are named one by one: their sizes are not known.
const NAMED_IN_S3: &[KeyGroup] =
    &[COMMON_KEYS, EPOCH_KEYS, OBJECT_KEYS, ORDER_KEYS, S3_KEYS, CACHE_KEYS];

static SOURCE_FORMS: [SourceForm; 12] = [
    SourceForm {
        kind: SourceKind::Fifo,
        key: &FIFO,
        other_keys: &[COMMON_KEYS, EPOCH_KEYS, FIFO_KEYS],
    },
    SourceForm {
        kind: SourceKind::File,
        key: &FILE,
        other_keys: &[COMMON_KEYS, EPOCH_KEYS, OBJECT_KEYS, CACHE_KEYS],
    },
    SourceForm {
        kind: SourceKind::Files,
        key: &FILES,
        other_keys: &[COMMON_KEYS, EPOCH_KEYS, OBJECT_KEYS, ORDER_KEYS, SIZE_KEYS, CACHE_KEYS],
    },
    SourceForm { kind: SourceKind::Glob, key: &GLOB, other_keys: LISTED },
    SourceForm { kind: SourceKind::Folder, key: &FOLDER, other_keys: IN_FOLDER },
    SourceForm { kind: SourceKind::S3, key: &S3, other_keys: IN_S3 },
    SourceForm { kind: SourceKind::S3Object, key: &S3_OBJECT, other_keys: NAMED_IN_S3 },
    SourceForm { kind: SourceKind::Manifest, key: &MANIFEST, other_keys: NAMED_IN_S3 },
    SourceForm {
        kind: SourceKind::AugmentedManifest,
        key: &AUGMENTED_MANIFEST,
        other_keys: &[
            COMMON_KEYS,
            EPOCH_KEYS,
            OBJECT_KEYS,
            ORDER_KEYS,
            S3_KEYS,
            CACHE_KEYS,
            AUGMENTED_KEYS,
        ],
    },
    SourceForm {
        kind: SourceKind::Index,
        key: &INDEX,
        other_keys: &[
            EPOCH_KEYS, ORDER_KEYS, SIZE_KEYS, S3_KEYS, CACHE_KEYS, INDEX_KEYS, SKIP_KEYS,
        ],
    },
    SourceForm { kind: SourceKind::Stdin, key: &STDIN, other_keys: &[COMMON_KEYS] },
    SourceForm { kind: SourceKind::Mix, key: &MIX, other_keys: &[EPOCH_KEYS, MIX_KEYS] },
];

/// The kinds of sources: the key of each, and all keys that it may have.
pub(super) fn forms() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    SOURCE_FORMS.iter().map(|form| {
        let others = form.other_keys.concat().into_iter().map(Key::name);
        (form.key.name, std::iter::once(form.key.name).chain(others).collect())
    })
}

/// Reads the channel's source.
pub(super) fn read(channel: &Reader) -> ReadResult<Source> {
    if !channel.has(&SOURCE) {
        let preset = channel.preset().map(|preset| preset.source.clone());
        return channel.required(&SOURCE, Ok(preset));
    }
    let remedy = "for example source = { file = \"data.tfrecord\" }";
    let reader = channel.table(&SOURCE, remedy)?.refuse_unknown_keys(&SOURCE_TABLE);
    let form = form(channel, &reader)?;
    refuse_misplaced(&reader, form);
    if let Some(indexed) = indexed(&reader, form)? {
        return Ok(indexed);
    }
    let compression = reader.choice(&COMPRESSION);
    // The key's range fits into the type.
    let epochs = reader.optional_number(&EPOCHS).map(|epochs| epochs.map(|epochs| epochs as u32));
    let pattern = match form.kind {
        SourceKind::Fifo => return fifo(&reader, epochs, compression),
        SourceKind::Stdin => return stdin(&reader, compression),
        SourceKind::Mix => return mix::read(&reader, epochs),
        SourceKind::File => reader.required(&FILE, reader.path(&FILE)).map(Pattern::File),
        SourceKind::Files => files(&reader),
        SourceKind::Glob => pattern(&reader).map(Pattern::Glob),
        SourceKind::Folder => reader.required(&FOLDER, reader.path(&FOLDER)).map(Pattern::Folder),
        SourceKind::S3
        | SourceKind::S3Object
        | SourceKind::Manifest
        | SourceKind::AugmentedManifest => {
            let selection = s3_source::selection(&reader);
            let reading = reading(&reader, epochs, compression);
            return s3_source::read(&reader, selection, reading)
                .map(|settings| Source::S3(Box::new(settings)));
        }
        SourceKind::Index => return index(&reader, epochs, compression),
    };
    let (bytes, records) = s3_source::caches(&reader)?;
    if bytes.is_some() {
        return Err(refuse_bytes(&reader));
    }
    let reading = reading(&reader, epochs, compression);
    Ok(Source::Files { pattern: pattern?, reading: ReadSettings { records, ..reading? } })
}

/// Refuses a cache of the bytes of files.
fn refuse_bytes(reader: &Reader) -> Reported {
    let message = "keeps the bytes of objects in S3 only".to_owned();
    let remedy = "set of = \"records\" in it to keep what is decoded, or leave it out".to_owned();
    reader.fault(CACHE.name, message, remedy)
}

/// Reads the object from which the channel is learned. The kind of the source decides what kind of
/// object that is.
pub(super) fn learn_from(
    channel: &Reader,
    source: &ReadResult<Source>,
) -> ReadResult<Option<String>> {
    // A source that could not be read has its fault already.
    if source.is_err() || !channel.has(&SOURCE) {
        return Ok(None);
    }
    let reader = channel.table(&SOURCE, "")?;
    let Some(text) = reader.non_empty_text(&LEARN_FROM)? else { return Ok(None) };
    if let Ok(Source::S3(_)) = source
        && let Err(why) = text.parse::<Address>()
    {
        let remedy = format!("{why}; write it as s3://bucket/key");
        let expected = "an s3:// address, as the source is in S3";
        return Err(reader.wrong(LEARN_FROM.name, expected, &format!("{text:?}"), remedy));
    }
    Ok(Some(text))
}

fn index(
    reader: &Reader,
    epochs: ReadResult<Option<u32>>,
    compression: ReadResult<Compression>,
) -> ReadResult<Source> {
    let file = reader.required(&INDEX, location(reader, &INDEX));
    let (root, skip) = (reader.path(&ROOT), skip_list(reader));
    let none = Ok(Selection::Objects(Vec::new()));
    let settings = s3_source::read(reader, none, reading(reader, epochs, compression));
    let (file, root, skip, settings) = (file?, root?, skip?, settings?);
    Ok(Source::Index(Box::new(IndexSource { file, root, data: None, skip, settings })))
}

/// Reads a source whose index lies beside its data. `None` if it is another source.
fn indexed(reader: &Reader, form: &SourceForm) -> ReadResult<Option<Source>> {
    if !reader.flag(&INDEXED)? {
        if !matches!(form.kind, SourceKind::Index) {
            refuse_skip_list(reader)?;
        }
        return Ok(None);
    }
    let keys: [&dyn Key; 6] = [&COMPRESSION, &HIDDEN, &LIST, &INVENTORY, &WRAP, &LEARN_FROM];
    for key in keys {
        if reader.has(key) {
            let message = format!("does not go with `{}`: the index says it", INDEXED.name);
            return Err(reader.fault(key.name(), message, "leave it out".to_owned()));
        }
    }
    let epochs = reader.optional_number(&EPOCHS).map(|epochs| epochs.map(|epochs| epochs as u32));
    let none = Ok(Selection::Objects(Vec::new()));
    let settings = s3_source::read(reader, none, reading(reader, epochs, Ok(Compression::Auto)));
    let data = match form.kind {
        SourceKind::Folder => {
            let folder = reader.required(&FOLDER, reader.path(&FOLDER));
            if settings.as_ref().is_ok_and(|settings| settings.cache.is_some()) {
                return Err(refuse_bytes(reader));
            }
            IndexedData::Folder(folder?)
        }
        _ => IndexedData::Prefix(s3_source::only_prefix(reader)?),
    };
    let (file, settings, skip) = (data.index(), settings?, skip_list(reader)?);
    let (root, data) = (None, Some(data));
    Ok(Some(Source::Index(Box::new(IndexSource { file, root, data, skip, settings }))))
}

/// The location that a key names.
fn location(reader: &Reader, key: &FreeForm) -> ReadResult<Option<Location>> {
    let Some(text) = reader.non_empty_text(key)? else { return Ok(None) };
    reader.refuse_other_address(key, &text)?;
    let location = Location::of_name(&text).map_err(|why| {
        let remedy = format!("{why}; write it as s3://bucket/key");
        reader.wrong(key.name, key.expected, &format!("{text:?}"), remedy)
    });
    location.map(Some)
}

/// Reads the records that are left out.
fn skip_list(reader: &Reader) -> ReadResult<SkipList> {
    if reader.is_text(&SKIP) {
        return Ok(location(reader, &SKIP)?.map_or_else(SkipList::default, SkipList::File));
    }
    let given = reader.numbers_and_texts(&SKIP)?.unwrap_or_default();
    let range = |text: String| {
        record_range(&text).ok_or_else(|| {
            let remedy = "write a number, or a range with both of its ends: \"10-20\"".to_owned();
            reader.wrong(SKIP.name, SKIP.expected, &format!("{text:?} in it"), remedy)
        })
    };
    given.into_iter().map(range).collect::<ReadResult<_>>().map(SkipList::Records)
}

/// Refuses a skip list for a source that is read without an index.
fn refuse_skip_list(reader: &Reader) -> ReadResult<()> {
    if !reader.has(&SKIP) {
        return Ok(());
    }
    let message = "only an index has numbers of records".to_owned();
    let remedy = format!("make an index, and set `{} = true` or read from the index", INDEXED.name);
    Err(reader.fault(SKIP.name, message, remedy))
}

fn stdin(reader: &Reader, compression: ReadResult<Compression>) -> ReadResult<Source> {
    if reader.boolean(STDIN.name, STDIN.expected)? == Some(false) {
        let remedy = "leave it out to read something else".to_owned();
        return Err(reader.wrong(STDIN.name, STDIN.expected, "false", remedy));
    }
    Ok(Source::Stdin { compression: compression? })
}

/// Reads the keys that files and objects in S3 have in common.
fn reading(
    reader: &Reader,
    epochs: ReadResult<Option<u32>>,
    compression: ReadResult<Compression>,
) -> ReadResult<ReadSettings> {
    let part = part(reader).and_then(|part| balanced(reader, part));
    let wrap = reader.choice(&WRAP);
    let hidden = reader.flag(&HIDDEN);
    let relist = reader.choice(&LIST);
    let inventory = s3_source::inventory(reader);
    // The channel's `shuffle` is read later.
    let order = Order { part: part?, ..Order::default() };
    let endless = reader.purpose() == Purpose::Feed;
    let epochs = epochs?.unwrap_or(if endless { u32::MAX } else { 1 });
    let (compression, wrap, hidden, relist) = (compression?, wrap?, hidden?, relist?);
    Ok(ReadSettings {
        epochs,
        compression,
        order,
        wrap,
        hidden,
        relist,
        inventory: inventory?.map(Box::new),
        inventories: None,
        on_demand: None,
        divided_from: None,
        companions: Companions::default(),
        // It is read with the cache of bytes.
        records: None,
    })
}

fn part(reader: &Reader) -> ReadResult<Option<ListPart>> {
    if !reader.has(&PART) {
        return Ok(None);
    }
    if reader.is_text(&PART) {
        return part_of_rank(reader).map(Some);
    }
    let table = reader
        .table(&PART, "write part = { index = 0, count = 4 }")?
        .refuse_unknown_keys(&PART_TABLE);
    let index = table.required(&PART_INDEX, table.optional_number(&PART_INDEX));
    let count = table.required(&PART_COUNT, table.optional_number(&PART_COUNT));
    // The keys' ranges fit into the types.
    let part = ListPart { index: index? as u32, count: count? as u32, balance: BALANCE.default };
    if part.index >= part.count {
        let message = format!("{} of {} parts, which are numbered from 0", part.index, part.count);
        let remedy = format!("give a number from 0 to {}", part.count - 1);
        return Err(table.fault(PART_INDEX.name, message, remedy));
    }
    Ok(Some(part))
}

/// The part of the objects that this machine reads.
fn part_of_rank(reader: &Reader) -> ReadResult<ListPart> {
    let word = reader.required(&PART, reader.non_empty_text(&PART))?;
    if word != PART_OF_RANK.word(()) {
        return Err(reader.wrong(PART.name, PART.expected, &format!("{word:?}"), String::new()));
    }
    let (index, count) = reader.rank().map_err(|why| {
        let remedy = "set `rank` and `world` in the table [rank], or start it with torchrun, srun, \
                      as an Indexed Job or on SageMaker";
        reader.fault(PART.name, why, remedy.to_owned())
    })?;
    Ok(ListPart { index, count, balance: BALANCE.default })
}

/// The part with the value of `balance` set.
fn balanced(reader: &Reader, part: Option<ListPart>) -> ReadResult<Option<ListPart>> {
    let balance = reader.choice(&BALANCE)?;
    if part.is_none() && reader.has(&BALANCE) {
        let message = "there are no parts to balance".to_owned();
        let remedy = "set `part`, or leave it out".to_owned();
        return Err(reader.fault(BALANCE.name, message, remedy));
    }
    Ok(part.map(|part| ListPart { balance, ..part }))
}

/// The kind of the source. A second kind is a fault.
fn form(channel: &Reader, reader: &Reader) -> ReadResult<&'static SourceForm> {
    let named = |name: &&str| SOURCE_FORMS.iter().find(|form| form.key.name == *name);
    let mut given = reader.names();
    given.retain(|name| named(name).is_some());
    let Some(form) = given.first().and_then(named) else {
        let kinds: Vec<_> =
            SOURCE_FORMS.iter().map(|form| format!("`{}`", form.key.name)).collect();
        let missing = || {
            let remedy = format!("give {}", one_of(&kinds));
            channel.fault(SOURCE.name, "does not say what to read".to_owned(), remedy)
        };
        return Err(reader.unknown().unwrap_or_else(missing));
    };
    for second in &given[1..] {
        let message = format!("a second kind of source, as well as `{}`", form.key.name);
        reader.fault(second, message, "keep one of them".to_owned());
    }
    Ok(form)
}

/// Records a fault for each key that belongs to other kinds only.
fn refuse_misplaced(reader: &Reader, form: &SourceForm) {
    for name in reader.names() {
        let has = |form: &SourceForm| form.other_keys.concat().iter().any(|key| key.name() == name);
        let others: Vec<_> = SOURCE_FORMS.iter().filter(|other| has(other)).collect();
        if others.is_empty() || has(form) {
            continue;
        }
        let others: Vec<_> = others.iter().map(|other| format!("`{}`", other.key.name)).collect();
        let message = format!("does not go with `{}`", form.key.name);
        reader.fault(name, message, format!("it goes with {}", one_of(&others)));
    }
}

fn files(reader: &Reader) -> ReadResult<Pattern> {
    let paths = reader.required(&FILES, reader.texts(&FILES))?;
    paths.iter().try_for_each(|path| reader.refuse_other_address(&FILES, path))?;
    Ok(Pattern::Files(paths.into_iter().map(PathBuf::from).collect()))
}

fn pattern(reader: &Reader) -> ReadResult<String> {
    let given = reader.required(&GLOB, reader.text(GLOB.name, GLOB.expected))?;
    reader.refuse_other_address(&GLOB, &given.text)?;
    if given.text.is_empty() || given.text.contains('\0') {
        return Err(reader.wrong(GLOB.name, GLOB.expected, &given.found(), String::new()));
    }
    if let Err(error) = glob::Pattern::new(&given.text) {
        let remedy = format!("at character {}: {}", error.pos + 1, error.msg);
        return Err(reader.wrong(GLOB.name, GLOB.expected, &given.found(), remedy));
    }
    Ok(given.text)
}

fn fifo(
    reader: &Reader,
    epochs: ReadResult<Option<u32>>,
    compression: ReadResult<Compression>,
) -> ReadResult<Source> {
    let dir = reader.required(&FIFO, reader.path(&FIFO));
    let first_epoch = reader.number(&FIRST_EPOCH);
    let open_timeout =
        reader.timeout(&OPEN_TIMEOUT, Some(Duration::from_millis(OPEN_TIMEOUT.default)));
    let idle_timeout = reader.timeout(&IDLE_TIMEOUT, None);
    let pipe_size = reader.number(&PIPE_SIZE);
    let epoch_file = reader.path(&EPOCH_FILE);
    Ok(Source::Fifo {
        dir: dir?,
        epochs: epochs?,
        first_epoch: first_epoch? as u32, // its range fits, as that of `pipe_size`
        open_timeout: open_timeout?,
        idle_timeout: idle_timeout?,
        pipe_size: pipe_size? as usize,
        compression: compression?,
        epoch_file: epoch_file?,
    })
}
