//! The WebAssembly engine of the process, and the clock that ends calls which take too long.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use wasmtime::component::Linker;

use super::imports::{self, State};

/// How fine wall-clock limits are.
pub(super) const TICK: Duration = Duration::from_millis(10);

/// The engine that all plugins of the process are compiled with. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pub(super) engine: wasmtime::Engine,
    pub(super) linker: Arc<Linker<State>>,
    _clock: Arc<()>,
}

impl Engine {
    /// Starts an engine and its clock.
    ///
    /// # Errors
    /// Where the machine can't run WebAssembly (no executable memory, an unknown processor).
    pub fn new() -> wasmtime::Result<Self> {
        let mut config = wasmtime::Config::new();
        config.wasm_component_model(true);
        // Decoders are plain functions; without this an empty call costs three times as much.
        config.concurrency_support(false);
        config.epoch_interruption(true);
        config.cranelift_opt_level(wasmtime::OptLevel::Speed);
        let engine = wasmtime::Engine::new(&config)?;
        let mut linker = Linker::new(&engine);
        imports::link(&mut linker)?;
        let clock = Arc::new(());
        start_clock(engine.clone(), Arc::downgrade(&clock))?;
        Ok(Self { engine, linker: Arc::new(linker), _clock: clock })
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
