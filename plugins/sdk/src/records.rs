//! The records that a decoder emits. They are gathered here and passed to the host a few thousand
//! at a time, because one call from the sandbox to the host costs as much as framing ten records.

use std::ops::Range;

use crate::Field;

/// The severity of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// For the author of the plugin.
    Debug,
    /// For the operator: nothing is wrong.
    Info,
    /// For the operator: something should be fixed.
    Warn,
    /// For the operator: something failed.
    Error,
}

/// The functions of the host that a decoder may call. Inside the sandbox they are the component's
/// imports; natively, a test implements them.
pub trait Host {
    /// Takes the fields of every record, once, before the first record. The default ignores them.
    fn set_schema(&mut self, fields: &[Field]) {
        let _ = fields;
    }
    /// Takes this number of records. `emit` in the interface (`decoder.wit`) explains spans, payload
    /// and starts.
    fn emit(&mut self, records: usize, spans: &[u64], payload: &[u8], starts: &[u32]);
    /// Index of the first span of the chunk whose CRC-32C differs from the expected one; `None` if
    /// all are as expected.
    fn check_crc32c(&mut self, spans: &[u64], expected: &[u32]) -> Option<usize>;
    /// Writes a line to the host's log, for the operator.
    fn log(&mut self, level: Level, message: &str);
}

/// The bit of a span that is set if the bytes are in the payload, not in the chunk.
const IN_PAYLOAD: u64 = 1 << 63;
/// The span of an absent field.
const ABSENT: u64 = u64::MAX;
/// Number of spans at which they are passed to the host: 32 KiB, so that they stay in the L1 cache.
const FLUSH_SPANS: usize = 4096;
/// Size of the payload, in bytes, at which it is passed to the host.
const FLUSH_PAYLOAD: usize = 64 * 1024;

/// The span of these bytes of the chunk, as the interface packs it: `offset << 32 | length`.
pub fn pack(range: Range<usize>) -> u64 {
    (range.start as u64) << 32 | (range.end - range.start) as u64
}

/// The records that a decoder emits.
///
/// A record of one field is one call: [`span`](Self::span) if its bytes are a part of the chunk, or
/// [`bytes`](Self::bytes) if the decoder made them. A record of several fields is one call of
/// `field…` or [`absent`](Self::absent) for each field, in the order of the schema, then
/// [`end_record`](Self::end_record).
pub struct Records {
    host: Box<dyn Host>,
    /// Number of fields of a record; 0 until the schema is known.
    fields: usize,
    /// Names of the fields, for messages.
    names: Vec<String>,
    /// Whether the host asked for `starts`.
    offsets: bool,
    spans: Vec<u64>,
    payload: Vec<u8>,
    starts: Vec<u32>,
    /// Length of `spans` where the current record starts.
    record_span: usize,
    /// Length of `payload` where the current record starts.
    record_payload: usize,
}

impl Records {
    /// Records for `host`. With `offsets`, the host also gets the place where each record starts.
    pub fn new(host: Box<dyn Host>, offsets: bool) -> Self {
        Self {
            host,
            fields: 0,
            names: Vec::new(),
            offsets,
            spans: Vec::with_capacity(FLUSH_SPANS + 64),
            payload: Vec::new(),
            starts: Vec::new(),
            record_span: 0,
            record_payload: 0,
        }
    }

    /// Sets the fields of every record, once, before the first record. Only for a decoder that
    /// learns them from its input: see [`Decoder::schema`](crate::Decoder::schema).
    ///
    /// # Panics
    /// If the schema was set before.
    pub fn set_schema(&mut self, fields: &[Field]) {
        assert!(self.names.is_empty(), "the schema was set twice");
        self.fields = fields.len();
        self.names = fields.iter().map(|field| field.name.clone()).collect();
        self.host.set_schema(fields);
    }

    /// Emits a record of one field whose bytes are a part of the chunk. `start` is where the record
    /// begins in the chunk, its framing included.
    ///
    /// # Panics
    /// As [`end_record`](Self::end_record).
    #[inline]
    pub fn span(&mut self, start: usize, field: Range<usize>) {
        self.spans.push(pack(field));
        if self.spans.len() - self.record_span != self.fields {
            self.wrong_fields();
        }
        if self.offsets {
            self.starts.push(start as u32);
        }
        // The same as `end_record`, without the payload, which did not change.
        self.record_span = self.spans.len();
        if self.spans.len() >= FLUSH_SPANS {
            self.flush();
        }
    }

    /// Emits a record of one field whose bytes the decoder made. `start` is as for
    /// [`span`](Self::span).
    ///
    /// # Panics
    /// As [`end_record`](Self::end_record).
    #[inline]
    pub fn bytes(&mut self, start: usize, field: &[u8]) {
        self.field_bytes(field);
        self.end_record(start);
    }

    /// Adds the next field of the record: a part of the chunk.
    #[inline]
    pub fn field(&mut self, field: Range<usize>) {
        self.spans.push(pack(field));
    }

    /// Adds the next field of the record: bytes that the decoder made.
    #[inline]
    pub fn field_bytes(&mut self, field: &[u8]) {
        self.field_made(|payload| payload.extend_from_slice(field));
    }

    /// Adds the next field of the record: the bytes that `make` appends to its argument. `make`
    /// must not change the bytes before them. Returns the result of `make`.
    #[inline]
    pub fn field_made<T>(&mut self, make: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let from = self.payload.len();
        let result = make(&mut self.payload);
        self.spans.push(IN_PAYLOAD | pack(from..self.payload.len()));
        result
    }

    /// Adds the next field of the record, without a value.
    #[inline]
    pub fn absent(&mut self) {
        self.spans.push(ABSENT);
    }

    /// Ends the record, after its last field. `start` is as for [`span`](Self::span).
    ///
    /// # Panics
    /// If the record has not one value, or [`absent`](Self::absent), for each field of the schema,
    /// or if the schema is not set.
    #[inline]
    pub fn end_record(&mut self, start: usize) {
        if self.spans.len() - self.record_span != self.fields {
            self.wrong_fields();
        }
        if self.offsets {
            self.starts.push(start as u32);
        }
        self.record_span = self.spans.len();
        self.record_payload = self.payload.len();
        if self.spans.len() >= FLUSH_SPANS || self.payload.len() >= FLUSH_PAYLOAD {
            self.flush();
        }
    }

    /// Removes the fields of the record that was not ended.
    pub fn abandon_record(&mut self) {
        self.spans.truncate(self.record_span);
        self.payload.truncate(self.record_payload);
    }

    /// Number of fields added to the record that was not ended.
    #[inline]
    pub fn fields_so_far(&self) -> usize {
        self.spans.len() - self.record_span
    }

    /// A record was ended that has not the fields of the schema.
    #[cold]
    #[inline(never)]
    fn wrong_fields(&self) -> ! {
        let given = self.spans.len() - self.record_span;
        match self.fields {
            0 => panic!("a record was emitted before the schema was set: see Records::set_schema"),
            fields if given < fields => panic!(
                "a record was ended after {given} of its {fields} fields: `{}` is missing; call \
                 Records::absent for a field without a value",
                self.names[given]
            ),
            fields => panic!(
                "a record was ended after {given} values, but the schema has {fields} fields; the \
                 last one is `{}`",
                self.names[fields - 1]
            ),
        }
    }

    /// Passes the gathered records to the host. A decoder need not call this.
    pub fn flush(&mut self) {
        self.abandon_record();
        if self.spans.is_empty() {
            return;
        }
        let records = self.spans.len() / self.fields;
        self.host.emit(records, &self.spans, &self.payload, &self.starts);
        self.spans.clear();
        self.payload.clear();
        self.starts.clear();
        self.record_span = 0;
        self.record_payload = 0;
    }

    /// Index of the first span of the chunk whose CRC-32C differs from the expected one; `None` if
    /// all are as expected. Check many spans in one call: the host computes fast, but each call
    /// costs time.
    pub fn check_crc32c(&mut self, spans: &[u64], expected: &[u32]) -> Option<usize> {
        self.host.check_crc32c(spans, expected)
    }

    /// Writes a line to the host's log, for the operator.
    pub fn log(&mut self, level: Level, message: &str) {
        self.host.log(level, message);
    }
}
