//! The messages on a consumer's socket, and their encoding. A file descriptor that is attached to a
//! message is not part of it; `socket` sends and receives these.

mod decode;
mod encode;

use std::collections::BTreeMap;

pub use encode::{
    ack, end_epoch, epoch_end, error, get_status, grant, hello, larger_slots, refused, release,
    schema, status, stream_end, views, welcome,
};
use pipemill_types::{Accepted, BatchPosition};
pub use pipemill_types::{BatchAcross, BatchSize, ErrorKind, Field, Mode, Scalar, Tail};
use serde::{Deserialize, Serialize};

/// Version of layout and protocol. HELLO and WELCOME name it.
pub const PROTOCOL: u32 = 2;
/// The longest message, in bytes: a HELLO or WELCOME with a state. A Unix socket takes it with the
/// sizes that Linux gives its buffers.
pub const MAX_MESSAGE: usize = 196_608;
/// The longest SCHEMA, in bytes. A state has the same fields as text, and must fit a HELLO.
pub const MAX_SCHEMA: usize = 65_536;

const HELLO: u32 = 1;
const ACK: u32 = 2;
const RELEASE: u32 = 3;
const END_EPOCH: u32 = 4;
const GET_STATUS: u32 = 5;
const VIEWS: u32 = 6;
const WELCOME: u32 = 16;
const REFUSED: u32 = 17;
const SCHEMA: u32 = 18;
const GRANT: u32 = 19;
const EPOCH_END: u32 = 20;
const STREAM_END: u32 = 21;
const ERROR: u32 = 22;
const STATUS: u32 = 23;
const LARGER_SLOTS: u32 = 24;

/// A flag of EPOCH_END.
const ENDED_EARLY: u32 = 1;

/// A consumer's first message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The version of the protocol that the consumer speaks.
    pub protocol: u32,
    /// Name of the channel that it wants to read.
    pub channel: String,
    /// Number of grants that it may hold at once, 1 or more. `None`: the channel's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credits: Option<u32>,
    /// Program and version of the consumer, for the host's log.
    #[serde(default)]
    pub client: String,
    /// The requested number of records of each batch. `None`: the channel's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchSize>,
    /// The rank of the consumer. `None`: as the channel's mode says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<Rank>,
    /// The state after which it resumes: JSON that the host must understand. `None`: the current
    /// position of the channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<serde_json::Value>,
    /// Accepted differences from the state: words of [`Accepted`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accept: Vec<String>,
    /// The pass of a program over its data to which the consumer belongs. `None`: it is independent
    /// of other consumers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass: Option<Pass>,
    /// Whether it understands LARGER_SLOTS.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub larger_slots: bool,
}

impl Hello {
    /// The HELLO of a consumer of this channel without other requests.
    pub fn new(channel: &str, client: &str) -> Hello {
        Hello {
            protocol: PROTOCOL,
            channel: channel.to_owned(),
            credits: None,
            client: client.to_owned(),
            batch: None,
            rank: None,
            state: None,
            accept: Vec::new(),
            pass: None,
            larger_slots: false,
        }
    }
}

/// A pass of a program over its data, which may have several consumers. A newer pass replaces an
/// older one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pass {
    /// A text that no other program uses, of at most [`MAX_PROGRAM`](Pass::MAX_PROGRAM) bytes.
    pub program: String,
    /// This is higher for a newer pass.
    pub number: u64,
}

impl Pass {
    /// Largest length of a program's text in bytes.
    pub const MAX_PROGRAM: usize = 128;
}

/// The number of a consumer among several programs. With [`Mode::Rank`] it gets the batches whose
/// number modulo `world` is `number`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rank {
    /// Number of the consumer, from 0; below `world`.
    #[serde(rename = "rank")]
    pub number: u32,
    /// Number of the consumers that divide the batches, 1 or more.
    pub world: u32,
}

impl Rank {
    /// Largest number of ranks that may divide a channel.
    pub const MAX_WORLD: u32 = 256;

    /// The only rank, which gets all batches.
    pub const ONLY: Rank = Rank { number: 0, world: 1 };

    /// The number of the first batch that this consumer gets after a state whose last batch was
    /// `last`. All ranks advance in step: each has received its batch of the same round.
    pub fn next_after(self, last: u64) -> u64 {
        let round = last - last % u64::from(self.world);
        round.saturating_add(u64::from(self.world)).saturating_add(u64::from(self.number))
    }
}

impl Default for Rank {
    fn default() -> Rank {
        Rank::ONLY
    }
}

impl std::fmt::Display for Rank {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {} of {}", self.number, self.world)
    }
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
    /// Number of grants that the consumer may hold at once, 1 or more.
    pub credits: u32,
    /// The position at which the host's run resumed, if it resumed a state.
    #[serde(default)]
    pub resumed: Option<Resumed>,
    /// The settings of the channel that must be the same when a state of it is resumed, as names
    /// and values for people.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// Whether the host understands VIEWS.
    #[serde(default)]
    pub views: bool,
    /// The length of each epoch, if it is known and the same for all.
    #[serde(default)]
    pub length: Option<EpochLength>,
}

/// The length of each epoch of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochLength {
    /// Number of records that the channel reads, of all its consumers.
    pub records: u64,
    /// Number of batches: of this rank, or of all consumers if these are no ranks. `None` if the
    /// batches have no fixed number of records.
    pub batches: Option<u64>,
    /// If the objects are divided into parts: as `batches`, of the part that has the fewest.
    pub least: Option<u64>,
}

/// The position of a batch among those of its channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchPlace {
    /// Number of the epoch, from 0.
    pub epoch: u32,
    /// Number of the batch in the channel, from 0.
    pub number: u64,
}

/// Whether a key that is 0 can be left out.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The position at which a run resumed a state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    /// Number of records of the state's last batch that the program received; 0 at the start of an
    /// epoch, where there is no last batch.
    pub delivered: u64,
    /// The fields of the records, in the form for decoders; empty if the program had none yet.
    pub schema: String,
    /// The rank of the program.
    #[serde(flatten)]
    pub rank: Rank,
    /// The state's last batch; at the start of an epoch the next one, without an object.
    #[serde(flatten)]
    pub position: BatchPosition,
    /// Number of batches right after the state's last one that other ranks were given before the
    /// number of ranks changed. They are not delivered again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub passed: u64,
    /// Accepted differences from the state. Only the host knows them.
    #[serde(skip)]
    pub accepted: Accepted,
}

impl Resumed {
    /// Number of the run's first batch.
    pub fn first_batch(&self) -> u64 {
        self.position.batch.saturating_add(u64::from(self.delivered > 0))
    }

    /// The first batch that this rank gets. At the start of an epoch its number is 0, so that it
    /// comes before every batch of the epoch.
    pub fn first_batch_of(&self, rank: Rank) -> BatchPlace {
        let number = match self.delivered {
            0 => 0,
            _ => rank.next_after(self.position.batch.saturating_add(self.passed)),
        };
        BatchPlace { epoch: self.position.epoch, number }
    }
}

/// The state of a channel, as a program keeps it: the channel resumes after the last batch that the
/// program received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Version of its form: [`State::VERSION`].
    pub version: u32,
    /// Name of the channel.
    pub channel: String,
    /// The settings that must be the same when the channel goes on.
    pub settings: BTreeMap<String, String>,
    /// The position.
    #[serde(flatten)]
    pub place: Resumed,
    /// In a checkpoint of the host: numbers of the batches after the position that are done, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<Vec<u64>>,
}

impl State {
    /// Version of the form of states.
    pub const VERSION: u32 = 3;
    /// Name of the setting for the order of records.
    pub const ORDER: &str = "order";
    /// Its value if the order differs from run to run: a position inside an epoch then does not
    /// determine the records before it.
    pub const ANY_ORDER: &str = "any";

    /// Name of the setting for the shards of an index.
    pub const SHARDS: &str = "shards";

    /// A state of this version.
    pub fn new(channel: &str, settings: BTreeMap<String, String>, place: Resumed) -> State {
        let (version, channel) = (State::VERSION, channel.to_owned());
        State { version, channel, settings, place, done: None }
    }

    /// The state that a program has kept as JSON.
    ///
    /// # Errors
    /// It is not a state of pipemill: a key is missing, unknown, or has another type.
    pub fn of_json(value: &serde_json::Value) -> Result<State, String> {
        let whole = State::with_left_out(value);
        let state: State = Deserialize::deserialize(&whole)
            .map_err(|error: serde_json::Error| error.to_string())?;
        let known = serde_json::to_value(&state).map_err(|error| error.to_string())?;
        let unknown =
            |key: &&String| known.get(key.as_str()).is_none() && *key != "done" && *key != "passed";
        match value.as_object().and_then(|keys| keys.keys().find(unknown)) {
            Some(key) => Err(format!("unknown field `{key}`")),
            None => Ok(state),
        }
    }

    /// The state of a channel with shards leaves out the keys that say nothing. Puts them back.
    fn with_left_out(value: &serde_json::Value) -> serde_json::Value {
        let mut whole = value.clone();
        let is_of_shards =
            value.get("settings").is_some_and(|one| one.get(State::SHARDS).is_some());
        let none = Resumed { rank: Rank::ONLY, ..Resumed::default() };
        if let (true, Some(keys), Ok(serde_json::Value::Object(none))) =
            (is_of_shards, whole.as_object_mut(), serde_json::to_value(none))
        {
            for (key, nothing) in none {
                keys.entry(key).or_insert(nothing);
            }
        }
        whole
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
    /// The slot of the batch, or [`DEDICATED`](crate::layout::DEDICATED).
    pub slot: u32,
    /// Number of the batch's epoch, from 0.
    pub epoch: u32,
}

/// More slots, in memory of their own. Their descriptor is attached to the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargerSlots {
    /// Size of such a slot, in bytes.
    pub slot_bytes: u64,
    /// Number of the first one, by which a GRANT names it.
    pub first: u32,
    /// Number of these slots.
    pub slots: u32,
}

/// The end of an epoch, every batch of which was ACKed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EpochEnd {
    /// Number of delivered batches, to all consumers of the channel together.
    pub batches: u64,
    /// Number of records in these batches.
    pub records: u64,
    /// Number of the epoch, from 0.
    pub epoch: u32,
    /// Whether part of the epoch was skipped, or not read.
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
    /// VIEWS: requests views of strings in the batches from now on.
    Views,
    /// GET_STATUS: requests the host's status. A status client sends it instead of HELLO.
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
    /// LARGER_SLOTS: more slots, which come before the first GRANT of one of them.
    LargerSlots(LargerSlots),
}

/// A part of the host's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusPart {
    /// Number of bytes of the text from the start of this part to the end: if it equals the length
    /// of `text`, this part is the last one.
    pub left: u64,
    /// The part's bytes, one or more.
    pub text: Vec<u8>,
}

/// The reason why a message can't be decoded.
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
