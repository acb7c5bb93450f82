//! Positions in a channel's input, for messages and logs.

use std::fmt;

use crate::Printable;

/// A position in a channel's input, as precise as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Position {
    /// Number of the epoch, from 0.
    pub epoch: u32,
    /// Name of the object: a path or a URL.
    pub object: Option<String>,
    /// Offset in the object in bytes, after decompression.
    pub offset: Option<u64>,
    /// Number of the record in the object, from 0.
    pub record: Option<u64>,
}

impl Position {
    /// A position of which only the epoch is known.
    pub fn epoch(epoch: u32) -> Self {
        Self { epoch, ..Self::default() }
    }

    /// A position of which only the epoch and the object are known.
    pub fn object(epoch: u32, object: impl Into<String>) -> Self {
        Self { epoch, object: Some(object.into()), ..Self::default() }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {}", self.epoch)?;
        if let Some(object) = &self.object {
            write!(f, ", object {}", Printable::name(object))?;
        }
        if let Some(offset) = self.offset {
            write!(f, ", byte offset {offset}")?;
        }
        if let Some(record) = self.record {
            write!(f, ", record {record}")?;
        }
        Ok(())
    }
}
