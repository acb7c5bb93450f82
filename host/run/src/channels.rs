//! Prepares the channels of a configuration: compiles plugins, creates rings, opens sources.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use pipemill_channel::{
    Channel, DecodeErrorLog, ErrorPolicy, Learning, Mix, MixInput, OnError, RecordBytes, Resume,
    Workers,
};
use pipemill_decode::{DetectionRule, Engine, Plugin, ReadyPlugin};
use pipemill_lock::{Trust, decoder_of_data};
use pipemill_planned::read_for;
use pipemill_ring::host::{MemoryError, Ring, RingConfig, RingError};
use pipemill_source::cache::{RecordCache, RecordCaches};
use pipemill_source::{Awaited, Compression, Source, Stop, s3};
use pipemill_types::{MemoryBudget, TakenMemory};

use super::channel_task::ChannelTask;
use super::fitted_slots::{FittedSlots, first_objects, measure};
use super::plan::{ChannelResources, Machine, ResourcePlan};
use crate::factory::Sources;
use pipemill_config::{self as config, Config, DecoderRef, Fault};
use pipemill_delivery::{
    ChannelDelivery, ConfiguredPolicy, DecoderIdentity, check_decoders, configured, resume,
};
use pipemill_detect::{self as detect, DetectError};
use pipemill_telemetry::progress::is_watched;
use pipemill_telemetry::{ChannelHandle, Cores, EpochLog};

/// A channel that is ready to run.
pub struct PreparedChannel {
    /// The work of its thread.
    pub task: ChannelTask,
    /// The channel's ring, statistics and state, for all other threads.
    pub handle: Arc<ChannelHandle>,
    /// The delivery of the ring's batches to consumers.
    pub delivery: Arc<ChannelDelivery>,
    /// The reserved part of its budget, which other limits guard, until its thread ends.
    pub reserved: Vec<TakenMemory>,
}

/// The channels could not be prepared: plugins, options, rings or sources are at fault.
#[derive(Debug, thiserror::Error)]
pub struct NotReady {
    /// A message for each fault.
    pub faults: Vec<String>,
    /// Whether the faults are those of sources that were read to find their decoders.
    pub of_sources: bool,
}

impl std::fmt::Display for NotReady {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.faults.join("; "))
    }
}

/// Prepares all channels of a plan: compiles the plugins in parallel, checks their options, creates
/// the rings and opens the sources.
///
/// # Errors
/// The error holds the faults of all channels.
pub fn prepare(
    config: &Config,
    plan: &ResourcePlan,
    engine: &Engine,
    stop: &Stop,
) -> Result<Vec<PreparedChannel>, NotReady> {
    let mut sources = Sources::new(config.s3_budget, stop.clone());
    let stops = stops(config, stop)?;
    let (config, found) = find_decoders(config, engine, &mut sources, &stops)?;
    let config = &config;
    let (plugins, rings) = plugins_and_rings(config, plan, engine, (&mut sources, &stops), &found);
    let opened = found.into_iter().map(FoundDecoder::opened);
    let mut parts = plugins.into_iter().zip(opened);
    let (caches, mut faults) = (RecordCaches::default(), Vec::new());
    let mut channels = Vec::new();
    let planned = config.channels.iter().zip(&plan.channels);
    for (((channel, resources), ring), stop) in planned.zip(rings).zip(stops) {
        let mut decoded = Vec::new();
        let decoders = channel.decoded().zip(&resources.decoders);
        for ((one, resources), (plugin, opened)) in decoders.zip(&mut parts) {
            let opened = match opened {
                Some(opened) => Ok(opened),
                None => {
                    let plugin = plugin.as_ref().ok().map(|ready| &ready.plugin);
                    Opened::new(one, &mut sources, &stop, (plugin, resources.workers))
                }
            };
            match (plugin, opened) {
                (Ok(plugin), Ok(Opened { source, first })) => {
                    let ready = new_channel(one, source, plugin, resources.workers);
                    let lists_all = one.learn_from.is_none();
                    let learning =
                        first.map_or(ready.learning, |source| Learning::From { source, lists_all });
                    let inflates_in_background = resources.inflates_in_background;
                    match record_cache(&caches, one) {
                        Ok(cache) => {
                            decoded.push(Channel {
                                inflates_in_background,
                                learning,
                                cache,
                                ..ready
                            });
                        }
                        Err(why) => faults.push(why),
                    }
                }
                (Err(found), _) => faults.extend(found.iter().map(Fault::to_string)),
                (_, Err(error)) => faults.push(format!("channel `{}`: {error}", one.name)),
            }
        }
        let decoders: Vec<_> =
            decoded.iter().map(|one| DecoderIdentity::of(&one.plugin, &one.options)).collect();
        if faults.is_empty() {
            faults.extend(check_decoders(channel, &decoders));
        }
        match ring {
            Ok(ring) if faults.is_empty() => {
                channels.push(prepared(channel, plan.machine, decoded, decoders, ring, stop));
            }
            Ok(_) => {}
            Err(error) => faults.push(error.to_string()),
        }
    }
    if faults.is_empty() { Ok(channels) } else { Err(NotReady { faults, of_sources: false }) }
}

/// Opens the channel's cache of records, if it has one.
pub(super) fn record_cache(
    caches: &RecordCaches,
    channel: &config::Channel,
) -> Result<Option<Arc<RecordCache>>, String> {
    let Some(reading) = channel.source.reading() else { return Ok(None) };
    let Some(settings) = &reading.records else { return Ok(None) };
    let how = match &channel.source {
        config::Source::S3(s3) => {
            // An entity tag is that of a server.
            let variable = |name: &str| std::env::var(name).unwrap_or_default();
            let endpoint = s3.access.endpoint.clone().unwrap_or_else(|| {
                variable("AWS_ENDPOINT_URL_S3") + " " + &variable("AWS_ENDPOINT_URL")
            });
            format!("{:?} {} {} {endpoint:?}", reading.compression, reading.wrap, s3.verify)
        }
        _ => format!("{:?} {}", reading.compression, reading.wrap),
    };
    let opened = caches.open(settings, &channel.name, how);
    opened.map_err(|error| {
        let folder = error.object.unwrap_or_default();
        format!("channel `{}`: {folder}: {}; {}", channel.name, error.message, error.remedy)
    })
}

/// The plugins of all channels that decode, and the rings of all that are served.
type PluginsAndRings =
    (Vec<Result<ReadyPlugin, Vec<Fault>>>, Vec<Result<RingAndMemory, RingError>>);

/// Loads the plugins, and makes the rings. The rings are made while the plugins compile, because
/// getting memory from the kernel takes about as long; but slots that are to fit batches are made
/// once the first records were decoded.
fn plugins_and_rings<'a>(
    config: &'a Config,
    plan: &'a ResourcePlan,
    engine: &'a Engine,
    (sources, stops): (&mut Sources, &[Stop]),
    found: &'a [FoundDecoder],
) -> PluginsAndRings {
    let mut found = found.iter().map(FoundDecoder::plugin);
    let served = || config.channels.iter().zip(&plan.channels);
    thread::scope(|scope| {
        let start = |((channel, plan), stop): ((&'a config::Channel, &'a ChannelResources), _)| {
            let mut is_measured = false;
            let found = &mut found;
            let load = |(one, resources)| {
                let plugin = found.next().flatten();
                let first = first_objects(channel, (one, resources), sources, stop);
                is_measured |= first.is_some() || one.indexed.is_some();
                scope.spawn(move || {
                    let plugin = load_found(config, one, engine, plugin)?;
                    let measured = measure(channel, one, resources, &plugin, first);
                    Ok((plugin, measured))
                })
            };
            let threads: Vec<_> = channel.decoded().zip(&plan.decoders).map(load).collect();
            (threads, is_measured)
        };
        let started: Vec<_> = served().zip(stops).map(start).collect();
        let early = |((channel, plan), (_, is_measured)): (_, &(_, bool))| {
            (!is_measured).then(|| ring(channel, plan, &[]))
        };
        let early: Vec<_> = served().zip(&started).map(early).collect();
        let (mut plugins, mut rings) = (Vec::new(), Vec::new());
        for (((channel, plan), (threads, _)), early) in served().zip(started).zip(early) {
            let mut measured = Vec::new();
            for thread in threads {
                // A panic of a thread continues here.
                let loaded: Result<_, Vec<Fault>> = thread.join().expect("it does not panic");
                plugins.push(loaded.map(|(plugin, bytes)| {
                    measured.extend(bytes);
                    plugin
                }));
            }
            rings.push(early.unwrap_or_else(|| ring(channel, plan, &measured)));
        }
        (plugins, rings)
    })
}

/// Each channel's stop handle: the run's; a mix gets a child of it.
fn stops(config: &Config, stop: &Stop) -> Result<Vec<Stop>, NotReady> {
    let of_channel = |channel: &config::Channel| match channel.source {
        config::Source::Mix(_) => stop.child().map_err(|error| NotReady {
            faults: vec![format!("channel `{}`: can't start: {error}", channel.name)],
            of_sources: false,
        }),
        _ => Ok(stop.clone()),
    };
    config.channels.iter().map(of_channel).collect()
}

/// A channel that is served: `decoded` is the channel itself, or those that it mixes.
fn prepared(
    channel: &config::Channel,
    machine: Machine,
    mut decoded: Vec<Channel>,
    decoders: Vec<DecoderIdentity>,
    (ring, reserved): RingAndMemory,
    stop: Stop,
) -> PreparedChannel {
    let can_reread = decoded.iter().all(|one| one.source.can_reread());
    let workers = decoded.iter().map(|one| one.workers.count()).sum();
    let cores = Cores { workers, usable: machine.cores };
    let start = configured(channel, &decoders);
    let resumed = start.decoded_from().map(resume);
    let (awaited, task) = match (&channel.source, decoded.pop()) {
        (config::Source::Mix(mix), Some(last)) => {
            decoded.push(last);
            let mix = new_mix(channel, mix, decoded, resumed, stop);
            (Awaited::default(), ChannelTask::Mix(Box::new(mix)))
        }
        (_, Some(mut only)) => {
            only.resume = resumed;
            (only.source.awaited(), ChannelTask::Channel(Box::new(only)))
        }
        (_, None) => unreachable!("each channel decodes, or mixes channels that do"),
    };
    let (name, source, decoder) = (&channel.name, &channel.source, task.decoder());
    let handle = Arc::new(ChannelHandle::new(name, source, cores, decoder, ring, awaited));
    handle.set_caches(task.caches());
    let policy = ConfiguredPolicy::new(channel, decoders, can_reread);
    let delivery = ChannelDelivery::attach(&handle.ring, start, Box::new(policy));
    let mut prepared = PreparedChannel { task, handle, delivery, reserved };
    let log = EpochLog::new(prepared.handle.clone());
    prepared.task.observers().push(Box::new(log));
    prepared
}

fn new_mix(
    channel: &config::Channel,
    mix: &config::Mix,
    decoded: Vec<Channel>,
    resume: Option<Resume>,
    stop: Stop,
) -> Mix {
    let input = |(input, channel): (&config::MixInput, Channel)| MixInput {
        channel,
        weight: input.weight,
        stats: Arc::default(),
    };
    Mix {
        name: channel.name.clone(),
        inputs: mix.inputs.iter().zip(decoded).map(input).collect(),
        stop,
        seed: mix.seed,
        until: mix.until,
        shards: mix.shards.clone(),
        epochs: mix.epochs,
        batch: channel.batch.expect("the configuration of a mix has a size"),
        shuffle: channel.window_shuffle(),
        resume,
        observers: Vec::new(),
    }
}

/// An open source.
pub(super) struct Opened {
    pub(super) source: Box<dyn Source>,
    /// The objects from which the channel is learned, if they differ from its first ones.
    first: Option<Box<dyn Source>>,
}

impl Opened {
    /// `plugin` is the decoder, if it is known, and `workers` the number of threads that decode.
    pub(super) fn new(
        channel: &config::Channel,
        sources: &mut Sources,
        stop: &Stop,
        (plugin, workers): (Option<&Plugin>, usize),
    ) -> io::Result<Opened> {
        let mut channel = channel.clone();
        if let Some(reading) = channel.source.reading_mut() {
            *reading = read_for(plugin, reading.clone());
            // Records that are kept are those of whole objects.
            let is_divided = workers > 1 && reading.records.is_none();
            reading.divided_from = is_divided.then_some(Workers::LONG_OBJECT);
        }
        let first = sources.open_first(&channel, stop.clone())?;
        let source = sources.open_until(&channel.name, channel.source, stop.clone())?;
        Ok(Opened { source, first })
    }
}

/// How the decoder of a channel was found.
enum FoundDecoder {
    /// The configuration names it.
    Named,
    /// It came with the data.
    WithData(Plugin),
    /// By the first objects of the source, which is open: nothing of it is lost.
    ByObjects(Opened),
}

impl FoundDecoder {
    fn opened(self) -> Option<Opened> {
        match self {
            Self::ByObjects(opened) => Some(opened),
            Self::Named | Self::WithData(_) => None,
        }
    }

    fn plugin(&self) -> Option<Plugin> {
        match self {
            Self::WithData(plugin) => Some(plugin.clone()),
            Self::Named | Self::ByObjects(_) => None,
        }
    }
}

/// Finds the decoders of the channels that name none. Returns the configuration with all decoders,
/// and how each was found.
fn find_decoders(
    config: &Config,
    engine: &Engine,
    sources: &mut Sources,
    stops: &[Stop],
) -> Result<(Config, Vec<FoundDecoder>), NotReady> {
    let (given, mut config) = (config, config.clone());
    let (mut all, mut faults, mut rules) = (Vec::new(), Vec::new(), None);
    let of_channel = |(channel, stop)| {
        config::Channel::decoded_mut(channel).into_iter().map(move |one| (one, stop))
    };
    for (channel, stop) in config.channels.iter_mut().zip(stops).flat_map(of_channel) {
        if channel.decoder.is_some() {
            all.push(FoundDecoder::Named);
            continue;
        }
        let found = match decoder_with_data(given, channel, engine) {
            Ok(Some(plugin)) => Ok(FoundDecoder::WithData(plugin)),
            Ok(None) => {
                let file = Path::new(&given.file);
                let rules =
                    rules.get_or_insert_with(|| pipemill_lock::detection_rules(engine, Some(file)));
                let found = find_decoder(channel, sources, rules.clone(), stop);
                found.map(FoundDecoder::ByObjects)
            }
            Err(why) => Err(why),
        };
        match found {
            Ok(found) => all.push(found),
            Err(why) => faults.push(format!("channel `{}`: {why}", channel.name)),
        }
    }
    if faults.is_empty() { Ok((config, all)) } else { Err(NotReady { faults, of_sources: true }) }
}

/// The decoder that comes with the data of a channel, if it is trusted. It is added to the channel.
///
/// # Errors
/// It can't be used; the error is a text for people.
pub(super) fn decoder_with_data(
    config: &Config,
    channel: &mut config::Channel,
    engine: &Engine,
) -> Result<Option<Plugin>, String> {
    let (places, s3) = match &channel.source {
        config::Source::Files { pattern, .. } => {
            let anything = s3::Selection::Objects(Vec::new());
            (pattern.decoder_places(), s3::Settings::new(anything))
        }
        config::Source::S3(settings) => (settings.selection.decoder_places(), *settings.clone()),
        _ => return Ok(None),
    };
    let trust = Trust { digests: &channel.trust, config: Some(Path::new(&config.file)) };
    let Some(found) = decoder_of_data(engine, trust, &s3, &places)? else { return Ok(None) };
    let options = found.options(&channel.options);
    // Options of the file have no place in the configuration: their faults are reported at the
    // channel.
    channel.option_places.resize(options.len(), channel.decoder_place);
    channel.options = options;
    channel.decoder = Some(DecoderRef::Name(found.plugin.name().to_owned()));
    Ok(Some(found.plugin))
}

/// Finds the decoder of a channel by its objects, logs it, and adds it to the channel. The error is
/// a text for people.
pub(super) fn find_decoder(
    channel: &mut config::Channel,
    sources: &mut Sources,
    rules: Vec<(String, DetectionRule)>,
    stop: &Stop,
) -> Result<Opened, String> {
    let opened =
        Opened::new(channel, sources, stop, (None, 1)).map_err(|error| error.to_string())?;
    let Opened { mut source, first } = opened;
    if is_watched() {
        // This must happen before the first object is taken: otherwise the bytes of the epoch are
        // not counted.
        source.total_size();
    }
    let inflate = channel.source.compression() == Some(Compression::Auto);
    let found = |source, rules| match detect::detect(source, rules, inflate, &channel.options) {
        Ok(found) => Ok(found),
        Err(DetectError::Stopped) => Err("the run was stopped".to_owned()),
        Err(DetectError::Source(error)) => Err(error.in_full()),
    };
    let (choice, opened) = match first {
        None => {
            let (choice, source) = found(source, rules)?;
            (choice, Opened { source, first: None })
        }
        Some(first) => {
            let (choice, first) = found(first, rules.clone())?;
            let source =
                detect::expecting(source, choice.clone(), rules, inflate, &channel.options);
            (choice, Opened { source, first: Some(first) })
        }
    };
    let (name, object) = (&channel.name, &choice.object);
    let explanation = choice.explanation(&channel.options);
    log::info!("channel `{name}`: {object}: {explanation}");
    let options = choice.options(&channel.options);
    // Added options have no place in the file: their faults are reported at the channel.
    channel.option_places.resize(options.len(), channel.decoder_place);
    channel.options = options;
    channel.decoder = Some(DecoderRef::of(choice.decoder()));
    Ok(opened)
}

/// Loads a channel's plugin and makes it ready for the channel's options. Reading the configuration
/// can't check them, because only the plugin knows its options.
///
/// # Errors
/// All faults of the plugin, or of its options.
pub(super) fn load(
    config: &Config,
    channel: &config::Channel,
    engine: &Engine,
) -> Result<ReadyPlugin, Vec<Fault>> {
    load_found(config, channel, engine, None)
}

/// As [`load`], with the plugin, if it is known: the one that came with the data.
pub(super) fn load_found(
    config: &Config,
    channel: &config::Channel,
    engine: &Engine,
    plugin: Option<Plugin>,
) -> Result<ReadyPlugin, Vec<Fault>> {
    let fault = |place: config::TextPosition, message: String| Fault {
        file: config.file.clone(),
        place,
        channel: Some(channel.name.clone()),
        path: String::new(),
        message,
        remedy: None,
    };
    let decoder = channel.decoder.as_ref().map(DecoderRef::text).unwrap_or_default();
    let file = Path::new(&config.file);
    let load = || pipemill_lock::load(engine, Some(file), &decoder, channel.sha256.as_ref());
    let plugin = plugin
        .map_or_else(load, Ok)
        .map_err(|error| vec![fault(channel.decoder_place, error.to_string())])?;
    if let Some(indexed) = &channel.indexed
        && indexed.decoder != plugin.identity()
    {
        let message = format!(
            "the index {} was made with the decoder {}, and this one is {}: its records may be \
             others; make the index again",
            indexed.file,
            indexed.decoder,
            plugin.identity()
        );
        return Err(vec![fault(channel.decoder_place, message)]);
    }
    let faults = match plugin.with_options(&channel.options, &channel.limits) {
        Ok(ready) => match channel.indexed.as_ref().and_then(|one| other_files(one, &ready)) {
            None => return Ok(ready.without_files()),
            Some(why) => vec![(None, why)],
        },
        Err(faults) => faults,
    };
    let place = |index: Option<usize>| match index {
        Some(index) => channel.option_places.get(index).copied().unwrap_or_default(),
        None => channel.decoder_place,
    };
    Err(faults.into_iter().map(|(index, message)| fault(place(index), message)).collect())
}

/// Why the channel's records are not those of its index: files that its options name have another
/// content. All other options were compared before.
fn other_files(indexed: &config::Indexed, ready: &ReadyPlugin) -> Option<String> {
    let find = |(name, value): &&(String, String)| {
        ready.options.iter().any(|(other, now)| name == other && value != now)
    };
    let (name, made_with) = indexed.options.iter().find(find)?;
    let file = &indexed.file;
    Some(format!(
        "the file of option `{name}` is not the one with which the index {file} was made, whose \
         digest is {made_with}: name that file, or make the index again"
    ))
}

/// A ring, and the reserved part of its budget.
type RingAndMemory = (Arc<Ring>, Vec<TakenMemory>);

/// Makes a channel's ring and its budget, from which the parts that other limits guard are taken
/// first. `measured`: the first records, if slots are to fit batches.
fn ring(
    channel: &config::Channel,
    resources: &ChannelResources,
    measured: &[RecordBytes],
) -> Result<RingAndMemory, RingError> {
    let ring = RingConfig {
        channel: channel.name.clone(),
        slots: channel.ring.slots,
        slot_bytes: channel.ring.slot_size,
        // Every batch of a fixed size may be larger than a slot.
        dedicated: channel.ring.slots,
        credits: channel.ring.credits,
        mode: channel.mode,
        consumers: channel.consumers,
    };
    let budget = MemoryBudget::within(resources.memory);
    let reserved = budget.reserve().map_err(MemoryError::from)?;
    log::debug!("channel `{}` {}", channel.name, resources.describe());
    let ring = match FittedSlots::new(channel, resources, measured) {
        Some(slots) => slots.ring(ring, budget)?,
        None => Ring::within(ring, resources.extra_slots, budget)?,
    };
    // A consumer may request batches of a size.
    if channel.ring.fits_batches || channel.batch.is_none() {
        ring.let_slots_grow(resources.fitted_ring, channel.ring.fits_batches);
    }
    Ok((ring, reserved))
}

/// The place where an operator finds the errors that the log does not show one by one.
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
    ready: ReadyPlugin,
    workers: usize,
) -> Channel {
    let ReadyPlugin { plugin, options, .. } = ready;
    Channel {
        name: channel.name.clone(),
        source,
        plugin,
        options,
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
        cache: None,
        learning: match &channel.indexed {
            Some(indexed) if !indexed.fields.is_empty() => {
                Learning::Known(indexed.fields.as_slice().into())
            }
            _ => Learning::FromOwn,
        },
        added_fields: channel.added_fields.clone(),
        resume: None,
        offsets: false,
        workers: Workers::new(workers).in_order(channel.order),
        inflates_in_background: false,
        observers: vec![Box::new(DecodeErrorLog::new(
            &channel.name,
            more_errors(&channel.on_error),
        ))],
    }
}

#[cfg(test)]
mod tests {
    use pipemill_types::MemoryPart;

    use super::*;

    #[test]
    fn a_channels_budget_has_all_that_it_may_take() {
        let text = "[[channel]]\nname = 'a'\nsource = { file = 'x.zst' }\ndecoder = './mine.wasm'\n\
                    on_error = 'skip'\n[channel.ring]\nslots = 4\ncredits = 2\n";
        let config = config::parse(text, "pipemill.toml", &|_| None).expect("it is right");
        let plan = ResourcePlan::of(&config, &[], Machine { cores: 2, memory: None });
        let (limits, slots) = (plan.channels[0].memory, 4 * (4 << 20));
        let (ring, reserved) =
            super::ring(&config.channels[0], &plan.channels[0], &[]).expect("there is memory");
        let budget = ring.budget();
        assert_eq!(budget.limit(), limits.total());
        for part in MemoryPart::ALL {
            let taken = if part == MemoryPart::Batches { slots } else { limits.of(part) };
            assert_eq!(budget.taken_for(part), taken, "{part:?}");
        }
        let without = [MemoryPart::Workers, MemoryPart::Mixed];
        let has_none = |part: MemoryPart| limits.of(part) == 0;
        assert_eq!(
            MemoryPart::ALL.into_iter().filter(|one| has_none(*one)).collect::<Vec<_>>(),
            without
        );
        // The channel's thread has ended.
        drop(reserved);
        assert_eq!(budget.taken(), slots);
    }
}
