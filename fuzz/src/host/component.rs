//! Decoders that no compiler would make: wasm-smith writes a module with the interface's imports
//! and exports. The host refuses it, or runs it and ends with an answer or an error.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use arbitrary::Unstructured;
use pipemill_decode::Bytes;
use wasm_smith::{Config, Module};

use super::guest::{compile, limits, open};
use pipemill_testing::tiny::{component as wrap, text};

/// CPU time of a call. A module that loops for ever takes it each time.
const CALL_TIMEOUT: Duration = Duration::from_millis(30);

/// The tiny decoder's module, whose imports and exports the modules have.
static SHAPE: LazyLock<Vec<u8>> =
    LazyLock::new(|| wat::parse_str(text("", "")).expect("the tests' own decoder"));

pub(crate) fn component(bytes: &[u8]) {
    let config = Config {
        module_shape: Some(SHAPE.clone()),
        max_memory32_bytes: 64 << 20,
        max_tables: 4,
        ..Config::default()
    };
    // There are too few bytes for a module.
    let Ok(module) = Module::new(config, &mut Unstructured::new(bytes)) else { return };
    let Ok(component) = wrap(module.to_bytes()) else { return };
    let plugin = match compile(&component) {
        Ok(plugin) => plugin,
        Err(why) => return assert!(!why.to_string().is_empty(), "refused without a reason"),
    };
    let mut stream = match open(&plugin, &limits(CALL_TIMEOUT)) {
        Ok(stream) => stream,
        Err(fault) => return assert!(!fault.message.is_empty(), "failed without a reason"),
    };
    let chunk: Bytes = Arc::new(bytes.to_vec());
    match stream.decode(&chunk, 0..bytes.len(), true, 0) {
        Ok(_) => {}
        Err(fault) => assert!(!fault.message.is_empty(), "failed without a reason"),
    }
}
