//! Standard output and standard error of the commands. All output goes through here or through the
//! log: `host/clippy.toml` forbids other ways. Lines for people have no hidden characters, even if
//! names in them do.
#![expect(clippy::disallowed_methods, reason = "this is the place")]

use std::fmt::Arguments;
use std::io::{self, IsTerminal, Stdout, Write};

use pipemill_types::Printable;

/// Prints a line for people to standard output, with the arguments of `format!`.
macro_rules! say {
    ($($argument:tt)*) => {
        $crate::output::line(format_args!($($argument)*))
    };
}
pub(super) use say;

/// Prints a line for people to standard output, at once.
pub(super) fn line(text: Arguments<'_>) {
    // If nobody reads the output there is nothing to do.
    let _ = writeln!(io::stdout().lock(), "{}", Printable::line(text));
}

/// Prints a line that is not part of the output, to standard error.
pub(super) fn remark(text: Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{}", Printable::line(text));
}

/// Standard output without any filter: for data, and for text whose names the caller has made
/// printable.
pub(super) fn raw() -> Stdout {
    io::stdout()
}

/// Whether standard output is a terminal.
pub(super) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Width of a line if it is not known.
const DEFAULT_WIDTH: usize = 120;

/// Number of characters in a line of standard output: the terminal's width, otherwise the value of
/// the variable `COLUMNS`.
pub(super) fn width() -> usize {
    let of_terminal = || ratatui::crossterm::terminal::size().ok().map(|size| usize::from(size.0));
    let of_variable = || std::env::var("COLUMNS").ok()?.parse().ok();
    let width = if is_terminal() { of_terminal() } else { of_variable() };
    width.filter(|width| *width > 0).unwrap_or(DEFAULT_WIDTH)
}
