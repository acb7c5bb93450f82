//! What a decoder emitted in one call, checked against the chunk and turned into columns.
//!
//! A decoder may lie. Every span is tested here before anything else sees it; what leaves this file
//! lies inside the chunk or the payload, and in order.

use pipemill_types::{ABSENT, Column, Fault, Field};

/// Bit of an offset in a [`Column`] that says: in the payload, not in the chunk.
pub const IN_PAYLOAD: u32 = 1 << 31;
/// Spans are turned into columns in blocks of so many records: a block of a few fields stays in the
/// first cache.
const BLOCK: usize = 512;

/// All that one call emitted.
#[derive(Debug, Default)]
pub struct DecodedRecords {
    /// A column a field. Offsets count from the start of the chunk, or, with [`IN_PAYLOAD`], of the payload.
    pub columns: Vec<Column>,
    /// Bytes that the decoder made.
    pub payload: Vec<u8>,
    /// Where in the chunk each record begins, if the stream was opened with `offsets`.
    pub starts: Vec<u32>,
    /// Number of records.
    pub records: usize,
    /// Whether a field is absent.
    pub absent: bool,
    /// Whether a field lies in the payload, if only as an empty one.
    pub has_payload: bool,
    /// Whether all fields lie in the payload.
    pub all_in_payload: bool,
    /// Where in the chunk the last emitted span ends.
    pub end: u64,
    /// What each field's type says of its length.
    sizes: Vec<Size>,
}

/// What a field's type says of its length in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    Any,
    Exactly(u32),
    MultipleOf(u32),
}

impl Size {
    fn of(field: &Field) -> Self {
        let known = field.shape.iter().filter(|dim| **dim > 0);
        let bytes = known
            .fold(field.scalar.size() as u64, |size, dim| size.saturating_mul(u64::from(*dim)));
        let open = field.shape.contains(&0);
        match u32::try_from(bytes) {
            Ok(1) if open || field.is_text() => Self::Any,
            Ok(bytes) if open => Self::MultipleOf(bytes),
            Ok(bytes) => Self::Exactly(bytes),
            // Longer than any span: every field is refused.
            Err(_) => Self::Exactly(u32::MAX),
        }
    }

    fn fits(self, offset: u32, length: u32) -> bool {
        offset == ABSENT
            || match self {
                Self::Any => true,
                Self::Exactly(bytes) => length == bytes,
                Self::MultipleOf(bytes) => length.is_multiple_of(bytes),
            }
    }
}

impl DecodedRecords {
    /// Forgets everything but the fields and the memory.
    pub(super) fn clear(&mut self) {
        for column in &mut self.columns {
            column.offsets.clear();
            column.lengths.clear();
        }
        self.payload.clear();
        self.starts.clear();
        self.records = 0;
        self.absent = false;
        self.has_payload = false;
        self.all_in_payload = true;
        self.end = 0;
    }

    pub(super) fn set_fields(&mut self, fields: &[Field]) {
        self.columns.resize_with(fields.len(), Column::default);
        self.sizes = fields.iter().map(Size::of).collect();
    }

    /// Takes what a call of `emit` gave, if it is true.
    pub(super) fn take(
        &mut self,
        chunk: usize,
        spans: &[u64],
        payload: &[u8],
        starts: &[u32],
        want_starts: bool,
    ) -> Result<(), Fault> {
        let fields = self.columns.len();
        let records = spans.len() / fields.max(1);
        if spans.len() != records * fields {
            let count = spans.len();
            return Err(Fault::contract(format!(
                "emitted {count} spans for records of {fields} fields"
            )));
        }
        if want_starts && starts.len() != records {
            let count = starts.len();
            return Err(Fault::contract(format!("emitted {records} records with {count} starts")));
        }
        // A record takes at least a byte of input, so this bounds what a call can pile up.
        if self.records + records > chunk + 1 {
            return Err(Fault::contract(format!(
                "emitted more than {chunk} records from a chunk of {chunk} bytes"
            )));
        }
        let base = self.payload.len();
        let made_end = base as u64 + payload.len() as u64;
        if made_end >= u64::from(IN_PAYLOAD) {
            return Err(Fault::contract("emitted 2 GiB of payload in a call"));
        }
        self.payload.extend_from_slice(payload);
        let (chunk, payload, reached) = (chunk as u64, payload.len() as u64, self.end);
        let taken = if fields == 1 {
            self.take_single(chunk, spans, payload, base as u32)
        } else {
            self.take_rows(chunk, spans, payload, base as u32)
        };
        if let Err(fault) = taken.and_then(|()| self.check_sizes()) {
            self.forget_behind(base);
            self.end = reached;
            return Err(fault);
        }
        if want_starts {
            self.starts.extend_from_slice(starts);
        }
        self.records += records;
        Ok(())
    }

    /// Whether the fields that were just taken are as long as their types say.
    fn check_sizes(&self) -> Result<(), Fault> {
        for (field, (column, size)) in self.columns.iter().zip(&self.sizes).enumerate() {
            if *size == Size::Any {
                continue;
            }
            let (offsets, lengths) =
                (&column.offsets[self.records..], &column.lengths[self.records..]);
            let pairs = offsets.iter().zip(lengths);
            if pairs.clone().fold(true, |good, (at, length)| good & size.fits(*at, *length)) {
                continue;
            }
            let wrong = pairs.zip(self.records..).find(|((at, len), _)| !size.fits(**at, **len));
            let (length, record) = wrong.map_or((0, 0), |((_, length), record)| (*length, record));
            let wanted = match size {
                Size::MultipleOf(bytes) => format!("a multiple of {bytes}"),
                Size::Exactly(bytes) => format!("{bytes}"),
                Size::Any => String::new(),
            };
            return Err(Fault::contract(format!(
                "record {record} of the call has {length} bytes in field {field}; its type and shape \
                 want {wanted}"
            )));
        }
        Ok(())
    }

    /// Forgets what was taken of a call of `emit` that was not true.
    fn forget_behind(&mut self, payload: usize) {
        for column in &mut self.columns {
            column.offsets.truncate(self.records);
            column.lengths.truncate(self.records);
        }
        self.payload.truncate(payload);
    }

    /// One field: in the order of the chunk, without overlap. Checks are gathered without branches.
    fn take_single(
        &mut self,
        chunk: u64,
        spans: &[u64],
        payload: u64,
        base: u32,
    ) -> Result<(), Fault> {
        let column = &mut self.columns[0];
        let (mut reached, mut bad, mut made) = (self.end, false, 0u64);
        let from = column.offsets.len();
        column.lengths.extend(spans.iter().map(|span| *span as u32));
        column.offsets.extend(spans.iter().map(|span| {
            let (offset, end) = (span >> 32, (span >> 32) + (span & 0xffff_ffff));
            made |= span;
            bad |= (offset < reached) | (end > chunk);
            reached = end;
            offset as u32
        }));
        if made >> 63 == 0 {
            self.all_in_payload &= spans.is_empty();
            if bad {
                return Err(self.name_the_bad_one(chunk, spans, payload));
            }
            self.end = reached;
            return Ok(());
        }
        column.offsets.truncate(from);
        column.lengths.truncate(from);
        self.take_rows(chunk, spans, payload, base)
    }

    /// Any fields: those in the chunk lie behind the records before, in any order among themselves.
    fn take_rows(
        &mut self,
        chunk: u64,
        spans: &[u64],
        payload: u64,
        base: u32,
    ) -> Result<(), Fault> {
        let fields = self.columns.len();
        let (before, mut bad) = (self.end, false);
        for rows in spans.chunks(BLOCK * fields) {
            for row in rows.chunks_exact(fields) {
                let (mut low, mut high) = (u64::MAX, self.end);
                for span in row {
                    let (offset, end) = (span >> 32, (span >> 32) + (span & 0xffff_ffff));
                    if *span >> 63 == 0 {
                        low = low.min(offset);
                        high = high.max(end);
                        bad |= end > chunk;
                        self.all_in_payload = false;
                    } else if *span != u64::MAX {
                        let end = end - u64::from(IN_PAYLOAD);
                        bad |= end > payload;
                        self.has_payload = true;
                    } else {
                        self.absent = true;
                    }
                }
                bad |= low < self.end;
                self.end = high;
            }
            for (field, column) in self.columns.iter_mut().enumerate() {
                let of_field = rows[field..].iter().step_by(fields);
                column.offsets.extend(of_field.clone().map(|span| match *span {
                    u64::MAX => ABSENT,
                    // Payload of earlier calls of `emit` lies before this one's.
                    span if span >> 63 == 1 => ((span >> 32) as u32).wrapping_add(base),
                    span => (span >> 32) as u32,
                }));
                column.lengths.extend(of_field.map(|span| match *span {
                    u64::MAX => 0,
                    span => span as u32,
                }));
            }
        }
        if bad {
            self.end = before;
            return Err(self.name_the_bad_one(chunk, spans, payload));
        }
        Ok(())
    }

    /// The fast loops only know that something is wrong; this says what.
    fn name_the_bad_one(&self, chunk: u64, spans: &[u64], payload: u64) -> Fault {
        let fields = self.columns.len();
        let mut reached = self.end;
        for (index, row) in spans.chunks(fields).enumerate() {
            let record = self.records + index;
            for span in row.iter().filter(|span| **span != u64::MAX) {
                let (offset, length) = ((span << 1) >> 33, span & 0xffff_ffff);
                let (what, size) =
                    if span >> 63 == 1 { ("payload", payload) } else { ("chunk", chunk) };
                if offset + length > size {
                    return Fault::contract(format!(
                        "record {record} of the call has a span at {offset}, {length} bytes long, \
                         outside its {what} of {size} bytes"
                    ));
                }
            }
            let in_chunk = || row.iter().filter(|span| *span >> 63 == 0);
            if let Some(low) = in_chunk().map(|span| span >> 32).min()
                && low < reached
            {
                return Fault::contract(format!(
                    "record {record} of the call starts at {low}, before the end of the record \
                     before it at {reached}"
                ));
            }
            let end = in_chunk().map(|span| (span >> 32) + (span & 0xffff_ffff)).max();
            reached = reached.max(end.unwrap_or(0));
        }
        Fault::contract("emitted a span that is not in order")
    }
}
