//! A decoder's project: a folder with sources in one of six languages, from which a plugin is
//! built.
//!
//! `language` recognises a project. `template` has the files of a new one, `wrap` the files of one
//! that wraps a built-in decoder, and `name` checks its name. `build` builds the plugin: `rust`,
//! `c`, `zig`, `go` and `python` each run one compiler by `compiler`, `wasi` stands for the system
//! that Go asks for, and `facts` adds the project's description.
//!
//! - `build_error`: the error of a project that can't be built.

mod build;
mod build_error;
mod c;
mod compiler;
pub(crate) mod facts;
mod go;
mod language;
mod name;
mod python;
mod rust;
mod template;
mod wasi;
mod wrap;
mod zig;

pub use build::build;
pub use language::Language;
pub use name::refusal_of_name;
pub use template::{Sdk, template};
pub use wrap::wrapping;
