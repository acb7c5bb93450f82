//! A run without a command: it serves until all records are consumed, a channel fails, or a signal
//! or the end of its owner stops it.

use std::time::{Duration, Instant};

use log::LevelFilter;

use super::channel_threads::ChannelThreads;
use super::fail_grace::Grace;
use super::owner::Owner;
use super::signals::Signals;
use super::wait::{POLL_INTERVAL, wait};

/// Serves until the end. Returns 128 + the signal that ended the run, 0 if its owner has ended, or
/// `None` if neither did.
///
/// `fail_grace`: the time that consumers have to get a failure. Consumers of an owner have its
/// whole life, and may connect after the end of a source without records.
pub(super) fn serve(
    signals: &Signals,
    threads: &mut ChannelThreads,
    fail_grace: Duration,
    owner: Option<&Owner>,
) -> Option<u8> {
    let mut grace: Option<Grace> = None;
    loop {
        if let Some(signal) = signals.next_stop() {
            log::info!("stopping: {signal}");
            return Some(128 + signal as u8);
        }
        if owner.is_some_and(Owner::has_ended) {
            log::info!("stopping: the process that owns this host has ended");
            if log::max_level() == LevelFilter::Warn {
                // The owner wanted it if channels were not read to their ends.
                log::set_max_level(LevelFilter::Error);
            }
            return Some(0);
        }
        threads.receive_events();
        let now = Instant::now();
        if threads.have_failed() {
            let unacked = threads.unacked();
            let grace = grace.get_or_insert_with(|| Grace::new(fail_grace, unacked, now));
            let all_delivered = !threads.are_running() && threads.failures_are_delivered();
            if all_delivered || owner.is_none() && grace.is_over(unacked, now) {
                return None;
            }
        } else if !threads.are_running() && owner.is_none_or(|owner| is_read(threads, owner)) {
            return None;
        }
        wait(signals, threads, owner, grace.is_some().then(|| now + POLL_INTERVAL));
    }
}

/// Whether consumers got everything. While the owner itself is connected, it may request the
/// status, which counts the skipped errors.
fn is_read(threads: &ChannelThreads, owner: &Owner) -> bool {
    threads.ends_are_delivered() && !threads.are_read_by(owner.pid())
}
