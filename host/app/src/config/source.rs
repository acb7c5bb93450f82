//! A channel's `source`: exactly one kind, and only the keys that go with it.

use std::time::Duration;

use super::document::{Purpose, Read};
use super::key::{Free, Key, one_of};
use super::keys::*;
use super::read::Reader;
use super::{Compression, Order, Pattern, Reading, Shard, Source};

#[derive(Clone, Copy)]
enum Kind {
    Fifo,
    File,
    Glob,
    Folder,
    S3,
    S3Object,
    Manifest,
    AugmentedManifest,
    Stdin,
}

/// A kind, its key, and the keys that may stand beside that.
struct Form {
    kind: Kind,
    key: &'static Free,
    beside: Beside,
}

/// Groups of keys.
type Beside = &'static [&'static [&'static dyn Key]];

/// Beside paths that stand for several files, whose sizes are known.
const LISTED: Beside = &[OF_ALL, OF_REREAD, OF_WHOLE, OF_SEVERAL, OF_SIZED];
/// Beside objects that are named one by one, whose sizes are not.
const NAMED_IN_S3: Beside = &[OF_ALL, OF_REREAD, OF_WHOLE, OF_SEVERAL, OF_S3];

static FORMS: [Form; 9] = [
    Form { kind: Kind::Fifo, key: &FIFO, beside: &[OF_ALL, OF_REREAD, OF_FIFO] },
    Form { kind: Kind::File, key: &FILE, beside: &[OF_ALL, OF_REREAD, OF_WHOLE] },
    Form { kind: Kind::Glob, key: &GLOB, beside: LISTED },
    Form { kind: Kind::Folder, key: &FOLDER, beside: LISTED },
    Form {
        kind: Kind::S3,
        key: &S3,
        beside: &[OF_ALL, OF_REREAD, OF_WHOLE, OF_SEVERAL, OF_SIZED, OF_S3],
    },
    Form { kind: Kind::S3Object, key: &S3_OBJECT, beside: NAMED_IN_S3 },
    Form { kind: Kind::Manifest, key: &MANIFEST, beside: NAMED_IN_S3 },
    Form {
        kind: Kind::AugmentedManifest,
        key: &AUGMENTED_MANIFEST,
        beside: &[OF_ALL, OF_REREAD, OF_WHOLE, OF_SEVERAL, OF_S3, OF_AUGMENTED],
    },
    Form { kind: Kind::Stdin, key: &STDIN, beside: &[OF_ALL] },
];

/// Takes the channel's source.
pub(super) fn read(channel: &Reader) -> Read<Source> {
    if !channel.has(&SOURCE) {
        let preset = channel.preset().map(|preset| preset.source.clone());
        return channel.required(&SOURCE, Ok(preset));
    }
    let remedy = "for example source = { file = \"data.tfrecord\" }";
    let reader = channel.table(&SOURCE, remedy)?.knowing(&SOURCE_TABLE);
    let form = form(channel, &reader)?;
    refuse_misplaced(&reader, form);
    let compression = reader.choice(&COMPRESSION);
    // Within its range, which fits.
    let epochs = reader.given(&EPOCHS).map(|epochs| epochs.map(|epochs| epochs as u32));
    let pattern = match form.kind {
        Kind::Fifo => return fifo(&reader, epochs, compression),
        Kind::Stdin => return stdin(&reader, compression),
        Kind::File => reader.required(&FILE, reader.path(&FILE)).map(Pattern::File),
        Kind::Glob => pattern(&reader).map(Pattern::Glob),
        Kind::Folder => reader.required(&FOLDER, reader.path(&FOLDER)).map(Pattern::Folder),
        Kind::S3 | Kind::S3Object | Kind::Manifest | Kind::AugmentedManifest => {
            let what = super::s3_source::what(&reader);
            let reading = reading(&reader, epochs, compression);
            return super::s3_source::read(&reader, what, reading);
        }
    };
    let reading = reading(&reader, epochs, compression);
    Ok(Source::Files { pattern: pattern?, reading: reading? })
}

fn stdin(reader: &Reader, compression: Read<Compression>) -> Read<Source> {
    if reader.boolean(STDIN.name, STDIN.expected)? == Some(false) {
        let remedy = "leave it out to read something else".to_owned();
        return Err(reader.wrong(STDIN.name, STDIN.expected, "false", remedy));
    }
    Ok(Source::Stdin { compression: compression? })
}

/// How objects are read, wherever they lie.
fn reading(
    reader: &Reader,
    epochs: Read<Option<u32>>,
    compression: Read<Compression>,
) -> Read<Reading> {
    let shuffle = shuffle(reader);
    let shard = shard(reader).and_then(|shard| balanced(reader, shard));
    let wrap = reader.choice(&WRAP);
    let order = Order { shuffle: shuffle?, shard: shard? };
    let endless = reader.purpose() == Purpose::Feed;
    let epochs = epochs?.unwrap_or(if endless { u32::MAX } else { 1 });
    Ok(Reading { epochs, compression: compression?, order, wrap: wrap? })
}

fn shuffle(reader: &Reader) -> Read<Option<u64>> {
    if !reader.has(&SHUFFLE) {
        return Ok(None);
    }
    let table = reader.table(&SHUFFLE, "write shuffle = { seed = 1 }")?.knowing(&SHUFFLE_TABLE);
    table.required(&SEED, table.given(&SEED)).map(Some)
}

fn shard(reader: &Reader) -> Read<Option<Shard>> {
    let sharded = reader.choice(&DISTRIBUTION);
    if !reader.has(&SHARD) {
        return if sharded? { own_shard(reader).map(Some) } else { Ok(None) };
    }
    if reader.has(&DISTRIBUTION) {
        let message = format!("sets the same as `{}`", SHARD.name);
        return Err(reader.fault(DISTRIBUTION.name, message, "keep one of them".to_owned()));
    }
    let table =
        reader.table(&SHARD, "write shard = { index = 0, count = 4 }")?.knowing(&SHARD_TABLE);
    let index = table.required(&INDEX, table.given(&INDEX));
    let count = table.required(&COUNT, table.given(&COUNT));
    // Within their ranges, which fit.
    let shard = Shard { index: index? as u32, count: count? as u32, balance: BALANCE.default };
    if shard.index >= shard.count {
        let message =
            format!("{} of {} shards, which are numbered from 0", shard.index, shard.count);
        let remedy = format!("give a number from 0 to {}", shard.count - 1);
        return Err(table.fault(INDEX.name, message, remedy));
    }
    Ok(Some(shard))
}

/// The same share, as equal to the others as `balance` says.
fn balanced(reader: &Reader, shard: Option<Shard>) -> Read<Option<Shard>> {
    let balance = reader.choice(&BALANCE)?;
    if shard.is_none() && reader.has(&BALANCE) {
        let message = "there are no shares to balance".to_owned();
        let remedy = "set `shard` or `distribution = \"sharded\"`, or leave it out".to_owned();
        return Err(reader.fault(BALANCE.name, message, remedy));
    }
    Ok(shard.map(|shard| Shard { balance, ..shard }))
}

/// The kind that the source has; a second one is a fault.
fn form(channel: &Reader, reader: &Reader) -> Read<&'static Form> {
    let named = |name: &&str| FORMS.iter().find(|form| form.key.name == *name);
    let mut given = reader.names();
    given.retain(|name| named(name).is_some());
    let Some(form) = given.first().and_then(named) else {
        let kinds: Vec<_> = FORMS.iter().map(|form| format!("`{}`", form.key.name)).collect();
        let missing = || {
            let remedy = format!("give {}", one_of(&kinds));
            channel.fault(SOURCE.name, "does not say what to read".to_owned(), remedy)
        };
        return Err(reader.unknown().unwrap_or_else(missing));
    };
    for second in &given[1..] {
        let message = format!("a second kind of source beside `{}`", form.key.name);
        reader.fault(second, message, "keep one of them".to_owned());
    }
    Ok(form)
}

/// Finds the keys that belong to another kind.
fn refuse_misplaced(reader: &Reader, form: &Form) {
    for name in reader.names() {
        let has = |form: &Form| form.beside.concat().iter().any(|key| key.name() == name);
        let others: Vec<_> = FORMS.iter().filter(|other| has(other)).collect();
        if others.is_empty() || has(form) {
            continue;
        }
        let others: Vec<_> = others.iter().map(|other| format!("`{}`", other.key.name)).collect();
        let message = format!("does not go with `{}`", form.key.name);
        reader.fault(name, message, format!("it goes with {}", one_of(&others)));
    }
}

/// The share of this machine.
fn own_shard(reader: &Reader) -> Read<Shard> {
    let (index, count) = reader.rank().map_err(|why| {
        let remedy = "set `index` and `count` in the table [rank], or start it with torchrun, srun, as an Indexed Job \
                      or on SageMaker";
        reader.fault(DISTRIBUTION.name, why, remedy.to_owned())
    })?;
    Ok(Shard { index, count, balance: BALANCE.default })
}

fn pattern(reader: &Reader) -> Read<String> {
    let given = reader.required(&GLOB, reader.text(GLOB.name, GLOB.expected))?;
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
    epochs: Read<Option<u32>>,
    compression: Read<Compression>,
) -> Read<Source> {
    let dir = reader.required(&FIFO, reader.path(&FIFO));
    let first_epoch = reader.number(&FIRST_EPOCH);
    let wait = reader.patience(&OPEN_TIMEOUT, Some(Duration::from_millis(OPEN_TIMEOUT.default)));
    let idle = reader.patience(&IDLE_TIMEOUT, None);
    let pipe = reader.number(&PIPE_SIZE);
    let epoch_file = reader.path(&EPOCH_FILE);
    Ok(Source::Fifo {
        dir: dir?,
        epochs: epochs?,
        first_epoch: first_epoch? as u32, // within its range, as is `pipe`
        open_timeout: wait?,
        idle_timeout: idle?,
        pipe_size: pipe? as usize,
        compression: compression?,
        epoch_file: epoch_file?,
    })
}
