//! A part of a plan: a batch of a file, with the schema and the dictionaries that it needs.
//!
//! A part has its head, the message of the schema, and then either the dictionaries and the message
//! of the batch as the file has them; or the metadata of the batch, the dictionaries, and the
//! buffers of wanted columns. In the second form the metadata was changed: the body of the batch
//! begins with the dictionaries, and its buffers lie where the part has them.

use std::ops::Range;

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
    pub(crate) batch: u64,
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

    /// The places of the schema, the dictionaries and the batch in the part, whose size fits.
    fn places(&self) -> [Range<usize>; 3] {
        let schema = HEAD..HEAD + self.schema as usize;
        let dictionaries = schema.end + self.metadata as usize;
        let dictionaries = dictionaries..dictionaries + self.dictionaries as usize;
        let batch = if self.metadata > 0 { schema.end } else { dictionaries.end };
        [schema, dictionaries, batch..self.size() as usize]
    }
}

/// Messages that a part has: those of the schema, the dictionaries, and the batch.
const KINDS: [MessageKind; 3] = [MessageKind::Schema, MessageKind::Dictionary, MessageKind::Batch];

/// A place in the part whose first byte is that of the chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartPlace {
    /// The number of the kind in [`KINDS`], and where its next message begins.
    kind: usize,
    at: usize,
}

impl Arrow {
    /// Decodes a part, once it is completely in the chunk.
    pub(crate) fn part(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let cut = |wanted: u64| {
            let left = chunk.len();
            DecodeError::fatal(0, format!("expected {wanted} bytes of a part, found {left}"))
        };
        if chunk.is_empty() && end {
            return Ok(Progress::consumed(0));
        }
        if chunk.len() < HEAD {
            return if end { Err(cut(HEAD as u64)) } else { Ok(Progress::wants(HEAD)) };
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
        // The value fits: max_record does.
        let whole = usize::try_from(size).unwrap_or(usize::MAX);
        let Some(part) = chunk.get(..whole) else {
            return if end { Err(cut(size)) } else { Ok(Progress::wants(whole)) };
        };
        match self.messages_of_part(&head, part, out) {
            Ok(false) => Ok(Progress::more(0)),
            Ok(true) => {
                (self.place, self.state) = (None, State::Between);
                Ok(Progress::consumed(whole))
            }
            Err(error) => {
                (self.place, self.state) = (None, State::Between);
                Err(match error.resume {
                    // The next batch is in the next part.
                    Resume::At(_) | Resume::Scan(_) => {
                        DecodeError { resume: Resume::At(size), ..error }
                    }
                    Resume::None | Resume::Refused => error,
                })
            }
        }
    }

    /// Reads the messages of a part. Returns whether it is at its end; else another call goes on.
    fn messages_of_part(
        &mut self,
        head: &PartHead,
        part: &[u8],
        out: &mut Records,
    ) -> Result<bool, DecodeError> {
        let places = head.places();
        let mut place = self.place.unwrap_or_else(|| {
            self.state = State::Messages(Box::new(Stream::of_part(head.batch)));
            PartPlace { kind: 0, at: places[0].start }
        });
        let mut spent = 0;
        for (kind, range) in places.iter().enumerate().skip(place.kind) {
            if kind > place.kind {
                place = PartPlace { kind, at: range.start };
            }
            let mut call = Call { chunk: &part[..range.end], end: true, at: place.at, spent };
            while call.at < range.end {
                self.check_message(head, KINDS[kind], &call)?;
                if let Step::Return(_) = self.message(&mut call, out)? {
                    self.place = Some(PartPlace { kind, at: call.at });
                    return Ok(false);
                }
            }
            spent = call.spent;
        }
        Ok(true)
    }

    /// Checks that a message of this kind is there, as the footer says.
    fn check_message(
        &self,
        head: &PartHead,
        kind: MessageKind,
        call: &Call,
    ) -> Result<(), DecodeError> {
        let State::Messages(stream) = &self.state else { return Ok(()) };
        if stream.is_open() {
            return Ok(());
        }
        let found = match Framing::Marked.read(call.rest(), self.limits.metadata) {
            Prefix::Metadata(place) => match call.rest().get(place).map(Message::read) {
                Some(Ok(message)) if message.kind == kind => return Ok(()),
                Some(Ok(message)) if message.kind == MessageKind::Batch => "a batch".to_owned(),
                Some(Ok(message)) => message.kind.name(),
                // The message says what is wrong.
                Some(Err(_)) | None => return Ok(()),
            },
            Prefix::End(_) => "the end mark".to_owned(),
            Prefix::Cut(_) | Prefix::Bad(_) => return Ok(()),
        };
        let (wanted, number) = match kind {
            MessageKind::Dictionary => ("a dictionary", String::new()),
            MessageKind::Batch => ("record batch", format!(" {}", head.batch)),
            _ => ("the schema", String::new()),
        };
        let why = format!("the footer says that {wanted}{number} is here, found {found}");
        Err(DecodeError::fatal(call.at, why))
    }
}
