//! Makes a component of a module that asks for a system (WASI preview 1). A decoder has none: the
//! functions of `wasi.wat` take its place. They give no access to anything.

use pipemill_decode::{Adapter, wrap_with};

/// The name from which modules import the functions of the system.
const SYSTEM: &str = "wasi_snapshot_preview1";
const MODULE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/wasi.wasm"));

/// As [`pipemill_decode::wrap`], for a module that may import functions of the system.
pub(super) fn wrap(module: &[u8]) -> anyhow::Result<Vec<u8>> {
    wrap_with(module, &Adapter { name: SYSTEM, module: MODULE })
}
