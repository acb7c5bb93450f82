//! Tools for the author of a plugin: inspect it, test it, measure it, make a new project. They run
//! the plugin in the same sandbox as a channel does.
//!
//! `inspect` describes a plugin, with the `metadata` that its file has of itself. `decode_run`
//! decodes an input as a channel does, in memory or in the slots of a ring (`slot_memories`),
//! `trace` calls the decoder directly, and `work` counts the cost of both. `conformance` tests a
//! plugin with both. `timing` measures a plugin's speed. `project` makes and builds projects.

#![forbid(unsafe_code)]

mod conformance;
mod decode_run;
mod inspect;
mod metadata;
pub mod project;
mod slot_memories;
mod timing;
mod trace;
mod work;

pub use conformance::{
    Case, ConformanceTest, Expectations, Expected, ExpectedErrors, Finding, Property, Report,
};
pub use decode_run::PluginUnderTest;
pub use inspect::Inspection;
pub use metadata::Metadata;
pub use timing::{Timing, time};
