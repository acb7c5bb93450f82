//! What a ring can be told to be, and what can go wrong with one.

use crate::memory::MemoryError;
use crate::protocol::{FieldSpec, Mode};

/// What a ring is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingConfig {
    /// Name of the channel.
    pub channel: String,
    /// Number of slots, 2 or more. Best: the credits of all consumers, and 2.
    pub slots: u32,
    /// Size of a slot in bytes: a multiple of 4096, less than 4 GiB.
    pub slot_bytes: usize,
    /// Grants that a consumer may hold where it does not say itself, 1 or more.
    pub credits: u32,
    /// How batches are shared out.
    pub mode: Mode,
    /// Consumers that must be connected before the first grant, 1 or more. For `broadcast`, so
    /// that all of them see all batches.
    pub consumers: u32,
}

/// What can be wrong with a ring or with a batch that is granted.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// A setting that can't be.
    #[error("ring of channel {channel:?}: {what}")]
    Config {
        /// The channel.
        channel: String,
        /// Which setting, what is expected and what stood there.
        what: String,
    },
    /// No memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The fields of a channel can't change, since consumers were told them.
    #[error("the fields of channel {channel:?} changed: expected {expected:?}, found {found:?}")]
    SchemaChanged {
        /// The channel.
        channel: String,
        /// What was set first.
        expected: Vec<FieldSpec>,
        /// What was to be set now.
        found: Vec<FieldSpec>,
    },
    /// Too many or too long fields.
    #[error("the description of the {fields} fields takes {bytes} bytes; a message holds 65536")]
    SchemaTooLong {
        /// How many fields.
        fields: usize,
        /// How long the message would be.
        bytes: usize,
    },
    /// A batch before the schema.
    #[error("a batch was granted before the channel's fields were set")]
    NoSchema,
    /// The columns don't fit the schema or each other.
    #[error(
        "a batch with {columns} columns, the first of {records} records: expected {fields} \
         columns of the same length"
    )]
    Columns {
        /// Fields of the schema.
        fields: usize,
        /// Columns given.
        columns: usize,
        /// Length of the first.
        records: usize,
    },
    /// It does not fit.
    #[error("a batch of {bytes} bytes does not fit into {limit} bytes")]
    TooLarge {
        /// Needed, in bytes.
        bytes: usize,
        /// There, in bytes.
        limit: usize,
    },
}

/// Why there is no memory for a batch.
#[derive(Debug, thiserror::Error)]
pub enum AcquireError {
    /// [`Ring::stop`](super::Ring::stop) was called.
    #[error("the channel was stopped")]
    Stopped,
    /// Consumers ask for the rest of this epoch to be left out. Comes back until
    /// [`Ring::end_epoch`](super::Ring::end_epoch) is called.
    #[error("the rest of epoch {0} is to be left out")]
    EpochEnd(u32),
    /// There is none.
    #[error(transparent)]
    Memory(RingError),
}

impl RingConfig {
    /// The size of all slots, if the settings can be.
    pub(super) fn check(&self) -> Result<usize, RingError> {
        let wrong = |what: String| RingError::Config { channel: self.channel.clone(), what };
        if self.channel.is_empty() {
            return Err(wrong("a channel's name must not be empty".into()));
        }
        if self.slots < 2 {
            return Err(wrong(format!("slots: expected 2 or more, found {}", self.slots)));
        }
        if self.credits == 0 || self.consumers == 0 {
            let (credits, consumers) = (self.credits, self.consumers);
            return Err(wrong(format!(
                "credits and consumers: expected 1 or more, found {credits} and {consumers}"
            )));
        }
        let bytes = self.slot_bytes;
        let fits = bytes.is_multiple_of(4096) && bytes > 0 && u32::try_from(bytes).is_ok();
        if !fits {
            return Err(wrong(format!(
                "slot: expected a multiple of 4096 bytes below 4 GiB, found {bytes}"
            )));
        }
        bytes
            .checked_mul(self.slots as usize)
            .filter(|bytes| i64::try_from(*bytes).is_ok())
            .ok_or_else(|| wrong(format!("{} slots of {bytes} bytes are too much", self.slots)))
    }
}
