//! The log: lines on standard error, for a person or for a machine that gathers them. The last words of a command
//! that fails go the same way.

use std::io::{IsTerminal, Write, stderr};
use std::sync::OnceLock;

use indicatif::MultiProgress;
use log::kv::Source;
use log::{Level, LevelFilter, Log, Metadata, Record};

use super::json;

/// Which messages are written.
const LEVEL: &str = "PIPEMILL_LOG";
/// How.
const FORMAT: &str = "PIPEMILL_LOG_FORMAT";

/// How messages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A line of text each.
    Human,
    /// A JSON object a line, with fields for what the host knows besides the text.
    Json,
}

/// The format, from the start of the log on.
static CHOSEN: OnceLock<Format> = OnceLock::new();
/// What is drawn below the last line.
static BELOW: OnceLock<MultiProgress> = OnceLock::new();

/// Starts logging to standard error. `PIPEMILL_LOG` sets how much: `error`, `warn`, `info` (default), `debug`,
/// `trace`, or `off`; `PIPEMILL_LOG_FORMAT` in which format: without it, it is `elsewhere` where standard error is
/// no terminal.
pub fn start(elsewhere: Format) {
    let usual = if stderr().is_terminal() { Format::Human } else { elsewhere };
    let (format, wrong_format) = match variable(FORMAT).as_deref() {
        None => (usual, None),
        Some("human") => (Format::Human, None),
        Some("json") => (Format::Json, None),
        Some(other) => {
            let why = format!("{FORMAT} is {other:?}, expected human or json; it is left out");
            (usual, Some(why))
        }
    };
    let (filter, wrong_level) = filter(variable(LEVEL).as_deref());
    // Only the first one counts, as of loggers.
    let _ = CHOSEN.set(format);
    let most = filter.filter();
    // Fails only if a program that uses this library has its own logger; then that one counts.
    if log::set_boxed_logger(Box::new(Lines { filter })).is_ok() {
        log::set_max_level(most);
    }
    for why in wrong_format.into_iter().chain(wrong_level) {
        log::warn!("{why}");
    }
}

/// The last words of a command that fails, a line or more: they are written whatever the level.
pub(crate) fn last_words(why: &str, what: &dyn Source) {
    for why in why.lines() {
        write(&match CHOSEN.get() {
            Some(Format::Json) => json::line(Level::Error, &why, what),
            _ => format!("pipemill: {why}\n"),
        });
    }
}

fn variable(name: &str) -> Option<String> {
    // What is no Unicode is no format and no level either, and is told as such.
    let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
    Some(value.to_string_lossy().into_owned())
}

/// What is written at this level; and what is wrong with it.
fn filter(level: Option<&str>) -> (env_filter::Filter, Option<String>) {
    let mut filter = env_filter::Builder::new();
    filter.filter_level(LevelFilter::Info);
    let Some(level) = level else { return (filter.build(), None) };
    let mut asked = env_filter::Builder::new();
    // A word alone that is no level would be taken for the only module that may say anything.
    let is_level = |word: &str| word.contains('=') || word.trim().parse::<LevelFilter>().is_ok();
    if level.split(',').all(is_level) && asked.try_parse(level).is_ok() {
        return (asked.build(), None);
    }
    let wrong = format!(
        "{LEVEL} is {level:?}, expected error, warn, info, debug, trace or off; it is left out"
    );
    (filter.build(), Some(wrong))
}

struct Lines {
    filter: env_filter::Filter,
}

impl Log for Lines {
    fn enabled(&self, metadata: &Metadata) -> bool {
        self.filter.enabled(metadata)
    }

    fn log(&self, record: &Record) {
        if self.filter.matches(record) {
            write(&match CHOSEN.get() {
                Some(Format::Json) => {
                    json::line(record.level(), record.args(), record.key_values())
                }
                _ => format!("pipemill: {}: {}\n", word(record.level()), record.args()),
            });
        }
    }

    fn flush(&self) {}
}

/// A line at once: others write there, too.
fn write(line: &str) {
    // Nobody is left to be told if this fails.
    above(|| drop(stderr().lock().write_all(line.as_bytes())));
}

/// Does something while nothing is drawn.
pub(crate) fn above<T>(act: impl FnOnce() -> T) -> T {
    match BELOW.get() {
        Some(bars) => bars.suspend(act),
        None => act(),
    }
}

/// Whether it is text that tells how things go.
pub(super) fn is_for_people() -> bool {
    CHOSEN.get() == Some(&Format::Human) && log::max_level() >= LevelFilter::Info
}

/// Lines are written above these from now on.
pub(super) fn stay_above(bars: MultiProgress) {
    // A process shows one thing.
    let _ = BELOW.set(bars);
}

pub(super) fn word(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warn => "warn",
        Level::Info => "info",
        Level::Debug => "debug",
        Level::Trace => "trace",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_level_is_told_and_the_usual_one_holds() {
        let (right, wrong) = filter(Some("debug"));
        assert!(right.filter() == LevelFilter::Debug && wrong.is_none());
        assert_eq!(filter(Some("off")).0.filter(), LevelFilter::Off);
        for loud in ["loud", "pipemill=loud", "info,loud"] {
            let (usual, wrong) = filter(Some(loud));
            assert_eq!(usual.filter(), LevelFilter::Info);
            assert!(wrong.unwrap().contains("expected error, warn"));
        }
        assert_eq!(filter(None).0.filter(), LevelFilter::Info);
    }
}
