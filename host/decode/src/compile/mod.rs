//! From a file to checked machine code.
//!
//! `load` finds a plugin and compiles it in a `compiler_process`, to `machine_code`; `wrap` makes a
//! component of a core module, `data_segments` joins its data, and `compile_limits` limits the cost
//! beforehand. `cache` keeps compiled plugins in a folder by their
//! `digest`. `precompiler` makes the machine code of the built-in decoders; each of them is a
//! `builtin`. `function_names` reads the names of functions from a module, and `state_in_memory`
//! looks for state outside of the memory.

pub mod builtin;
pub mod cache;
pub mod compile_limits;
pub mod compiler_process;
pub mod data_segments;
pub mod digest;
pub mod function_names;
pub mod load;
pub mod machine_code;
pub mod precompiler;
pub mod state_in_memory;
pub mod wrap;
