//! What the host says about itself while it runs.
//!
//! `log` is where its lines go, `watched` a channel as it is seen from outside, `verdict` which stage holds it back,
//! and `summary` what it did. `history` is what it did over time, and `report` a page about all of it.

mod history;
mod log;
mod report;
mod summary;
mod verdict;
mod watched;

pub use self::log::start_log;
pub use history::{Sample, Slots};
pub use report::Report;
pub use verdict::Verdict;
pub use watched::{State, Watched};
