//! Shutdown state machine: signals, failures of channels and the command's exit go in, actions on
//! the command come out. The time is an argument: nothing here reads a clock.

use std::time::{Duration, Instant};

use super::fail_grace::Grace;

/// A second SIGTERM or SIGINT within this time is a duplicate: some programs, such as `timeout`,
/// send it to the process and to its group. A person who presses Ctrl-C twice takes longer.
const DUPLICATE_WINDOW: Duration = Duration::from_millis(100);
/// Time that the rest of the command's process group has to end, after the command has ended
/// without a request.
const GROUP_TIMEOUT: Duration = Duration::from_secs(5);

/// The time limits for the command.
#[derive(Clone, Copy)]
pub(super) struct Timeouts {
    /// Time from the request to end until SIGKILL.
    pub(super) stop: Duration,
    /// Time from a channel's failure until the request to end.
    pub(super) fail: Duration,
}

/// The action on the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    None,
    /// Stop the channels, and forward the signal that asked for it.
    Forward,
    /// Stop the channels, and send SIGTERM.
    Terminate,
    /// Stop the channels, and send SIGKILL.
    Kill,
}

enum Phase {
    Serving,
    Grace(Grace),
    Stopping { deadline: Instant },
    Killed { at: Instant },
}

/// The progress of the shutdown of a run with a command.
pub(super) struct Shutdown {
    timeouts: Timeouts,
    phase: Phase,
    /// Arrival of the first SIGTERM or SIGINT.
    requested: Option<Instant>,
    /// Whether the command was asked to end because a channel failed.
    by_failure: bool,
}

impl Shutdown {
    pub(super) fn new(timeouts: Timeouts) -> Self {
        Self { timeouts, phase: Phase::Serving, requested: None, by_failure: false }
    }

    /// Handles the arrival of SIGTERM or SIGINT.
    pub(super) fn request(&mut self, now: Instant) -> Action {
        match self.requested {
            Some(first) if now < first + DUPLICATE_WINDOW => return Action::None,
            Some(_) => {
                self.phase = Phase::Killed { at: now };
                return Action::Kill;
            }
            None => self.requested = Some(now),
        }
        match self.phase {
            Phase::Serving | Phase::Grace(_) => {
                self.phase = Phase::Stopping { deadline: now + self.timeouts.stop };
            }
            Phase::Stopping { .. } | Phase::Killed { .. } => {}
        }
        Action::Forward
    }

    /// Handles the failure of a channel. Returns true if the shutdown begins with it.
    pub(super) fn channel_failed(&mut self, unacked: usize, now: Instant) -> bool {
        let first = matches!(self.phase, Phase::Serving);
        if first {
            self.phase = Phase::Grace(Grace::new(self.timeouts.fail, unacked, now));
        }
        first
    }

    /// Handles the end of the command. Other processes of its group may still run.
    pub(super) fn command_ended(&mut self, now: Instant) -> Action {
        match self.phase {
            Phase::Serving | Phase::Grace(_) => {
                let timeout = GROUP_TIMEOUT.min(self.timeouts.stop);
                self.phase = Phase::Stopping { deadline: now + timeout };
                Action::Terminate
            }
            // The group got the signal together with the command, so the same deadline applies.
            Phase::Stopping { .. } | Phase::Killed { .. } => Action::None,
        }
    }

    /// Checks the deadlines. `unacked`: number of batches of failed channels that consumers have
    /// not ACKed.
    pub(super) fn check_deadlines(&mut self, unacked: usize, now: Instant) -> Action {
        let grace_over = match &mut self.phase {
            Phase::Grace(grace) => grace.is_over(unacked, now),
            _ => false,
        };
        match &self.phase {
            Phase::Grace(_) if grace_over => {
                self.phase = Phase::Stopping { deadline: now + self.timeouts.stop };
                self.by_failure = true;
                Action::Terminate
            }
            Phase::Stopping { deadline } if now >= *deadline => {
                self.phase = Phase::Killed { at: now };
                Action::Kill
            }
            _ => Action::None,
        }
    }

    /// The next deadline.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Grace(grace) => Some(grace.deadline()),
            Phase::Stopping { deadline } => Some(*deadline),
            Phase::Serving | Phase::Killed { .. } => None,
        }
    }

    pub(super) fn is_grace(&self) -> bool {
        matches!(self.phase, Phase::Grace(_))
    }

    pub(super) fn is_killed(&self) -> bool {
        matches!(self.phase, Phase::Killed { .. })
    }

    /// Whether processes still exist long after SIGKILL. The host can't wait for them, so it ends
    /// without them.
    pub(super) fn is_given_up(&self, now: Instant) -> bool {
        matches!(self.phase, Phase::Killed { at } if now >= at + GROUP_TIMEOUT)
    }

    /// Whether the command was asked to end because a channel failed.
    pub(super) fn by_failure(&self) -> bool {
        self.by_failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn shutdown() -> (Shutdown, Instant) {
        (Shutdown::new(Timeouts { stop: seconds(100), fail: seconds(10) }), Instant::now())
    }

    #[test]
    fn a_second_request_kills_at_once() {
        let (mut shutdown, start) = shutdown();
        assert_eq!(shutdown.request(start), Action::Forward);
        assert_eq!(shutdown.request(start + DUPLICATE_WINDOW / 2), Action::None);
        assert_eq!(shutdown.check_deadlines(0, start + seconds(99)), Action::None);
        assert_eq!(shutdown.request(start + seconds(99)), Action::Kill);
        assert!(shutdown.is_killed() && !shutdown.by_failure());
    }

    #[test]
    fn a_request_after_a_failure_keeps_the_deadline() {
        let (mut shutdown, start) = shutdown();
        shutdown.channel_failed(0, start);
        assert_eq!(shutdown.check_deadlines(0, start + seconds(10)), Action::Terminate);
        // This is the first request of a person, but the second signal that the command gets.
        assert_eq!(shutdown.request(start + seconds(60)), Action::Forward);
        assert_eq!(shutdown.check_deadlines(0, start + seconds(109)), Action::None);
        assert_eq!(shutdown.check_deadlines(0, start + seconds(110)), Action::Kill);
        assert!(shutdown.by_failure());
    }

    #[test]
    fn a_failure_while_it_stops_changes_nothing() {
        let (mut shutdown, start) = shutdown();
        shutdown.request(start);
        assert!(!shutdown.channel_failed(0, start));
        assert_eq!(shutdown.check_deadlines(0, start + seconds(50)), Action::None);
        assert_eq!(shutdown.deadline(), Some(start + seconds(100)));
        assert!(!shutdown.by_failure());
    }

    #[test]
    fn the_rest_of_the_group_is_killed_at_its_deadline() {
        let (mut shutdown, start) = shutdown();
        assert_eq!(shutdown.command_ended(start), Action::Terminate);
        assert_eq!(shutdown.check_deadlines(0, start + GROUP_TIMEOUT), Action::Kill);
        assert!(!shutdown.is_given_up(start + GROUP_TIMEOUT));
        assert!(shutdown.is_given_up(start + 2 * GROUP_TIMEOUT));
        // After a request the whole time is left: a child may still be saving its data.
        let (mut shutdown, start) = self::shutdown();
        shutdown.request(start);
        assert_eq!(shutdown.command_ended(start + seconds(1)), Action::None);
        assert_eq!(shutdown.check_deadlines(0, start + seconds(99)), Action::None);
        assert_eq!(shutdown.check_deadlines(0, start + seconds(100)), Action::Kill);
    }
}
