//! Checks channels without running them: opens each decoder with its options and, if requested,
//! decodes the first record of each source.

use std::io;
use std::path::Path;
use std::sync::Arc;

use pipemill_channel::{Batch, ChannelStats, Failure, OnError, Outcome, StopReason};
use pipemill_decode::{Engine, ReadyPlugin, Stream};
use pipemill_types::{ABSENT, Field, StreamInfo};

use super::channels::{Opened, decoder_with_data, find_decoder, load, load_found, new_channel};
use crate::factory::Sources;
use pipemill_channel::memory_sink::{LookAtRecords, MemorySink};
use pipemill_config::{self as config, Config, Fault, Source};
use pipemill_lock::detection_rules;
use pipemill_types::record_json as json;

/// Loads a channel's plugin, and opens a stream in it with the channel's options. `None` for a
/// channel whose decoder is found when its source is read.
///
/// # Errors
/// The error holds all faults of the plugin, or of its options.
pub fn check(
    config: &Config,
    channel: &config::Channel,
    engine: &Engine,
) -> Result<Option<ReadyPlugin>, Vec<Fault>> {
    if channel.decoder.is_none() {
        return Ok(None);
    }
    let ready = load(config, channel, engine)?;
    let info = StreamInfo {
        channel: channel.name.clone(),
        object: "(config check)".to_owned(),
        max_record: channel.max_record,
        ..StreamInfo::default()
    };
    match Stream::open(&ready.plugin, &ready.options, &info, &channel.limits) {
        Ok(_) => Ok(Some(ready)),
        Err(fault) => {
            let decoder = ready.plugin.name();
            Err(vec![Fault {
                file: config.file.clone(),
                place: channel.decoder_place,
                channel: Some(channel.name.clone()),
                path: String::new(),
                message: format!("decoder `{decoder}`: {}", fault.message),
                remedy: Some(fault.remedy),
            }])
        }
    }
}

/// The result of trying a channel.
pub enum Tried {
    /// The first record: its object, and its fields as JSON.
    Record {
        /// Path or URL of the object.
        object: String,
        /// The fields, as `pipemill cat` prints them.
        fields: String,
    },
    /// The source was read to its end, and has no record.
    Empty,
    /// The source can be read only once.
    ReadOnce(&'static str),
}

/// The reason why a channel can't be tried.
pub enum TryError {
    /// The source can't be opened.
    Source(io::Error),
    /// No decoder was found, or it can't be used: the reasons.
    Decoder(Vec<String>),
    /// The channel failed before its first record.
    Failed(Box<Failure>),
}

/// Decodes the first record of a channel, with its `plugin` or with a decoder that is found. A FIFO
/// is not read, because its bytes can be read only once; nothing is written to a quarantine.
///
/// # Errors
/// The channel fails before its first record.
pub fn try_channel(
    config: &Config,
    channel: &config::Channel,
    plugin: Option<ReadyPlugin>,
    engine: &Engine,
    sources: &mut Sources,
) -> Result<Tried, TryError> {
    match channel.source {
        Source::Fifo { .. } => return Ok(Tried::ReadOnce("a FIFO can be read only once")),
        Source::Stdin { .. } => {
            return Ok(Tried::ReadOnce("standard input can be read only once"));
        }
        Source::Files { .. } | Source::S3(_) | Source::Index(_) | Source::Mix(_) => {}
    }
    let on_error = match channel.on_error {
        OnError::Fail => OnError::Fail,
        OnError::Skip | OnError::Quarantine(_) => OnError::Skip,
    };
    // No shuffle window is used: so the first record comes without reading a full window.
    let mut channel = config::Channel { on_error, shuffle: None, ..channel.clone() };
    let (source, plugin) = match plugin {
        Some(plugin) => {
            let source = sources.open(&channel.name, channel.source.clone());
            (source.map_err(TryError::Source)?, plugin)
        }
        None => find(config, &mut channel, engine, sources)?,
    };
    let mut channel = new_channel(&channel, source, plugin, 1);
    let mut sink = MemorySink::new(FirstRecord::default(), BATCH_MEMORY);
    match channel.run(&mut sink, &ChannelStats::default()) {
        Outcome::Failed(failure) => Err(TryError::Failed(Box::new(failure))),
        Outcome::Ended | Outcome::Stopped | Outcome::Restart => Ok(match sink.looker.found {
            Some((object, fields)) => Tried::Record { object, fields },
            None => Tried::Empty,
        }),
    }
}

/// Finds the decoder of a channel that names none, and opens its source.
fn find(
    config: &Config,
    channel: &mut config::Channel,
    engine: &Engine,
    sources: &mut Sources,
) -> Result<(Box<dyn pipemill_source::Source>, ReadyPlugin), TryError> {
    let name = channel.name.clone();
    let failed = |why: String| TryError::Decoder(vec![format!("channel `{name}`: {why}")]);
    let faults =
        |faults: Vec<Fault>| TryError::Decoder(faults.iter().map(Fault::to_string).collect());
    let stop = sources.stop();
    if let Some(plugin) = decoder_with_data(config, channel, engine).map_err(failed)? {
        let ready = load_found(config, channel, engine, Some(plugin)).map_err(faults)?;
        let opened = Opened::new(channel, sources, &stop, (Some(&ready.plugin), 1));
        return Ok((opened.map_err(TryError::Source)?.source, ready));
    }
    let rules = detection_rules(engine, Some(Path::new(&config.file)));
    let opened = find_decoder(channel, sources, rules, &stop).map_err(failed)?;
    Ok((opened.source, load(config, channel, engine).map_err(faults)?))
}

/// Bytes of memory for a batch.
const BATCH_MEMORY: usize = 1 << 20;

/// Keeps the first record, and then stops.
#[derive(Default)]
struct FirstRecord {
    fields: Option<Arc<[Field]>>,
    found: Option<(String, String)>,
}

impl LookAtRecords for FirstRecord {
    fn schema(&mut self, fields: &Arc<[Field]>) {
        self.fields = Some(fields.clone());
    }

    fn batch(&mut self, memory: &[u8], batch: &Batch) -> Result<(), StopReason> {
        let mut text = Vec::new();
        let fields = self.fields.as_deref().unwrap_or_default();
        // Writing to memory does not fail.
        let _ = print_first(&mut text, fields, memory, batch);
        self.found = Some((
            batch.start.position.object.clone(),
            String::from_utf8_lossy(&text).into_owned(),
        ));
        Err(StopReason::Stopped)
    }

    fn end_epoch(&mut self) -> Result<(), StopReason> {
        // A source without an end would be read for ever.
        Err(StopReason::Stopped)
    }
}

/// Prints the fields of the batch's first record as a JSON object.
fn print_first(
    out: &mut Vec<u8>,
    fields: &[Field],
    memory: &[u8],
    batch: &Batch,
) -> io::Result<()> {
    json::print_object(out, fields, |field| {
        let column = &batch.columns[field];
        let (offset, length) = (!column.is_empty()).then(|| column.get(0))?;
        (offset != ABSENT).then(|| &memory[offset as usize..][..length as usize])
    })
}
