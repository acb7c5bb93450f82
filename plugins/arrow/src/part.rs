//! A part of a plan: a batch of a file, with the schema and the dictionaries that it needs.
//!
//! A part has its head, the message of the schema, and then either the dictionaries and the message
//! of the batch as the file has them; or the metadata of the batch, the dictionaries, and the
//! buffers of wanted columns. In the second form the metadata was changed: it says where these
//! buffers lie.

use pipemill_plugin::{DecodeError, Progress, Records, Resume};

use crate::message::{Framing, Message, MessageKind, Prefix};
use crate::stream::Stream;
use crate::{Arrow, Call, State, Step};

/// The first bytes of each part.
const MARK: [u8; 8] = *b"\0arrow \0";
/// Bytes of a part's head.
const HEAD: usize = MARK.len() + 8 + 4 + 4 + 8 + 8;

/// The head of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartHead {
    /// The number of the batch in the file.
    batch: u64,
    /// Bytes of the schema's message.
    schema: u32,
    /// Bytes of the batch's metadata before the dictionaries; 0 if it comes after them.
    metadata: u32,
    /// Bytes of the dictionaries.
    dictionaries: u64,
    /// Bytes after the dictionaries.
    rest: u64,
}

impl PartHead {
    /// A part's context, and the bytes of the whole part. `dictionaries` and `rest` are the bytes
    /// of the ranges after it.
    pub(crate) fn context(
        batch: u64,
        (schema, metadata): (&[u8], &[u8]),
        (dictionaries, rest): (u64, u64),
    ) -> (Vec<u8>, u64) {
        let mut bytes = MARK.to_vec();
        bytes.extend(batch.to_le_bytes());
        // Both are in a plan, which is no longer.
        bytes.extend((schema.len() as u32).to_le_bytes());
        bytes.extend((metadata.len() as u32).to_le_bytes());
        bytes.extend(dictionaries.to_le_bytes());
        bytes.extend(rest.to_le_bytes());
        bytes.extend(schema);
        bytes.extend(metadata);
        let size = (bytes.len() as u64).saturating_add(dictionaries).saturating_add(rest);
        (bytes, size)
    }

    /// Reads a head. `None` if there is none.
    fn read(bytes: &[u8]) -> Option<Self> {
        let (batch, rest) = bytes.strip_prefix(&MARK)?.split_first_chunk()?;
        let (schema, rest) = rest.split_first_chunk()?;
        let (metadata, rest) = rest.split_first_chunk()?;
        let (dictionaries, rest) = rest.split_first_chunk()?;
        let (rest, _) = rest.split_first_chunk()?;
        Some(Self {
            batch: u64::from_le_bytes(*batch),
            schema: u32::from_le_bytes(*schema),
            metadata: u32::from_le_bytes(*metadata),
            dictionaries: u64::from_le_bytes(*dictionaries),
            rest: u64::from_le_bytes(*rest),
        })
    }

    /// Bytes of the part.
    fn size(&self) -> u64 {
        let context = HEAD as u64 + u64::from(self.schema) + u64::from(self.metadata);
        context.saturating_add(self.dictionaries).saturating_add(self.rest)
    }
}

/// A part whose schema was read.
#[derive(Debug)]
pub(crate) struct OpenPart {
    /// The number of the batch in the file.
    batch: u64,
    /// Bytes of the part that are not finished, from the chunk's first byte on.
    left: usize,
    /// The last of these bytes, which are those of the batch.
    rest: usize,
    /// The metadata of a batch without some of its columns.
    metadata: Vec<u8>,
}

impl Arrow {
    /// Decodes a part, once it is completely in the chunk.
    pub(crate) fn decode_part(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let (mut at, mut part) = match self.part.take() {
            Some(part) => (0, part),
            None if chunk.is_empty() && end => return Ok(Progress::consumed(0)),
            None => match self.begin_part(chunk, end, out)? {
                Ok(begun) => begun,
                Err(wanted) => return Ok(Progress::wants(wanted)),
            },
        };
        let part_end = at + part.left;
        if chunk.len() < part_end {
            let error = cut(part.left, chunk.len());
            self.part = Some(part);
            return if end { Err(error) } else { Ok(Progress::wants(part_end)) };
        }
        let result = self.messages_of_part(&mut part, chunk, &mut at, out);
        part.left = part_end - at;
        match result {
            Ok(()) if part.left > 0 => {
                self.part = Some(part);
                Ok(Progress::more(at))
            }
            Ok(()) => Ok(Progress::consumed(at)),
            Err(error) => Err(match error.resume {
                // The next batch is in the next part.
                Resume::At(_) | Resume::Scan(_) => {
                    DecodeError { resume: Resume::At(part_end as u64), ..error }
                }
                Resume::None | Resume::Refused => error,
            }),
        }
    }

    /// Reads the head of a part and its schema, once the whole part is in the chunk. Returns the
    /// bytes that are finished; or the bytes that are needed.
    fn begin_part(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Result<(usize, OpenPart), usize>, DecodeError> {
        if chunk.len() < HEAD {
            return if end { Err(cut(HEAD, chunk.len())) } else { Ok(Err(HEAD)) };
        }
        let head = PartHead::read(chunk).ok_or_else(|| {
            DecodeError::fatal(0, "expected the head of a part, found something else")
        })?;
        let size = head.size();
        if size > self.limits.max_record {
            let most = self.limits.max_record;
            let why = format!("a part has {size} bytes, more than max_record ({most} bytes)");
            return Err(DecodeError::refused(0, why));
        }
        // The values fit: max_record is at most 1 GiB.
        let (size, rest) = (size as usize, head.rest as usize);
        if chunk.len() < size {
            return if end { Err(cut(size, chunk.len())) } else { Ok(Err(size)) };
        }
        let schema_end = HEAD + head.schema as usize;
        let at = schema_end + head.metadata as usize;
        let metadata = chunk[schema_end..at].to_vec();
        self.state = State::Messages(Box::new(Stream::of_part(head.batch)));
        let mut call = Call { chunk: &chunk[..schema_end], end: true, at: HEAD, spent: 0 };
        let part = OpenPart { batch: head.batch, left: size - at, rest, metadata };
        while call.at < schema_end {
            self.check_message(&part, MessageKind::Schema, &call)?;
            self.message(&mut call, out)?;
        }
        Ok(Ok((at, part)))
    }

    /// Reads the messages of a part from this place of the chunk on, and moves it. Not all of them
    /// are read if another call is to go on.
    fn messages_of_part(
        &mut self,
        part: &mut OpenPart,
        chunk: &[u8],
        at: &mut usize,
        out: &mut Records,
    ) -> Result<(), DecodeError> {
        let end = *at + part.left;
        let batch = end - part.rest.min(part.left);
        let mut spent = 0;
        while *at < end {
            let (kind, until) = match *at < batch {
                true => (MessageKind::Dictionary, batch),
                false => (MessageKind::Batch, end),
            };
            let mut call = Call { chunk: &chunk[..until], end: true, at: *at, spent };
            let is_open = matches!(&self.state, State::Messages(stream) if stream.is_open());
            let step = if kind == MessageKind::Batch && !part.metadata.is_empty() && !is_open {
                let metadata = Message::read(&part.metadata);
                let metadata = metadata.map_err(|what| {
                    DecodeError::fatal(*at, format!("expected {} in a part", what.0))
                });
                self.read(&metadata?, 0, &mut call, out)
            } else {
                self.check_message(part, kind, &call)?;
                self.message(&mut call, out)
            };
            (*at, spent) = (call.at, call.spent);
            if let Step::Return(_) = step? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Checks that a message of this kind is there, as the footer says.
    fn check_message(
        &self,
        part: &OpenPart,
        kind: MessageKind,
        call: &Call,
    ) -> Result<(), DecodeError> {
        let State::Messages(stream) = &self.state else { return Ok(()) };
        if stream.is_open() {
            return Ok(());
        }
        let here = call.rest().len() as u64;
        let found = match Framing::Marked.read(call.rest(), self.limits.metadata) {
            Prefix::Metadata(place) => match call.rest().get(place.clone()).map(Message::read) {
                Some(Ok(message)) if message.kind == kind => {
                    let size = message.body.saturating_add(place.end as u64);
                    match kind {
                        MessageKind::Dictionary if size <= here => return Ok(()),
                        _ if size == here => return Ok(()),
                        _ => format!("one of {size} bytes"),
                    }
                }
                Some(Ok(message)) if message.kind == MessageKind::Batch => "a batch".to_owned(),
                Some(Ok(message)) => message.kind.name(),
                // The message says what is wrong.
                Some(Err(_)) => return Ok(()),
                None => format!("one of at least {} bytes", place.end),
            },
            Prefix::End(_) => "the end mark".to_owned(),
            Prefix::Cut(size) => format!("one of at least {size} bytes"),
            Prefix::Bad(_) => return Ok(()),
        };
        let wanted = match kind {
            MessageKind::Dictionary => "a dictionary".to_owned(),
            MessageKind::Batch => format!("record batch {}", part.batch),
            _ => "the schema".to_owned(),
        };
        let why = format!("the footer says that {wanted} is here, in {here} bytes, found {found}");
        Err(stream.damaged(call.at, why))
    }
}

fn cut(wanted: usize, found: usize) -> DecodeError {
    DecodeError::fatal(0, format!("expected {wanted} bytes of a part, found {found}"))
}
