//! The WebAssembly engine of the process, and the clock that interrupts long calls.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::thread;

use wasmtime::component::Linker;
use wasmtime::{Config, OptLevel};

use crate::call::host_state::HostState;
use crate::call::imports;
use crate::compile::builtin::Builtins;
use crate::compile::cache::Cache;
use crate::sandbox::call_time::TICK;
use crate::sandbox::settings::settings;

/// Environment variable with the folders, separated by `:`, of plugins that are named without a
/// path.
pub const PLUGIN_PATH: &str = "PIPEMILL_PLUGIN_PATH";

/// The engine that compiles and runs all plugins of the process. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pub(super) engine: wasmtime::Engine,
    pub(super) linker: Arc<Linker<HostState>>,
    pub(super) builtins: Builtins,
    pub(super) cache: Option<Cache>,
    pub(super) plugin_path: Arc<[PathBuf]>,
    /// The path of this program, if plugins are compiled in a separate process.
    pub(super) compiler: Option<Arc<Path>>,
    /// Held while a plugin is compiled, so that only one compiler takes memory at a time.
    pub(super) compiling: Arc<Mutex<()>>,
    _clock: Arc<()>,
}

impl Engine {
    /// Starts an engine without a cache and without a plugin path.
    ///
    /// # Errors
    /// The machine can't run WebAssembly: it has no executable memory, or an unknown processor.
    pub fn new(builtins: Builtins) -> wasmtime::Result<Self> {
        Self::with(builtins, None, Vec::new())
    }

    /// Starts an engine with the cache and the plugin path of the environment variables
    /// [`CACHE`](crate::CACHE) and [`PLUGIN_PATH`]. It compiles plugins in a process of this
    /// program, which must call [`compile_stdin`](super::compile_stdin) if its first argument is
    /// [`COMPILE_STDIN`](crate::COMPILE_STDIN).
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_environment(builtins: Builtins) -> wasmtime::Result<Self> {
        let path = std::env::var_os(PLUGIN_PATH).unwrap_or_default();
        let folders = std::env::split_paths(&path).filter(|folder| !folder.as_os_str().is_empty());
        let engine = Self::with(builtins, Cache::of_environment(), folders.collect())?;
        // This works even if the program's file was replaced since it was started.
        Ok(Self { compiler: Some(Path::new("/proc/self/exe").into()), ..engine })
    }

    /// Starts an engine and its clock. It compiles plugins in this process. It keeps what it
    /// compiles in `cache`, and searches the folders of `plugin_path` for plugins.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(
        builtins: Builtins,
        cache: Option<Cache>,
        plugin_path: Vec<PathBuf>,
    ) -> wasmtime::Result<Self> {
        Self::of(&settings(), builtins, cache, plugin_path)
    }

    /// An engine without decoders, whose instances count their instructions. It compiles quickly,
    /// but the compiled code is slow.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(super) fn that_counts() -> wasmtime::Result<Self> {
        const NONE: Builtins = &[];
        let mut settings = settings();
        settings.consume_fuel(true).cranelift_opt_level(OptLevel::None);
        Self::of(&settings, NONE, None, Vec::new())
    }

    fn of(
        settings: &Config,
        builtins: Builtins,
        cache: Option<Cache>,
        plugin_path: Vec<PathBuf>,
    ) -> wasmtime::Result<Self> {
        let engine = wasmtime::Engine::new(settings)?;
        let mut linker = Linker::new(&engine);
        imports::link(&mut linker)?;
        let clock = Arc::new(());
        start_clock(engine.clone(), Arc::downgrade(&clock))?;
        let (linker, plugin_path) = (Arc::new(linker), plugin_path.into());
        let (compiler, compiling) = (None, Arc::default());
        let _clock = clock;
        Ok(Self { engine, linker, builtins, cache, plugin_path, compiler, compiling, _clock })
    }

    /// The decoders that come with the binary.
    pub fn builtins(&self) -> Builtins {
        self.builtins
    }
}

/// Starts a thread that increments the engine's epoch every [`TICK`], until the last [`Engine`]
/// that shares `in_use` is dropped.
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
