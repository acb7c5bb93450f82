//! The messages on a consumer's socket, and their encoding. A file descriptor that is attached to a
//! message is not part of it; `socket` sends and receives these.

mod decode;
mod encode;

use std::collections::BTreeMap;

pub use encode::{
    ack, end_epoch, epoch_end, error, get_status, grant, hello, refused, release, schema, status,
    stream_end, welcome,
};
use pipemill_types::BatchPosition;
pub use pipemill_types::{ErrorKind, Field, Mode, Scalar};
use serde::{Deserialize, Serialize};

/// Version of layout and protocol. HELLO and WELCOME name it.
pub const PROTOCOL: u32 = 2;
/// The longest message, in bytes.
pub const MAX_MESSAGE: usize = 65_536;

const HELLO: u32 = 1;
const ACK: u32 = 2;
const RELEASE: u32 = 3;
const END_EPOCH: u32 = 4;
const GET_STATUS: u32 = 5;
const WELCOME: u32 = 16;
const REFUSED: u32 = 17;
const SCHEMA: u32 = 18;
const GRANT: u32 = 19;
const EPOCH_END: u32 = 20;
const STREAM_END: u32 = 21;
const ERROR: u32 = 22;
const STATUS: u32 = 23;

/// A flag of EPOCH_END.
const ENDED_EARLY: u32 = 1;

/// A consumer's first message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The version of the protocol that the consumer speaks.
    pub protocol: u32,
    /// Name of the channel that it wants to read.
    pub channel: String,
    /// Grants that it may hold at once, 1 or more. None: the channel's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credits: Option<u32>,
    /// Program and version of the consumer, for the host's log.
    #[serde(default)]
    pub client: String,
}

/// The host's answer to HELLO. The ring's descriptor is attached to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The version of the protocol that the host speaks.
    pub protocol: u32,
    /// Program and version of the host.
    pub host: String,
    /// Name of the channel, as in HELLO.
    pub channel: String,
    /// How batches are divided among consumers.
    pub mode: Mode,
    /// Number of slots in the ring.
    pub slots: u32,
    /// Size of a slot, in bytes.
    pub slot_bytes: u64,
    /// Grants that the consumer may hold at once, 1 or more.
    pub credits: u32,
    /// Where the host's run goes on, if it resumed a state.
    #[serde(default)]
    pub resumed: Option<Resumed>,
    /// The settings of the channel that must be the same when a state of it is resumed, as names
    /// and values for people.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

/// Where a run goes on that resumed a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    /// Number of records of the state's last batch that the program was given; 0 at the start of an
    /// epoch, where there is no last batch.
    pub given: u64,
    /// The fields of the records, as decoders get them; empty if the program had none yet.
    pub schema: String,
    /// The state's last batch; at the start of an epoch the next one, without an object.
    #[serde(flatten)]
    pub position: BatchPosition,
}

impl Resumed {
    /// Number of the run's first batch.
    pub fn first_batch(&self) -> u64 {
        self.position.batch.saturating_add(u64::from(self.given > 0))
    }
}

/// Why a channel failed, and where in its input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ErrorReport {
    /// The kind of failure.
    pub kind: ErrorKind,
    /// The whole text, for a person.
    pub message: String,
    /// Name of the channel.
    pub channel: String,
    /// Number of the epoch, from 0.
    #[serde(default)]
    pub epoch: Option<u32>,
    /// Name of the object.
    #[serde(default)]
    pub object: Option<String>,
    /// Offset in the object, in bytes.
    #[serde(default)]
    pub offset: Option<u64>,
    /// Number of the record in the object, from 0.
    #[serde(default)]
    pub record: Option<u64>,
    /// Name of the decoder.
    #[serde(default)]
    pub decoder: Option<String>,
}

/// A batch that a consumer may read until it RELEASEs the grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Number of the grant, by which the consumer ACKs and RELEASEs it.
    pub grant: u64,
    /// Number of the batch in the channel, from 0.
    pub batch: u64,
    /// Size of the batch in bytes, from the start of its memory.
    pub bytes: u64,
    /// The slot that it lies in, or [`DEDICATED`](crate::layout::DEDICATED).
    pub slot: u32,
    /// Number of the batch's epoch, from 0.
    pub epoch: u32,
}

/// The end of an epoch: every batch of it was ACKed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EpochEnd {
    /// Batches that were delivered, to all consumers of the channel together.
    pub batches: u64,
    /// Records in these batches.
    pub records: u64,
    /// Number of the epoch, from 0.
    pub epoch: u32,
    /// Part of the epoch was skipped, or not read.
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
    /// HELLO: names the channel. The first message.
    Hello(Hello),
    /// ACK: the consumer has processed these batches.
    Ack(GrantNumbers<'m>),
    /// RELEASE: the consumer holds no view of these batches any more.
    Release(GrantNumbers<'m>),
    /// END_EPOCH: requests to skip the rest of this epoch.
    EndEpoch(u32),
    /// GET_STATUS: asks for the host's status. From a status client, in place of HELLO.
    GetStatus,
}

/// A message from the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToConsumer {
    /// WELCOME: the answer to HELLO.
    Welcome(Welcome),
    /// REFUSED: the host hangs up, for this reason.
    Refused(String),
    /// SCHEMA: the fields of every record.
    Schema(Vec<Field>),
    /// GRANT: a batch to read.
    Grant(Grant),
    /// EPOCH_END: an epoch has ended.
    EpochEnd(EpochEnd),
    /// STREAM_END: the stream has ended.
    StreamEnd,
    /// ERROR: the channel has failed.
    Error(ErrorReport),
    /// STATUS: a part of the host's status, which is JSON.
    Status(StatusPart),
}

/// A part of the host's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusPart {
    /// Length in bytes of the text from the start of this part to the end: where it is that of
    /// `text`, this part is the last one.
    pub left: u64,
    /// The part's bytes, one or more.
    pub text: Vec<u8>,
}

/// Why a message can't be decoded.
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
