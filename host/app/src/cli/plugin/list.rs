//! `pipemill plugin list`: the built-in decoders and their options.

use std::process::ExitCode;

use pipemill_decode::{Engine, OptionSpec, Plugin, PluginError};

use super::{exit, say};

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
    plugins.iter().for_each(|plugin| print(plugin, engine));
    Ok(ExitCode::SUCCESS)
}

fn print(plugin: &Plugin, engine: &Engine) {
    let about = engine.builtins().iter().find(|builtin| builtin.name == plugin.name());
    say!("{}  {}", plugin.name(), about.map_or("", |builtin| builtin.about));
    plugin.options().iter().for_each(print_option);
    say!("");
}

/// Prints an option with its kind, its default and its help.
pub(super) fn print_option(spec: &OptionSpec) {
    let kind = spec.kind.strip_prefix("choice:").unwrap_or(&spec.kind);
    let default = match &spec.default {
        Some(default) if default.is_empty() => String::new(),
        Some(default) => format!(" (default {default})"),
        None => String::new(),
    };
    say!("    {} = {kind}{default}", spec.name);
    say!("        {}", spec.help);
}
