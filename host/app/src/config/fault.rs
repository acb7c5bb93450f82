//! What is wrong with a configuration, and where: one [`Fault`] for each thing.
//! Readable by a person as one line, and by a program field by field.

use std::fmt;

/// A place in the configuration file. Both count from 1, columns in characters; 0 is "no place".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// One thing that is wrong. `Display` gives one line for a person:
/// ``pipemill.toml:12:9: channel `train`: ring.slots: expected …, found …; what to do``.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file's name as given to `parse`.
    pub file: String,
    /// Where it stands. The table's place for a key that is missing.
    pub place: Place,
    /// The channel's name, where it has a good one.
    pub channel: Option<String>,
    /// Which value: `channel[1].ring.slots`. Empty for the file as a whole.
    pub path: String,
    /// What was expected and what stood there.
    pub message: String,
    /// What to do about it.
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
