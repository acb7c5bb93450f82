//! Objects with a directory: the decoder chooses the bytes that it is shown.
//!
//! A decoder that makes plans (`wit/0.3`) names ranges of an object's bytes. The host reads them,
//! and asks again, until the decoder names the parts of the plan. From then on, the parts are the
//! object for all who read it: offsets, sections, states and indexes count the bytes of the parts.
//!
//! - `source`: [`Planned`], a source whose objects are planned.
//! - `planner`: opens the objects of a source, and makes their plans.
//! - `ahead`: makes the plan of the next object while the last one is read.
//! - `not_counted`: [`NotCounted`], a source without the objects that are counted by their plans.
//! - `plan_cache`: the plans that were made last.
//! - `reading`: how objects are read for a decoder.
//! - `ask`: asks the decoder for the plan of an object, and checks the answers.
//! - `memory`: a small object, all of whose bytes are in memory.
//! - `plan`: a checked plan.
//! - `input`: reads the bytes of a plan.

#![forbid(unsafe_code)]

mod ahead;
mod ask;
mod input;
mod memory;
mod not_counted;
mod plan;
mod plan_cache;
mod planner;
mod reading;
mod source;

pub use ask::{MAX_PLAN_BYTES, MAX_READ_BYTES};
pub use not_counted::NotCounted;
pub use plan_cache::KEPT_PLAN_BYTES;
pub use planner::{PlanMaker, TakeCounted};
pub use reading::read_for;
pub use source::Planned;
