//! From a decoder's name to its code: where its file is, whether it is the one that was meant, and
//! whether it was compiled before.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use wasmtime::component::Component;
use wit_component::ComponentEncoder;

use super::builtin::Builtin;
use super::digest::Digest;
use super::engine::Engine;
use super::imports::printable;
use super::plugin::Plugin;
use super::settings::settings;

/// Why a plugin can't be used.
#[derive(Debug, thiserror::Error)]
#[error("decoder `{decoder}`: {message}")]
pub struct PluginError {
    /// The decoder, as the operator called it.
    pub decoder: String,
    /// What is wrong, and what to do.
    pub message: String,
}

/// The largest file that is taken for a plugin, in bytes: several times that of one with a whole Python
/// in it. A larger one could keep the compiler busy for long.
const LARGEST: u64 = 64 << 20;

/// How all WebAssembly begins.
const MAGIC: &[u8] = b"\0asm";
/// How a core module begins, as opposed to a component.
const CORE_MODULE: &[u8] = b"\0asm\x01\0\0\0";

impl Plugin {
    /// Loads a built-in decoder; or the file that `name` is the path of; or `name.wasm` from the
    /// engine's plugin path. If `pinned` is given, the file must have that digest.
    ///
    /// # Errors
    /// No such decoder or file; not the one that was pinned; not a component; made for another
    /// interface; asks for imports that decoders are not given.
    pub fn load(engine: &Engine, name: &str, pinned: Option<&Digest>) -> Result<Self, PluginError> {
        let (bytes, builtin) = found(engine, name)?;
        load(engine, name, &bytes, pinned, builtin)
            .map_err(|message| PluginError { decoder: name.to_owned(), message })
    }

    /// The bytes of the file that [`load`](Self::load) would load: a component, or a core module.
    ///
    /// # Errors
    /// No such decoder or file.
    pub fn file(engine: &Engine, name: &str) -> Result<Cow<'static, [u8]>, PluginError> {
        found(engine, name).map(|(bytes, _)| bytes)
    }

    /// Loads a component, or a core module that says itself which interface it implements.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn compile(engine: &Engine, name: &str, wasm: &[u8]) -> Result<Self, PluginError> {
        load(engine, name, wasm, None, None)
            .map_err(|message| PluginError { decoder: name.to_owned(), message })
    }
}

/// What a decoder's name means: bytes, and whether they come with the host.
fn found(
    engine: &Engine,
    name: &str,
) -> Result<(Cow<'static, [u8]>, Option<&'static Builtin>), PluginError> {
    if let Some(builtin) = engine.builtins.iter().find(|builtin| builtin.name == name) {
        return Ok((Cow::Borrowed(builtin.wasm), Some(builtin)));
    }
    let error = |message| PluginError { decoder: name.to_owned(), message };
    let path = find(engine, name).map_err(error)?;
    let bytes = read(&path).map_err(|why| error(unreadable(name, &path, &why)))?;
    Ok((Cow::Owned(bytes), None))
}

/// The file that a decoder's name means.
fn find(engine: &Engine, name: &str) -> Result<PathBuf, String> {
    if name.contains('/') || name.ends_with(".wasm") {
        return Ok(PathBuf::from(name));
    }
    let file = format!("{name}.wasm");
    let found = engine.plugin_path.iter().map(|folder| folder.join(&file)).find(|it| it.exists());
    found.ok_or_else(|| {
        let known: Vec<_> = engine.builtins.iter().map(|builtin| builtin.name).collect();
        let known = known.join(", ");
        let folders: Vec<_> =
            engine.plugin_path.iter().map(|it| it.display().to_string()).collect();
        let searched = match folders.as_slice() {
            [] => String::new(),
            folders => format!("; there is no {file} in {}", folders.join(", ")),
        };
        format!(
            "there is no built-in decoder of that name; built in are {known}{searched}; \
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

/// Reads a plugin's file, if it is of a size that plugins may have.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    if size > LARGEST {
        let why = format!("it has {size} bytes; plugins may have {LARGEST}");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    let mut bytes = Vec::with_capacity(size as usize);
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

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
            "its SHA-256 is {digest}, but `sha256` asks for {pinned}: it is another file than the one \
             that was pinned; if it is meant to be, change `sha256`"
        ));
    }
    match builtin.and_then(|builtin| from_code(engine, builtin)) {
        Some(component) => Plugin::of_component(engine, name, digest, &component, true),
        None => {
            let component = component(engine, &digest, wasm)?;
            Plugin::of_component(engine, name, digest, &component, false)
        }
    }
}

/// A built-in decoder from the machine code that is embedded beside it.
fn from_code(engine: &Engine, builtin: &Builtin) -> Option<Component> {
    if builtin.code.is_empty() {
        return None;
    }
    // SAFETY: these bytes are part of this binary, and `precompile` made them. The engine itself checks that
    // its version, its settings and this processor fit them.
    let loaded = unsafe { Component::deserialize(&engine.engine, builtin.code) };
    let name = builtin.name;
    loaded.inspect_err(|error| log::debug!("{name} is compiled at start: {error:#}")).ok()
}

/// Whether machine code that [`precompile`] made can be loaded by this engine.
pub fn is_loadable(engine: &Engine, code: &[u8]) -> bool {
    // SAFETY: the caller says that `precompile` made it, and it is not run here. The engine itself checks that
    // its version, its settings and this processor fit it.
    unsafe { Component::deserialize(&engine.engine, code) }.is_ok()
}

/// From the cache, or compiled now.
fn component(engine: &Engine, digest: &Digest, wasm: &[u8]) -> Result<Component, String> {
    if let Some(cache) = &engine.cache
        && let Some(component) = cache.get(&engine.engine, digest)
    {
        return Ok(component);
    }
    let wasm = as_component(wasm)?;
    let component = Component::from_binary(&engine.engine, &wasm).map_err(|why| {
        let why = printable(&format!("{why:#}"));
        format!("not a WebAssembly component that can be compiled: {why}")
    })?;
    if let Some(cache) = &engine.cache
        && let Err(error) = cache.put(&engine.engine, digest, &component)
    {
        log::debug!("compiled plugins can't be kept in {}: {error}", cache.folder().display());
    }
    Ok(component)
}

/// The component in a file's bytes; a core module is wrapped.
fn as_component(wasm: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    if !wasm.starts_with(MAGIC) {
        let found: Vec<_> = wasm.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        return Err(format!(
            "its file is not WebAssembly: expected it to begin with 00 61 73 6d, found {}",
            if found.is_empty() { "nothing".to_owned() } else { found.join(" ") }
        ));
    }
    if !wasm.starts_with(CORE_MODULE) {
        return Ok(Cow::Borrowed(wasm));
    }
    wrap(wasm).map(Cow::Owned).map_err(|why| {
        format!(
            "is a core module that can't be made a component: {why:#}; build it with \
             pipemill-plugin for wasm32-unknown-unknown"
        )
    })
}

/// What the compiler may expect of an x86-64 machine: any since 2015 (x86-64-v3).
#[cfg(target_arch = "x86_64")]
const X86_64_V3: [&str; 11] = [
    "has_sse3",
    "has_ssse3",
    "has_sse41",
    "has_sse42",
    "has_popcnt",
    "has_avx",
    "has_avx2",
    "has_fma",
    "has_bmi1",
    "has_bmi2",
    "has_lzcnt",
];

/// Machine code for a plugin, to embed in a binary: for any x86-64 machine since 2015, or, on other
/// architectures, for machines like this one.
///
/// # Errors
/// It is no plugin, or can't be compiled.
pub fn precompile(wasm: &[u8]) -> Result<Vec<u8>, String> {
    let mut settings = settings();
    #[cfg(target_arch = "x86_64")]
    {
        // A target that is named has no feature of this machine but those that are named, too.
        settings.target("x86_64-unknown-linux-gnu").map_err(|why| format!("{why:#}"))?;
        for feature in X86_64_V3 {
            // SAFETY: a machine that lacks the feature refuses the code when it loads it.
            unsafe { settings.cranelift_flag_enable(feature) };
        }
    }
    let engine = wasmtime::Engine::new(&settings).map_err(|why| format!("{why:#}"))?;
    let component = as_component(wasm)?;
    engine.precompile_component(&component).map_err(|why| format!("{why:#}"))
}

/// Makes a component of a core module that says itself, as the SDK makes it say, which interface it
/// implements.
///
/// # Errors
/// It says none, or does not fit it.
pub fn wrap(module: &[u8]) -> anyhow::Result<Vec<u8>> {
    ComponentEncoder::default().module(module)?.validate(true).encode()
}
