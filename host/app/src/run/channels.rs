//! From the configuration to channels that are ready to run: plugins compiled, rings made.

use std::sync::Arc;
use std::thread;

use pipemill_ring::host::{Ring, RingConfig};

use crate::config::{self, Config, Fault};
use crate::factory::Sources;
use crate::telemetry::{ChannelHandle, EpochLog};
use pipemill_channel::{Channel, DecodeErrorLog, ErrorPolicy};
use pipemill_decode::{Engine, Plugin};
use pipemill_source::Source;
use pipemill_source::Stop;

/// A channel, what runs and what is seen of it.
pub struct PreparedChannel {
    /// What runs.
    pub channel: Channel,
    /// What is seen of it, its ring with it.
    pub channel_handle: Arc<ChannelHandle>,
}

/// All that the configuration names and that is not there.
#[derive(Debug, thiserror::Error)]
pub struct NotReady {
    /// What is wrong.
    pub faults: Vec<String>,
}

impl std::fmt::Display for NotReady {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.faults.join("\n"))
    }
}

/// Compiles the plugins side by side, checks their options, and makes the rings.
///
/// # Errors
/// All that is wrong, at once.
pub fn prepare(
    config: &Config,
    engine: &Engine,
    stop: &Stop,
) -> Result<Vec<PreparedChannel>, NotReady> {
    let ready: Vec<_> = thread::scope(|scope| {
        let load = |channel| scope.spawn(move || load(config, channel, engine));
        let threads: Vec<_> = config.channels.iter().map(load).collect();
        // Getting memory from the kernel takes as long as compiling: meanwhile.
        let rings: Vec<_> = config.channels.iter().map(ring).collect();
        // A panic in there is a panic here.
        let plugins = threads.into_iter().map(|thread| thread.join().expect("it does not panic"));
        plugins.zip(rings).collect()
    });
    let mut faults = Vec::new();
    let mut lines = Vec::new();
    let mut sources = Sources::new(config.s3_budget, stop.clone());
    for (channel, ready) in config.channels.iter().zip(ready) {
        match ready {
            (Ok(plugin), Ok(ring)) => match sources.open(&channel.name, channel.source.clone()) {
                Ok(opened) => {
                    let channel_handle =
                        ChannelHandle::new(&channel.name, &channel.source, plugin.name(), ring);
                    let channel = line(channel, opened, plugin);
                    lines.push(PreparedChannel {
                        channel,
                        channel_handle: Arc::new(channel_handle),
                    });
                }
                Err(error) => faults.push(format!("channel `{}`: {error}", channel.name)),
            },
            (plugin, ring) => {
                let wrong = plugin.err().into_iter().flatten();
                faults.extend(wrong.map(|fault| fault.to_string()));
                faults.extend(ring.err().map(|error| error.to_string()));
            }
        }
    }
    if faults.is_empty() { Ok(lines) } else { Err(NotReady { faults }) }
}

/// What the configuration alone can't know to be wrong: decoders and their options.
///
/// # Errors
/// All that is wrong, at once.
pub fn load(
    config: &Config,
    channel: &config::Channel,
    engine: &Engine,
) -> Result<Plugin, Vec<Fault>> {
    let fault = |place: config::Place, message: String| Fault {
        file: config.file.clone(),
        place,
        channel: Some(channel.name.clone()),
        path: String::new(),
        message,
        remedy: None,
    };
    let plugin = Plugin::load(engine, &channel.decoder.text(), channel.sha256.as_ref())
        .map_err(|error| vec![fault(channel.decoder_place, error.to_string())])?;
    let faults = plugin.check_options(&channel.options);
    if faults.is_empty() {
        return Ok(plugin);
    }
    let place = |index: usize| channel.option_places.get(index).copied().unwrap_or_default();
    Err(faults.into_iter().map(|(index, what)| fault(place(index), what)).collect())
}

fn ring(channel: &config::Channel) -> Result<Arc<Ring>, pipemill_ring::host::RingError> {
    Ring::new(RingConfig {
        channel: channel.name.clone(),
        slots: channel.ring.slots,
        slot_bytes: channel.ring.slot_size,
        credits: channel.ring.credits,
        mode: channel.mode,
        consumers: channel.consumers,
    })
}

fn line(channel: &config::Channel, source: Box<dyn Source>, plugin: Plugin) -> Channel {
    Channel {
        name: channel.name.clone(),
        source,
        plugin,
        options: channel.options.clone(),
        limits: channel.limits.clone(),
        policy: ErrorPolicy::new(channel.on_error.clone(), channel.max_errors),
        max_record: channel.max_record,
        linger: channel.ring.linger,
        offsets: false,
        observers: vec![
            Box::new(DecodeErrorLog),
            Box::new(EpochLog::new(&channel.name, &channel.source)),
        ],
    }
}
