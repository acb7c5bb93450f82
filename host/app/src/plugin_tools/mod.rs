//! Tools for the author of a plugin: inspect it, test it, measure it, make a new project. They run
//! the plugin in the same sandbox as a channel does.
//!
//! `inspect` describes a plugin. `decode_run` decodes an input in memory. `check` says what must
//! hold for each input; `conformance` checks many inputs; `shrink` finds the smallest input that
//! fails. `timing` measures a plugin's speed. `project` makes and builds projects.

mod check;
mod conformance;
mod decode_run;
mod inspect;
pub mod project;
mod shrink;
mod timing;

pub use check::{Case, Property};
pub use conformance::{ConformanceTest, Expected, Finding};
pub use decode_run::PluginUnderTest;
pub use inspect::Inspection;
pub use timing::{Timing, time};
