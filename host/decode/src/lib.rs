//! From a chunk of bytes to checked spans: the WebAssembly engine, the plugins, and the sandbox
//! around each stream. This crate knows no sources, no batches and no rings.
//!
//! Each module uses only modules of the lines above its own:
//!
//! - `builtin`, `call_profiler`, `call_time`, `digest`, `function_names`, `guest_memory`, `interface`, `limits`,
//!   `log_budget`, `metadata`, `settings`: the types that the others use.
//! - `account`: what a decoder lets the host allocate and compute. `decoded_records`: the records of
//!   a call.
//! - `cache`: compiled plugins in a folder. `host_state`: what the host keeps for each instance.
//! - `imports`, `declared_schema`, `decompress`: the functions that a decoder may call. `store`: the
//!   sandbox of one instance. `window`: chunks in its memory without a copy.
//! - `compile_limits`: bounds what compiling costs. `engine`: links.
//! - `plugin`: a compiled decoder and its options.
//! - `load`: finds and compiles a plugin, in a `compiler_process`. `stream`: one decoder that decodes one object.
//! - `set_up`: what a decoder does before its first bytes, counted.

mod account;
mod builtin;
mod cache;
mod call_profiler;
mod call_time;
mod compile_limits;
mod compiler_process;
mod declared_schema;
mod decoded_records;
mod decompress;
mod digest;
mod engine;
mod function_names;
mod guest_memory;
mod host_state;
mod imports;
mod instance;
mod interface;
mod limits;
mod load;
mod log_budget;
mod metadata;
mod plugin;
mod precompiler;
mod set_up;
mod settings;
mod store;
mod stream;
mod transpose;
mod trap;
mod window;

pub use builtin::{Builtin, Builtins};
pub use cache::{CACHE, Cache};
pub use call_profiler::CallProfiler;
pub use compiler_process::{COMPILE_STDIN, compile_stdin};
pub use decoded_records::{DecodedRecords, IN_PAYLOAD, InlineError};
pub use digest::Digest;
pub use engine::{Engine, PLUGIN_PATH};
pub use function_names::{FunctionPlace, visit_function_names};
pub use host_state::Bytes;
pub use instance::DecoderInstance;
pub use interface::{INTERFACE, INTERFACE_VERSION, WINDOW};
pub use limits::Limits;
pub use load::{PluginError, wrap};
pub use plugin::{DetectionRule, OptionSpec, Plugin};
pub use precompiler::Precompiler;
pub use stream::{DecodeOutcome, Resume, Stream};
/// Why the engine can't be started.
pub use wasmtime::Error as EngineError;
