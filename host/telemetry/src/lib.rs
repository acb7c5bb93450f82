//! Reports of the host about itself.
//!
//! - `log` writes messages to standard error, and `json` formats them for machines. `log_writer` is
//!   the thread that writes them, and `log_lines` are the lines that wait for it. `progress` is the
//!   progress display on a terminal. `unread` limits the wait at the end if nobody reads.
//! - `channel_handle` is one channel as other threads see it, `host_state` the whole host,
//!   `process` its memory and CPU time.
//! - `bottleneck` finds the stage that limits a channel. `summary` and `epoch_log` are the log
//!   lines about a channel and its epochs.
//! - `waits` finds the waits of a channel that others have to end, and `wait_log` logs them.
//! - `snapshot` is the host at one moment. `metrics` and `status` render it, and `serve` serves
//!   them over HTTP. `progress`, `summary` and `report` render it, too.
//! - `sampler` takes samples of a run, and `report` shows them as a page. `trace` writes each
//!   event.

#![forbid(unsafe_code)]

mod bottleneck;
mod channel_handle;
mod epoch_log;
mod host_state;
mod json;
pub mod log;
mod log_lines;
mod log_writer;
mod metrics;
mod process;
pub mod progress;
mod report;
mod sampler;
mod serve;
mod snapshot;
pub mod status;
mod summary;
mod trace;
pub mod unread;
mod wait_log;
pub mod waits;

pub use bottleneck::{Bottleneck, Cores};
pub use channel_handle::{ChannelHandle, ChannelState};
pub use epoch_log::EpochLog;
pub use host_state::HostState;
pub use log_lines::QUEUED_LOG_BYTES;
pub use report::Report;
pub use sampler::{Sample, SlotCounts};
pub use serve::{MetricsError, MetricsListener, MetricsServer, REQUEST_BYTES};
pub use snapshot::{ChannelSnapshot, HostSnapshot};
pub use trace::Trace;
pub use wait_log::WaitLog;
