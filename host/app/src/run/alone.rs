//! A run without a command: until all has been consumed, a channel fails, or somebody stops it.

use std::time::{Duration, Instant};

use super::grace::Grace;
use super::mills::Mills;
use super::signals::Signals;
use super::wait::{TICK, wait};

/// Serves to the end. The answer is the exit code of the signal that ended it, if one did.
pub(super) fn serve(signals: &Signals, mills: &mut Mills, patience: Duration) -> Option<u8> {
    let mut grace: Option<Grace> = None;
    loop {
        if let Some(signal) = signals.next_ending() {
            log::info!("stopping: {signal}");
            return Some(128 + signal as u8);
        }
        mills.hear();
        let now = Instant::now();
        if mills.have_failed() {
            let unread = mills.unread();
            let grace = grace.get_or_insert_with(|| Grace::new(patience, unread, now));
            let all_know = !mills.are_at_work() && mills.failures_are_told();
            if all_know || grace.is_over(unread, now) {
                return None;
            }
        } else if !mills.are_at_work() {
            return None;
        }
        wait(signals, mills, grace.is_some().then(|| now + TICK));
    }
}
