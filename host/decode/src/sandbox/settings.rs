//! The compiler settings of the engine. An engine loads only machine code of the same settings.

use std::sync::Arc;

use wasmtime::{Config, OptLevel};

use crate::sandbox::guest_memory::GuestMemories;

/// The settings of the engine that runs plugins.
pub(crate) fn settings() -> Config {
    let mut config = Config::new();
    config.wasm_component_model(true);
    // Decoders are plain functions. With concurrency support an empty call costs three times as
    // much.
    config.concurrency_support(false);
    config.epoch_interruption(true);
    config.cranelift_opt_level(OptLevel::Speed);
    config.with_host_memory(Arc::new(GuestMemories));
    // Otherwise Wasmtime would map the initial content of the memory itself.
    config.memory_init_cow(false);
    // A decoder makes the same records on each machine, and does not learn on which machine it
    // runs. Without the second setting, the sign of a NaN, and its other bits, are what the
    // processor makes them.
    config.relaxed_simd_deterministic(true);
    config.cranelift_nan_canonicalization(true);
    config
}
