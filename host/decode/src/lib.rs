//! From a chunk of bytes to checked spans: the engine, the plugins, the sandbox around each stream.
//! Knows nothing of rings and sources.

mod builtin;
mod cache;
mod call_profiler;
mod call_time;
mod decoded_records;
mod digest;
mod engine;
mod imports;
mod limits;
mod load;
mod plugin;
mod settings;
mod stream;

pub use builtin::{Builtin, Builtins};
pub use cache::{CACHE, Cache};
pub use call_profiler::CallProfiler;
pub use decoded_records::{DecodedRecords, IN_PAYLOAD};
pub use digest::Digest;
pub use engine::{Engine, PLUGIN_PATH};
pub use imports::printable;
pub use limits::Limits;
pub use load::{PluginError, is_loadable, precompile, wrap};
pub use plugin::{OptionSpec, Plugin};
pub use stream::{DecodeOutcome, Resume, Stream};
/// Why the engine can't be started.
pub use wasmtime::Error as EngineError;

/// The interface that this host speaks, generated from `wit/`.
mod wit {
    #![allow(missing_docs)]
    wasmtime::component::bindgen!({
        path: "../../wit/0.1",
        world: "decoder-plugin",
    });
}

/// Name and version of the interface, as plugins import and export it.
pub const INTERFACE: &str = "pipemill:decoder";
/// See [`INTERFACE`].
pub const INTERFACE_VERSION: &str = "0.1.0";
