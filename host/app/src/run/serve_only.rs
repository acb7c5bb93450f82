//! A run without a command: until all has been consumed, a channel fails, or somebody stops it.

use std::time::{Duration, Instant};

use super::channel_threads::ChannelThreads;
use super::fail_grace::Grace;
use super::signals::Signals;
use super::wait::{TICK, wait};

/// Serves to the end. The answer is the exit code of the signal that ended it, if one did.
pub(super) fn serve(
    signals: &Signals,
    threads: &mut ChannelThreads,
    timeouts: Duration,
) -> Option<u8> {
    let mut grace: Option<Grace> = None;
    loop {
        if let Some(signal) = signals.next_ending() {
            log::info!("stopping: {signal}");
            return Some(128 + signal as u8);
        }
        threads.hear();
        let now = Instant::now();
        if threads.have_failed() {
            let unread = threads.unread();
            let grace = grace.get_or_insert_with(|| Grace::new(timeouts, unread, now));
            let all_know = !threads.are_at_work() && threads.failures_are_told();
            if all_know || grace.is_over(unread, now) {
                return None;
            }
        } else if !threads.are_at_work() {
            return None;
        }
        wait(signals, threads, grace.is_some().then(|| now + TICK));
    }
}
