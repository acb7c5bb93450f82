//! `pipemill feed`: feeds files or objects in S3 through FIFOs, as SageMaker's Pipe-mode agent
//! does.
//!
//! - `fifos`: feeds objects through FIFOs, one FIFO for each channel and epoch, as SageMaker's
//!   Pipe-mode agent does.

mod fifos;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use pipemill_source::s3::Address;
use pipemill_source::{Compression, Paths, ReadSettings, SourceError, SourceEvent, Stop};
use pipemill_types::Companions;
use pipemill_types::log::optional;

use super::order::OrderArgs;
use super::output::say;
use super::{config, exit, s3};
use fifos::{Channel, FeedError};
use pipemill_config::sagemaker::{InputChannel, InputMode, input_data_config};
use pipemill_config::{Config, Source};
use pipemill_run::Sources;
use pipemill_telemetry::log::write_in_thread;
use pipemill_telemetry::progress::{Progress, ShownChannel, is_watched};

/// Feed files or objects in S3 through FIFOs, one for each epoch, as SageMaker's Pipe-mode agent
/// does.
///
/// For each epoch N of a channel: removes the FIFO of the epoch before, makes DIR/NAME_N, waits for
/// a reader and writes the objects one after the other. If the reader closes the FIFO early, the
/// next epoch begins.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  pipemill feed --from data/ --to /opt/ml/input/data --channel train --epochs 3
  pipemill feed --config feed.toml --to fifos")]
pub(super) struct Args {
    /// The channel's sources: files, folders, `s3://bucket/key`, `s3://bucket/prefix`
    #[arg(long, num_args = 1.., value_name = "SOURCE", required_unless_present = "config")]
    from: Vec<OsString>,
    /// The folder for the FIFOs; it is made if it does not exist
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// The channel's name
    #[arg(
        long,
        value_name = "NAME",
        required_unless_present = "config",
        value_parser = channel_name
    )]
    channel: Option<String>,
    /// Number of epochs; without it, feed until stopped
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    epochs: Option<u32>,
    #[command(flatten)]
    order: OrderArgs,
    /// Make each object one RecordIO record
    #[arg(long, conflicts_with = "config")]
    wrap: bool,
    /// Channels and their sources, as `pipemill run` has them; decoders may be left out
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["from", "channel"])]
    config: Option<PathBuf>,
    /// SageMaker's inputdataconfig.json: feed only its Pipe channels, and wrap objects as it says
    #[arg(long, value_name = "FILE", requires = "config")]
    inputdataconfig: Option<PathBuf>,
    #[command(flatten)]
    s3: s3::S3Args,
}

fn channel_name(name: &str) -> Result<String, String> {
    if pipemill_config::is_channel_name(name) {
        return Ok(name.to_owned());
    }
    Err("expected 1 to 64 letters, digits, `.`, `_` or `-`".to_owned())
}

pub(super) fn main(args: &Args) -> ExitCode {
    write_in_thread();
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(code) => code,
    }
}

fn run(args: &Args) -> Result<(), ExitCode> {
    let stop = Stop::new().map_err(cannot_start)?;
    let made = fifos::prepare(stop.clone()).map_err(cannot_start)?;
    let mut channels = match &args.config {
        Some(file) => channels_of(args, file, stop)?,
        None => vec![named(args, stop)?],
    };
    let progress = is_watched().then(|| progress(&mut channels));
    let result = fifos::feed(channels, &args.to, &made);
    drop(progress);
    result.map_err(|error| report(&error, args.config.is_none()))
}

/// Reports why feeding failed. `typed` says that the sources come from the command line.
fn report(error: &FeedError, typed: bool) -> ExitCode {
    match error {
        FeedError::Source { channel, epoch, error } => {
            let code = if error.missing { exit::MISSING } else { exit::DATA };
            let why = format!("channel `{channel}`, epoch {epoch}, object {}", error.in_full());
            let why = if typed { s3::with_option_names(&why) } else { why };
            let object = optional(error.object.as_deref());
            let place =
                [("channel", channel.as_str().into()), ("epoch", epoch.into()), ("object", object)];
            exit::because_of(&place, code, why)
        }
        FeedError::Io { path, doing, error } => {
            exit::because(exit::SYSTEM, format!("{}: can't {doing}: {error}", path.display()))
        }
    }
}

/// Checks a configuration as `feed` reads it, and opens the first object of each channel if
/// `try_sources`.
pub(super) fn check(file: &Path, try_sources: bool) -> Result<(), ExitCode> {
    let stop = Stop::new().map_err(cannot_start)?;
    let config = config::read_to_feed(file).map_err(exit::Refusal::report)?;
    let channels = open_channels(config, file, None, stop)?;
    let names: Vec<_> = channels.iter().map(|channel| channel.name.as_str()).collect();
    say!("{}: nothing wrong, for `feed`; channels: {}", file.display(), names.join(", "));
    let tried = channels.into_iter().filter(|_| try_sources).map(try_channel);
    // Opens the objects of all channels, so that each failure is reported.
    tried.collect::<Vec<_>>().into_iter().collect()
}

/// Opens the first object of a channel, and reads its first bytes.
fn try_channel(channel: Channel) -> Result<(), ExitCode> {
    let Channel { name, mut source, .. } = channel;
    let failed =
        |error| report(&FeedError::Source { channel: name.clone(), epoch: 0, error }, false);
    let SourceEvent::Object(mut object) = source.next().map_err(failed)? else {
        let why = format!("channel `{name}`: its source has no object");
        return Err(exit::because(exit::DATA, why));
    };
    object.input.read(&mut [0; 1], None).map_err(failed)?;
    say!("{name}: the first object is {}", object.name);
    Ok(())
}

fn cannot_start(error: io::Error) -> ExitCode {
    exit::because(exit::SYSTEM, format!("can't start: {error}"))
}

fn progress(channels: &mut [Channel]) -> Progress {
    let shown = |channel: &mut Channel| {
        let (total, progress) = (channel.source.total_size(), channel.progress.clone());
        let snapshot = Box::new(move || progress.line());
        ShownChannel { name: Some(channel.name.clone()), total, snapshot }
    };
    Progress::of(channels.iter_mut().map(shown).collect())
}

/// The channel that the command line describes.
fn named(args: &Args, stop: Stop) -> Result<Channel, ExitCode> {
    s3::check_addresses(&args.from)?;
    for name in args.from.iter().filter(|name| !Address::is_s3_url(name)) {
        // The paths are checked now, so that a wrong path is an error at once and not when a reader
        // connects.
        std::fs::metadata(name).map_err(|error| {
            let error = SourceError::io(name.to_string_lossy(), "can't open it", &error);
            exit::because(exit::MISSING, error.in_full())
        })?;
    }
    let reading = ReadSettings {
        inventory: None,
        inventories: None,
        epochs: args.epochs.unwrap_or(u32::MAX),
        // Objects are fed as they are stored, as SageMaker does.
        compression: Compression::None,
        order: args.order.order(),
        wrap: args.wrap,
        hidden: false,
        relist: true,
        on_demand: Some(false),
        divided_from: None,
        companions: Companions::default(),
        records: None,
    };
    let source = Box::new(Paths::new(args.from.clone(), reading, args.s3.access(), stop));
    let name = args.channel.clone().unwrap_or_default();
    Ok(Channel { name, source, progress: Arc::default() })
}

fn channels_of(args: &Args, file: &Path, stop: Stop) -> Result<Vec<Channel>, ExitCode> {
    args.s3.refuse_with_config()?;
    let mut config = config::read_to_feed(file).map_err(exit::Refusal::report)?;
    if let Some(path) = &args.inputdataconfig {
        apply_input_data_config(&mut config, path)?;
    }
    open_channels(config, file, args.epochs, stop)
}

/// Makes the sources of a configuration; nothing is read yet. `epochs` overrides the epochs of a
/// source.
fn open_channels(
    config: Config,
    file: &Path,
    epochs: Option<u32>,
    stop: Stop,
) -> Result<Vec<Channel>, ExitCode> {
    let unfit = unfit(&config, file);
    if !unfit.is_empty() {
        return Err(exit::because_all(exit::USAGE, &unfit));
    }
    let mut sources = Sources::new(config.s3_budget, stop);
    let mut channels = Vec::new();
    for channel in config.channels {
        let mut source = channel.source;
        if let Some(reading) = reading(&mut source) {
            reading.epochs = epochs.unwrap_or(reading.epochs);
        }
        let source = sources.open(&channel.name, source).map_err(cannot_start)?;
        channels.push(Channel { name: channel.name, source, progress: Arc::default() });
    }
    Ok(channels)
}

/// Reports each channel that `feed` can't read.
pub(super) fn unfit(config: &Config, file: &Path) -> Vec<String> {
    let is_unfit = |source: &Source| {
        matches!(source, Source::Fifo { .. } | Source::Stdin { .. } | Source::Mix(_))
    };
    let say = |channel: &pipemill_config::Channel| {
        let name = &channel.name;
        format!(
            "{}: channel `{name}`: `feed` reads from files or S3, not from a FIFO or standard \
             input; give `file`, `glob`, `folder` or `s3`",
            file.display()
        )
    };
    config.channels.iter().filter(|channel| is_unfit(&channel.source)).map(say).collect()
}

/// The reading options of a source. `None` for sources without objects: a FIFO, standard input.
fn reading(source: &mut Source) -> Option<&mut ReadSettings> {
    match source {
        Source::Files { reading, .. } => Some(reading),
        Source::S3(settings) => Some(&mut settings.reading),
        Source::Index(index) => Some(&mut index.settings.reading),
        Source::Fifo { .. } | Source::Stdin { .. } | Source::Mix(_) => None,
    }
}

/// Removes all channels except for SageMaker's Pipe channels, and sets whether their objects are
/// wrapped.
fn apply_input_data_config(config: &mut Config, path: &Path) -> Result<(), ExitCode> {
    let failed = |why: String| exit::because(exit::USAGE, format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path)
        .map_err(|error| failed(format!("can't read it: {error}; check the path")))?;
    let mut described = input_data_config(&text).map_err(failed)?;
    described.retain(|_, channel| channel.mode == InputMode::Pipe);
    if described.is_empty() {
        return Err(failed("no channel is in Pipe mode: there is nothing to feed".to_owned()));
    }
    let missing =
        described.keys().find(|name| config.channels.iter().all(|channel| channel.name != **name));
    if let Some(name) = missing {
        let why = format!(
            "its Pipe channel `{name}` has no source: add a [[channel]] to the configuration"
        );
        return Err(failed(why));
    }
    config.channels.retain(|channel| described.contains_key(&channel.name));
    for channel in &mut config.channels {
        // `open_channels` refuses other sources.
        let Some(reading) = reading(&mut channel.source) else { continue };
        apply_channel(&described, &channel.name, reading).map_err(failed)?;
    }
    Ok(())
}

fn apply_channel(
    described: &BTreeMap<String, InputChannel>,
    name: &str,
    reading: &mut ReadSettings,
) -> Result<(), String> {
    let Some(channel) = described.get(name) else { return Ok(()) };
    reading.wrap |= channel.wrapped;
    if channel.is_divided && reading.order.part.is_none() {
        return Err(format!(
            "channel `{name}` is ShardedByS3Key: give its source \
             `part = {{ index = N, count = N }}`"
        ));
    }
    Ok(())
}
