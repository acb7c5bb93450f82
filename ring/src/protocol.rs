//! The messages on a consumer's socket: what they say, and how they are written and read.
//! Knows nothing of sockets; a message's file descriptor travels beside it.

use serde::{Deserialize, Serialize};

/// Version of layout and protocol, named in HELLO and WELCOME.
pub const PROTOCOL: u32 = 1;
/// No message is longer, in bytes.
pub const MAX_MESSAGE: usize = 65_536;

const HELLO: u32 = 1;
const ACK: u32 = 2;
const RELEASE: u32 = 3;
const END_EPOCH: u32 = 4;
const WELCOME: u32 = 16;
const REFUSED: u32 = 17;
const SCHEMA: u32 = 18;
const GRANT: u32 = 19;
const EPOCH_END: u32 = 20;
const STREAM_END: u32 = 21;
const ERROR: u32 = 22;

const ENDED_EARLY: u32 = 1;

/// Type of one element of a field. Numbers are little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scalar {
    /// Any bytes.
    Bytes,
    /// Text in UTF-8.
    Utf8,
    /// One byte, 0 or 1.
    Boolean,
    /// 4 bytes.
    Int32,
    /// 8 bytes.
    Int64,
    /// 4 bytes.
    Float32,
    /// 8 bytes.
    Float64,
}

/// One field that every record of a channel has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldSpec {
    /// What the decoder calls it.
    pub name: String,
    /// Type of one element.
    pub scalar: Scalar,
    /// Empty for a single element; 0 for a dimension that the length of each field tells.
    pub shape: Vec<u32>,
}

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

/// How the batches of a channel are shared out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Each batch goes to one consumer.
    #[default]
    Share,
    /// Each batch goes to every consumer that is connected when it is first granted.
    Broadcast,
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

/// What kind of failure ended a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ErrorKind {
    /// The input does not fit its format.
    Decode,
    /// The decoder failed or broke its contract.
    Plugin,
    /// The input can't be read.
    Source,
    /// A configured limit was hit.
    Limit,
    /// The host itself failed.
    Host,
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

/// HELLO.
pub fn hello(hello: &Hello) -> Vec<u8> {
    json(HELLO, hello)
}

/// ACK of one grant.
pub fn ack(grant: u64) -> [u8; 12] {
    numbered(ACK, grant)
}

/// RELEASE of one grant.
pub fn release(grant: u64) -> [u8; 12] {
    numbered(RELEASE, grant)
}

/// END_EPOCH.
pub fn end_epoch(epoch: u32) -> [u8; 8] {
    let mut out = [0; 8];
    out[..4].copy_from_slice(&END_EPOCH.to_le_bytes());
    out[4..].copy_from_slice(&epoch.to_le_bytes());
    out
}

/// WELCOME.
pub fn welcome(welcome: &Welcome) -> Vec<u8> {
    json(WELCOME, welcome)
}

/// REFUSED. The text is cut where it would be longer than a message may be.
pub fn refused(message: &str) -> Vec<u8> {
    shortened(message, |text| json(REFUSED, &RefusedBody { message: text.into() }))
}

/// SCHEMA. May come out longer than [`MAX_MESSAGE`]; then it must not be sent.
pub fn schema(fields: &[FieldSpec]) -> Vec<u8> {
    json(SCHEMA, &SchemaBody { fields })
}

/// GRANT.
pub fn grant(grant: &Grant) -> [u8; 36] {
    let mut out = [0; 36];
    out[..4].copy_from_slice(&GRANT.to_le_bytes());
    out[4..12].copy_from_slice(&grant.grant.to_le_bytes());
    out[12..20].copy_from_slice(&grant.batch.to_le_bytes());
    out[20..28].copy_from_slice(&grant.bytes.to_le_bytes());
    out[28..32].copy_from_slice(&grant.slot.to_le_bytes());
    out[32..36].copy_from_slice(&grant.epoch.to_le_bytes());
    out
}

/// EPOCH_END.
pub fn epoch_end(end: &EpochEnd) -> [u8; 28] {
    let mut out = [0; 28];
    out[..4].copy_from_slice(&EPOCH_END.to_le_bytes());
    out[4..12].copy_from_slice(&end.batches.to_le_bytes());
    out[12..20].copy_from_slice(&end.records.to_le_bytes());
    out[20..24].copy_from_slice(&end.epoch.to_le_bytes());
    out[24..28].copy_from_slice(&(if end.early { ENDED_EARLY } else { 0 }).to_le_bytes());
    out
}

/// STREAM_END.
pub fn stream_end() -> [u8; 4] {
    STREAM_END.to_le_bytes()
}

/// ERROR. Message and object are cut where they would be longer than a message may be.
pub fn error(report: &ErrorReport) -> Vec<u8> {
    let whole = json(ERROR, report);
    if whole.len() <= MAX_MESSAGE {
        return whole;
    }
    let object = report.object.as_ref().map(|name| name.chars().take(1024).collect());
    let report = ErrorReport { object, ..report.clone() };
    shortened(&report.message, |text| {
        json(ERROR, &ErrorReport { message: text.into(), ..report.clone() })
    })
}

impl<'m> ToHost<'m> {
    /// Reads a message of a consumer.
    pub fn decode(message: &'m [u8]) -> Result<ToHost<'m>, ProtocolError> {
        let (kind, body) = split(message)?;
        match kind {
            HELLO => Ok(ToHost::Hello(parse("HELLO", body)?)),
            ACK => Ok(ToHost::Ack(grant_numbers("ACK", body)?)),
            RELEASE => Ok(ToHost::Release(grant_numbers("RELEASE", body)?)),
            END_EPOCH => Ok(ToHost::EndEpoch(u32::from_le_bytes(exactly("END_EPOCH", body)?))),
            _ => Err(unknown(kind)),
        }
    }
}

impl ToConsumer {
    /// Reads a message of the host.
    pub fn decode(message: &[u8]) -> Result<ToConsumer, ProtocolError> {
        let (kind, body) = split(message)?;
        Ok(match kind {
            WELCOME => ToConsumer::Welcome(parse("WELCOME", body)?),
            REFUSED => ToConsumer::Refused(parse::<RefusedBody>("REFUSED", body)?.message),
            SCHEMA => ToConsumer::Schema(parse::<SchemaBody<_>>("SCHEMA", body)?.fields),
            GRANT => ToConsumer::Grant(parse_grant(exactly("GRANT", body)?)),
            EPOCH_END => ToConsumer::EpochEnd(parse_epoch_end(exactly("EPOCH_END", body)?)),
            STREAM_END => {
                let [] = exactly("STREAM_END", body)?;
                ToConsumer::StreamEnd
            }
            ERROR => ToConsumer::Error(parse("ERROR", body)?),
            _ => return Err(unknown(kind)),
        })
    }
}

fn parse_grant(body: [u8; 32]) -> Grant {
    Grant {
        grant: u64_at(&body, 0),
        batch: u64_at(&body, 8),
        bytes: u64_at(&body, 16),
        slot: u32_at(&body, 24),
        epoch: u32_at(&body, 28),
    }
}

fn parse_epoch_end(body: [u8; 24]) -> EpochEnd {
    EpochEnd {
        batches: u64_at(&body, 0),
        records: u64_at(&body, 8),
        epoch: u32_at(&body, 16),
        early: u32_at(&body, 20) & ENDED_EARLY != 0,
    }
}

/// Both take positions that the caller wrote down, within the array.
fn u64_at<const N: usize>(body: &[u8; N], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| body[at + i]))
}

fn u32_at<const N: usize>(body: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| body[at + i]))
}

fn json(kind: u32, body: &impl Serialize) -> Vec<u8> {
    let mut out = kind.to_le_bytes().to_vec();
    serde_json::to_writer(&mut out, body)
        .expect("writing to memory can't fail, and the bodies have no keys but names");
    out
}

fn numbered(kind: u32, grant: u64) -> [u8; 12] {
    let mut out = [0; 12];
    out[..4].copy_from_slice(&kind.to_le_bytes());
    out[4..].copy_from_slice(&grant.to_le_bytes());
    out
}

/// The message with as much of `text` as fits: halved until it does.
fn shortened(text: &str, build: impl Fn(&str) -> Vec<u8>) -> Vec<u8> {
    let mut text = text;
    loop {
        let message = build(text);
        if message.len() <= MAX_MESSAGE || text.is_empty() {
            return message;
        }
        text = &text[..text.floor_char_boundary(text.len() / 2)];
    }
}

fn split(message: &[u8]) -> Result<(u32, &[u8]), ProtocolError> {
    match message.split_first_chunk::<4>() {
        Some((kind, body)) => Ok((u32::from_le_bytes(*kind), body)),
        None => Err(ProtocolError(format!(
            "a message of {} bytes: expected a type of 4 bytes, then a body",
            message.len()
        ))),
    }
}

fn unknown(kind: u32) -> ProtocolError {
    ProtocolError(format!("a message of the unknown type {kind}, in protocol {PROTOCOL}"))
}

fn parse<'m, T: Deserialize<'m>>(name: &str, body: &'m [u8]) -> Result<T, ProtocolError> {
    serde_json::from_slice(body).map_err(|error| {
        ProtocolError(format!("{name} with a body that is not understood: {error}"))
    })
}

fn exactly<const N: usize>(name: &str, body: &[u8]) -> Result<[u8; N], ProtocolError> {
    body.try_into().map_err(|_| {
        ProtocolError(format!("{name} with a body of {} bytes: expected {N}", body.len()))
    })
}

fn grant_numbers<'m>(name: &str, body: &'m [u8]) -> Result<GrantNumbers<'m>, ProtocolError> {
    match body.as_chunks::<8>() {
        (numbers, []) if !numbers.is_empty() => Ok(GrantNumbers(numbers)),
        _ => Err(ProtocolError(format!(
            "{name} with a body of {} bytes: expected one or more grant numbers of 8 bytes",
            body.len()
        ))),
    }
}
