//! A place in a channel's input.

use std::fmt;

/// A place in a channel's input, as exactly as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Position {
    /// Number of the epoch, from 0.
    pub epoch: u32,
    /// Name of the object: a path or a URL.
    pub object: Option<String>,
    /// Byte offset in the object, after decompression.
    pub offset: Option<u64>,
    /// Number of the record in the object, from 0.
    pub record: Option<u64>,
}

impl Position {
    /// An epoch, of which nothing more is known.
    pub fn epoch(epoch: u32) -> Self {
        Self { epoch, ..Self::default() }
    }

    /// An object, of which nothing more is known.
    pub fn object(epoch: u32, object: impl Into<String>) -> Self {
        Self { epoch, object: Some(object.into()), ..Self::default() }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {}", self.epoch)?;
        if let Some(object) = &self.object {
            write!(f, ", object {object}")?;
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
