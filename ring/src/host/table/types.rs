//! What the slot table speaks of: identities, batches, ends, and the effects of a command.

use crate::protocol::{BatchPlace, EpochEnd};

/// Where a batch lies: below the number of slots it is a slot of the ring, from there on it is a
/// dedicated buffer.
pub(in crate::host) type SlotId = u32;

/// What a writer takes to fill it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::host) enum Wanted {
    /// A slot of the ring.
    Slot,
    /// The id of a dedicated buffer.
    Dedicated,
}

/// One connection of a consumer. No number is used twice.
pub type ConsumerId = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "unstable"), derive(Hash))]
pub(in crate::host) struct Batch {
    /// Number in the channel, from 0.
    pub(in crate::host) number: u64,
    pub(in crate::host) epoch: u32,
    pub(in crate::host) records: u32,
    /// Header, payload, name and index together.
    pub(in crate::host) bytes: u64,
    pub(in crate::host) first: RecordPlace,
}

/// Where a record is, whatever the number of its batch.
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

/// What the caller must do after a command, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "unstable"), derive(Hash))]
pub(in crate::host) enum Effect {
    /// Send a GRANT.
    Grant { to: ConsumerId, grant: u64, slot: SlotId, batch: Batch },
    /// Send an EPOCH_END, STREAM_END or ERROR.
    End { to: ConsumerId, end: End },
    /// The batch of this number is ACKed (by all, in `Broadcast`), or is not delivered.
    Done(u64),
    /// Nobody needs the memory of this slot any more.
    Freed(SlotId),
    /// The batch after which this rank goes on has this number now.
    Found { rank: u32, number: u64 },
}

/// A message named a grant which its sender does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("grant {0} is not held by this consumer: never granted to it, or RELEASEd already")]
pub(in crate::host) struct NotHeld(pub(in crate::host) u64);

/// How many slots are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::host) struct SlotCounts {
    pub(in crate::host) free: u32,
    pub(in crate::host) filling: u32,
    /// Filled, and no consumer holds it.
    pub(in crate::host) ready: u32,
    /// At least one consumer holds it.
    pub(in crate::host) granted: u32,
    /// Dedicated buffers in use, in whatever state.
    pub(in crate::host) dedicated: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "unstable"), derive(Hash))]
pub(super) enum SlotState {
    Free,
    /// The writer fills it.
    Filling,
    /// It holds a batch. `claims`: consumers that it is assigned or granted to.
    Full {
        batch: Batch,
        claims: u32,
        acked: bool,
    },
    /// Its batch is done, and a consumer that has departed may still read it.
    Departed,
}

/// What waits to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "unstable"), derive(Hash))]
pub(super) enum Entry {
    Batch { slot: SlotId, number: u64, epoch: u32 },
    End(End),
}

/// What an epoch has delivered so far. Batches that are skipped later are subtracted again.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(any(test, feature = "unstable"), derive(Hash))]
pub(super) struct EpochCount {
    pub(super) batches: u64,
    pub(super) records: u64,
    /// At least one batch was skipped.
    pub(super) skipped: bool,
}
