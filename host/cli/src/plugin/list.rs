//! `pipemill plugin list`: the built-in decoders, the plugins of the lock file, the decoders on the
//! plugin path, and their options.

use std::process::ExitCode;

use pipemill_decode::{Engine, OptionSpec, Plugin};
use pipemill_lock::LockFile;

use super::{exit, say};
use crate::output;
use pipemill_plugin_tools::Metadata;

/// List the built-in decoders, the plugins of pipemill.lock in the current folder, and those in the
/// folders of PIPEMILL_PLUGIN_PATH, with their options.
#[derive(clap::Args)]
pub(super) struct Args {
    /// List only this decoder: a name, or a plugin's path
    decoder: Option<String>,
}

pub(super) fn main(args: &Args, engine: &Engine) -> Result<ExitCode, ExitCode> {
    if let Some(name) = &args.decoder {
        let plugin = pipemill_lock::load(engine, None, name, None);
        print(&plugin.map_err(|error| exit::because(exit::USAGE, error))?, engine, "a plugin");
        return Ok(ExitCode::SUCCESS);
    }
    for builtin in engine.builtins() {
        // The built-in one, whatever else has this name.
        let plugin = Plugin::load(engine, builtin.name, None);
        let plugin = plugin.map_err(|error| exit::because(exit::USAGE, error))?;
        print(&plugin, engine, builtin.about);
    }
    let mut failed = None;
    if let Some(path) = pipemill_lock::locked_path(None) {
        match LockFile::read(&path) {
            Ok(lock) => {
                for plugin in &lock.plugins {
                    let about = format!("a plugin of {}", path.display());
                    print_if_usable(&plugin.name.to_string(), engine, &about);
                }
            }
            Err(error) => failed = Some(exit::because(exit::USAGE, error)),
        }
    }
    for name in engine.plugins_on_path() {
        match Plugin::load(engine, &name, None) {
            Ok(plugin) => print(&plugin, engine, "a plugin"),
            Err(error) => output::remark(format_args!("pipemill: {error}")),
        }
    }
    failed.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// Prints a plugin of the lock file. One that can't be loaded does not hide the others.
fn print_if_usable(name: &str, engine: &Engine, about: &str) {
    match pipemill_lock::load(engine, None, name, None) {
        Ok(plugin) => print(&plugin, engine, about),
        Err(error) => output::remark(format_args!("pipemill: {error}")),
    }
}

fn print(plugin: &Plugin, engine: &Engine, about: &str) {
    let builtin = engine.builtins().iter().find(|builtin| builtin.name == plugin.name());
    say!("{}  {}", plugin.name(), builtin.map_or(about, |builtin| builtin.about));
    if builtin.is_none()
        && let Ok(bytes) = pipemill_lock::read(engine, None, plugin.name())
    {
        for (key, value) in &Metadata::of(&bytes).package {
            say!("  {key:<10} {value}");
        }
    }
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
