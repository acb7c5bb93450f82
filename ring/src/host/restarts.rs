//! A ring whose channel begins elsewhere: because a consumer asked for that, or because what
//! consumers asked for has failed, and they are ended.

use std::sync::atomic::Ordering;

use super::ring::Ring;
use super::state::RingState;
use super::table::{ConsumerId, Table};
use crate::protocol::{self, ErrorReport};

impl Ring {
    /// Whether the channel must restart elsewhere. Until [`restarted`](Ring::restarted) is called,
    /// granted batches and ended epochs don't count.
    pub fn is_restarting(&self) -> bool {
        self.lock().table.is_restarting()
    }

    /// Starts the writer at the new position. `place` returns the number of its first batch, and
    /// the value that this returns; it is called under the lock. This must not be called while
    /// there is a [`Writer`](super::Writer).
    pub fn restarted<T>(&self, place: impl FnOnce() -> (u64, T)) -> T {
        self.change(|state, now| {
            state.larger.restarted();
            let (first_batch, place) = place();
            self.next_batch.store(first_batch, Ordering::Relaxed);
            state.table.restarted(now);
            place
        })
    }

    /// If `is_at_fault` returns true for the table: ends all consumers with an error, waits until
    /// none is connected, and [restarts](super::Delivery::restart_as_configured) the channel.
    /// Returns false if it returns false, or the ring was stopped. If a consumer has made the
    /// channel restart meanwhile, it restarts there.
    pub fn end_consumers(
        &self,
        report: &ErrorReport,
        is_at_fault: impl FnOnce(&Table) -> bool,
    ) -> bool {
        let message = protocol::error(report);
        let begins = self.change(|state, _| {
            let begins = is_at_fault(&state.table);
            state.failing = begins.then(|| message.clone());
            begins
        });
        if !begins {
            return false;
        }
        loop {
            self.send_last(&message);
            let ended = self.change(|state, _| {
                if state.stopped {
                    return Some(false);
                }
                // A consumer has requested something since.
                let restarts = state.table.is_restarting();
                (restarts || self.restart_after_failure(state).is_ok()).then_some(true)
            });
            if let Some(restarts) = ended {
                return restarts;
            }
        }
    }

    /// Restarts the channel as it is configured, if a consumer's request has failed. The connected
    /// consumers get the error: while they are connected, the channel can't restart.
    pub(super) fn restart_after_failure(
        &self,
        state: &mut RingState,
    ) -> Result<(), Vec<ConsumerId>> {
        if state.failing.is_none() || state.table.is_restarting() {
            state.failing = None;
            return Ok(());
        }
        if state.table.connected().len() > 0 {
            return Err(state.table.connected().map(|(id, _)| id).collect());
        }
        let message = state.failing.take().unwrap_or_default();
        self.delivery().restart_as_configured(&mut state.table);
        // This is for a consumer that was admitted and is not connected yet.
        state.failure = (state.failure.0 + 1, message);
        Ok(())
    }

    /// Sends all consumers this message as their last one, and waits until none is connected.
    fn send_last(&self, message: &[u8]) {
        let mut state = self.lock();
        state.waits_for_none = true;
        // A consumer that has connected since the restart did not make the request that failed.
        while !(state.stopped || state.table.is_restarting()) {
            state.sockets.iter_mut().for_each(|socket| socket.end_with(message));
            if state.table.consumers().is_empty() {
                break;
            }
            state = self.wait(state);
        }
        state.waits_for_none = false;
    }

    /// Records that the writer has come to its end, and will not restart. Returns false if it must
    /// restart now.
    pub fn end_writing(&self) -> bool {
        let mut state = self.lock();
        state.writer_ended = !state.table.is_restarting();
        state.writer_ended
    }
}
