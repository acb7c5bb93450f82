//! Random access for the process that owns this host: it sends record numbers through standard
//! input, a socket, and gets the records in shared memory.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
pub use pipemill_access::AccessLimits;
use pipemill_access::{Access, MakeChannel, serve};
use pipemill_config::{self as config, Config, Indexed, Source, WorkerCount};
use pipemill_decode::{Engine, ReadyPlugin};
use pipemill_planned::read_for;
use pipemill_ring::protocol;
use pipemill_source::cache::{RecordCache, RecordCaches};
use pipemill_source::s3::{self, Selection};
use pipemill_source::{KnownList, Order, Pattern, ReadSettings, Stop};
use pipemill_types::Field;
use serde_json::{Value, json};

use crate::channels::{load, new_channel, record_cache};
use crate::factory::Sources;
use crate::owner::{Owner, PARENT_POLL_INTERVAL};
use crate::plan::Machine;

/// The error for a source that is no index.
const NO_INDEX: &str =
    "only an index knows where records are; make one: pipemill index SOURCE --out FILE";

/// Serves the only channel of this configuration, whose source is an index, to its owner until that
/// ends. The records have the fields of these names, or all fields if there is no name.
///
/// # Errors
/// The reasons why nothing was served, or why it ended.
pub fn access(
    config: &Config,
    engine: &Engine,
    owner: &Arc<Owner>,
    names: &[String],
    limits: AccessLimits,
) -> Result<(), Vec<String>> {
    let why = |error: io::Error| vec![error.to_string()];
    let [channel] = config.channels.as_slice() else {
        return Err(vec!["random access is for one channel".to_owned()]);
    };
    let Some(indexed) = &channel.indexed else {
        return Err(vec![without_records(&channel.source)]);
    };
    let plugin = load(config, channel, engine)
        .map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    let cache = record_cache(&RecordCaches::default(), channel).map_err(|why| vec![why])?;
    let make = maker(config, channel, plugin, cache).map_err(why)?;
    let threads = match channel.workers {
        WorkerCount::Exactly(count) => count as usize,
        // Whoever asks waits for the answer, so nothing else needs a core.
        WorkerCount::Auto => Machine::here().within(config.cores).cores,
    };
    let list = indexed.all.clone();
    let chosen = chosen(&indexed.fields, names)?;
    let fields = (&*indexed.fields, &*chosen);
    let mut access = Access::new(&channel.name, list, fields, make, threads, limits);
    end_with(owner.clone()).map_err(why)?;
    let fields: Vec<_> = chosen.iter().map(|number| indexed.fields[*number].clone()).collect();
    owner.tell(&ready(indexed, &fields, access.records()));
    serve(&mut access, &**owner).map_err(why)
}

/// Why records of this source can't be found by their numbers.
fn without_records(source: &Source) -> String {
    let index = match source {
        Source::Files { pattern: Pattern::Known { index, .. }, .. } => index,
        Source::S3(settings) => match &settings.selection {
            Selection::Known { index, .. } => index,
            _ => return NO_INDEX.to_owned(),
        },
        _ => return NO_INDEX.to_owned(),
    };
    format!(
        "the index {index} has objects only, and does not know where records are; make it again \
         without `--objects-only`"
    )
}

/// The numbers of the fields with these names; of all fields, if there is no name.
fn chosen(fields: &[Field], names: &[String]) -> Result<Vec<usize>, Vec<String>> {
    if names.is_empty() || fields.is_empty() {
        return Ok((0..fields.len()).collect());
    }
    let number = |name: &String| {
        fields.iter().position(|field| field.name == *name).ok_or_else(|| {
            let known = fields.iter().map(|field| format!("`{}`", field.name));
            let known = known.collect::<Vec<_>>().join(", ");
            vec![format!("the records of the index have no field `{name}`; they have {known}")]
        })
    };
    names.iter().map(number).collect()
}

/// Makes channels that decode blocks of the index's objects, unless this cache has their records.
fn maker(
    config: &Config,
    channel: &config::Channel,
    plugin: ReadyPlugin,
    cache: Option<Arc<RecordCache>>,
) -> io::Result<MakeChannel> {
    let sources = Mutex::new(Sources::new(config.s3_budget, Stop::new()?));
    let mut channel = channel.clone();
    if let Some(reading) = channel.source.reading_mut() {
        *reading = read_for(Some(&plugin.plugin), std::mem::take(reading));
    }
    Ok(Box::new(move |list| {
        let mut sources = sources.lock().unwrap_or_else(PoisonError::into_inner);
        let source = sources.open(&channel.name, of_blocks(&channel.source, list))?;
        let mut made = new_channel(&channel, source, plugin.clone(), 1);
        made.cache.clone_from(&cache);
        // Each decoding of a block would report its errors again.
        made.observers.clear();
        Ok(made)
    }))
}

/// The source of the blocks of this list, in its order.
fn of_blocks(source: &Source, list: KnownList) -> Source {
    let reading = |reading: &ReadSettings| {
        let order = Order { blocks: Some(1), ..Order::default() };
        ReadSettings { epochs: 1, order, ..reading.clone() }
    };
    match source {
        Source::Files { pattern: Pattern::Known { index, .. }, reading: own } => Source::Files {
            pattern: Pattern::Known { list, index: index.clone() },
            reading: reading(own),
        },
        Source::S3(settings) => {
            let index = settings.selection.to_string();
            let selection = Selection::Known { list, index };
            let reading = reading(&settings.reading);
            Source::S3(Box::new(s3::Settings { selection, reading, ..*settings.clone() }))
        }
        other => other.clone(),
    }
}

/// What the owner has to know of the index.
fn ready(indexed: &Indexed, fields: &[Field], records: u64) -> Value {
    // After the type of the message.
    let schema = protocol::schema(fields).split_off(4);
    let list = indexed.all.0.identity();
    let skipped = indexed.skipped.ranges().iter().map(|range| json!([range.start, range.end]));
    json!({
        "records": records,
        "skipped": skipped.collect::<Vec<_>>(),
        "schema": String::from_utf8_lossy(&schema),
        "index": format!("{:016x}", list.contents),
    })
}

/// Ends this process when its owner ends or hangs up, also while a block is decoded.
fn end_with(owner: Arc<Owner>) -> io::Result<()> {
    thread::Builder::new().name("owner".to_owned()).spawn(move || {
        while !has_gone(&owner) {}
        std::process::exit(0);
    })?;
    Ok(())
}

/// Waits a moment, and returns whether the owner has ended or hung up. No byte is read.
fn has_gone(owner: &Owner) -> bool {
    let wait = PARENT_POLL_INTERVAL.as_millis() as u16;
    let mut fds = [PollFd::new(owner.as_fd(), PollFlags::empty())];
    // An interrupted wait returns early, and the caller waits again.
    let ended = poll(&mut fds, PollTimeout::from(wait)).is_ok_and(|events| events > 0);
    ended || !owner.is_parent()
}
