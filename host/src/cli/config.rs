//! `pipemill config`: checks and shows a configuration.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;

use super::{engine, exit};
use crate::config::{self, Config, Fault};
use crate::run;

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

pub(super) fn main(args: &Args) -> ExitCode {
    let (Action::Check { file } | Action::Show { file }) = &args.action;
    let config = match read(file) {
        Ok(config) => config,
        Err(code) => return code,
    };
    if let Action::Show { .. } = args.action {
        print!("{}", config::show(&config));
        return ExitCode::SUCCESS;
    }
    let engine = match engine() {
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
        return exit::because(exit::USAGE, faults.join("\npipemill: "));
    }
    let names: Vec<_> = config.channels.iter().map(|channel| channel.name.as_str()).collect();
    println!("{}: nothing wrong; channels: {}", file.display(), names.join(", "));
    ExitCode::SUCCESS
}

/// Reads a configuration, or says all that is wrong with it.
pub(super) fn read(file: &Path) -> Result<Config, ExitCode> {
    read_by(file, config::parse)
}

/// Reads one whose channels are fed and not decoded.
pub(super) fn read_to_feed(file: &Path) -> Result<Config, ExitCode> {
    read_by(file, config::parse_to_feed)
}

type Parse = fn(&str, &str, &dyn Fn(&str) -> Option<String>) -> Result<Config, Vec<Fault>>;

fn read_by(file: &Path, parse: Parse) -> Result<Config, ExitCode> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| {
        exit::because(exit::USAGE, format!("{name}: the configuration can't be read: {error}"))
    })?;
    parse(&text, &name, &|variable| std::env::var(variable).ok()).map_err(|faults| {
        for fault in &faults {
            eprintln!("pipemill: {fault}");
        }
        let things = if faults.len() == 1 { "thing is" } else { "things are" };
        exit::because(exit::USAGE, format!("{name}: {} {things} wrong", faults.len()))
    })
}
