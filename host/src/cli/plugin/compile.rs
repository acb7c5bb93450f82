//! `pipemill plugin compile`: fills the cache, as when an image is built.

use std::path::PathBuf;
use std::process::ExitCode;

use super::{engine, exit};
use crate::cli::config;
use crate::decode::{CACHE, Cache, Plugin};

/// Compile plugins into the cache, so that `run` starts at once.
///
/// The cache is the folder that PIPEMILL_CACHE names; without it, /var/cache/pipemill for root, and
/// ~/.cache/pipemill for others, who can read root's, too.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Plugins (`FILE.wasm`), or names of decoders
    #[arg(value_name = "FILE", required_unless_present = "config")]
    plugins: Vec<String>,
    /// All plugins of a configuration
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(super) fn main(args: &Args) -> Result<ExitCode, ExitCode> {
    let Some(cache) = Cache::of_environment() else {
        let why = format!("there is no cache: {CACHE} is `off`, or HOME is not set");
        return Err(exit::because(exit::USAGE, why));
    };
    let mut wanted: Vec<_> = args.plugins.iter().map(|name| (name.clone(), None)).collect();
    if let Some(file) = &args.config {
        let channels = config::read(file).map_err(exit::Refusal::told)?.channels.into_iter();
        wanted.extend(channels.map(|channel| (channel.decoder.text(), channel.sha256)));
    }
    let engine = engine()?;
    for (name, pinned) in &wanted {
        let plugin = Plugin::load(&engine, name, pinned.as_ref())
            .map_err(|error| exit::because(exit::DATA, error))?;
        if plugin.is_ahead() {
            println!("{name}: comes compiled with pipemill");
        } else if cache.has(&engine, plugin.digest()) {
            println!("{name}: compiled, in {}", cache.folder().display());
        } else {
            let folder = cache.folder().display();
            let why = format!("{name}: compiled, but not kept: {folder} can't be written");
            return Err(exit::because(exit::SYSTEM, why));
        }
    }
    Ok(ExitCode::SUCCESS)
}
