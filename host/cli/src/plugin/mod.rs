//! `pipemill plugin …`: commands for authors of plugins and for people who build images with them.
//!
//! - `add`: `pipemill plugin add`: adds a plugin to the lock file.
//! - `bench`: `pipemill plugin bench`: measures how fast a plugin decodes.
//! - `build`: `pipemill plugin build`: compiles a project's folder to a plugin, which is one file.
//! - `check`: `pipemill plugin check`: checks whether a plugin can be used.
//! - `compile`: `pipemill plugin compile`: compiles plugins into the cache, for example when an
//!   image is built.
//! - `fetch`: `pipemill plugin fetch`: gets the files of the lock file's plugins.
//! - `inspect`: `pipemill plugin inspect`: prints what a plugin contains.
//! - `list`: `pipemill plugin list`: the built-in decoders, the decoders on the plugin path, and
//!   their options.
//! - `new`: `pipemill plugin new`: makes a folder with a new decoder's project.
//! - `remove`: `pipemill plugin remove`: removes a plugin from the lock file.
//! - `test`: `pipemill plugin test`: runs the conformance tests, which the built-in decoders pass,
//!   on a plugin.

mod add;
mod bench;
mod build;
mod check;
mod compile;
mod fetch;
mod inspect;
mod list;
mod new;
mod remove;
mod test;

use std::borrow::Cow;
use std::path::Path;
use std::process::ExitCode;

use clap::Subcommand;

use pipemill_decode::{Builtins, Engine};

use super::cat::key_value;
use super::output::say;
use super::{engine, exit, load};
use pipemill_config::parse_size;
use pipemill_plugin_tools::PluginUnderTest;

pub(super) use test::quote;

/// Make, build, inspect, test, measure and compile plugins, and add them to the lock file.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  pipemill plugin list csv
  pipemill plugin new mine --lang rust
  pipemill plugin add s3://bucket/mine.wasm")]
pub(super) struct Args {
    #[command(subcommand)]
    action: PluginAction,
}

#[derive(Subcommand)]
enum PluginAction {
    New(new::Args),
    Build(build::Args),
    Check(check::Args),
    Inspect(inspect::Args),
    List(list::Args),
    Add(add::Args),
    Fetch(fetch::Args),
    Remove(remove::Args),
    Test(test::Args),
    Bench(bench::Args),
    Compile(compile::Args),
}

pub(super) fn main(args: Args, builtins: Builtins) -> ExitCode {
    let result = engine(builtins).and_then(|engine| act(args.action, &engine));
    result.unwrap_or_else(|code| code)
}

fn act(action: PluginAction, engine: &Engine) -> Result<ExitCode, ExitCode> {
    match action {
        PluginAction::New(args) => new::main(&args),
        PluginAction::Build(args) => build::main(&args, engine),
        PluginAction::Check(args) => check::main(&args, engine),
        PluginAction::Inspect(args) => inspect::main(&args, engine),
        PluginAction::List(args) => list::main(&args, engine),
        PluginAction::Add(args) => add::main(&args, engine),
        PluginAction::Fetch(args) => fetch::main(&args),
        PluginAction::Remove(args) => remove::main(&args),
        PluginAction::Test(args) => test::main(&args, engine),
        PluginAction::Bench(args) => bench::main(&args, engine),
        PluginAction::Compile(args) => compile::main(&args, engine),
    }
}

/// The value of `--max-record`, as in its help.
const DEFAULT_MAX_RECORD: u64 = 64 << 20;

/// Options that choose a plugin and its options.
#[derive(clap::Args)]
struct PluginArgs {
    /// The plugin's path (`FILE.wasm`), or the name of a decoder
    #[arg(value_name = "FILE")]
    name: String,
    /// An option of the decoder
    #[arg(long = "option", short = 'o', value_name = "K=V", value_parser = key_value)]
    options: Vec<(String, String)>,
    /// Largest record, with its unit
    #[arg(long, default_value = "64MiB", value_name = "SIZE", value_parser = parse_size)]
    max_record: u64,
}

impl PluginArgs {
    /// Loads the plugin. An error is reported; the exit code is returned.
    fn load(&self, engine: &Engine) -> Result<PluginUnderTest, ExitCode> {
        let ready = load(engine, &self.name, &self.options, exit::DATA)?;
        Ok(PluginUnderTest::new(ready, self.max_record))
    }

    /// The bytes of the plugin's file. An error is reported; the exit code is returned.
    fn bytes(&self, engine: &Engine) -> Result<Cow<'static, [u8]>, ExitCode> {
        pipemill_lock::read(engine, None, &self.name)
            .map_err(|error| exit::because(exit::DATA, error))
    }
}

/// Reads a whole file. An error is reported; the exit code is returned.
fn read(path: &Path) -> Result<Vec<u8>, ExitCode> {
    std::fs::read(path).map_err(|error| {
        exit::because(exit::MISSING, format!("{} can't be read: {error}", path.display()))
    })
}
