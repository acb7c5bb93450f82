//! A failure of a channel: a fault with its position, which is what a person needs to find the
//! cause.

use std::fmt;

use pipemill_types::{Fault, Position, Printable};

/// A fault with its position. It ends the channel, or it is a decode error that is skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The failure and its remedy, in words.
    pub fault: Fault,
    /// The channel's name.
    pub channel: String,
    /// Where in the channel's input it happened.
    pub position: Position,
    /// The decoder's name.
    pub decoder: String,
    /// Up to 16 bytes of the input from the position on; empty if there are none.
    pub bytes: Vec<u8>,
    /// Whether the failure is that the input does not exist.
    pub missing: bool,
}

/// Bytes of the input that a failure shows.
pub(crate) const SHOWN_BYTES: usize = 16;

/// Formats the failure as one printable line. Its fields have names and texts unescaped.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printable::line(fmt::from_fn(|f| self.write(f))).fmt(f)
    }
}

impl Failure {
    /// A failure that has no bytes to show.
    pub fn new(channel: &str, decoder: &str, position: Position, fault: Fault) -> Self {
        Self {
            fault,
            channel: channel.to_owned(),
            position,
            decoder: decoder.to_owned(),
            bytes: Vec::new(),
            missing: false,
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
