//! What can go wrong, without the position: the channel knows that and adds it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What kind of failure it is: whose fault it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ErrorKind {
    /// The input does not fit its format.
    Decode,
    /// The decoder failed or broke the contract.
    Plugin,
    /// The input can't be read.
    Source,
    /// A configured limit was hit.
    Limit,
    /// A record is larger than `max_record`. Consumers and logs see `limit` for it, too; but here the input
    /// exceeds the limit, not the decoder.
    #[serde(rename(serialize = "limit"), skip_deserializing)]
    TooLarge,
    /// The host itself failed.
    Host,
}

impl ErrorKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Decode, Self::Plugin, Self::Source, Self::Limit, Self::TooLarge, Self::Host];

    /// Its name in the ring's protocol and in logs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Plugin => "plugin",
            Self::Source => "source",
            Self::Limit | Self::TooLarge => "limit",
            Self::Host => "host",
        }
    }
}

/// A fault of a stream: what was expected, what stood there, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Whose fault it was.
    pub kind: ErrorKind,
    /// What happened.
    pub message: String,
    /// What to do about it; may be empty.
    pub remedy: String,
}

impl Fault {
    /// A fault with its remedy.
    pub fn new(kind: ErrorKind, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { kind, message: message.into(), remedy: remedy.into() }
    }

    /// A decoder that does not keep to its contract with the host.
    pub fn contract(message: impl Into<String>) -> Self {
        let remedy = "this is a bug in the decoder; tell its author";
        Self::new(
            ErrorKind::Plugin,
            format!("the decoder broke its contract: {}", message.into()),
            remedy,
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}
