//! Prepares the channels of a configuration: compiles plugins, creates rings, opens sources.

use std::sync::Arc;
use std::thread;

use pipemill_channel::{Channel, DecodeErrorLog, ErrorPolicy, OnError};
use pipemill_decode::{DetectionRule, Engine, Plugin};
use pipemill_ring::host::{Ring, RingConfig, RingError};
use pipemill_source::{Compression, Source, Stop};

use super::state::{Origins, beginning, resume};
use crate::config::{self, Config, DecoderRef, Fault};
use crate::detect::{self, DetectError};
use crate::factory::Sources;
use crate::telemetry::progress::is_watched;
use crate::telemetry::{ChannelHandle, EpochLog};

/// A channel that is ready to run.
pub struct PreparedChannel {
    /// The channel. Its thread takes it.
    pub channel: Channel,
    /// The channel's ring, statistics and state, for all other threads.
    pub handle: Arc<ChannelHandle>,
}

/// Channels could not be prepared: plugins, options, rings or sources are at fault.
#[derive(Debug, thiserror::Error)]
pub struct NotReady {
    /// A message for each fault.
    pub faults: Vec<String>,
}

impl std::fmt::Display for NotReady {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.faults.join("; "))
    }
}

/// Prepares all channels: compiles the plugins in parallel, checks their options, creates the rings
/// and opens the sources.
///
/// # Errors
/// Holds the faults of all channels.
pub fn prepare(
    config: &Config,
    engine: &Engine,
    stop: &Stop,
) -> Result<Vec<PreparedChannel>, NotReady> {
    let mut sources = Sources::new(config.s3_budget, stop.clone());
    let (config, opened) = find_decoders(config, engine, &mut sources)?;
    let config = &config;
    let ready: Vec<_> = thread::scope(|scope| {
        let load = |channel| scope.spawn(move || load(config, channel, engine));
        let threads: Vec<_> = config.channels.iter().map(load).collect();
        // While the plugins compile, because getting memory from the kernel takes about as long.
        let rings: Vec<_> = config.channels.iter().map(ring).collect();
        // A panic of a thread goes on here.
        let plugins = threads.into_iter().map(|thread| thread.join().expect("it does not panic"));
        plugins.zip(rings).collect()
    });
    let mut faults = Vec::new();
    let mut channels = Vec::new();
    for ((channel, opened), ready) in config.channels.iter().zip(opened).zip(ready) {
        let open = || match opened {
            Some(source) => Ok(source),
            None => sources.open(&channel.name, channel.source.clone()),
        };
        match ready {
            (Ok(plugin), Ok(ring)) => match open() {
                Ok(opened) => {
                    let (name, source) = (&channel.name, &channel.source);
                    let (decoder, awaited) = (plugin.name(), opened.awaited());
                    let handle = ChannelHandle::new(name, source, decoder, ring, awaited);
                    let handle = Arc::new(handle);
                    let beginnings = Origins::new(channel, opened.can_reread());
                    handle.ring.set_beginning(beginning(channel), Box::new(beginnings));
                    let mut channel = new_channel(channel, opened, plugin);
                    channel.observers.push(Box::new(EpochLog::new(handle.clone())));
                    channels.push(PreparedChannel { channel, handle });
                }
                Err(error) => faults.push(format!("channel `{}`: {error}", channel.name)),
            },
            (plugin, ring) => {
                let of_plugin = plugin.err().into_iter().flatten();
                faults.extend(of_plugin.map(|fault| fault.to_string()));
                faults.extend(ring.err().map(|error| error.to_string()));
            }
        }
    }
    if faults.is_empty() { Ok(channels) } else { Err(NotReady { faults }) }
}

/// The sources of channels whose decoders were found: they are open, and nothing of them is lost.
type OpenSources = Vec<Option<Box<dyn Source>>>;

/// Finds the decoders of the channels that name none. Returns the configuration with all decoders,
/// and the sources that were opened for it.
fn find_decoders(
    config: &Config,
    engine: &Engine,
    sources: &mut Sources,
) -> Result<(Config, OpenSources), NotReady> {
    let mut config = config.clone();
    let (mut opened, mut faults, mut rules) = (Vec::new(), Vec::new(), None);
    for channel in &mut config.channels {
        if channel.decoder.is_some() {
            opened.push(None);
            continue;
        }
        let rules = rules.get_or_insert_with(|| detect::plugin_rules(engine)).clone();
        match find_decoder(channel, sources, rules) {
            Ok(source) => opened.push(Some(source)),
            Err(why) => faults.push(format!("channel `{}`: {why}", channel.name)),
        }
    }
    if faults.is_empty() { Ok((config, opened)) } else { Err(NotReady { faults }) }
}

/// Finds the decoder of a channel, says which it is, and adds it to the channel. The error is a text
/// for people.
pub(super) fn find_decoder(
    channel: &mut config::Channel,
    sources: &mut Sources,
    rules: Vec<(String, DetectionRule)>,
) -> Result<Box<dyn Source>, String> {
    let mut source =
        sources.open(&channel.name, channel.source.clone()).map_err(|error| error.to_string())?;
    if is_watched() {
        // Before the first object is taken: else the bytes of the epoch are not counted.
        source.total_size();
    }
    let inflate = channel.source.compression() == Compression::Auto;
    let (choice, source) = match detect::detect(source, rules, inflate) {
        Ok(found) => found,
        Err(DetectError::Stopped) => return Err("the run was stopped".to_owned()),
        Err(DetectError::Source(error)) => return Err(error.in_full()),
    };
    let (name, object) = (&channel.name, &choice.object);
    let explanation = choice.explanation(&channel.options);
    log::info!("channel `{name}`: {object}: {explanation}");
    let options = choice.options(&channel.options);
    // What was added has no place in the file: its faults are reported at the channel.
    channel.option_places.resize(options.len(), channel.decoder_place);
    channel.options = options;
    channel.decoder = Some(DecoderRef::of(choice.decoder()));
    Ok(source)
}

/// Loads a channel's plugin and checks the channel's options with it. Reading the configuration
/// can't check them, because only the plugin knows its options.
///
/// # Errors
/// All faults of the plugin, or of its options.
pub(super) fn load(
    config: &Config,
    channel: &config::Channel,
    engine: &Engine,
) -> Result<Plugin, Vec<Fault>> {
    let fault = |place: config::TextPosition, message: String| Fault {
        file: config.file.clone(),
        place,
        channel: Some(channel.name.clone()),
        path: String::new(),
        message,
        remedy: None,
    };
    let decoder = channel.decoder.as_ref().map(DecoderRef::text).unwrap_or_default();
    let plugin = Plugin::load(engine, &decoder, channel.sha256.as_ref())
        .map_err(|error| vec![fault(channel.decoder_place, error.to_string())])?;
    let faults = plugin.check_options(&channel.options);
    if faults.is_empty() {
        return Ok(plugin);
    }
    let place = |index: Option<usize>| match index {
        Some(index) => channel.option_places.get(index).copied().unwrap_or_default(),
        None => channel.decoder_place,
    };
    Err(faults.into_iter().map(|(index, message)| fault(place(index), message)).collect())
}

fn ring(channel: &config::Channel) -> Result<Arc<Ring>, RingError> {
    Ring::new(RingConfig {
        channel: channel.name.clone(),
        slots: channel.ring.slots,
        slot_bytes: channel.ring.slot_size,
        // Every batch of a fixed size may be larger than a slot.
        dedicated: channel.ring.slots,
        credits: channel.ring.credits,
        mode: channel.mode,
        consumers: channel.consumers,
    })
}

/// Where an operator finds the errors that the log does not show one by one.
fn more_errors(on_error: &OnError) -> String {
    match on_error {
        OnError::Quarantine(file) => file.display().to_string(),
        OnError::Fail | OnError::Skip => {
            "the metric pipemill_errors_total, or use on_error = \"quarantine\"".to_owned()
        }
    }
}

pub(super) fn new_channel(
    channel: &config::Channel,
    source: Box<dyn Source>,
    plugin: Plugin,
) -> Channel {
    Channel {
        name: channel.name.clone(),
        source,
        plugin,
        options: channel.options.clone(),
        limits: channel.limits.clone(),
        policy: ErrorPolicy::new(
            channel.on_error.clone(),
            channel.on_plugin_error,
            channel.max_errors,
        ),
        max_record: channel.max_record,
        linger: channel.ring.linger,
        batch: channel.batch,
        shuffle: channel.window_shuffle(),
        resume: beginning(channel).decoded_from().map(resume),
        offsets: false,
        observers: vec![Box::new(DecodeErrorLog::new(
            &channel.name,
            more_errors(&channel.on_error),
        ))],
    }
}
