//! The position of a batch in its channel: where a program that was given the batch can go on.

use serde::{Deserialize, Serialize};

/// Where the first record of a batch comes from, so that it can be found again.
///
/// If the channel shuffles records, the place is that of the oldest record that has not left before
/// the batch, and the first record is found by shuffling again from there on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchPosition {
    /// Number of the epoch, from 0.
    pub epoch: u32,
    /// Number of the batch in the channel, from 0.
    pub batch: u64,
    /// Number of the object in its epoch on this machine, from 0: after they were shuffled and
    /// divided into parts.
    pub object_number: u64,
    /// The object's name: a path or a URL.
    pub object: String,
    /// What changes when the object's bytes do, such as its entity tag. Empty if the source knows
    /// nothing of the kind: a FIFO.
    pub identity: String,
    /// Bytes at the object's start that its decoder has to see before it can decode from `offset`
    /// on; at most `offset`.
    pub header: u64,
    /// A byte offset in the object, after decompression, from which its decoder can decode again.
    pub offset: u64,
    /// Number of records from there to the batch's first record, in their shuffled order.
    pub records: u64,
    /// Number of the batch's first record in its object, from 0. If the channel shuffles records:
    /// `records` more than the number of the record at `offset`. So the difference of the two is
    /// always the number of the record at `offset`.
    pub first_record: u64,
}
