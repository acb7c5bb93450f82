//! What ended a channel, with the position: all that a person needs to find the cause.

use std::fmt;

use pipemill_types::{Fault, Position};

/// A fault and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What happened and what to do.
    pub fault: Fault,
    /// The channel's name.
    pub channel: String,
    /// Where in its input.
    pub position: Position,
    /// The decoder's name.
    pub decoder: String,
    /// The first bytes at the offset, if there are any to show.
    pub bytes: Vec<u8>,
    /// The input is not there.
    pub missing: bool,
}

/// Bytes of the input that an error shows.
pub(super) const SHOWN_BYTES: usize = 16;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "channel `{}`, {}", self.channel, self.position)?;
        write!(f, ", decoder {}: {}", self.decoder, self.fault.message)?;
        if !self.bytes.is_empty() {
            f.write_str(" [bytes there:")?;
            for byte in &self.bytes {
                write!(f, " {byte:02x}")?;
            }
            f.write_str("]")?;
        }
        if !self.fault.remedy.is_empty() {
            write!(f, "; {}", self.fault.remedy)?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}
