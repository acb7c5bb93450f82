//! The position of a batch in its channel: where a program that got the batch can go on.

use serde::{Deserialize, Serialize};

use crate::{InputPositions, ObjectIdentity};

/// Where the first record of a batch comes from, so that it can be found again.
///
/// If the channel shuffles records, the place is that of the oldest record that has not left before
/// the batch, and the first record is found by shuffling again from there on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchPosition {
    /// Number of the epoch, from 0.
    pub epoch: u32,
    /// Number of the batch in the channel, from 0. 0 until the batch is delivered.
    pub batch: u64,
    /// Number of the object in its epoch on this machine, from 0: after they were shuffled and
    /// divided into parts.
    pub object_number: u64,
    /// The object's name: a path or a URL. In a mix, the names of its inputs.
    pub object: String,
    /// What changes when the object's bytes do, such as its entity tag. Empty if the source knows
    /// nothing of the kind: a FIFO.
    pub identity: ObjectIdentity,
    /// Bytes at the object's start that its decoder has to see before it can decode from `offset`
    /// on; at most `offset`.
    pub header: u32,
    /// A byte offset in the object, after decompression, from which its decoder can decode again.
    pub offset: u64,
    /// Number of records from there to the batch's first record, in their shuffled order.
    pub records: u64,
    /// Number of the batch's first record in its object, from 0. If the channel shuffles records:
    /// `records` more than the number of the record at `offset`. So the difference of the two is
    /// always the number of the record at `offset`.
    pub first_record: u64,
    /// In a mix: the places of its inputs. They say where it goes on, in place of the object.
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

    /// Moves it this many records on, in the same object.
    pub fn advance(&mut self, records: u64) {
        self.first_record = self.first_record.saturating_add(records);
        self.records = self.records.saturating_add(records);
    }

    /// What shows that the input is still the same, as a batch has it in the ring: the object's
    /// identity, or in a mix the places of its inputs, as JSON.
    pub fn identity_text(&self) -> &str {
        if self.inputs.is_empty() { self.identity.text() } else { self.inputs.json() }
    }
}
