//! A fault of a configuration and its place: a person reads it as one line, a program reads its
//! fields.

use std::fmt;

/// A place in the configuration file. `TextPosition::default()`, with two zeros, means "no place".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextPosition {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// One fault. `Display` gives one line for a person:
/// ``pipemill.toml:12:9: channel `train`: ring.slots: expected …, found …; what to do``.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file's name, as it was given to `parse`.
    pub file: String,
    /// The place of the wrong value. For a missing key: the place of its table.
    pub place: TextPosition,
    /// The channel's name, if the channel has a valid one.
    pub channel: Option<String>,
    /// The path of the value: `channel[1].ring.slots`. Empty for the file as a whole.
    pub path: String,
    /// The error's text: what was expected and what was found.
    pub message: String,
    /// The remedy.
    pub remedy: Option<String>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file, self.place.line, self.place.column)?;
        let mut path = self.path.as_str();
        if let Some(channel) = &self.channel {
            write!(f, "channel `{channel}`: ")?;
            path = path.split_once('.').map_or("", |(_, below)| below);
        }
        if !path.is_empty() {
            write!(f, "{path}: ")?;
        }
        f.write_str(&self.message)?;
        match &self.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Fault {}
