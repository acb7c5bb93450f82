//! Limits the log lines about ended connections: a program can make thousands of them per second.

use log::Level;

/// Number of lines between two renewals.
const LINES: u32 = 10;

pub(super) struct LogLimit {
    left: u32,
    dropped: u64,
}

impl LogLimit {
    pub(super) fn new() -> LogLimit {
        LogLimit { left: LINES, dropped: 0 }
    }

    /// Logs a warning, or counts it.
    pub(super) fn warn(&mut self, line: impl FnOnce() -> String) {
        self.line(Level::Warn, line);
    }

    /// Logs a line, or counts it.
    pub(super) fn line(&mut self, level: Level, line: impl FnOnce() -> String) {
        if self.left == 0 {
            self.dropped += 1;
            return;
        }
        self.left -= 1;
        log::log!(level, "{}", line());
    }

    /// Allows lines again. Call it at an interval.
    pub(super) fn renew(&mut self) {
        if self.dropped > 0 {
            log::warn!("{} more connections were ended; the first are listed above", self.dropped);
        }
        *self = LogLimit::new();
    }
}
