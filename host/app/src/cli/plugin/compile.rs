//! `pipemill plugin compile`: fills the cache, as when an image is built.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

use super::exit;
use crate::cli::config;
use pipemill_decode::{CACHE, Cache, Engine, Plugin, is_loadable, precompile};

/// Compile plugins into the cache, so that `run` starts at once.
///
/// The cache is the folder that PIPEMILL_CACHE names; without it, /var/cache/pipemill for root, and
/// ~/.cache/pipemill for others, who can read root's, too.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Plugins (`FILE.wasm`), or names of decoders
    #[arg(value_name = "FILE", required_unless_present_any = ["config", "builtin"])]
    plugins: Vec<String>,
    /// All plugins of a configuration
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Compile the built-in decoders into this folder, from which the next build of pipemill embeds them
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["plugins", "config"])]
    builtin: Option<PathBuf>,
}

pub(super) fn main(args: &Args, engine: &Engine) -> Result<ExitCode, ExitCode> {
    if let Some(folder) = &args.builtin {
        return compile_builtins(folder, engine);
    }
    let Some(cache) = Cache::of_environment() else {
        let why = format!("there is no cache: {CACHE} is `off`, or HOME is not set");
        return Err(exit::because(exit::USAGE, why));
    };
    let mut wanted: Vec<_> = args.plugins.iter().map(|name| (name.clone(), None)).collect();
    if let Some(file) = &args.config {
        let channels = config::read(file).map_err(exit::Refusal::told)?.channels.into_iter();
        wanted.extend(channels.map(|channel| (channel.decoder.text(), channel.sha256)));
    }
    for (name, pinned) in &wanted {
        let plugin = Plugin::load(engine, name, pinned.as_ref())
            .map_err(|error| exit::because(exit::DATA, error))?;
        if plugin.is_precompiled() {
            println!("{name}: comes compiled with pipemill");
        } else if cache.has(engine, plugin.digest()) {
            println!("{name}: compiled, in {}", cache.folder().display());
        } else {
            let folder = cache.folder().display();
            let why = format!("{name}: compiled, but not kept: {folder} can't be written");
            return Err(exit::because(exit::SYSTEM, why));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes each decoder with its machine code, as `host/builtin/build.rs` takes them. Those that are there already
/// are left alone.
fn compile_builtins(folder: &Path, engine: &Engine) -> Result<ExitCode, ExitCode> {
    let failed = |what: &Path, why: io::Error| {
        exit::because(exit::SYSTEM, format!("{} can't be written: {why}", what.display()))
    };
    fs::create_dir_all(folder).map_err(|why| failed(folder, why))?;
    for builtin in engine.builtins() {
        let source = folder.join(format!("{}.wasm", builtin.name));
        let code = folder.join(format!("{}.code", builtin.name));
        let is_there = fs::read(&source).is_ok_and(|source| source == builtin.wasm);
        if is_there && fs::read(&code).is_ok_and(|code| is_loadable(engine, &code)) {
            continue;
        }
        let compiled = precompile(builtin.wasm)
            .map_err(|why| exit::because(exit::DATA, format!("{}: {why}", builtin.name)))?;
        fs::write(&code, compiled).map_err(|why| failed(&code, why))?;
        // Last, because the pair counts once this file is there.
        fs::write(&source, builtin.wasm).map_err(|why| failed(&source, why))?;
        println!("{}: compiled, in {}", builtin.name, folder.display());
    }
    Ok(ExitCode::SUCCESS)
}
