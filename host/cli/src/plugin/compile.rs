//! `pipemill plugin compile`: compiles plugins into the cache, for example when an image is built.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

use pipemill_decode::{CACHE, Cache, Engine, Precompiler};

use super::{exit, say};
use crate::config;

/// Compile plugins into the cache, so that `run` starts at once.
///
/// The cache is the folder in PIPEMILL_CACHE; without it, /var/cache/pipemill for root and
/// ~/.cache/pipemill for other users, who also read root's cache.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Plugins (`FILE.wasm`), or names of decoders
    #[arg(value_name = "FILE", required_unless_present_any = ["config", "builtin"])]
    plugins: Vec<String>,
    /// Compile all plugins of a configuration
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Compile the built-in decoders into this folder, from which the next build of pipemill embeds
    /// them
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["plugins", "config"])]
    builtin: Option<PathBuf>,
}

pub(super) fn main(args: &Args, engine: &Engine) -> Result<ExitCode, ExitCode> {
    if let Some(folder) = &args.builtin {
        return compile_builtins(folder, engine);
    }
    let Some(cache) = Cache::of_environment() else {
        let why = format!(
            "there is no cache: {CACHE} is `off`, or HOME is not set; set {CACHE} to a folder"
        );
        return Err(exit::because(exit::USAGE, why));
    };
    let mut wanted: Vec<_> = args.plugins.iter().map(|name| (name.clone(), None)).collect();
    if let Some(file) = &args.config {
        let channels = config::read(file).map_err(exit::Refusal::report)?.channels.into_iter();
        // The decoder of a channel that names none is not known before its source is read.
        let named = channels.filter_map(|it| it.decoder.map(|decoder| (decoder.text(), it.sha256)));
        wanted.extend(named);
    }
    for (name, pinned) in &wanted {
        let config = args.config.as_deref();
        let plugin = pipemill_lock::load(engine, config, name, pinned.as_ref())
            .map_err(|error| exit::because(exit::DATA, error))?;
        if plugin.is_precompiled() {
            say!("{name}: comes compiled with pipemill");
            continue;
        }
        let folder = plugin.keep_in(&cache).map_err(|error| {
            let folder = cache.folder().display();
            let why = format!(
                "{name}: compiled, but can't be kept in {folder}: {error}; set {CACHE} to a folder \
                 that only this user can write"
            );
            exit::because(exit::SYSTEM, why)
        })?;
        say!("{name}: compiled, in {}", folder.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes each built-in decoder with its machine code, in the form that `host/builtin/build.rs`
/// reads. Files that are up to date stay as they are. All others depend on the first one, whose
/// machine code is their dictionary.
fn compile_builtins(folder: &Path, engine: &Engine) -> Result<ExitCode, ExitCode> {
    let failed = |path: &Path, why: io::Error| {
        exit::because(exit::SYSTEM, format!("{} can't be written: {why}", path.display()))
    };
    fs::create_dir_all(folder).map_err(|why| failed(folder, why))?;
    let compiler = Precompiler::new().map_err(|why| exit::because(exit::SYSTEM, why))?;
    let version = folder.join("compiler");
    let mut is_current =
        fs::read(&version).is_ok_and(|found| found == compiler.version().as_bytes());
    let code_of = |name: &str| folder.join(format!("{name}.code.zst"));
    for (number, builtin) in engine.builtins().iter().enumerate() {
        let source = folder.join(format!("{}.wasm", builtin.name));
        let packed = folder.join(format!("{}.wasm.zst", builtin.name));
        let code = code_of(builtin.name);
        let module = builtin.module();
        if is_current
            && code.exists()
            && packed.exists()
            && fs::read(&source).is_ok_and(|source| source == *module)
        {
            continue;
        }
        let unusable = |why| exit::because(exit::DATA, format!("{}: {why}", builtin.name));
        let compiled = compiler.compile(&module).map_err(unusable)?;
        let dictionary = if number == 0 {
            is_current = false;
            Vec::new()
        } else {
            let first = code_of(engine.builtins()[0].name);
            let packed =
                fs::read(&first).map_err(|why| unusable(format!("{}: {why}", first.display())))?;
            Precompiler::decompress(&packed).map_err(unusable)?
        };
        let packed_code = Precompiler::compress(&compiled, &dictionary).map_err(unusable)?;
        fs::write(&code, packed_code).map_err(|why| failed(&code, why))?;
        let compressed = Precompiler::compress(&module, &[]).map_err(unusable)?;
        fs::write(&packed, compressed).map_err(|why| failed(&packed, why))?;
        // This file is written last: if it exists, the three are complete.
        fs::write(&source, &*module).map_err(|why| failed(&source, why))?;
        say!("{}: compiled, in {}", builtin.name, folder.display());
    }
    fs::write(&version, compiler.version()).map_err(|why| failed(&version, why))?;
    Ok(ExitCode::SUCCESS)
}
