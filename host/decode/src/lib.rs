//! From a chunk of bytes to checked spans: the WebAssembly engine, the plugins, and the sandbox
//! around each stream. This crate knows no sources, no batches and no rings.
//!
//! - `sandbox`: the resources that a decoder may use, and how they are counted and limited.
//! - `compile`: from a file to checked machine code, in a process of its own.
//! - `call`: one decoder at work on one object: its input, its output, and the checks.
//!
//! `interface` is the WIT of all versions, `engine` links, `plugin` is a compiled decoder, and
//! `with_options` makes it ready for a channel. `files` reads files of the operator.

mod call;
mod compile;
mod engine;
mod files;
mod interface;
mod plugin;
mod sandbox;
mod with_options;

pub use call::carry::SavedState;
pub use call::decoded_records::{DecodedRecords, IN_PAYLOAD, InlineError};
pub use call::host_state::Bytes;
pub use call::instance::DecoderInstance;
pub use call::plan::{PlanInstance, PlanPart, PlanPiece, PlanRange, PlanStep};
pub use call::stream::{DecodeOutcome, Resume, Stream};
pub use compile::builtin::{Builtin, Builtins};
pub use compile::cache::{CACHE, Cache};
pub use compile::compiler_process::{COMPILE_STDIN, compile_stdin};
pub use compile::digest::Digest;
pub use compile::function_names::{FunctionPlace, visit_function_names};
pub use compile::load::{MAX_PLUGIN_BYTES, PluginError, read_plugin_file};
pub use compile::precompiler::Precompiler;
pub use compile::wrap::{Adapter, DEFINITIONS, wrap, wrap_with};
pub use engine::{Engine, PLUGIN_PATH};
pub use interface::{
    BLOCKS, CARRY, COLUMNS, INTERFACE, INTERFACE_VERSION, PLAN, PREPARING, REST, WINDOW,
};
pub use plugin::{DetectionRule, OptionSpec, Plugin};
pub use sandbox::call_profiler::CallProfiler;
pub use sandbox::input_buffer::InputBuffer;
pub use sandbox::input_pieces::InputPieces;
pub use sandbox::limits::Limits;
/// Why the engine can't be started.
pub use wasmtime::Error as EngineError;
pub use with_options::{OptionFaults, ReadyPlugin};
