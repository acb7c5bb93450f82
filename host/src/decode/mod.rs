//! From a chunk of bytes to checked spans: the engine, the plugins, the sandbox around each stream.
//! Knows nothing of rings and sources.

mod builtin;
mod cache;
mod call_time;
mod checked;
mod digest;
mod engine;
mod failure;
mod imports;
mod limits;
mod load;
mod plugin;
mod settings;
mod stream;
mod watch;

pub use builtin::{BUILTINS, Builtin};
pub use cache::{CACHE, Cache};
pub use checked::{ABSENT, Emitted, MADE};
pub use digest::Digest;
pub use engine::{Engine, PLUGIN_PATH};
pub use failure::{Fault, FaultKind};
pub use imports::printable;
pub use limits::Limits;
pub use load::{PluginError, wrap};
pub use plugin::{OptionSpec, Plugin};
pub use stream::{Answer, Field, Resume, Scalar, Stream, StreamInfo};
pub use watch::Watch;

/// The interface that this host speaks, generated from `wit/`.
mod wit {
    #![allow(missing_docs)]
    wasmtime::component::bindgen!({
        path: "../wit/0.1",
        world: "decoder-plugin",
    });
}

/// Name and version of the interface, as plugins import and export it.
pub const INTERFACE: &str = "pipemill:decoder";
/// See [`INTERFACE`].
pub const INTERFACE_VERSION: &str = "0.1.0";
