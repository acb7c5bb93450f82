//! What the author of a plugin needs: to look through it, to test it, to time it. Each part runs the
//! plugin in the sandbox, by the very code that runs it in a channel.
//!
//! `look` says what a plugin is, `reading` decodes an input that is in memory, `check` says what must
//! hold of every reading, `trial` tries many inputs, `shrink` finds the smallest that shows a fault,
//! `timing` measures. `project` is about sources: new ones, and how a plugin is made of them.

mod check;
mod conformance;
mod decode_run;
mod inspect;
pub mod project;
mod shrink;
mod timing;

pub use check::{Case, Property};
pub use conformance::{ConformanceTest, Expected, Finding, try_out};
pub use decode_run::{DecodeRun, PluginUnderTest, Record};
pub use inspect::{Inspection, Remark};
pub use timing::{Timing, time};
