//! From a decoder's name to a plugin: finds its file, checks its digest, and compiles it, unless
//! machine code for it exists already.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use pipemill_types::nearest;
use wasmtime::component::Component;

use crate::compile::builtin::{Builtin, machine_code_of};
use crate::compile::compiler_process;
use crate::compile::digest::Digest;
use crate::compile::machine_code::machine_code;
use crate::engine::Engine;
use crate::files::read_regular;
use crate::plugin::{Origin, Plugin};

/// Why a plugin can't be used.
#[derive(Debug, thiserror::Error)]
#[error("decoder `{decoder}`: {message}")]
pub struct PluginError {
    /// The name or path by which the operator chose the decoder.
    pub decoder: String,
    /// The problem and the remedy.
    pub message: String,
}

/// Size of the largest file that is loaded, in bytes: several times that of a plugin that contains
/// a Python interpreter. A larger file could keep the compiler busy for long.
pub const MAX_PLUGIN_BYTES: u64 = 64 << 20;

impl Plugin {
    /// Loads the decoder `name`: a built-in one, or the file at this path, or the file `name.wasm`
    /// in the engine's plugin path. If `pinned` is given, the file must have that digest.
    ///
    /// # Errors
    /// The decoder or file does not exist, has another digest, is not a plugin, was made for
    /// another interface, or has imports that the host does not provide.
    pub fn load(engine: &Engine, name: &str, pinned: Option<&Digest>) -> Result<Self, PluginError> {
        let (bytes, builtin) = read_decoder(engine, name)?;
        load(engine, name, &bytes, pinned, builtin)
            .map_err(|message| PluginError { decoder: name.to_owned(), message })
    }

    /// Reads the file that [`load`](Self::load) would load: a component or a core module.
    ///
    /// # Errors
    /// The decoder or file does not exist, or the file can't be read.
    pub fn file(engine: &Engine, name: &str) -> Result<Cow<'static, [u8]>, PluginError> {
        read_decoder(engine, name).map(|(bytes, _)| bytes)
    }

    /// Loads the plugin with these bytes: a component, or a core module that describes its
    /// interface as the SDK does.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn compile(engine: &Engine, name: &str, wasm: &[u8]) -> Result<Self, PluginError> {
        load(engine, name, wasm, None, None)
            .map_err(|message| PluginError { decoder: name.to_owned(), message })
    }
}

impl Engine {
    /// The names of the decoders on the plugin path, sorted, without those that a built-in decoder
    /// hides.
    pub fn plugins_on_path(&self) -> Vec<String> {
        let is_free = |name: &String| self.builtins.iter().all(|builtin| builtin.name != name);
        self.files_on_path().into_iter().filter(is_free).collect()
    }

    /// A warning if a file of the plugin path has the name of this built-in decoder.
    fn hidden(&self, name: &str) -> Option<String> {
        self.builtins.iter().find(|builtin| builtin.name == name)?;
        let mut files = self.plugin_path.iter().map(|folder| folder.join(format!("{name}.wasm")));
        let file = files.find(|file| file.exists())?;
        let file = file.display();
        Some(format!(
            "decoder `{name}`: the built-in one is used, and not {file}; name that one by its \
             path, or rename its file"
        ))
    }

    /// The names of the files on the plugin path, sorted.
    fn files_on_path(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for folder in self.plugin_path.iter() {
            // A folder that can't be read has no plugins: asking for one of them by name gives the
            // same answer.
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            for path in entries.map(|entry| entry.path()) {
                let is_wasm = path.extension().is_some_and(|ending| ending == "wasm");
                if let Some(name) = path.file_stem().and_then(|name| name.to_str())
                    && is_wasm
                    && !name.ends_with(".wasm")
                {
                    names.insert(name.to_owned());
                }
            }
        }
        names
    }
}

/// The bytes of the decoder `name`, and the built-in decoder if it is one.
fn read_decoder(
    engine: &Engine,
    name: &str,
) -> Result<(Cow<'static, [u8]>, Option<&'static Builtin>), PluginError> {
    if let Some(builtin) = engine.builtins.iter().find(|builtin| builtin.name == name) {
        if let Some(warning) = engine.hidden(name) {
            log::warn!("{warning}");
        }
        return Ok((builtin.module(), Some(builtin)));
    }
    let error = |message| PluginError { decoder: name.to_owned(), message };
    let path = find_file(engine, name).map_err(error)?;
    let bytes = read_plugin_file(&path).map_err(|why| error(unreadable(name, &path, &why)))?;
    Ok((Cow::Owned(bytes), None))
}

/// The path of the file of the decoder `name`.
fn find_file(engine: &Engine, name: &str) -> Result<PathBuf, String> {
    if name.contains('/') || name.ends_with(".wasm") {
        return Ok(PathBuf::from(name));
    }
    let file = format!("{name}.wasm");
    let found = engine.plugin_path.iter().map(|folder| folder.join(&file)).find(|it| it.exists());
    found.ok_or_else(|| {
        let known: Vec<_> = engine.builtins.iter().map(|builtin| builtin.name).collect();
        let near = nearest(name, &known);
        let near = near.map_or(String::new(), |near| format!("did you mean `{near}`? "));
        let known = known.join(", ");
        let folders: Vec<_> =
            engine.plugin_path.iter().map(|it| it.display().to_string()).collect();
        let searched = match folders.as_slice() {
            [] => String::new(),
            folders => format!("; there is no {file} in {}", folders.join(", ")),
        };
        format!(
            "there is no built-in decoder of that name; {near}built in are {known}{searched}; \
             a plugin is named by its path, as in `plugins/{file}`"
        )
    })
}

fn unreadable(name: &str, path: &Path, why: &io::Error) -> String {
    if Path::new(name) == path {
        return format!("its file can't be read: {why}");
    }
    format!("its file {} can't be read: {why}", path.display())
}

/// Reads a plugin's file.
///
/// # Errors
/// It can't be read, is not a regular file, or is larger than [`MAX_PLUGIN_BYTES`].
pub fn read_plugin_file(path: &Path) -> io::Result<Vec<u8>> {
    read_regular(path, MAX_PLUGIN_BYTES, "plugins")
}

/// Checks the digest of a plugin's bytes, and loads or compiles them.
fn load(
    engine: &Engine,
    name: &str,
    wasm: &[u8],
    pinned: Option<&Digest>,
    builtin: Option<&Builtin>,
) -> Result<Plugin, String> {
    let digest = Digest::of(wasm);
    if let Some(pinned) = pinned
        && *pinned != digest
    {
        return Err(format!(
            "its SHA-256 is {digest}, but `sha256` asks for {pinned}: it is another file than the \
             one that was pinned; if it is meant to be, change `sha256`"
        ));
    }
    match builtin.and_then(|builtin| load_precompiled(engine, builtin)) {
        Some(component) => {
            Plugin::of_component(engine, name, digest, &component, Origin::Precompiled, wasm)
        }
        None => {
            let component = cached_or_compiled(engine, &digest, wasm, builtin.is_some())?;
            let origin = if builtin.is_some() { Origin::Builtin } else { Origin::File };
            Plugin::of_component(engine, name, digest, &component, origin, wasm)
        }
    }
}

/// Loads a built-in decoder from its embedded machine code. `None` if there is none for this
/// machine.
fn load_precompiled(engine: &Engine, builtin: &Builtin) -> Option<Component> {
    if builtin.code.is_empty() {
        return None;
    }
    let name = builtin.name;
    let code = machine_code_of(builtin, engine.builtins)
        .inspect_err(|error| log::debug!("{name} is compiled at start: {error}"))
        .ok()?;
    // SAFETY: `Precompiler` made these bytes, and they are part of this binary. The engine checks
    // that its version, its settings and this processor fit them.
    let loaded = unsafe { Component::deserialize(&engine.engine, &code) };
    loaded.inspect_err(|error| log::debug!("{name} is compiled at start: {error:#}")).ok()
}

/// Loads the component from the cache, or compiles it and writes it to the cache.
fn cached_or_compiled(
    engine: &Engine,
    digest: &Digest,
    wasm: &[u8],
    is_builtin: bool,
) -> Result<Component, String> {
    let cached = || engine.cache.as_ref().and_then(|cache| cache.get(&engine.engine, digest));
    if let Some(component) = cached() {
        return Ok(component);
    }
    // A thread that panicked here has left nothing half changed.
    let _compiling = engine.compiling.lock().unwrap_or_else(PoisonError::into_inner);
    // Another channel may have compiled the same plugin meanwhile.
    if let Some(component) = cached() {
        return Ok(component);
    }
    let component = match &engine.compiler {
        Some(program) if !is_builtin => compile_in_process(engine, program, wasm)?,
        _ => compile_here(engine, wasm)?,
    };
    if let Some(cache) = &engine.cache
        && let Err(error) = cache.put(&engine.engine, digest, &component)
    {
        log::debug!("compiled plugins can't be kept in {}: {error}", cache.folder().display());
    }
    Ok(component)
}

fn compile_here(engine: &Engine, wasm: &[u8]) -> Result<Component, String> {
    let code = machine_code(&engine.engine, wasm)?;
    // SAFETY: this engine's compiler has just made these bytes.
    let loaded = unsafe { Component::deserialize(&engine.engine, &code) };
    loaded.map_err(|error| format!("{error:#}"))
}

/// Compiles in a process of `program`, which is this program.
fn compile_in_process(engine: &Engine, program: &Path, wasm: &[u8]) -> Result<Component, String> {
    let code = compiler_process::compile(program, wasm)?;
    // SAFETY: a process of this program made the file, which has no name: nobody else can write it.
    let loaded = unsafe { Component::deserialize_file(&engine.engine, code.path()) };
    loaded.map_err(|error| format!("{error:#}"))
}
