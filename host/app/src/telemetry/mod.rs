//! What the host says about itself while it runs.
//!
//! `log` is where its lines go, `json` how they are written for machines. `progress` shows a person how far channels
//! are.
//!
//! `channel_handle` is a channel as it is seen from outside, `host_state` all of them and `process` what they take of the
//! machine; `bottleneck` says which stage holds a channel back, `summary` what it did. That is told as `metrics` and as
//! `status`, which `serve` hands out. `history` is what was done over time, and `report` a page about all of it;
//! `trace` tells each moment.

mod bottleneck;
mod channel_handle;
mod epoch_log;
mod history;
mod host_state;
mod json;
pub mod log;
mod metrics;
mod process;
pub mod progress;
mod report;
mod serve;
pub mod status;
mod summary;
mod trace;

pub use bottleneck::Bottleneck;
pub use channel_handle::{ChannelHandle, State};
pub use epoch_log::EpochLog;
pub use history::{Sample, Slots};
pub use host_state::HostState;
pub use report::Report;
pub use serve::{Bound, MetricsError, MetricsServer};
pub use trace::Trace;
