//! All that is watched of a host.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::{ChannelHandle, State};
use pipemill_source::Stop;

/// A host at work.
pub struct HostState {
    /// In the order of the configuration.
    pub channels: Vec<Arc<ChannelHandle>>,
    began: Instant,
    began_at: SystemTime,
    stop: Stop,
}

impl HostState {
    /// A host that begins now. When `stop` is asked it is about to end.
    pub fn new(channels: Vec<Arc<ChannelHandle>>, stop: Stop) -> Self {
        Self { channels, began: Instant::now(), began_at: SystemTime::now(), stop }
    }

    /// How long it has been at work.
    pub fn uptime(&self) -> Duration {
        self.began.elapsed()
    }

    /// When it began.
    pub fn began_at(&self) -> SystemTime {
        self.began_at
    }

    /// Why consumers should not come, one line a reason; nothing if they should.
    pub fn not_ready(&self) -> Vec<String> {
        let failed = self.channels.iter().filter_map(|channel| match channel.state() {
            State::Failed(failure) => Some(failure.to_string()),
            _ => None,
        });
        let stopping = self.stop.is_asked().then(|| "stopping".to_owned());
        failed.chain(stopping).collect()
    }
}
