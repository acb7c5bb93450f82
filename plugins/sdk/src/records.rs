//! The records that a decoder emits. They are gathered here and passed to the host a few thousand
//! at a time, because one call from the sandbox to the host costs as much as framing ten records.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use crate::columns::{COLUMN_ALIGN, ColumnValues};
use crate::host::{Codec, Host, Level};
use crate::{DecodeError, Field, guest};

/// The bit of a span that is set if the bytes are in the payload, not in the chunk.
pub(crate) const IN_PAYLOAD: u64 = 1 << 63;
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

/// The bytes of a span, without the bit that marks bytes of the payload.
pub fn unpack(span: u64) -> Range<usize> {
    let start = ((span & !IN_PAYLOAD) >> 32) as usize;
    start..start + (span & 0xffff_ffff) as usize
}

/// The decompressed bytes of a part of a compressed block, from [`Records::decompress`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Whether they are the last bytes of the block.
    pub last: bool,
    /// Their start in the payload of the call.
    at: usize,
}

impl Block {
    /// The span of a part of it.
    pub(crate) fn span(&self, range: Range<usize>) -> u64 {
        IN_PAYLOAD | pack(self.at + range.start..self.at + range.end)
    }
}

/// The parts of a block that `read` returns, one after the other: until they have `max` bytes, the
/// block ends, or there is no more. Also returns whether the block ends with them. `read` gets the
/// number of bytes so far, and of those that are left.
fn joined(
    max: usize,
    mut read: impl FnMut(usize, usize) -> Result<(Vec<u8>, bool), String>,
) -> Result<(Vec<u8>, bool), String> {
    let (mut bytes, mut last) = (Vec::new(), false);
    while bytes.len() < max && !last {
        let (part, is_last) = read(bytes.len(), max - bytes.len())?;
        if part.is_empty() && !is_last {
            break;
        }
        last = is_last;
        if bytes.is_empty() {
            bytes = part;
        } else {
            bytes.extend_from_slice(&part);
        }
    }
    Ok((bytes, last))
}

/// Number of bytes that are decompressed in one call of the host: the host's limit.
const PART_BYTES: usize = 1 << 20;

/// The host of a call, and the length of its payload. Records of a decoder and of the decoder that
/// wraps it share it.
pub(crate) struct HostLink {
    pub(crate) host: Box<dyn Host>,
    /// Number of bytes of the call's payload.
    pub(crate) payload: usize,
}

pub(crate) type SharedHost = Rc<RefCell<HostLink>>;

impl HostLink {
    pub(crate) fn decompress(
        &mut self,
        codec: Codec,
        span: u64,
        skip: u64,
        max: usize,
    ) -> Result<(Vec<u8>, bool), String> {
        let (bytes, last) = self.host.decompress(codec, span, skip, max)?;
        self.payload += bytes.len();
        Ok((bytes, last))
    }
}

/// The records that a decoder emits.
///
/// A record of one field is one call: [`span`](Self::span) if its bytes are a part of the chunk, or
/// [`bytes`](Self::bytes) if the decoder made them. [`spans`](Self::spans) takes many records at once,
/// if all fields are parts of the chunk. Any other record is one call for each field, in
/// the order of the schema, then [`end_record`](Self::end_record). The calls for fields are
/// [`field`](Self::field), [`field_bytes`](Self::field_bytes), [`field_made`](Self::field_made),
/// [`field_in`](Self::field_in), [`text`](Self::text), [`list`](Self::list),
/// [`absent`](Self::absent), and one for each type of number.
pub struct Records {
    host: SharedHost,
    /// Number of fields of a record; 0 until the schema is known.
    fields: usize,
    /// Names of the fields, for messages.
    names: Vec<String>,
    /// Whether each field is nullable.
    nullable: Vec<bool>,
    /// Number of bytes that the host has in the payload of the running call of `decode`.
    base: usize,
    /// Number of records that were passed to the host.
    passed_on: u64,
    /// Whether the host asked for `starts`.
    offsets: bool,
    /// The last answer to the host whether decoding can restart.
    restart: Option<u64>,
    spans: Vec<u64>,
    payload: Vec<u8>,
    starts: Vec<u32>,
    /// Length of `spans` where the current record starts.
    record_span: usize,
    /// Length of `payload` where the current record starts.
    record_payload: usize,
}

impl Records {
    /// Records for `host`. With `offsets`, the host also gets the start of each record.
    pub fn new(host: Box<dyn Host>, offsets: bool) -> Self {
        Self {
            host: Rc::new(RefCell::new(HostLink { host, payload: 0 })),
            fields: 0,
            names: Vec::new(),
            nullable: Vec::new(),
            base: 0,
            passed_on: 0,
            offsets,
            restart: None,
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
        self.nullable = fields.iter().map(|field| field.nullable).collect();
        self.host.borrow_mut().host.set_schema(fields);
    }

    /// Emits a record of one field whose bytes are a part of the chunk. `start` is the start of the
    /// record in the chunk, including its framing.
    ///
    /// # Panics
    /// The same as [`end_record`](Self::end_record).
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
    /// The same as [`end_record`](Self::end_record).
    #[inline]
    pub fn bytes(&mut self, start: usize, field: &[u8]) {
        self.field_bytes(field);
        self.end_record(start);
    }

    /// Emits many records whose fields all are parts of the chunk. `records` has the start of each
    /// record, including its framing. `starts` and `ends` have the start and the end of each field,
    /// record by record.
    ///
    /// # Panics
    /// If it is called inside a record, or if the records don't have one start and one end for each
    /// field of the schema.
    pub fn spans(&mut self, records: &[u32], starts: &[u32], ends: &[u32]) {
        let fields = records.len() * self.fields;
        let are_whole = starts.len() == fields && ends.len() == fields;
        assert!(are_whole && self.fields_so_far() == 0, "a record has one place for each field");
        self.spans.extend(
            starts
                .iter()
                .zip(ends)
                .map(|(start, end)| u64::from(*start) << 32 | u64::from(end.wrapping_sub(*start))),
        );
        if self.offsets {
            self.starts.extend_from_slice(records);
        }
        self.record_span = self.spans.len();
        if self.spans.len() >= FLUSH_SPANS {
            self.flush();
        }
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
        self.spans.push(IN_PAYLOAD | pack(self.base + from..self.base + self.payload.len()));
        result
    }

    /// Adds the next field of the record: a part of a decompressed block, without a copy. The block
    /// must be of this call of [`decode`](crate::Decoder::decode).
    ///
    /// # Panics
    /// If the range is not one of the block.
    #[inline]
    pub fn field_in(&mut self, block: &Block, field: Range<usize>) {
        assert!(field.end <= block.bytes.len(), "{field:?} is outside of the block");
        self.spans.push(block.span(field));
    }

    /// Adds the next field of the record: text.
    #[inline]
    pub fn text(&mut self, text: &str) {
        self.field_bytes(text.as_bytes());
    }

    /// Adds the next field of the record: a list of bytes or text. The elements are iterated over
    /// twice.
    pub fn list<I>(&mut self, elements: I)
    where
        I: IntoIterator<Item: AsRef<[u8]>, IntoIter: ExactSizeIterator + Clone>,
    {
        let elements = elements.into_iter();
        self.field_made(|payload| {
            let mut at = 4 * (elements.len() + 1);
            payload.extend_from_slice(&(at as u32).to_le_bytes());
            for element in elements.clone() {
                at += element.as_ref().len();
                payload.extend_from_slice(&(at as u32).to_le_bytes());
            }
            for element in elements {
                payload.extend_from_slice(element.as_ref());
            }
        });
    }

    /// Adds the next field of the record, without a value.
    ///
    /// # Panics
    /// If the field is not declared nullable.
    #[inline]
    pub fn absent(&mut self) {
        if !self.nullable.get(self.fields_so_far()).is_none_or(|nullable| *nullable) {
            self.wrong_absent();
        }
        self.spans.push(ABSENT);
    }

    /// Ends the record, after its last field. `start` is as for [`span`](Self::span).
    ///
    /// # Panics
    /// If the record does not have one value, or [`absent`](Self::absent), for each field of the
    /// schema, or if the schema is not set.
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

    /// Removes the fields of the unfinished record.
    pub fn abandon_record(&mut self) {
        self.spans.truncate(self.record_span);
        self.payload.truncate(self.record_payload);
    }

    /// Number of fields of the unfinished record.
    #[inline]
    pub fn fields_so_far(&self) -> usize {
        self.spans.len() - self.record_span
    }

    #[cold]
    #[inline(never)]
    fn wrong_absent(&self) -> ! {
        let name = &self.names[self.fields_so_far()];
        panic!("the field `{name}` is absent, but it is not declared nullable: see Field::nullable")
    }

    /// A record was ended that does not have the fields of the schema.
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

    /// Number of fields of a record; 0 until the schema is set.
    pub(crate) fn field_count(&self) -> usize {
        self.fields
    }

    /// Passes records to the host field by field, if it is the host of the sandbox. Returns whether
    /// it did. Nothing else imports the interface `columns`, so only decoders that use it do.
    pub(crate) fn emit_columns(
        &mut self,
        records: usize,
        columns: &[ColumnValues<'_>],
        made: &[u8],
        start: usize,
    ) -> bool {
        let link = &mut *self.host.borrow_mut();
        if !link.host.is_sandbox() {
            return false;
        }
        let align = if made.is_empty() { 1 } else { COLUMN_ALIGN };
        let base = link.payload.next_multiple_of(align);
        guest::emit_columns(records, columns, made, start, base);
        link.payload = base + made.len();
        self.base = link.payload;
        self.passed_on += records as u64;
        true
    }

    /// Passes the gathered records to the host. A decoder need not call this.
    pub fn flush(&mut self) {
        self.abandon_record();
        if self.spans.is_empty() {
            return;
        }
        let records = self.spans.len() / self.fields;
        let link = &mut *self.host.borrow_mut();
        link.host.emit(records, &self.spans, &self.payload, &self.starts);
        link.payload += self.payload.len();
        self.base = link.payload;
        self.passed_on += records as u64;
        self.spans.clear();
        self.payload.clear();
        self.starts.clear();
        self.record_span = 0;
        self.record_payload = 0;
    }

    /// Index of the first span whose CRC-32C differs from the expected one; `None` if all are as
    /// expected. Check many spans in one call: the host computes fast, but each call costs time.
    pub fn check_crc32c(&mut self, spans: &[u64], expected: &[u32]) -> Option<usize> {
        self.host.borrow_mut().host.check_crc32c(spans, expected)
    }

    /// Like [`check_crc32c`](Self::check_crc32c), with the CRC-32 of gzip and PNG.
    pub fn check_crc32(&mut self, spans: &[u64], expected: &[u32]) -> Option<usize> {
        self.host.borrow_mut().host.check_crc32(spans, expected)
    }

    /// The span of a part of a decompressed block, for [`check_crc32`](Self::check_crc32).
    pub fn span_in(&self, block: &Block, range: Range<usize>) -> u64 {
        block.span(range)
    }

    /// Reports a fact about the object to the consumers: the writer's schema, the link type. Call
    /// it only before the first record. A key that was set before gets the new value.
    pub fn set_metadata(&mut self, key: &str, value: &str) {
        self.host.borrow_mut().host.set_metadata(key, value);
    }

    /// Reports bytes of the chunk that can't be decoded, and after which the next record starts.
    /// Return the error, with `?`; if there is none, continue with the next record in the same
    /// call. The fields of an unfinished record are dropped.
    ///
    /// # Errors
    /// The host wants the error as the result of this call of `decode`: the operator did not choose
    /// to skip bad records, or there were too many.
    pub fn bad(
        &mut self,
        bytes: Range<usize>,
        message: impl Into<String>,
    ) -> Result<(), DecodeError> {
        let message = message.into();
        if self.takes_bad(bytes.clone(), &message) {
            return Ok(());
        }
        Err(DecodeError::skippable(bytes.start, message, bytes.end as u64))
    }

    /// Reports bad bytes. Returns whether the decoder continues after them.
    pub(crate) fn takes_bad(&mut self, bytes: Range<usize>, message: &str) -> bool {
        self.flush();
        self.host.borrow_mut().host.bad(bytes, message)
    }

    /// Decompresses a block: these bytes of the chunk. The host does it, at native speed. The
    /// result is the whole block, unless it has more bytes than `limits.output` leaves for this
    /// call: [`Block::last`] is false then, and [`decompress_part`](Self::decompress_part) with
    /// [`Progress::more`](crate::Progress::more) continues.
    ///
    /// # Errors
    /// The error says what is wrong with the block.
    ///
    /// # Panics
    /// If it is called inside a record.
    pub fn decompress(&mut self, codec: Codec, block: Range<usize>) -> Result<Block, String> {
        self.decompress_part(codec, block, 0, usize::MAX)
    }

    /// Like [`decompress`](Self::decompress), but at most `max` of the decompressed bytes, after
    /// the first `skip`. For blocks of any size: decompress a part, emit the records that are
    /// complete in it, return [`Progress::more`](crate::Progress::more), and continue after the
    /// last of them in the next call. This costs as much as decompressing the block once.
    ///
    /// # Errors
    /// The same as [`decompress`](Self::decompress).
    ///
    /// # Panics
    /// The same as [`decompress`](Self::decompress).
    pub fn decompress_part(
        &mut self,
        codec: Codec,
        block: Range<usize>,
        skip: u64,
        max: usize,
    ) -> Result<Block, String> {
        assert!(self.fields_so_far() == 0, "decompress was called inside a record");
        self.flush();
        let at = self.base;
        let (bytes, last) = joined(max, |from, left| {
            let (size, skip) = (left.min(PART_BYTES), skip + from as u64);
            let link = &mut *self.host.borrow_mut();
            let part = link.decompress(codec, pack(block.clone()), skip, size)?;
            self.base = link.payload;
            Ok(part)
        })?;
        Ok(Block { bytes, last, at })
    }

    /// Decompresses at most the first `max` bytes of a block, for a decoder whose records do not have
    /// them as they lie: the host keeps no copy of them. Returns the bytes, and whether they are all of
    /// the block. There are fewer than `max` of a longer block if `limits.output` allows no more.
    ///
    /// # Errors
    /// The same as [`decompress`](Self::decompress).
    ///
    /// # Panics
    /// The same as [`decompress`](Self::decompress).
    pub fn read_block(
        &mut self,
        codec: Codec,
        block: Range<usize>,
        max: usize,
    ) -> Result<(Vec<u8>, bool), String> {
        if !self.host.borrow().host.is_sandbox() {
            let block = self.decompress_part(codec, block, 0, max)?;
            return Ok((block.bytes, block.last));
        }
        assert!(self.fields_so_far() == 0, "a block was read inside a record");
        joined(max, |from, left| guest::read_block(codec, pack(block.clone()), from as u64, left))
    }

    /// Like [`read_block`](Self::read_block), of a block that lies in several pieces of the chunk: a
    /// format may put marks into its data every so many bytes. The pieces are in order, and do not
    /// overlap. The bytes are those after the first `skip`. To read a block from its start to its end
    /// in several calls costs as much as to read it once, also if
    /// [`Progress::more`](crate::Progress::more) comes between them.
    ///
    /// # Errors
    /// The same as [`decompress`](Self::decompress).
    ///
    /// # Panics
    /// If it is called inside a record.
    pub fn read_pieces(
        &mut self,
        codec: Codec,
        pieces: &[Range<usize>],
        skip: u64,
        max: usize,
    ) -> Result<(Vec<u8>, bool), String> {
        assert!(self.fields_so_far() == 0, "a block was read inside a record");
        let pieces: Vec<_> = pieces.iter().cloned().map(pack).collect();
        let in_sandbox = self.host.borrow().host.is_in_sandbox();
        joined(max, |from, left| {
            let skip = skip + from as u64;
            match in_sandbox {
                true => guest::read_pieces(codec, &pieces, skip, left),
                false => self.host.borrow_mut().host.read_pieces(codec, &pieces, skip, left),
            }
        })
    }

    /// Begins a call of `decode`: its payload is empty.
    #[doc(hidden)]
    pub fn begin_call(&mut self) {
        self.base = 0;
        self.host.borrow_mut().payload = 0;
    }

    /// Reports to the host where decoding can restart, if that has changed.
    #[doc(hidden)]
    pub fn tell_restart(&mut self, restart: Option<u64>) {
        if self.restart != restart {
            self.restart = restart;
            let value = restart.map_or_else(String::new, |header| header.to_string());
            self.host.borrow_mut().host.set_metadata("pipemill.restart", &value);
        }
    }

    /// The host, for the records of an inner decoder.
    pub(crate) fn host(&self) -> SharedHost {
        self.host.clone()
    }

    /// Lets an inner decoder use the host. The records gathered so far go to the host first.
    pub(crate) fn lend_host<T>(&mut self, borrower: impl FnOnce() -> T) -> T {
        self.flush();
        let result = borrower();
        self.base = self.host.borrow().payload;
        result
    }

    /// Adds the next field of the record: these bytes of the payload that the host has.
    pub(crate) fn payload_field(&mut self, bytes: Range<usize>) {
        self.spans.push(IN_PAYLOAD | pack(bytes));
    }

    /// Number of records so far.
    pub(crate) fn count(&self) -> u64 {
        self.passed_on + (self.record_span / self.fields.max(1)) as u64
    }

    /// Writes a line to the host's log, for the operator.
    pub fn log(&mut self, level: Level, message: &str) {
        self.host.borrow_mut().host.log(level, message);
    }
}

/// Defines the methods that add a field of one number, and of several.
macro_rules! numbers {
    ($($one:ident $several:ident $type:ty, $name:literal;)*) => {
        impl Records {
            $(
                #[doc = concat!("Adds the next field of the record: one ", $name, ".")]
                #[inline]
                pub fn $one(&mut self, value: $type) {
                    self.field_bytes(&value.to_le_bytes());
                }
                #[doc = concat!("Adds the next field of the record: any number of ", $name, "s.")]
                #[inline]
                pub fn $several(&mut self, values: &[$type]) {
                    self.field_made(|payload| {
                        payload.extend(values.iter().flat_map(|value| value.to_le_bytes()));
                    });
                }
            )*
        }
    };
}

numbers! {
    i8 i8s i8, "int8";
    i16 i16s i16, "int16";
    i32 i32s i32, "int32";
    i64 i64s i64, "int64";
    u8 u8s u8, "uint8";
    u16 u16s u16, "uint16";
    u32 u32s u32, "uint32";
    u64 u64s u64, "uint64";
    f32 f32s f32, "float32";
    f64 f64s f64, "float64";
}

impl Records {
    /// Adds the next field of the record: one boolean.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.field_bytes(&[u8::from(value)]);
    }
}
