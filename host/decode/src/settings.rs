//! The compiler settings of the engine. An engine loads only machine code of the same settings.

use wasmtime::{Config, OptLevel};

/// The settings of the engine that runs plugins.
pub(super) fn settings() -> Config {
    let mut config = Config::new();
    config.wasm_component_model(true);
    // Decoders are plain functions. With concurrency support an empty call costs three times as
    // much.
    config.concurrency_support(false);
    config.epoch_interruption(true);
    config.cranelift_opt_level(OptLevel::Speed);
    config
}
