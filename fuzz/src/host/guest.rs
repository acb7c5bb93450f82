//! The shared parts of targets with a sandbox: the engine, and how a decoder is opened.

use std::sync::OnceLock;
use std::time::Duration;

use pipemill_decode::{Builtins, Engine, Limits, Plugin, PluginError, Stream};
use pipemill_types::{Fault, StreamInfo};

/// Number of bytes that a call may emit.
pub(super) const MAX_OUTPUT: u64 = 4 << 10;

/// Limits that a run can reach, except for the time: the speed of the machine must not matter.
pub(super) fn limits(call_timeout: Duration) -> Limits {
    Limits { memory: 32 << 20, call_timeout, output: MAX_OUTPUT, record: u64::MAX }
}

/// Compiles a component.
pub(super) fn compile(wasm: &[u8]) -> Result<Plugin, PluginError> {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    const NONE: Builtins = &[];
    let engine = ENGINE.get_or_init(|| Engine::new(NONE).expect("the machine runs WebAssembly"));
    Plugin::compile(engine, "fuzzed", wasm)
}

/// Opens a stream that requests the starts of records.
pub(super) fn open(plugin: &Plugin, limits: &Limits) -> Result<Stream, Fault> {
    let info = StreamInfo {
        channel: "fuzz".to_owned(),
        object: "input".to_owned(),
        max_record: 1 << 20,
        offsets: true,
        ..StreamInfo::default()
    };
    Stream::open(plugin, &[], &info, limits)
}
