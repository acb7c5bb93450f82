//! The state of a running host, for metrics and the status.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use pipemill_source::Stop;

use super::{ChannelHandle, ChannelState};

/// A running host.
pub struct HostState {
    /// Its channels, in the order of the configuration.
    pub channels: Vec<Arc<ChannelHandle>>,
    started: Instant,
    started_at: SystemTime,
    stop: Stop,
}

impl HostState {
    /// A host that starts now. It is stopping once `stop` is requested.
    pub fn new(channels: Vec<Arc<ChannelHandle>>, stop: Stop) -> Self {
        Self { channels, started: Instant::now(), started_at: SystemTime::now(), stop }
    }

    /// Time since the start.
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// When the host started.
    pub fn started_at(&self) -> SystemTime {
        self.started_at
    }

    /// Reasons why consumers should not connect, one line each. Empty if they can.
    pub fn not_ready(&self) -> Vec<String> {
        let failed = self.channels.iter().filter_map(|channel| match channel.state() {
            ChannelState::Failed(failure) => Some(failure.to_string()),
            _ => None,
        });
        let stopping = self.stop.is_requested().then(|| "stopping".to_owned());
        failed.chain(stopping).collect()
    }
}
