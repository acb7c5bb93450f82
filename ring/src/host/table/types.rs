//! The types of the slot table: identities, batches, ends, and the effects of a command.

use crate::protocol::{BatchPlace, EpochEnd};

/// The slot of a batch: numbers below the number of slots are slots of the ring, the next ones are
/// dedicated buffers, and the last ones are larger slots.
pub(in crate::host) type SlotId = u32;

/// The memory that a writer takes to fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::host) enum Wanted {
    /// A slot of the ring.
    Slot,
    /// The id of a dedicated buffer.
    Dedicated,
    /// A slot; or, if a consumer waits for a batch and no slot is free, the id of a dedicated
    /// buffer, as long as there are fewer batches than there may be dedicated buffers.
    SlotOrDedicated,
    /// A larger slot.
    Larger,
    /// As `SlotOrDedicated`, with a larger slot.
    LargerOrDedicated,
}

/// One connection of a consumer. No number is reused.
pub type ConsumerId = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "unstable"), derive(Hash))]
pub(in crate::host) struct Batch {
    /// Number of the batch in the channel, from 0.
    pub(in crate::host) number: u64,
    pub(in crate::host) epoch: u32,
    pub(in crate::host) records: u32,
    /// Size of header, payload, name and index together.
    pub(in crate::host) bytes: u64,
    pub(in crate::host) first: RecordPlace,
}

/// The position of a record, independent of the number of its batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "unstable"), derive(Hash))]
pub struct RecordPlace {
    /// Number of the object in its epoch, from 0.
    pub object: u64,
    /// Number of the record in the object, from 0.
    pub record: u64,
}

impl Batch {
    pub(in crate::host) fn place(&self) -> BatchPlace {
        BatchPlace { epoch: self.epoch, number: self.number }
    }
}

/// An end that is sent to every consumer, once all batches before it are ACKed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "unstable"), derive(Hash))]
pub(in crate::host) enum End {
    Epoch(EpochEnd),
    Stream,
    Error,
}

/// The effects that the caller must carry out after a command, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "unstable"), derive(Hash))]
pub(in crate::host) enum Effect {
    /// Send LARGER_SLOTS: the next grant to this consumer is its first one of a larger slot.
    LargerSlots { to: ConsumerId },
    /// Send a GRANT.
    Grant { to: ConsumerId, grant: u64, slot: SlotId, batch: Batch },
    /// Send an EPOCH_END, STREAM_END or ERROR.
    End { to: ConsumerId, end: End },
    /// The batch of this number is ACKed (by all, in `Broadcast`), or is not delivered.
    Done(u64),
    /// The memory of this slot is free.
    Freed(SlotId),
    /// The batch after which this rank resumes has this number now.
    Found { rank: u32, number: u64 },
}

/// A message named a grant which its sender does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("grant {0} is not held by this consumer: never granted to it, or RELEASEd already")]
pub(in crate::host) struct NotHeld(pub(in crate::host) u64);

/// Number of slots in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::host) struct SlotCounts {
    pub(in crate::host) free: u32,
    pub(in crate::host) filling: u32,
    /// Filled, and held by no consumer.
    pub(in crate::host) ready: u32,
    /// Held by at least one consumer.
    pub(in crate::host) granted: u32,
    /// Number of dedicated buffers in use, in any state.
    pub(in crate::host) dedicated: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "unstable"), derive(Hash))]
pub(super) enum SlotState {
    Free,
    /// The writer fills it.
    Filling,
    /// It holds a batch. `claims` is the number of consumers to which it is assigned or granted.
    Full {
        batch: Batch,
        claims: u32,
        acked: bool,
    },
    /// Its batch is done, and a departed consumer may still read it.
    Departed,
}

/// An item that waits to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "unstable"), derive(Hash))]
pub(super) enum Entry {
    Batch { slot: SlotId, number: u64, epoch: u32 },
    End(End),
}

/// The counts of an epoch so far. Batches that are skipped later are subtracted again.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(any(test, feature = "unstable"), derive(Hash))]
pub(super) struct EpochCount {
    pub(super) batches: u64,
    pub(super) records: u64,
    /// Whether at least one batch was skipped.
    pub(super) skipped: bool,
}
