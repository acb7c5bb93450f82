//! The log: lines on standard error, as text for people or as JSON for a log collector. The final
//! error of a command that fails is written the same way. A message is always one line.
//!
//! A command that serves others hands its lines to a thread that writes them, so that the command
//! never waits for the reader of standard error. Other commands write each line between their
//! output.
#![expect(clippy::disallowed_methods, reason = "this is the place")]

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr};
use std::panic::PanicHookInfo;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use indicatif::MultiProgress;
use log::kv::Source;
use log::{Level, LevelFilter, Log, Metadata, Record};
use pipemill_types::Printable;
use pipemill_types::log::NO_FIELDS;

use super::log_writer::LogWriter;
use super::{json, unread};

/// Environment variable with the lowest level of messages that are written.
const LEVEL_VARIABLE: &str = "PIPEMILL_LOG";
/// Environment variable with the format of messages.
const FORMAT_VARIABLE: &str = "PIPEMILL_LOG_FORMAT";

/// The format of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One line of text for each message.
    Human,
    /// One JSON object on a line for each message, with more fields than the text.
    Json,
}

/// The format. [`start`] sets it.
static CHOSEN_FORMAT: OnceLock<Format> = OnceLock::new();
/// The progress display, if there is one. It is below the last line of the log.
static PROGRESS_BARS: OnceLock<MultiProgress> = OnceLock::new();
/// The thread that writes the lines, if there is one.
static WRITER: OnceLock<Arc<LogWriter>> = OnceLock::new();

/// Starts logging to standard error. The environment variable `PIPEMILL_LOG` sets the level:
/// `error`, `warn`, `info` (default), `debug`, `trace`, or `off`. `PIPEMILL_LOG_FORMAT` sets the
/// format: `human` or `json`. Without it the format is `human` if standard error is a terminal,
/// else `elsewhere`.
pub fn start(elsewhere: Format) {
    let usual = if stderr().is_terminal() { Format::Human } else { elsewhere };
    let (format, wrong_format) = match variable(FORMAT_VARIABLE).as_deref() {
        None => (usual, None),
        Some("human") => (Format::Human, None),
        Some("json") => (Format::Json, None),
        Some(other) => {
            let why =
                format!("{FORMAT_VARIABLE} is {other:?}, expected human or json; it is left out");
            (usual, Some(why))
        }
    };
    let (filter, wrong_level) = filter(variable(LEVEL_VARIABLE).as_deref());
    // A second call changes nothing, as with loggers.
    let _ = CHOSEN_FORMAT.set(format);
    let max_level = filter.filter();
    // Fails only if the program has set another logger: then that one is used.
    if log::set_boxed_logger(Box::new(StderrLog { filter })).is_ok() {
        log::set_max_level(max_level);
    }
    for why in wrong_format.into_iter().chain(wrong_level) {
        log::warn!("{why}");
    }
}

/// Lets a thread write all further lines. The process writes the remaining ones with [`flush`] at
/// its end.
pub fn write_in_thread() {
    let suspend = |write: &mut dyn FnMut()| suspend_progress(write);
    // Without a thread, each caller writes its line itself.
    if let Ok(writer) = LogWriter::start(stderr(), suspend, dropped_notice) {
        let _ = WRITER.set(writer);
        std::panic::set_hook(Box::new(report_panic));
    }
}

/// Waits until all lines are written, unless nobody reads them.
pub fn flush() {
    if let Some(writer) = WRITER.get() {
        writer.flush(&stderr());
    }
}

/// Lines of the log that nobody will read: they were dropped, or could not be written.
pub(super) fn lost_lines() -> u64 {
    WRITER.get().map_or(0, |writer| writer.lost())
}

/// Writes a final error of a command that fails. The level does not matter.
pub fn last_words(why: &dyn Display, fields: &dyn Source) {
    write(
        Level::Error,
        match CHOSEN_FORMAT.get() {
            Some(Format::Json) => json::line(Level::Error, why, fields),
            _ => format!("pipemill: {}\n", Printable::line(why)),
        },
    );
}

/// The line in the place of lines that were dropped.
fn dropped_notice(dropped: u64) -> String {
    let why = match dropped {
        1 => "a line of the log was dropped, because nobody read standard error".to_owned(),
        _ => format!("{dropped} lines of the log were dropped, because nobody read standard error"),
    };
    line(Level::Warn, &why, &NO_FIELDS)
}

/// Logs a panic of a thread, as the standard library does. The standard library itself would wait
/// for the reader of standard error.
fn report_panic(info: &PanicHookInfo<'_>) {
    let thread = thread::current();
    let why = info.payload_as_str().unwrap_or("a value that is no text");
    let place = info.location().map_or(String::new(), |place| format!(" at {place}"));
    let name = thread.name().unwrap_or("without a name");
    let mut message = format!("the thread {name} panicked{place}: {why}; please report this");
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        message += &format!("\n{backtrace}");
    }
    write(Level::Error, line(Level::Error, &message, &NO_FIELDS));
}

/// A line of the log.
fn line(level: Level, message: &dyn Display, fields: &dyn Source) -> String {
    match CHOSEN_FORMAT.get() {
        Some(Format::Json) => json::line(level, message, fields),
        _ => format!("pipemill: {}: {}\n", json::level_word(level), Printable::line(message)),
    }
}

fn variable(name: &str) -> Option<String> {
    // A value that is not Unicode is neither a format nor a level: the caller reports it as wrong.
    let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
    Some(value.to_string_lossy().into_owned())
}

/// The filter for this value of `PIPEMILL_LOG`, and a message if the value is wrong.
fn filter(level: Option<&str>) -> (env_filter::Filter, Option<String>) {
    let mut filter = env_filter::Builder::new();
    filter.filter_level(LevelFilter::Info);
    let Some(level) = level else { return (filter.build(), None) };
    let mut requested = env_filter::Builder::new();
    // Otherwise a single word that is no level would be taken for the name of the only module to
    // log.
    let is_level = |word: &str| word.contains('=') || word.trim().parse::<LevelFilter>().is_ok();
    if level.split(',').all(is_level) && requested.try_parse(level).is_ok() {
        return (requested.build(), None);
    }
    let wrong = format!(
        "{LEVEL_VARIABLE} is {level:?}, expected error, warn, info, debug, trace or off; \
         it is left out"
    );
    (filter.build(), Some(wrong))
}

struct StderrLog {
    filter: env_filter::Filter,
}

impl Log for StderrLog {
    fn enabled(&self, metadata: &Metadata) -> bool {
        self.filter.enabled(metadata)
    }

    fn log(&self, record: &Record) {
        if self.filter.matches(record) {
            let level = record.level();
            write(level, line(level, record.args(), record.key_values()));
        }
    }

    fn flush(&self) {}
}

/// Writes a line, or hands it to the thread that does.
fn write(level: Level, line: String) {
    match WRITER.get() {
        Some(writer) => writer.push(level == Level::Error, line),
        // In one call, because other processes write to standard error, too. There is nowhere to
        // report an error of this.
        None => suspend_progress(|| drop(stderr().lock().write_all(line.as_bytes()))),
    }
}

/// Runs `act` while the progress display is hidden.
pub fn suspend_progress<T>(act: impl FnOnce() -> T) -> T {
    match PROGRESS_BARS.get() {
        Some(bars) => bars.suspend(act),
        None => act(),
    }
}

/// Whether a person follows the log: it is text of level `info` or more on a terminal.
pub(super) fn is_watched() -> bool {
    let tells_people =
        CHOSEN_FORMAT.get() == Some(&Format::Human) && log::max_level() >= LevelFilter::Info;
    tells_people && stderr().is_terminal()
}

/// Waits for a thread that writes to standard error, unless nobody reads it.
pub fn join<T>(thread: JoinHandle<T>) -> Option<thread::Result<T>> {
    unread::join(thread, &stderr())
}

/// Writes all further lines above these progress bars.
pub(super) fn set_progress_bars(bars: MultiProgress) {
    // A process has only one progress display.
    let _ = PROGRESS_BARS.set(bars);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_level_is_reported_and_the_default_is_used() {
        let (right, wrong) = filter(Some("debug"));
        assert!(right.filter() == LevelFilter::Debug && wrong.is_none());
        assert_eq!(filter(Some("off")).0.filter(), LevelFilter::Off);
        for loud in ["loud", "pipemill=loud", "info,loud"] {
            let (default, wrong) = filter(Some(loud));
            assert_eq!(default.filter(), LevelFilter::Info);
            assert!(wrong.unwrap().contains("expected error, warn"));
        }
        assert_eq!(filter(None).0.filter(), LevelFilter::Info);
    }
}
