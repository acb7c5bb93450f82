//! A decoder's project: a folder with sources in one of three languages, from which a plugin is
//! built.
//!
//! `language` recognises a project. `template` has the files of a new one, `wrap` those of one that
//! wraps a built-in decoder, and `name` says how it may be called. `build` builds the plugin:
//! `rust`, `c` and `python` each run one compiler by `compiler`, and `facts` adds what the project
//! says of itself.
//!
//! - `build_error`: why a project can't be built.

mod build;
mod build_error;
mod c;
mod compiler;
mod facts;
mod language;
mod name;
mod python;
mod rust;
mod template;
mod wrap;

pub use build::build;
pub use language::Language;
pub use name::refusal_of_name;
pub use template::{Sdk, template};
pub use wrap::wrapping;
