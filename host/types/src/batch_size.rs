//! The number of records of each batch, and what happens to the last records if they don't fill
//! one.

use serde::{Deserialize, Serialize};

/// The number of records of each batch, for channels with a fixed number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchSize {
    /// Records of a batch, 1 to [`BatchSize::MAX_RECORDS`].
    pub records: usize,
    /// The treatment of the last records if they don't fill a batch.
    #[serde(default)]
    pub tail: Tail,
    /// Whether a batch may contain records of several objects.
    #[serde(default)]
    pub across: BatchAcross,
}

impl BatchSize {
    /// The largest number of records of a batch.
    pub const MAX_RECORDS: usize = 1 << 20;
}

/// The treatment of the last records if they don't fill a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tail {
    /// They are a smaller batch.
    #[default]
    Keep,
    /// They are dropped.
    Drop,
    /// Their batch is filled with copies of the last record. The batch says how many are real.
    Pad,
}

/// The boundaries that a batch may cross.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BatchAcross {
    /// Nothing: its records are all of one object.
    Object,
    /// The ends of objects: its records are all of one epoch.
    #[default]
    Epoch,
}
