//! Compiles the bytes of a plugin's file to machine code.

use std::borrow::Cow;

use pipemill_types::printable;

use crate::compile::wrap::wrap;
use crate::compile::{compile_limits, data_segments};

/// First bytes of every WebAssembly file.
const MAGIC: &[u8] = b"\0asm";
/// First bytes of a core module. In a component, other bytes follow [`MAGIC`].
const CORE_MODULE: &[u8] = b"\0asm\x01\0\0\0";

/// The machine code of a plugin, for engines of these settings.
pub(crate) fn machine_code(engine: &wasmtime::Engine, wasm: &[u8]) -> Result<Vec<u8>, String> {
    let component = data_segments::join(as_component(wasm)?);
    compile_limits::check(&component)?;
    engine.precompile_component(&component).map_err(|why| {
        let why = printable(&format!("{why:#}"));
        format!("not a WebAssembly component that can be compiled: {why}")
    })
}

/// The component in a file's bytes. A core module is wrapped.
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
             `pipemill plugin build`, or with pipemill-plugin for wasm32-unknown-unknown"
        )
    })
}
