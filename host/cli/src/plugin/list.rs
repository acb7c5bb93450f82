//! `pipemill plugin list`: the built-in decoders, the decoders on the plugin path, and their
//! options.

use std::process::ExitCode;

use pipemill_decode::{Engine, OptionSpec, Plugin, PluginError};

use super::{exit, say};
use crate::output;

/// List the built-in decoders, and the plugins in the folders of PIPEMILL_PLUGIN_PATH, with their
/// options.
#[derive(clap::Args)]
pub(super) struct Args {
    /// List only this decoder: a name, or a plugin's path
    decoder: Option<String>,
}

pub(super) fn main(args: &Args, engine: &Engine) -> Result<ExitCode, ExitCode> {
    let load = |name: &str| Plugin::load(engine, name, None);
    let listed: Result<Vec<_>, PluginError> = match &args.decoder {
        Some(name) => load(name).map(|plugin| vec![plugin]),
        None => engine.builtins().iter().map(|builtin| load(builtin.name)).collect(),
    };
    let plugins = listed.map_err(|error| exit::because(exit::USAGE, error))?;
    plugins.iter().for_each(|plugin| print(plugin, engine));
    if args.decoder.is_none() {
        // A decoder that can't be loaded does not hide the others.
        for name in engine.plugins_on_path() {
            match load(&name) {
                Ok(plugin) => print(&plugin, engine),
                Err(error) => output::remark(format_args!("pipemill: {error}")),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print(plugin: &Plugin, engine: &Engine) {
    let about = engine.builtins().iter().find(|builtin| builtin.name == plugin.name());
    let about = about.map_or("a plugin", |builtin| builtin.about);
    say!("{}  {about}", plugin.name());
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
