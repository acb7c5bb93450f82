//! `pipemill config`: checks and shows a configuration.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;

use super::engine;
use super::exit::{self, Refusal};
use crate::config::{self, Config, Fault};
use crate::run;
use crate::sagemaker::Platform;
use pipemill_decode::Builtins;

/// Check or show a configuration.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Say all that is wrong with it, each with its line and a remedy; exits with 64 if anything is
    Check {
        /// The configuration
        file: PathBuf,
    },
    /// Print it with every default filled in
    Show {
        /// The configuration
        file: PathBuf,
    },
}

pub(super) fn main(args: &Args, builtins: Builtins) -> ExitCode {
    let (Action::Check { file } | Action::Show { file }) = &args.action;
    let config = match read(file) {
        Ok(config) => config,
        Err(refusal) => return refusal.told(),
    };
    if let Action::Show { .. } = args.action {
        print!("{}", config::show(&config));
        return ExitCode::SUCCESS;
    }
    let engine = match engine(builtins) {
        Ok(engine) => engine,
        Err(code) => return code,
    };
    let faults: Vec<_> = config
        .channels
        .iter()
        .filter_map(|channel| run::load(&config, channel, &engine).err())
        .flatten()
        .map(|fault| fault.to_string())
        .collect();
    if !faults.is_empty() {
        return exit::because(exit::USAGE, faults.join("\n"));
    }
    let names: Vec<_> = config.channels.iter().map(|channel| channel.name.as_str()).collect();
    println!("{}: nothing wrong; channels: {}", file.display(), names.join(", "));
    ExitCode::SUCCESS
}

/// Reads a configuration; the error is all that is wrong with it.
pub(super) fn read(file: &Path) -> Result<Config, Refusal> {
    read_by(file, config::parse)
}

/// Reads one whose channels are fed and not decoded.
pub(super) fn read_to_feed(file: &Path) -> Result<Config, Refusal> {
    read_by(file, config::parse_to_feed)
}

/// Reads one whose channels a platform describes as well; without a file, only the platform does.
pub(super) fn read_over(file: Option<&Path>, platform: &Platform) -> Result<Config, Refusal> {
    let presets = platform.presets();
    let described = platform.described_in().display().to_string();
    let parse = |text: &str, name: &str| {
        config::parse_over(&presets, text, name, &variable).map_err(|faults| refusal(name, &faults))
    };
    let mut config = match file {
        Some(file) => parse(&text(file)?, &file.display().to_string())?,
        // As an empty file, by the name of the one that tells the channels.
        None => parse("", &described)?,
    };
    for (channel, preset) in &presets.channels {
        if config.channels.iter().any(|other| other.name == *channel) {
            continue;
        }
        let decoder = preset.decoder.clone().map_err(|why| {
            let remedy =
                "say in a --config which decoder it has: [[channel]] with `name` and `decoder`";
            let why = format!("{described}: channel `{channel}`: {why}; {remedy}");
            Refusal { code: exit::USAGE, why }
        })?;
        config.channels.push(config::Channel::new(channel, preset.source.clone(), decoder));
    }
    Ok(config)
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
        let why = format!("{}: the configuration can't be read: {error}", file.display());
        Refusal { code: exit::USAGE, why }
    })
}

/// All faults, a line each.
fn refusal(name: &str, faults: &[Fault]) -> Refusal {
    let things = if faults.len() == 1 { "thing is" } else { "things are" };
    let last = format!("{name}: {} {things} wrong", faults.len());
    let lines: Vec<_> = faults.iter().map(Fault::to_string).chain([last]).collect();
    Refusal { code: exit::USAGE, why: lines.join("\n") }
}
