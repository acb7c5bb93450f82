//! How a channel's thread, which is not one of the requests' threads, waits for what they bring.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use crate::ReadOutcome;
use crate::Stop;

/// How often a wait looks whether somebody asked to stop.
const LOOK: Duration = Duration::from_millis(100);

/// What ended a wait.
pub(super) enum Waited<T> {
    /// It came.
    ReadOutcome(T),
    /// The time ran out.
    Late,
    /// Somebody asked to stop.
    Stopped,
}

impl<T> Waited<T> {
    /// What came, or what a read gives instead.
    pub(super) fn or_got(self) -> Result<T, ReadOutcome> {
        match self {
            Self::ReadOutcome(came) => Ok(came),
            Self::Late => Err(ReadOutcome::Nothing),
            Self::Stopped => Err(ReadOutcome::Stopped),
        }
    }
}

/// Waits for what `poll` gives.
pub(super) fn wait<T>(
    handle: &Handle,
    stop: &Stop,
    wait: Option<Duration>,
    mut poll: impl FnMut(&mut Context) -> Poll<T>,
) -> Waited<T> {
    let until = wait.map(|wait| Instant::now() + wait);
    loop {
        if stop.is_asked() {
            return Waited::Stopped;
        }
        let left = until.map_or(LOOK, |until| until.saturating_duration_since(Instant::now()));
        let next = async { tokio::time::timeout(left.min(LOOK), poll_fn(&mut poll)).await };
        match handle.block_on(next) {
            Ok(came) => return Waited::ReadOutcome(came),
            Err(_) if left <= LOOK && until.is_some() => return Waited::Late,
            Err(_) => {}
        }
    }
}
