//! From a chunk of bytes to checked spans: the engine, the plugins, the sandbox around each stream.
//! Knows nothing of rings and sources.

mod builtin;
mod cache;
mod call_time;
mod checked;
mod digest;
mod engine;
mod imports;
mod limits;
mod load;
mod plugin;
mod settings;
mod stream;
mod watch;

pub use builtin::{Builtin, Builtins};
pub use cache::{CACHE, Cache};
pub use checked::{Emitted, MADE};
pub use digest::Digest;
pub use engine::{Engine, PLUGIN_PATH};
pub use imports::printable;
pub use limits::Limits;
pub use load::{PluginError, is_loadable, precompile, wrap};
pub use plugin::{OptionSpec, Plugin};
pub use stream::{Answer, Resume, Stream};
/// Why the engine can't be started.
pub use wasmtime::Error as EngineError;
pub use watch::Watch;

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
