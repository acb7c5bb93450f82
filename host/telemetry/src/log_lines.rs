//! Lines of the log that wait to be written. If there are too many, the oldest ones are dropped and
//! counted; an error is dropped only for newer errors.

use std::collections::VecDeque;

/// Bytes of lines that wait, apart from errors.
const MAX_BYTES: usize = 1 << 20;
/// Bytes of errors that wait.
const MAX_ERROR_BYTES: usize = 1 << 20;
/// Bytes of all lines that wait.
pub const QUEUED_LOG_BYTES: u64 = (MAX_BYTES + MAX_ERROR_BYTES) as u64;
/// Bytes that a line takes with its number, without its text.
const LINE_BYTES: usize = 64;

/// Lines that wait to be written, in their order.
#[derive(Default)]
pub(super) struct LogLines {
    errors: Waiting,
    others: Waiting,
    /// Number of all lines that were added.
    came: u64,
    /// Lines that were dropped since the last one was taken.
    dropped: u64,
}

/// Lines of one kind, each with its number among all lines.
#[derive(Default)]
struct Waiting {
    lines: VecDeque<(u64, String)>,
    bytes: usize,
}

/// The next line to write.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NextLine {
    /// How many lines were dropped before it.
    pub(super) dropped: u64,
    /// Its text, which ends with a newline.
    pub(super) text: String,
}

impl LogLines {
    /// Adds a line. Returns how many others are dropped for it.
    pub(super) fn push(&mut self, is_error: bool, text: String) -> u64 {
        let (waiting, most) = match is_error {
            true => (&mut self.errors, MAX_ERROR_BYTES),
            false => (&mut self.others, MAX_BYTES),
        };
        self.came += 1;
        let dropped = waiting.push(self.came, text, most);
        self.dropped += dropped;
        dropped
    }

    /// Takes the oldest line.
    pub(super) fn take(&mut self) -> Option<NextLine> {
        let number = |waiting: &Waiting| waiting.lines.front().map(|(number, _)| *number);
        let is_error = match (number(&self.errors), number(&self.others)) {
            (Some(error), Some(other)) => error < other,
            (error, _) => error.is_some(),
        };
        let waiting = if is_error { &mut self.errors } else { &mut self.others };
        let text = waiting.take()?;
        Some(NextLine { dropped: std::mem::take(&mut self.dropped), text })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.errors.lines.is_empty() && self.others.lines.is_empty()
    }
}

impl Waiting {
    /// Adds a line, and drops the oldest ones while there are more bytes than `most`. The line
    /// itself stays.
    fn push(&mut self, number: u64, text: String, most: usize) -> u64 {
        self.bytes += text.len() + LINE_BYTES;
        self.lines.push_back((number, text));
        let mut dropped = 0;
        while self.bytes > most && self.lines.len() > 1 {
            self.take();
            dropped += 1;
        }
        dropped
    }

    fn take(&mut self) -> Option<String> {
        let (_, text) = self.lines.pop_front()?;
        self.bytes -= text.len() + LINE_BYTES;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(dropped: u64, text: &str) -> Option<NextLine> {
        Some(NextLine { dropped, text: text.to_owned() })
    }

    #[test]
    fn lines_keep_their_order() {
        let mut lines = LogLines::default();
        for (is_error, text) in [(false, "a"), (true, "b"), (true, "c"), (false, "d")] {
            assert_eq!(lines.push(is_error, text.to_owned()), 0);
        }
        for text in ["a", "b", "c", "d"] {
            assert!(!lines.is_empty());
            assert_eq!(lines.take(), next(0, text));
        }
        assert!(lines.is_empty());
        assert_eq!(lines.take(), None);
    }

    #[test]
    fn the_oldest_lines_are_dropped_and_counted_and_errors_stay() {
        let mut lines = LogLines::default();
        lines.push(true, "the cause".to_owned());
        let (count, text) = (3000, "x".repeat(1000));
        let dropped: u64 = (0..count).map(|n| lines.push(false, format!("{n} {text}"))).sum();
        assert!(dropped > 1000 && dropped < count, "{dropped}");
        lines.push(true, "the end".to_owned());
        assert_eq!(lines.take(), next(dropped, "the cause"), "it is told once");
        for n in dropped..count {
            assert_eq!(lines.take(), next(0, &format!("{n} {text}")));
        }
        assert_eq!(lines.take(), next(0, "the end"));
        assert_eq!((lines.errors.bytes, lines.others.bytes), (0, 0));
    }

    #[test]
    fn a_line_that_is_larger_than_all_is_kept() {
        let mut lines = LogLines::default();
        let long = "x".repeat(2 * MAX_BYTES);
        assert_eq!(lines.push(false, "short".to_owned()), 0);
        assert_eq!(lines.push(false, long.clone()), 1);
        assert_eq!(lines.take(), next(1, &long));
    }
}
