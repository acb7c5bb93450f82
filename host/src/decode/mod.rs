//! From a chunk of bytes to checked spans: the engine, the plugins, the sandbox around each stream.
//! Knows nothing of rings and sources.

mod builtin;
mod checked;
mod engine;
mod failure;
mod imports;
mod limits;
mod plugin;
mod stream;

pub use builtin::{BUILTINS, Builtin};
pub use checked::{ABSENT, Emitted, MADE};
pub use engine::Engine;
pub use failure::{Fault, FaultKind};
pub use limits::Limits;
pub use plugin::{OptionSpec, Plugin, PluginError};
pub use stream::{Answer, Field, Resume, Scalar, Stream, StreamInfo};

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
