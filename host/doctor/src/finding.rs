//! A finding: one line for people.

use std::fmt;

/// The meaning of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Everything is as it should be.
    Ok,
    /// It is not wrong, but worth knowing.
    Note,
    /// It must be changed.
    Wrong,
}

/// A finding about one thing.
#[derive(Debug)]
pub struct Finding {
    /// The subject, in a word or two.
    pub subject: &'static str,
    /// Its meaning.
    pub level: Level,
    /// The fact.
    pub found: String,
    /// What to do.
    pub remedy: Option<String>,
}

impl Finding {
    pub(super) fn ok(subject: &'static str, found: impl Into<String>) -> Self {
        Self { subject, level: Level::Ok, found: found.into(), remedy: None }
    }

    pub(super) fn note(subject: &'static str, found: impl Into<String>) -> Self {
        Self { level: Level::Note, ..Self::ok(subject, found) }
    }

    pub(super) fn wrong(subject: &'static str, found: impl Into<String>) -> Self {
        Self { level: Level::Wrong, ..Self::ok(subject, found) }
    }

    pub(super) fn remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }
}

/// Width of the column of subjects, in characters.
const SUBJECT_WIDTH: usize = 13;

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Wrong => "wrong",
        };
        write!(f, "{level:<5}  {:<SUBJECT_WIDTH$}  {}", self.subject, self.found)?;
        match &self.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}
