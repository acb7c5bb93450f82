//! From a chunk of bytes to checked spans: the WebAssembly engine, the plugins, and the sandbox
//! around each stream. This crate knows no sources, no batches and no rings.
//!
//! Each module uses only modules of the lines above its own:
//!
//! - `builtin`, `call_profiler`, `call_time`, `decoded_records`, `digest`, `interface`, `limits`,
//!   `metadata`, `settings`: the types that the others use.
//! - `cache`: compiled plugins in a folder. `host_state`: what the host keeps for each instance.
//! - `imports`, `decompress`: the functions that a decoder may call. `store`: the sandbox of one instance.
//! - `engine`: compiles and links.
//! - `plugin`: a compiled decoder and its options.
//! - `load`: finds and compiles a plugin. `stream`: one decoder that decodes one object.

mod builtin;
mod cache;
mod call_profiler;
mod call_time;
mod decoded_records;
mod decompress;
mod digest;
mod engine;
mod host_state;
mod imports;
mod interface;
mod limits;
mod load;
mod metadata;
mod plugin;
mod precompiler;
mod settings;
mod store;
mod stream;

pub use builtin::{Builtin, Builtins};
pub use cache::{CACHE, Cache};
pub use call_profiler::CallProfiler;
pub use decoded_records::{DecodedRecords, IN_PAYLOAD, InlineError};
pub use digest::Digest;
pub use engine::{Engine, PLUGIN_PATH};
pub use host_state::Bytes;
pub use interface::{INTERFACE, INTERFACE_VERSION};
pub use limits::Limits;
pub use load::{PluginError, wrap};
pub use plugin::{OptionSpec, Plugin};
pub use precompiler::Precompiler;
pub use stream::{DecodeOutcome, Resume, Stream};
/// Why the engine can't be started.
pub use wasmtime::Error as EngineError;
