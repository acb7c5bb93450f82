//! How a channel's thread waits for tasks of the runtime.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use crate::Stop;
use crate::wait::WaitOutcome;

/// How often a wait checks whether a stop was requested.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Waits until `poll` is ready; without a limit if `timeout` is `None`.
pub(super) fn wait<T>(
    handle: &Handle,
    stop: &Stop,
    timeout: Option<Duration>,
    mut poll: impl FnMut(&mut Context) -> Poll<T>,
) -> WaitOutcome<T> {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    loop {
        if stop.is_requested() {
            return WaitOutcome::Stopped;
        }
        let left = deadline.map_or(STOP_POLL_INTERVAL, |deadline| {
            deadline.saturating_duration_since(Instant::now())
        });
        let step = left.min(STOP_POLL_INTERVAL);
        let next = async { tokio::time::timeout(step, poll_fn(&mut poll)).await };
        match handle.block_on(next) {
            Ok(value) => return WaitOutcome::Ready(value),
            Err(_) if left <= STOP_POLL_INTERVAL && deadline.is_some() => {
                return WaitOutcome::TimedOut;
            }
            Err(_) => {}
        }
    }
}
