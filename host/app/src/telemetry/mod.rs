//! What the host says about itself while it runs.
//!
//! `log` is where its lines go, `json` how they are written for machines. `progress` shows a person how far channels
//! are.
//!
//! `watched` is a channel as it is seen from outside, `overview` all of them and `process` what they take of the
//! machine; `verdict` says which stage holds a channel back, `summary` what it did. That is told as `metrics` and as
//! `status`, which `serve` hands out. `history` is what was done over time, and `report` a page about all of it;
//! `trace` tells each moment.

mod history;
mod json;
pub mod log;
mod metrics;
mod overview;
mod process;
pub mod progress;
mod report;
mod serve;
pub mod status;
mod summary;
mod trace;
mod verdict;
mod watched;

pub use history::{Sample, Slots};
pub use overview::Overview;
pub use report::Report;
pub use serve::{Bound, MetricsError, MetricsServer};
pub use trace::Trace;
pub use verdict::Verdict;
pub use watched::{State, Watched};
