//! The messages on a consumer's socket: what they say, and how they are written and read.
//! Knows nothing of sockets; a message's file descriptor travels beside it.

mod decode;
mod encode;

pub use encode::{
    ack, ask_status, end_epoch, epoch_end, error, grant, hello, refused, release, schema, status,
    stream_end, welcome,
};
pub use pipemill_types::{ErrorKind, Field as FieldSpec, Mode, Scalar};
use serde::{Deserialize, Serialize};

/// Version of layout and protocol, named in HELLO and WELCOME.
pub const PROTOCOL: u32 = 1;
/// No message is longer, in bytes.
pub const MAX_MESSAGE: usize = 65_536;

const HELLO: u32 = 1;
const ACK: u32 = 2;
const RELEASE: u32 = 3;
const END_EPOCH: u32 = 4;
const ASK_STATUS: u32 = 5;
const WELCOME: u32 = 16;
const REFUSED: u32 = 17;
const SCHEMA: u32 = 18;
const GRANT: u32 = 19;
const EPOCH_END: u32 = 20;
const STREAM_END: u32 = 21;
const ERROR: u32 = 22;
const STATUS: u32 = 23;

const ENDED_EARLY: u32 = 1;

/// A consumer's first message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The protocol that it speaks.
    pub protocol: u32,
    /// The channel that it wants to read.
    pub channel: String,
    /// Grants that it may hold at once, 1 or more; None for the channel's own setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credits: Option<u32>,
    /// What it is, for the host's log.
    #[serde(default)]
    pub client: String,
}

/// The host's answer to HELLO; the ring's descriptor comes with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The protocol that it speaks.
    pub protocol: u32,
    /// What it is.
    pub host: String,
    /// The channel asked for.
    pub channel: String,
    /// How it shares out batches.
    pub mode: Mode,
    /// Number of slots in the ring.
    pub slots: u32,
    /// Size of a slot, in bytes.
    pub slot_bytes: u64,
    /// Grants that the consumer may hold at once.
    pub credits: u32,
}

/// Why a channel ended before its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ErrorReport {
    /// What kind of failure.
    pub kind: ErrorKind,
    /// The whole text, for a person.
    pub message: String,
    /// Which channel.
    pub channel: String,
    /// Which epoch, from 0.
    #[serde(default)]
    pub epoch: Option<u32>,
    /// Which object.
    #[serde(default)]
    pub object: Option<String>,
    /// Absolute offset in the object, in bytes.
    #[serde(default)]
    pub offset: Option<u64>,
    /// Number of the record in the object, from 0.
    #[serde(default)]
    pub record: Option<u64>,
    /// Name of the decoder.
    #[serde(default)]
    pub decoder: Option<String>,
}

/// A batch is lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Number of the grant, to ACK and RELEASE it by.
    pub grant: u64,
    /// Number of the batch in the channel.
    pub batch: u64,
    /// Size of the batch's memory, in bytes.
    pub bytes: u64,
    /// The slot that it lies in, or [`OWN_MEMORY`](crate::layout::OWN_MEMORY).
    pub slot: u32,
    /// Epoch of the batch.
    pub epoch: u32,
}

/// Every batch of an epoch was ACKed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEnd {
    /// Batches that were delivered.
    pub batches: u64,
    /// Records in them.
    pub records: u64,
    /// From 0.
    pub epoch: u32,
    /// Part of the epoch was left out.
    pub early: bool,
}

/// The grant numbers of an ACK or RELEASE: one or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantNumbers<'m>(&'m [[u8; 8]]);

impl GrantNumbers<'_> {
    /// The numbers in the order of the message.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|bytes| u64::from_le_bytes(*bytes))
    }
}

/// A message from a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToHost<'m> {
    /// Names the channel. The first message.
    Hello(Hello),
    /// These batches are done with.
    Ack(GrantNumbers<'m>),
    /// No view into these batches is held any more.
    Release(GrantNumbers<'m>),
    /// Asks for the rest of this epoch to be left out.
    EndEpoch(u32),
    /// Asks how the host stands. Not of a consumer: in place of HELLO.
    AskStatus,
}

/// A message from the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToConsumer {
    /// The answer to HELLO.
    Welcome(Welcome),
    /// The host hangs up, and why.
    Refused(String),
    /// The fields of every record.
    Schema(Vec<FieldSpec>),
    /// A batch is lent.
    Grant(Grant),
    /// An epoch is over.
    EpochEnd(EpochEnd),
    /// All is over.
    StreamEnd,
    /// All is over, because of this.
    Error(ErrorReport),
    /// How the host stands: so many bytes of JSON in the memory that comes with it.
    Status(u64),
}

/// Why a message can't be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProtocolError(pub(crate) String);

#[derive(Serialize, Deserialize)]
struct RefusedBody {
    message: String,
}

#[derive(Serialize, Deserialize)]
struct SchemaBody<F> {
    fields: F,
}
