//! When what is done to end the run: a signal, a channel that failed and the command's own end go in, what
//! to do to the command comes out. Knows the time only as it is told.

use std::time::{Duration, Instant};

use super::fail_grace::Grace;

/// The same request comes twice within so long where it is sent to a process and to its group, as
/// `timeout` does. A person takes longer.
const TWICE: Duration = Duration::from_millis(100);
/// What is left of the command's group when the command has ended by itself has so long to end.
const REMNANTS: Duration = Duration::from_secs(5);

/// How long the command is waited for.
#[derive(Clone, Copy)]
pub(super) struct Timeouts {
    /// From the request to end to SIGKILL.
    pub(super) stop: Duration,
    /// From a channel's failure to the request to end.
    pub(super) fail: Duration,
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Nothing,
    /// Feed the channels no more, and hand on the signal that asked for it.
    HandOn,
    /// The same, with SIGTERM.
    Terminate,
    /// SIGKILL.
    Kill,
}

enum Phase {
    Serving,
    Grace(Grace),
    Stopping { until: Instant },
    Killed { at: Instant },
}

/// How far the end of a run with a command has come.
pub(super) struct Shutdown {
    timeouts: Timeouts,
    phase: Phase,
    /// When somebody asked for it.
    asked: Option<Instant>,
    /// It was a failure that ended the command.
    by_failure: bool,
}

impl Shutdown {
    pub(super) fn new(timeouts: Timeouts) -> Self {
        Self { timeouts, phase: Phase::Serving, asked: None, by_failure: false }
    }

    /// Somebody asks for the end: SIGTERM or SIGINT.
    pub(super) fn ask(&mut self, now: Instant) -> Act {
        match self.asked {
            Some(first) if now < first + TWICE => return Act::Nothing,
            Some(_) => {
                self.phase = Phase::Killed { at: now };
                return Act::Kill;
            }
            None => self.asked = Some(now),
        }
        match self.phase {
            Phase::Serving | Phase::Grace(_) => {
                self.phase = Phase::Stopping { until: now + self.timeouts.stop };
            }
            Phase::Stopping { .. } | Phase::Killed { .. } => {}
        }
        Act::HandOn
    }

    /// A channel has failed. True if this is the first that is heard of an end.
    pub(super) fn fail(&mut self, unread: usize, now: Instant) -> bool {
        let first = matches!(self.phase, Phase::Serving);
        if first {
            self.phase = Phase::Grace(Grace::new(self.timeouts.fail, unread, now));
        }
        first
    }

    /// The command has ended; others of its group may be left.
    pub(super) fn leave(&mut self, now: Instant) -> Act {
        match self.phase {
            Phase::Serving | Phase::Grace(_) => {
                self.phase = Phase::Stopping { until: now + REMNANTS.min(self.timeouts.stop) };
                Act::Terminate
            }
            // They were told with the command, and have as much time.
            Phase::Stopping { .. } | Phase::Killed { .. } => Act::Nothing,
        }
    }

    /// What the time has come for.
    pub(super) fn pass(&mut self, unread: usize, now: Instant) -> Act {
        let grace_over = match &mut self.phase {
            Phase::Grace(grace) => grace.is_over(unread, now),
            _ => false,
        };
        match &self.phase {
            Phase::Grace(_) if grace_over => {
                self.phase = Phase::Stopping { until: now + self.timeouts.stop };
                self.by_failure = true;
                Act::Terminate
            }
            Phase::Stopping { until } if now >= *until => {
                self.phase = Phase::Killed { at: now };
                Act::Kill
            }
            _ => Act::Nothing,
        }
    }

    /// When to look again.
    pub(super) fn until(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Grace(grace) => Some(grace.until()),
            Phase::Stopping { until } => Some(*until),
            Phase::Serving | Phase::Killed { .. } => None,
        }
    }

    pub(super) fn is_grace(&self) -> bool {
        matches!(self.phase, Phase::Grace(_))
    }

    pub(super) fn is_killed(&self) -> bool {
        matches!(self.phase, Phase::Killed { .. })
    }

    /// Whether even SIGKILL was of no use: what is left then is nobody's that can be waited for.
    pub(super) fn is_given_up(&self, now: Instant) -> bool {
        matches!(self.phase, Phase::Killed { at } if now >= at + REMNANTS)
    }

    /// Whether the command was ended because a channel had failed.
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

    fn ending() -> (Shutdown, Instant) {
        (Shutdown::new(Timeouts { stop: seconds(100), fail: seconds(10) }), Instant::now())
    }

    #[test]
    fn who_asks_twice_does_not_wait() {
        let (mut ending, start) = ending();
        assert_eq!(ending.ask(start), Act::HandOn);
        assert_eq!(ending.ask(start + TWICE / 2), Act::Nothing);
        assert_eq!(ending.pass(0, start + seconds(99)), Act::Nothing);
        assert_eq!(ending.ask(start + seconds(99)), Act::Kill);
        assert!(ending.is_killed() && !ending.by_failure());
    }

    #[test]
    fn the_time_to_end_is_not_begun_anew() {
        let (mut ending, start) = ending();
        ending.fail(0, start);
        assert_eq!(ending.pass(0, start + seconds(10)), Act::Terminate);
        // The first that a person says, though not the first that the command hears.
        assert_eq!(ending.ask(start + seconds(60)), Act::HandOn);
        assert_eq!(ending.pass(0, start + seconds(109)), Act::Nothing);
        assert_eq!(ending.pass(0, start + seconds(110)), Act::Kill);
        assert!(ending.by_failure());
    }

    #[test]
    fn a_failure_while_it_stops_changes_nothing() {
        let (mut ending, start) = ending();
        ending.ask(start);
        assert!(!ending.fail(0, start));
        assert_eq!(ending.pass(0, start + seconds(50)), Act::Nothing);
        assert_eq!(ending.until(), Some(start + seconds(100)));
        assert!(!ending.by_failure());
    }

    #[test]
    fn what_the_command_leaves_has_as_long_as_is_left() {
        let (mut ending, start) = ending();
        assert_eq!(ending.leave(start), Act::Terminate);
        assert_eq!(ending.pass(0, start + REMNANTS), Act::Kill);
        assert!(!ending.is_given_up(start + REMNANTS));
        assert!(ending.is_given_up(start + 2 * REMNANTS));
        // Asked to end with the command, a child may still be saving what it has.
        let (mut ending, start) = self::ending();
        ending.ask(start);
        assert_eq!(ending.leave(start + seconds(1)), Act::Nothing);
        assert_eq!(ending.pass(0, start + seconds(99)), Act::Nothing);
        assert_eq!(ending.pass(0, start + seconds(100)), Act::Kill);
    }
}
