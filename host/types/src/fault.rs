//! Faults of a stream, without their position: the channel knows the position and adds it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Kind of a fault: which part of the stream is to blame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ErrorKind {
    /// The input does not fit its format.
    Decode,
    /// The decoder refuses its options or the input: it does not support a codec or version, or the
    /// input does not fit the options.
    Refused,
    /// The decoder failed or broke the contract.
    Plugin,
    /// The source can't read the input.
    Source,
    /// A configured limit was reached.
    Limit,
    /// A record is larger than `max_record`. Consumers and logs see its kind as `limit`. It is a
    /// separate kind because the input exceeds this limit, not the decoder.
    #[serde(rename(serialize = "limit"), skip_deserializing)]
    TooLarge,
    /// The host itself failed.
    Host,
}

impl ErrorKind {
    /// All kinds, in the order of declaration.
    pub const ALL: [Self; 7] = [
        Self::Decode,
        Self::Refused,
        Self::Plugin,
        Self::Source,
        Self::Limit,
        Self::TooLarge,
        Self::Host,
    ];

    /// Name of this kind in the ring's protocol, in logs and in metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Refused => "refused",
            Self::Plugin => "plugin",
            Self::Source => "source",
            Self::Limit | Self::TooLarge => "limit",
            Self::Host => "host",
        }
    }
}

/// A fault of a stream: what was expected, what was found, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Which part of the stream is to blame.
    pub kind: ErrorKind,
    /// A description of the fault.
    pub message: String,
    /// The remedy; may be empty.
    pub remedy: String,
}

impl Fault {
    /// A fault with its remedy, which may be empty.
    pub fn new(kind: ErrorKind, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { kind, message: message.into(), remedy: remedy.into() }
    }

    /// A fault of a decoder that breaks its contract with the host.
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
