//! What the author of a plugin needs: to look through it, to test it, to time it. Each part runs the
//! plugin in the sandbox, by the very code that runs it in a channel.
//!
//! `look` says what a plugin is, `reading` decodes an input that is in memory, `check` says what must
//! hold of every reading, `trial` tries many inputs, `shrink` finds the smallest that shows a fault,
//! `timing` measures. `project` is about sources: new ones, and how a plugin is made of them.

mod check;
mod look;
pub mod project;
mod reading;
mod shrink;
mod timing;
mod trial;

pub use check::{Case, Property};
pub use look::{Look, Remark};
pub use reading::{Reading, Record, Subject};
pub use timing::{Timing, time};
pub use trial::{Expected, Finding, Trial, try_out};
