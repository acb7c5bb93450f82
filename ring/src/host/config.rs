//! The settings of a ring and of the server, and the ring's errors.

use crate::memory::MemoryError;
use crate::protocol::{Field, MAX_MESSAGE, MAX_SCHEMA, Mode};

/// The settings of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingConfig {
    /// Name of the channel.
    pub channel: String,
    /// Number of slots, 2 or more. The best number is the sum of all consumers' credits, plus 2.
    pub slots: u32,
    /// Size of a slot in bytes: a multiple of 4096, above 0 and below 4 GiB.
    pub slot_bytes: usize,
    /// Largest number of dedicated buffers at once, 1 or more.
    pub dedicated: u32,
    /// Number of grants that a consumer may hold at once if its HELLO does not set it, 1 or more.
    pub credits: u32,
    /// How batches are divided among consumers.
    pub mode: Mode,
    /// Number of consumers that must be connected before the first grant, 1 or more. In `Broadcast`
    /// this makes sure that all of them see all batches; in `Rank` it is the number of ranks.
    pub consumers: u32,
}

impl RingConfig {
    /// Number of dedicated buffers of a channel in which only single large records need them: one
    /// is filled while a consumer has the other.
    pub const FEW_DEDICATED: u32 = 2;
}

/// The settings of a [`Server`](super::Server).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// Whether processes of other users may connect.
    pub allow_other_users: bool,
    /// Largest number of connections at once, 1 or more. The limit may be lower: at most a quarter
    /// of the files that this process may open, but at least 8.
    pub max_connections: usize,
    /// The advice for refusals.
    pub remedies: Remedies,
}

/// The host's additions to the texts of the server's refusals, for people: the server knows no
/// configuration. Empty texts add nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remedies {
    /// For a process of another user, which may not connect.
    pub other_user: &'static str,
    /// For a consumer, if the number of connections is at its limit.
    pub no_room: &'static str,
}

/// Largest number of bytes for a connection that receives nothing: a schema, and small messages.
const CONNECTION_BYTES: u64 = MAX_SCHEMA as u64 + (16 << 10);

impl ServerConfig {
    /// Largest number of bytes of memory for all connections, in addition to their rings.
    pub fn memory(&self) -> u64 {
        self.max_connections as u64 * CONNECTION_BYTES + MAX_MESSAGE as u64
    }
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            allow_other_users: false,
            max_connections: 1024,
            remedies: Remedies::default(),
        }
    }
}

/// The reason why a ring can't be made, or a batch can't be granted.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// A setting is outside of its range.
    #[error("ring of channel {channel:?}: {what}")]
    Config {
        /// The channel.
        channel: String,
        /// The setting, what was expected and what was found.
        what: String,
    },
    /// The kernel does not give the memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The fields of a channel can't change, because they were sent to consumers already.
    #[error("the fields of channel {channel:?} changed: expected {expected:?}, found {found:?}")]
    SchemaChanged {
        /// The channel.
        channel: String,
        /// The fields that were set first.
        expected: Vec<Field>,
        /// The fields that were to be set later.
        found: Vec<Field>,
    },
    /// The fields don't fit a message: there are too many, or their names are too long.
    #[error("the description of the {fields} fields takes {bytes} bytes; a message holds 65536")]
    SchemaTooLong {
        /// Number of fields.
        fields: usize,
        /// Length of the message, in bytes.
        bytes: usize,
    },
    /// A batch was granted before the schema was set.
    #[error("a batch was granted before the channel's fields were set")]
    NoSchema,
    /// The columns don't fit the schema or each other.
    #[error(
        "a batch with {columns} columns, the first of {records} records: expected {fields} \
         columns of the same length"
    )]
    Columns {
        /// Number of fields of the schema.
        fields: usize,
        /// Number of columns of the batch.
        columns: usize,
        /// Number of records in the first column.
        records: usize,
    },
    /// The batch does not fit its memory.
    #[error("a batch of {bytes} bytes does not fit into {limit} bytes")]
    TooLarge {
        /// Number of bytes that it needs.
        bytes: usize,
        /// Number of bytes of the memory.
        limit: usize,
    },
}

/// The writer's next action, instead of filling batches. Each call of the writer that asks for
/// memory or grants a batch returns it, and ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Interrupt {
    /// End: [`Ring::stop`](super::Ring::stop) was called.
    #[error("the channel was stopped")]
    Stop,
    /// Skip the rest of this epoch, as consumers have requested. Every call returns this until
    /// [`Ring::end_epoch`](super::Ring::end_epoch) is called.
    #[error("the rest of epoch {0} is to be skipped")]
    EndEpoch(u32),
    /// Restart elsewhere. Every call returns this until
    /// [`Ring::restarted`](super::Ring::restarted) is called.
    #[error("the channel is to restart elsewhere")]
    Restart,
}

/// The reason why the writer gets no memory for a batch, or can't grant one.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The writer must do something else.
    #[error(transparent)]
    Interrupted(#[from] Interrupt),
    /// The kernel does not give the memory, the size is too large, or the batch is wrong.
    #[error(transparent)]
    Failed(#[from] RingError),
}

/// A consumer's state continues after a batch that has not come in its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the batch after which a consumer's state goes on has not come in epoch {0}")]
pub struct PlaceMissing(pub u32);

impl RingConfig {
    /// The size of all slots together, in bytes, if every setting is in its range.
    pub(super) fn check(&self) -> Result<usize, RingError> {
        let wrong = |what: String| RingError::Config { channel: self.channel.clone(), what };
        if self.channel.is_empty() {
            return Err(wrong("a channel's name must not be empty".into()));
        }
        if self.slots < 2 {
            return Err(wrong(format!("slots: expected 2 or more, found {}", self.slots)));
        }
        if self.dedicated == 0 {
            return Err(wrong("dedicated: expected 1 or more, found 0".into()));
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
