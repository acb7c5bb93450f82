//! The WebAssembly engine of the process, and the clock at whose ticks long calls are checked.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use wasmtime::component::Linker;

use super::builtin::Builtins;
use super::cache::Cache;
use super::imports::{self, HostState};
use super::settings::settings;

/// Environment variable with the folders in which plugins named without a path are looked for,
/// separated by `:`.
pub const PLUGIN_PATH: &str = "PIPEMILL_PLUGIN_PATH";

/// How often the CPU time of a running call is looked at, at the most.
pub(super) const TICK: Duration = Duration::from_millis(10);

/// The engine that all plugins of the process are compiled with. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pub(super) engine: wasmtime::Engine,
    pub(super) linker: Arc<Linker<HostState>>,
    pub(super) builtins: Builtins,
    pub(super) cache: Option<Cache>,
    pub(super) plugin_path: Arc<[PathBuf]>,
    _clock: Arc<()>,
}

impl Engine {
    /// Starts an engine that keeps nothing and has no folder of plugins named without a path.
    ///
    /// # Errors
    /// Where the machine can't run WebAssembly (no executable memory, an unknown processor).
    pub fn new(builtins: Builtins) -> wasmtime::Result<Self> {
        Self::with(builtins, None, Vec::new())
    }

    /// Starts an engine with the cache and the plugin path that the environment tells:
    /// [`CACHE`](super::CACHE), [`PLUGIN_PATH`].
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_environment(builtins: Builtins) -> wasmtime::Result<Self> {
        let path = std::env::var_os(PLUGIN_PATH).unwrap_or_default();
        let folders = std::env::split_paths(&path).filter(|folder| !folder.as_os_str().is_empty());
        Self::with(builtins, Cache::of_environment(), folders.collect())
    }

    /// Starts an engine and its clock, with a cache for what it compiles and folders in which to look
    /// for plugins.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(
        builtins: Builtins,
        cache: Option<Cache>,
        plugin_path: Vec<PathBuf>,
    ) -> wasmtime::Result<Self> {
        let engine = wasmtime::Engine::new(&settings())?;
        let mut linker = Linker::new(&engine);
        imports::link(&mut linker)?;
        let clock = Arc::new(());
        start_clock(engine.clone(), Arc::downgrade(&clock))?;
        let (linker, plugin_path) = (Arc::new(linker), plugin_path.into());
        Ok(Self { engine, linker, builtins, cache, plugin_path, _clock: clock })
    }

    /// The decoders that come with the binary.
    pub fn builtins(&self) -> Builtins {
        self.builtins
    }
}

/// Ticks as long as the engine is in use.
fn start_clock(engine: wasmtime::Engine, in_use: Weak<()>) -> wasmtime::Result<()> {
    let tick = move || {
        while in_use.strong_count() > 0 {
            thread::sleep(TICK);
            engine.increment_epoch();
        }
    };
    thread::Builder::new().name("pipemill-clock".into()).spawn(tick)?;
    Ok(())
}
