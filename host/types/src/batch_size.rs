//! The number of records of each batch, and what happens where they don't fill one.

use serde::{Deserialize, Serialize};

/// The number of records of each batch, where the channel has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchSize {
    /// Records of a batch, 1 to [`BatchSize::MAX_RECORDS`].
    pub records: usize,
    /// What happens to the records at the end that don't fill a batch.
    #[serde(default)]
    pub tail: Tail,
    /// Where such an end is.
    #[serde(default)]
    pub across: BatchAcross,
}

impl BatchSize {
    /// The most records that a batch may have.
    pub const MAX_RECORDS: usize = 1 << 20;
}

/// What happens to the last records, if they don't fill a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tail {
    /// They are a smaller batch.
    #[default]
    Keep,
    /// They are left out.
    Drop,
    /// Their batch is filled with copies of the last record. The batch says how many are real.
    Pad,
}

/// What a batch of a fixed number of records may reach across.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BatchAcross {
    /// Nothing: its records are all of one object.
    Object,
    /// The ends of objects: its records are all of one epoch.
    #[default]
    Epoch,
}
