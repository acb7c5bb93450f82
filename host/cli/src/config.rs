//! `pipemill config`: checks and shows a configuration, and prints its schema. The other commands
//! read their configuration here, too.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};

use pipemill_decode::{Builtins, Engine, ReadyPlugin};
use pipemill_source::{SourceError, Stop};

use super::exit::{self, Refusal};
use super::output::{self, say};
use super::{engine, feed};
use pipemill_config::sagemaker::{self, Platform};
use pipemill_config::{self as config, Config, Fault};
use pipemill_run::{self as run, Machine, ResourcePlan, Sources, Tried, TryError};

/// Check or show a configuration, or print the schema of all of them.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  pipemill config check --try pipemill.toml
  pipemill config check --for feed feed.toml
  pipemill config show pipemill.toml
  pipemill config schema > pipemill.schema.json")]
pub(super) struct Args {
    #[command(subcommand)]
    action: ConfigAction,
}

#[derive(Subcommand)]
enum ConfigAction {
    /// Print all faults of a configuration, each with its line and a remedy; exits with 64 if there
    /// are any. Opens each decoder with its options
    Check {
        /// The configuration
        file: PathBuf,
        /// Also read each source, and decode its first record
        #[arg(long = "try")]
        try_sources: bool,
        /// The command that will read it. `feed` needs no decoder, so none is opened, and --try
        /// opens the first object of each source. Without this option, what `run` refuses is
        /// wrong, and the output says whether `feed` could read it too
        #[arg(long = "for", value_name = "COMMAND")]
        read_by: Option<ReadBy>,
    },
    /// Print a configuration with all defaults
    Show {
        /// The configuration
        file: PathBuf,
    },
    /// Print the JSON Schema of configurations. Editors complete keys with it, show what they mean,
    /// and mark what is wrong: begin the configuration with a line `#:schema ./FILE`
    Schema,
}

/// A command that reads a configuration.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReadBy {
    Run,
    Feed,
}

pub(super) fn main(args: &Args, builtins: Builtins) -> ExitCode {
    let result = match &args.action {
        ConfigAction::Show { file } => {
            let read = read_by(file, config::parse).map_err(Refusal::report);
            read.map(|config| print(&config::show(&config)))
        }
        ConfigAction::Schema => {
            print(&config::schema());
            Ok(())
        }
        ConfigAction::Check { file, try_sources, read_by: Some(ReadBy::Feed) } => {
            feed::check(file, *try_sources)
        }
        ConfigAction::Check { file, try_sources, read_by } => {
            let read = read_to_check(file, builtins);
            read.and_then(|config| check(&config, file, *try_sources, *read_by, builtins))
        }
    };
    result.err().unwrap_or(ExitCode::SUCCESS)
}

fn print(text: &str) {
    // If nobody reads the output there is nothing to do.
    let _ = output::raw().write_all(text.as_bytes());
}

/// Reads a configuration. Its faults are reported together with unknown decoders.
fn read_to_check(file: &Path, builtins: Builtins) -> Result<Config, ExitCode> {
    let text = text(file).map_err(Refusal::report)?;
    let name = file.display().to_string();
    let mut faults = match config::parse(&text, &name, &variable) {
        Ok(config) => return Ok(config),
        Err(faults) => faults,
    };
    let engine = engine(builtins)?;
    for decoder in config::named_decoders(&text) {
        if let Err(error) = pipemill_lock::load(&engine, Some(file), &decoder.name, None) {
            faults.push(Fault {
                file: name.clone(),
                place: decoder.place,
                channel: decoder.channel,
                path: String::new(),
                message: error.to_string(),
                remedy: None,
            });
        }
    }
    faults.sort_by_key(|fault| fault.place);
    Err(refusal(&name, &faults).report())
}

/// Checks the channels of a configuration for `run`, and tries them if requested.
fn check(
    config: &Config,
    file: &Path,
    try_sources: bool,
    read_by: Option<ReadBy>,
    builtins: Builtins,
) -> Result<(), ExitCode> {
    let config = &with_indexes(config.clone()).map_err(Refusal::report)?;
    let engine = engine(builtins)?;
    let (mut plugins, mut faults) = (Vec::new(), Vec::new());
    let decoded: Vec<_> = config.channels.iter().flat_map(config::Channel::decoded).collect();
    for channel in &decoded {
        match run::check(config, channel, &engine) {
            Ok(plugin) => plugins.push(plugin),
            Err(found) => faults.extend(found.iter().map(Fault::to_string)),
        }
    }
    if !faults.is_empty() {
        return Err(exit::because_all(exit::USAGE, &faults));
    }
    let names: Vec<_> = config.channels.iter().map(shown_name).collect();
    // A file without a decoder may be meant for either command.
    let names_none = decoded.iter().all(|channel| channel.decoder.is_none());
    let either = read_by.is_none() && names_none && feed::unfit(config, file).is_empty();
    let commands = if either { "`run` or `feed`" } else { "`run`" };
    say!("{}: nothing wrong, for {commands}; channels: {}", config.file, names.join(", "));
    for channel in decoded.iter().filter(|channel| channel.decoder.is_none() && !try_sources) {
        let name = &channel.name;
        say!("{name}: its decoder is found when its source is read; --try reads its start");
    }
    let plan = ResourcePlan::of(config, builtins, Machine::here());
    plan.describe().iter().for_each(|line| say!("{line}"));
    if let Some(why) = plan.exceeds_limit() {
        output::remark(format_args!("pipemill: {}: `run` refuses it here: {why}", config.file));
    } else if let Some(why) = plan.may_exceed_limit() {
        output::remark(format_args!("pipemill: {}: {why}", config.file));
    }
    if !try_sources {
        return Ok(());
    }
    let tried = try_channels(config, &engine, plugins);
    if tried.is_err() && either {
        let file = &config.file;
        output::remark(format_args!(
            "pipemill: {file}: no channel names a decoder; if `feed` will read this file, check it \
             with `--for feed`"
        ));
    }
    tried
}

/// The channel's name, and those of the channels that it mixes.
fn shown_name(channel: &config::Channel) -> String {
    match &channel.source {
        config::Source::Mix(_) => {
            let inputs: Vec<_> = channel.decoded().map(|input| input.name.as_str()).collect();
            format!("{} (a mix of {})", channel.name, inputs.join(", "))
        }
        _ => channel.name.clone(),
    }
}

/// Number of characters of a record that are shown.
const SHOWN_CHARS: usize = 400;

/// Decodes the first record of each channel, and prints it.
fn try_channels(
    config: &Config,
    engine: &Engine,
    plugins: Vec<Option<ReadyPlugin>>,
) -> Result<(), ExitCode> {
    let stop = Stop::new()
        .map_err(|error| exit::because(exit::SYSTEM, format!("can't start: {error}")))?;
    let mut sources = Sources::new(config.s3_budget, stop);
    let mut failed = None;
    let decoded = config.channels.iter().flat_map(config::Channel::decoded);
    for (channel, plugin) in decoded.zip(plugins) {
        let name = &channel.name;
        let tried = run::try_channel(config, channel, plugin, engine, &mut sources);
        match tried {
            Ok(Tried::Record { object, fields }) => {
                let shown: String = fields.chars().take(SHOWN_CHARS).collect();
                let more = if shown.len() < fields.len() { "…" } else { "" };
                say!("{name}: the first record of {object}: {shown}{more}");
            }
            Ok(Tried::ReadOnce(why)) => say!("{name}: not tried: {why}"),
            Ok(Tried::Empty) => {
                let why = format!("channel `{name}`: its source has no record");
                failed = Some(exit::because(exit::DATA, why));
            }
            Err(TryError::Source(error)) => {
                failed = Some(exit::because(exit::SYSTEM, format!("channel `{name}`: {error}")));
            }
            Err(TryError::Decoder(faults)) => failed = Some(exit::because_all(exit::DATA, &faults)),
            Err(TryError::Failed(failure)) => {
                failed = Some(exit::because_of(&failure, exit::of_failure(&failure), &failure));
            }
        }
    }
    failed.map_or(Ok(()), Err)
}

/// The channel's name, and the names of the channels that it mixes.
fn with_inputs(channel: &config::Channel) -> impl Iterator<Item = &String> {
    std::iter::once(&channel.name).chain(channel.decoded().map(|one| &one.name))
}

/// Reads a configuration, and its indexes. The error has all faults, one in each line.
pub(super) fn read(file: &Path) -> Result<Config, Refusal> {
    with_indexes(read_by(file, config::parse)?)
}

fn with_indexes(config: Config) -> Result<Config, Refusal> {
    run::with_indexes(&config).map_err(|faults| refusal(&config.file, &faults))
}

/// Reads a configuration whose channels are fed and not decoded.
pub(super) fn read_to_feed(file: &Path) -> Result<Config, Refusal> {
    with_indexes(read_by(file, config::parse_to_feed)?)
}

/// Reads a configuration that completes the platform's description of the channels. Without a file,
/// the channels are the platform's.
pub(super) fn read_over(file: Option<&Path>, platform: &Platform) -> Result<Config, Refusal> {
    let presets = sagemaker::presets(platform);
    let described = platform.described_in().display().to_string();
    let why_no_channel = platform.why_no_channel();
    let parse = |text: &str, name: &str| {
        config::parse_over(&presets, text, name, &variable).map_err(|faults| {
            let mut refusal = refusal(name, &faults);
            // A key that the platform could have set may be among the faults.
            refusal.why.extend(why_no_channel.clone());
            refusal
        })
    };
    let mut config = match (file, &why_no_channel) {
        (Some(file), _) => parse(&text(file)?, &file.display().to_string())?,
        (None, Some(why)) => {
            let why = format!(
                "{why}; describe one in a --config: [[channel]] with `name`, `source` and `decoder`"
            );
            return Err(Refusal::new(exit::USAGE, why));
        }
        // This is like an empty file, with the name of the platform's file for messages.
        (None, None) => parse("", &described)?,
    };
    for (channel, preset) in &presets.channels {
        if config.channels.iter().flat_map(with_inputs).any(|name| name == channel) {
            continue;
        }
        let decoder = preset.decoder.clone().map_err(|why| {
            let remedy =
                "say in a --config which decoder it has: [[channel]] with `name` and `decoder`";
            let why = format!("{described}: channel `{channel}`: {why}; {remedy}");
            Refusal::new(exit::USAGE, why)
        })?;
        config.channels.push(config::Channel::new(channel, preset.source.clone(), decoder));
    }
    with_indexes(config)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

type Parse = fn(&str, &str, &dyn Fn(&str) -> Option<String>) -> Result<Config, Vec<Fault>>;

fn read_by(file: &Path, parse: Parse) -> Result<Config, Refusal> {
    let name = file.display().to_string();
    parse(&text(file)?, &name, &variable).map_err(|faults| refusal(&name, &faults))
}

fn text(file: &Path) -> Result<String, Refusal> {
    std::fs::read_to_string(file).map_err(|error| {
        let name = file.to_string_lossy();
        let error = SourceError::io(name, "the configuration can't be read", &error);
        Refusal::new(exit::USAGE, error.in_full())
    })
}

/// All faults as text, one in each line.
fn refusal(name: &str, faults: &[Fault]) -> Refusal {
    let things = if faults.len() == 1 { "thing is" } else { "things are" };
    let last = format!("{name}: {} {things} wrong", faults.len());
    let lines: Vec<_> = faults.iter().map(Fault::to_string).chain([last]).collect();
    Refusal { code: exit::USAGE, why: lines }
}
