//! The position of a batch in its channel: where a program that received the batch can resume.

use serde::{Deserialize, Serialize};

use crate::{InputPositions, ObjectIdentity};

/// The origin of a batch's first record, from which it can be found again.
///
/// If the channel shuffles records, this is the position of the oldest record that has not left
/// before the batch, and shuffling again from there finds the first record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchPosition {
    /// Number of the epoch, from 0.
    pub epoch: u32,
    /// Number of the batch in the channel, from 0. It is 0 until the batch is delivered.
    pub batch: u64,
    /// Number of the object in its epoch on this machine, from 0, after shuffling and division into
    /// parts.
    pub object_number: u64,
    /// The object's name: a path or a URL. In a mix, the names of its inputs.
    pub object: String,
    /// A text that changes when the object's bytes change, such as its entity tag. Empty if the
    /// source has none: a FIFO. It also has what the decoder has saved at `offset`, if it has.
    pub identity: ObjectIdentity,
    /// Bytes at the object's start that its decoder must see before it can decode from `offset` on;
    /// at most `offset`.
    pub header: u32,
    /// A byte offset in the object, after decompression, from which its decoder can resume.
    pub offset: u64,
    /// Number of records from `offset` to the batch's first record, in their shuffled order.
    pub records: u64,
    /// Number of the batch's first record in its object, from 0. If the channel shuffles records:
    /// `records` more than the number of the record at `offset`. So the difference of the two is
    /// always the number of the record at `offset`.
    pub first_record: u64,
    /// In a mix: the positions of its inputs. They replace the object's position.
    pub inputs: InputPositions,
}

impl BatchPosition {
    /// The start of an epoch, before its first object.
    pub fn of_epoch(epoch: u32) -> Self {
        Self { epoch, ..Self::default() }
    }

    /// Number of the record at `offset` in the object.
    pub fn record_at_offset(&self) -> u64 {
        self.first_record.saturating_sub(self.records)
    }

    /// Moves it forward by this many records in the same object.
    pub fn advance(&mut self, records: u64) {
        self.first_record = self.first_record.saturating_add(records);
        self.records = self.records.saturating_add(records);
    }

    /// The identity of the input as a batch has it in the ring: the object's identity, or in a mix
    /// the positions of its inputs, as JSON.
    pub fn identity_text(&self) -> &str {
        if self.inputs.is_empty() { self.identity.text() } else { self.inputs.json() }
    }
}
