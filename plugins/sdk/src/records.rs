//! Where a decoder puts its records. They are gathered here and handed to the host a few thousand at
//! a time, because a call across the sandbox's wall costs as much as framing ten records.

use std::ops::Range;

use crate::Field;

/// How loud a line in the log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// For the plugin's author.
    Debug,
    /// Worth knowing.
    Info,
    /// Something the operator may want to mend.
    Warn,
    /// Something went wrong.
    Error,
}

/// What a decoder may ask of its host. Inside the sandbox these are the imports; natively, whatever
/// the caller gives.
pub trait Host {
    /// Takes the fields of every record, before the first. By default it has no use for them.
    fn set_schema(&mut self, fields: &[Field]) {
        let _ = fields;
    }
    /// Takes records: see `emit` in the interface for what a span is.
    fn emit(&mut self, spans: &[u64], payload: &[u8], starts: &[u32]);
    /// Index of the first span of the chunk whose CRC-32C differs from the one expected.
    fn check_crc32c(&mut self, spans: &[u64], expected: &[u32]) -> Option<usize>;
    /// A line for the operator.
    fn log(&mut self, level: Level, message: &str);
}

/// Bit of a span that says: in the payload, not in the chunk.
const MADE: u64 = 1 << 63;
/// The span of an absent field.
const ABSENT: u64 = u64::MAX;
/// Spans gathered before they are handed over: 32 KiB of them, so that they stay in the first cache.
const FLUSH_SPANS: usize = 4096;
/// Payload gathered before it is handed over.
const FLUSH_PAYLOAD: usize = 64 * 1024;

/// The span of bytes of the chunk, as the interface packs it.
pub fn pack(range: Range<usize>) -> u64 {
    (range.start as u64) << 32 | (range.end - range.start) as u64
}

/// The records of a stream, on their way to the host.
///
/// A record of one field is one call: [`span`](Self::span) where its bytes stand in the chunk as they
/// are, or [`bytes`](Self::bytes) where the decoder made them. A record of several fields is a call of
/// `field…` or [`absent`](Self::absent) for each, in the order of the schema, then
/// [`end_record`](Self::end_record).
pub struct Records {
    host: Box<dyn Host>,
    fields: Option<usize>,
    offsets: bool,
    spans: Vec<u64>,
    payload: Vec<u8>,
    starts: Vec<u32>,
    record_span: usize,
    record_payload: usize,
}

impl Records {
    /// Records for `host`, with or without the places where they start.
    pub fn new(host: Box<dyn Host>, offsets: bool) -> Self {
        Self {
            host,
            fields: None,
            offsets,
            spans: Vec::with_capacity(FLUSH_SPANS + 64),
            payload: Vec::new(),
            starts: Vec::new(),
            record_span: 0,
            record_payload: 0,
        }
    }

    #[doc(hidden)]
    pub fn set_fields(&mut self, fields: usize) {
        self.fields = Some(fields);
    }

    /// Says the fields of every record: once, before the first one. Only for a decoder that learns them
    /// from its input, see [`Decoder::schema`](crate::Decoder::schema).
    ///
    /// # Panics
    /// If they are said already.
    pub fn set_schema(&mut self, fields: &[Field]) {
        assert!(self.fields.is_none(), "the schema was said twice");
        self.fields = Some(fields.len());
        self.host.set_schema(fields);
    }

    /// A record of one field that lies in the chunk. `start` is where in the chunk the record begins,
    /// its framing included.
    #[inline]
    pub fn span(&mut self, start: usize, field: Range<usize>) {
        self.spans.push(pack(field));
        if self.offsets {
            self.starts.push(start as u32);
        }
        // As `end_record`, but for what can't have changed: the payload.
        self.record_span = self.spans.len();
        if self.spans.len() >= FLUSH_SPANS {
            self.flush();
        }
    }

    /// A record of one field whose bytes the decoder made.
    #[inline]
    pub fn bytes(&mut self, start: usize, field: &[u8]) {
        self.field_bytes(field);
        self.end_record(start);
    }

    /// The next field of the record: bytes of the chunk.
    #[inline]
    pub fn field(&mut self, field: Range<usize>) {
        self.spans.push(pack(field));
    }

    /// The next field of the record: bytes that the decoder made.
    #[inline]
    pub fn field_bytes(&mut self, field: &[u8]) {
        self.field_made(|payload| payload.extend_from_slice(field));
    }

    /// The next field of the record: what `make` appends. It must only append.
    #[inline]
    pub fn field_made<T>(&mut self, make: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let from = self.payload.len();
        let answer = make(&mut self.payload);
        self.spans.push(MADE | pack(from..self.payload.len()));
        answer
    }

    /// The next field of the record has no value.
    #[inline]
    pub fn absent(&mut self) {
        self.spans.push(ABSENT);
    }

    /// The record is whole. `start` is where in the chunk it begins, its framing included.
    #[inline]
    pub fn end_record(&mut self, start: usize) {
        if self.offsets {
            self.starts.push(start as u32);
        }
        self.record_span = self.spans.len();
        self.record_payload = self.payload.len();
        if self.spans.len() >= FLUSH_SPANS || self.payload.len() >= FLUSH_PAYLOAD {
            self.flush();
        }
    }

    /// Forgets the fields of the record that was not ended.
    pub fn abandon_record(&mut self) {
        self.spans.truncate(self.record_span);
        self.payload.truncate(self.record_payload);
    }

    /// How many fields the record that was not ended has so far.
    #[inline]
    pub fn fields_so_far(&self) -> usize {
        self.spans.len() - self.record_span
    }

    /// Hands over what was gathered. Called by itself; a decoder need not.
    pub fn flush(&mut self) {
        self.abandon_record();
        if self.spans.is_empty() {
            return;
        }
        assert!(
            self.fields.is_some(),
            "a record was emitted before its fields were known: see Records::set_schema"
        );
        self.host.emit(&self.spans, &self.payload, &self.starts);
        self.spans.clear();
        self.payload.clear();
        self.starts.clear();
        self.record_span = 0;
        self.record_payload = 0;
    }

    /// Index of the first span of the chunk whose CRC-32C differs from the one expected. One call for
    /// many spans: the host computes at the speed of its hardware.
    pub fn check_crc32c(&mut self, spans: &[u64], expected: &[u32]) -> Option<usize> {
        self.host.check_crc32c(spans, expected)
    }

    /// A line for the operator, in the host's log.
    pub fn log(&mut self, level: Level, message: &str) {
        self.host.log(level, message);
    }
}
