//! From the configuration to channels that are ready to run: plugins compiled, rings made.

use std::sync::Arc;
use std::thread;

use pipemill_ring::host::{Ring, RingConfig};
use pipemill_ring::protocol;

use crate::channel::{Channel, Policy};
use crate::config::{self, Config, Fault};
use crate::decode::{Engine, Plugin};
use crate::source::{Fifos, Files, Pattern, Source, stdin};
use crate::stop::Stop;

/// A channel and its ring.
pub struct Line {
    /// What runs.
    pub channel: Channel,
    /// Where its records go.
    pub ring: Arc<Ring>,
}

/// All that the configuration names and that is not there.
#[derive(Debug, thiserror::Error)]
pub struct NotReady {
    /// What is wrong.
    pub faults: Vec<String>,
}

impl std::fmt::Display for NotReady {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.faults.join("\npipemill: "))
    }
}

/// Compiles the plugins side by side, checks their options, and makes the rings.
///
/// # Errors
/// All that is wrong, at once.
pub fn prepare(config: &Config, engine: &Engine, stop: &Stop) -> Result<Vec<Line>, NotReady> {
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
    for (channel, ready) in config.channels.iter().zip(ready) {
        match ready {
            (Ok(plugin), Ok(ring)) => {
                lines.push(Line { channel: line(channel, plugin, stop), ring });
            }
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
        slot_bytes: channel.ring.slot,
        credits: channel.ring.credits,
        mode: match channel.mode {
            config::Mode::Share => protocol::Mode::Share,
            config::Mode::Broadcast => protocol::Mode::Broadcast,
        },
        consumers: channel.consumers,
    })
}

fn line(channel: &config::Channel, plugin: Plugin, stop: &Stop) -> Channel {
    Channel {
        name: channel.name.clone(),
        source: source(channel, stop.clone()),
        plugin,
        options: channel.options.clone(),
        limits: channel.limits.clone(),
        policy: Policy::new(channel.on_error.clone(), channel.max_errors),
        max_record: channel.max_record,
        linger: channel.ring.linger,
        offsets: false,
    }
}

fn source(channel: &config::Channel, stop: Stop) -> Box<dyn Source> {
    use config::Source as From;
    match channel.source.clone() {
        From::Fifo { dir, epochs, first_epoch, wait, idle, pipe, compression } => Box::new(Fifos {
            dir,
            channel: channel.name.clone(),
            epoch: first_epoch,
            until: epochs.map(|epochs| first_epoch.saturating_add(epochs)),
            wait,
            idle,
            pipe,
            compression,
            stop,
            given: false,
        }),
        From::File { path, epochs, compression } => {
            Box::new(Files::new(Pattern::File(path), epochs, compression, stop))
        }
        From::Glob { pattern, epochs, compression } => {
            Box::new(Files::new(Pattern::Glob(pattern), epochs, compression, stop))
        }
        From::Folder { path, epochs, compression } => {
            Box::new(Files::new(Pattern::Folder(path), epochs, compression, stop))
        }
        From::Stdin { compression } => Box::new(stdin(compression, stop)),
    }
}
