//! `pipemill plugins`: the built-in decoders and their options.

use std::io::{self, Write};
use std::process::ExitCode;

use super::exit;
use crate::decode::{BUILTINS, Engine, Plugin, PluginError};

/// List the built-in decoders with their options.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Only this one; a plugin's path will do, too
    decoder: Option<String>,
}

pub(super) fn main(args: &Args) -> ExitCode {
    let listed = Engine::new().map_err(|error| (exit::SYSTEM, format!("can't start: {error:#}")));
    let listed = listed.and_then(|engine| {
        let plugins: Result<Vec<_>, PluginError> = match &args.decoder {
            Some(name) => Plugin::load(&engine, name).map(|plugin| vec![plugin]),
            None => BUILTINS.iter().map(|builtin| Plugin::load(&engine, builtin.name)).collect(),
        };
        plugins.map_err(|error| (exit::USAGE, error.to_string()))
    });
    match listed {
        Ok(plugins) => {
            // Nothing to do if nobody reads it.
            let _ = plugins.iter().try_for_each(list);
            ExitCode::SUCCESS
        }
        Err((code, why)) => exit::because(code, why),
    }
}

fn list(plugin: &Plugin) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let about = BUILTINS.iter().find(|builtin| builtin.name == plugin.name());
    writeln!(out, "{}  {}", plugin.name(), about.map_or("", |builtin| builtin.about))?;
    for spec in plugin.options() {
        let kind = match spec.kind.strip_prefix("choice:") {
            Some(words) => words.to_owned(),
            None => spec.kind.clone(),
        };
        let default = match &spec.default {
            Some(default) if default.is_empty() => String::new(),
            Some(default) => format!(" (default {default})"),
            None => String::new(),
        };
        writeln!(out, "    {} = {kind}{default}", spec.name)?;
        writeln!(out, "        {}", spec.help)?;
    }
    writeln!(out)
}
