//! `pipemill plugin list`: the built-in decoders and their options.

use std::io::{self, Write};
use std::process::ExitCode;

use pipemill_decode::{Engine, OptionSpec, Plugin, PluginError};

use super::exit;

/// List the built-in decoders with their options.
#[derive(clap::Args)]
pub(super) struct Args {
    /// List only this decoder: a name, or a plugin's path
    decoder: Option<String>,
}

pub(super) fn main(args: &Args, engine: &Engine) -> Result<ExitCode, ExitCode> {
    let load = |name| Plugin::load(engine, name, None);
    let listed: Result<Vec<_>, PluginError> = match &args.decoder {
        Some(name) => load(name).map(|plugin| vec![plugin]),
        None => engine.builtins().iter().map(|builtin| load(builtin.name)).collect(),
    };
    let plugins = listed.map_err(|error| exit::because(exit::USAGE, error))?;
    // If nobody reads the output there is nothing to do.
    let _ = plugins.iter().try_for_each(|plugin| print(plugin, engine));
    Ok(ExitCode::SUCCESS)
}

fn print(plugin: &Plugin, engine: &Engine) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let about = engine.builtins().iter().find(|builtin| builtin.name == plugin.name());
    writeln!(out, "{}  {}", plugin.name(), about.map_or("", |builtin| builtin.about))?;
    plugin.options().iter().try_for_each(|spec| print_option(&mut out, spec))?;
    writeln!(out)
}

/// Prints an option with its kind, its default and its help.
pub(super) fn print_option(out: &mut impl Write, spec: &OptionSpec) -> io::Result<()> {
    let kind = spec.kind.strip_prefix("choice:").unwrap_or(&spec.kind);
    let default = match &spec.default {
        Some(default) if default.is_empty() => String::new(),
        Some(default) => format!(" (default {default})"),
        None => String::new(),
    };
    writeln!(out, "    {} = {kind}{default}", spec.name)?;
    writeln!(out, "        {}", spec.help)
}
