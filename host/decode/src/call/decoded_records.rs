//! The records that a decoder emitted in one call, as checked columns.
//!
//! A decoder can't be trusted, so each span is checked here before other code sees it. The checked
//! spans lie inside the chunk or the payload, and those in the chunk are in the order of the
//! records.
//!
//! The checks have two parts. Fast loops find out whether some span is wrong. Only if one is, a
//! slow loop finds it and describes it.

use std::ops::Range;
use std::sync::Arc;

use pipemill_types::{
    ABSENT, AddedValue, Column, ErrorKind, Fault, Field, list_problem, printable, remove_ranges,
};

use crate::call::transpose::append_columns;
use crate::sandbox::account::Account;

/// This bit of an offset in a [`Column`] is set if the field is in the payload and not in the
/// chunk.
pub const IN_PAYLOAD: u32 = 1 << 31;
/// Spans are turned into columns in blocks of this many records: a block of a few fields stays in
/// the first-level cache.
const BLOCK_RECORDS: usize = 512;
/// Number of field names that an error shows.
const SHOWN_NAMES: usize = 8;

/// All records that a decoder emitted in one call.
#[derive(Debug, Default)]
pub struct DecodedRecords {
    /// One column for each field of the decoder, and then one for each field that was added.
    /// Offsets are bytes from the start of the chunk; with [`IN_PAYLOAD`], from the start of the
    /// payload.
    pub columns: Vec<Column>,
    /// Bytes that the decoder produced itself, for fields whose bytes are not in the chunk, and
    /// then those of the fields that were added.
    pub payload: Vec<u8>,
    /// Offset in the chunk at which each record starts. Empty unless the stream was opened with
    /// `offsets`.
    pub starts: Vec<u32>,
    /// Number of records.
    pub records: usize,
    /// Whether at least one field is absent.
    pub absent: bool,
    /// Whether at least one field is in the payload. An empty field counts, too.
    pub has_payload: bool,
    /// Whether no field is in the chunk.
    pub all_in_payload: bool,
    /// Offset in the chunk at which the last emitted span, or the last error, ends; 0 if there is
    /// none.
    pub end: u64,
    /// The errors that the decoder reported and continued after, in the order of the input.
    pub errors: Vec<InlineError>,
    /// The fields of the decoder.
    fields: Arc<[Field]>,
    /// The lengths that each field's type allows.
    length_rules: Vec<LengthRule>,
    /// The fields that are lists.
    lists: Vec<usize>,
}

/// Bytes of the chunk that can't be decoded, between records of the same call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InlineError {
    /// Number of records of the call before the bytes.
    pub records: usize,
    /// Offset in the chunk at which they start.
    pub offset: usize,
    /// Offset in the chunk at which they end.
    pub end: usize,
    /// The error's text: what was expected and what was found.
    pub message: String,
}

/// The arguments of one call of `emit`, not checked yet.
pub(crate) struct EmitCall<'a> {
    /// Number of records.
    pub(crate) records: usize,
    /// One span for each field of each record.
    pub(crate) spans: &'a [u64],
    /// Bytes that the decoder made.
    pub(crate) payload: &'a [u8],
    /// The start of each record in the chunk.
    pub(crate) starts: &'a [u32],
}

/// The lengths, in bytes, that a field's type and shape allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LengthRule {
    Any,
    Exactly(u32),
    MultipleOf(u32),
}

impl LengthRule {
    fn of(field: &Field) -> Self {
        let known = field.shape.iter().filter(|dim| **dim > 0);
        let bytes = known
            .fold(field.scalar.size() as u64, |size, dim| size.saturating_mul(u64::from(*dim)));
        let open = field.shape.contains(&0);
        match u32::try_from(bytes) {
            _ if field.scalar.is_string() => Self::Any,
            Ok(1) if open => Self::Any,
            Ok(bytes) if open => Self::MultipleOf(bytes),
            Ok(bytes) => Self::Exactly(bytes),
            // This is longer than any span, so every field is refused. `Field::problem` finds the
            // cause first.
            Err(_) => Self::Exactly(u32::MAX),
        }
    }

    fn allows(self, offset: u32, length: u32) -> bool {
        offset == ABSENT
            || match self {
                Self::Any => true,
                Self::Exactly(bytes) => length == bytes,
                Self::MultipleOf(bytes) => length.is_multiple_of(bytes),
            }
    }
}

impl DecodedRecords {
    /// Removes all records. The fields and the allocated memory stay.
    pub(crate) fn clear(&mut self) {
        self.errors.clear();
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

    /// Sets the fields of the decoder.
    pub(crate) fn set_fields(&mut self, fields: &Arc<[Field]>) {
        self.fields = fields.clone();
        self.columns.resize_with(fields.len(), Column::default);
        self.length_rules = fields.iter().map(LengthRule::of).collect();
        let lists = fields.iter().enumerate().filter(|(_, field)| field.is_list());
        self.lists = lists.map(|(index, _)| index).collect();
    }

    /// Checks and adds the records of one call of `emit`. `bytes` is the chunk.
    ///
    /// # Errors
    /// A number of spans or starts does not fit the number of records; a start is out of order or
    /// after a field of its record; a span is outside of the chunk or payload, out of order, or has
    /// a length that its field does not allow; a field is absent that is not nullable; a list's
    /// offsets are wrong; or the fields of a record are far larger than the chunk. Nothing is added
    /// then.
    pub(crate) fn append(
        &mut self,
        bytes: &[u8],
        emitted: EmitCall<'_>,
        wants_starts: bool,
        account: &mut Account,
    ) -> wasmtime::Result<()> {
        let EmitCall { records, spans, payload, starts } = emitted;
        let (chunk, fields) = (bytes.len(), self.fields.len());
        if spans.len() as u64 != records as u64 * fields as u64 {
            return Err(self.describe_count(records, spans.len()).into());
        }
        if wants_starts && starts.len() != records {
            let count = starts.len();
            let message = format!("emitted {records} records with {count} starts");
            return Err(Fault::contract(message).into());
        }
        if wants_starts {
            self.check_starts(spans, starts)?;
        }
        account.work(size_of_val(spans))?;
        let base = self.payload.len();
        let payload_end = base as u64 + payload.len() as u64;
        if payload_end >= u64::from(IN_PAYLOAD) {
            return Err(Fault::contract("emitted 2 GiB of payload in a call").into());
        }
        self.check_record_sizes(chunk, payload_end, spans, account.max_record())?;
        self.payload.extend_from_slice(payload);
        let (sizes, end_before) = ((chunk as u64, payload_end), self.end);
        let appended = if fields == 1 {
            self.append_single(sizes, spans)
        } else {
            self.append_rows(sizes, spans)
        };
        let checked = appended
            .map_err(wasmtime::Error::from)
            .and_then(|()| self.check_fields(bytes, account));
        if let Err(error) = checked {
            self.truncate(base);
            self.end = end_before;
            return Err(error);
        }
        if wants_starts {
            self.starts.extend_from_slice(starts);
        }
        self.records += records;
        Ok(())
    }

    /// Adds fields with these values to all records of the call. The first of them is record number
    /// `first`. The values lie in the payload: one for each record, or one for all of them.
    ///
    /// # Errors
    /// The payload has no room for the values. The records are removed then.
    pub(crate) fn add_fields(&mut self, added: &[AddedValue], first: u64) -> Result<(), Fault> {
        let (own, records) = (self.fields.len(), self.records);
        self.columns.resize_with(own + added.len(), Column::default);
        if added.is_empty() || records == 0 {
            return Ok(());
        }
        let size_of_value = |value: &AddedValue| match value {
            AddedValue::Number => 8 * (records as u64 + 1),
            AddedValue::Same(value) => 8 + value.as_ref().map_or(0, Vec::len) as u64,
        };
        let most = self.payload.len() as u64 + added.iter().map(size_of_value).sum::<u64>();
        if most >= u64::from(IN_PAYLOAD) {
            self.clear();
            return Err(Fault::contract("emitted 2 GiB of payload in a call"));
        }
        for (column, added) in self.columns[own..].iter_mut().zip(added) {
            // Numbers are aligned, as consumers read them.
            let start = self.payload.len().next_multiple_of(size_of::<u64>());
            let value_at = |at: usize| at as u32 | IN_PAYLOAD;
            match added {
                AddedValue::Number => {
                    self.payload.resize(start, 0);
                    let numbers = first..first + records as u64;
                    self.payload.extend(numbers.flat_map(u64::to_le_bytes));
                    let size = size_of::<u64>();
                    column.offsets.extend((start..).step_by(size).take(records).map(value_at));
                    column.lengths.resize(records, size as u32);
                    self.has_payload = true;
                }
                AddedValue::Same(Some(value)) => {
                    self.payload.resize(start, 0);
                    self.payload.extend_from_slice(value);
                    column.offsets.resize(records, value_at(start));
                    column.lengths.resize(records, value.len() as u32);
                    self.has_payload = true;
                }
                AddedValue::Same(None) => {
                    column.offsets.resize(records, ABSENT);
                    column.lengths.resize(records, 0);
                    self.absent = true;
                }
            }
        }
        Ok(())
    }

    /// Removes the records of the call in these ranges, which are in order.
    pub(crate) fn remove(&mut self, ranges: &[Range<usize>]) {
        for column in &mut self.columns {
            column.remove(ranges);
        }
        remove_ranges(&mut self.starts, ranges);
        for error in &mut self.errors {
            let before = ranges.iter().take_while(|range| range.start < error.records);
            error.records -=
                before.map(|range| range.end.min(error.records) - range.start).sum::<usize>();
        }
        self.records -= ranges.iter().map(Range::len).sum::<usize>();
    }

    /// Checks that the starts are in order, and that no field of a record is before its start.
    fn check_starts(&self, spans: &[u64], starts: &[u32]) -> Result<(), Fault> {
        let mut before = self.starts.last().copied().unwrap_or(0);
        let rows = spans.chunks_exact(self.fields.len());
        for (index, (row, start)) in rows.zip(starts).enumerate() {
            let record = self.records + index;
            if *start < before {
                return Err(Fault::contract(format!(
                    "says that record {record} of the call starts at {start}, before the one \
                     before it at {before}"
                )));
            }
            let in_chunk = row.iter().filter(|span| **span >> 63 == 0);
            if let Some(low) = in_chunk.map(|span| span >> 32).min()
                && low < u64::from(*start)
            {
                return Err(Fault::contract(format!(
                    "says that record {record} of the call starts at {start}, but it has a field \
                     at {low}"
                )));
            }
            before = *start;
        }
        Ok(())
    }

    /// Checks that the fields of each record have at most `max` bytes together. Spans may overlap,
    /// so neither chunk nor payload bounds that. Only many fields of many bytes can exceed it, so
    /// most calls don't check single spans.
    fn check_record_sizes(
        &self,
        chunk: usize,
        payload: u64,
        spans: &[u64],
        max: u64,
    ) -> Result<(), Fault> {
        let fields = self.fields.len();
        if (fields as u64).saturating_mul(payload.max(chunk as u64)) <= max {
            return Ok(());
        }
        let length = |span: &u64| if *span == u64::MAX { 0 } else { span & 0xffff_ffff };
        for (index, row) in spans.chunks_exact(fields).enumerate() {
            let bytes: u64 = row.iter().map(length).sum();
            if bytes > max {
                let record = self.records + index;
                return Err(Fault::new(
                    ErrorKind::Limit,
                    format!(
                        "record {record} of the call has fields of {bytes} bytes together, more \
                         than `max_record` = {max} bytes"
                    ),
                    "if its records are really that large, raise `max_record`",
                ));
            }
        }
        Ok(())
    }

    /// The fault of records that don't have one span for each field.
    fn describe_count(&self, records: usize, spans: usize) -> Fault {
        let fields = self.fields.len();
        let names: Vec<_> =
            self.fields.iter().take(SHOWN_NAMES).map(|f| printable(&f.name)).collect();
        let more = if fields > SHOWN_NAMES { ", …" } else { "" };
        Fault::contract(format!(
            "emitted {spans} spans for {records} records of {fields} fields ({}{more}): a record \
             has one span, or an absent one, for each field",
            names.join(", ")
        ))
    }

    /// Checks the requirements of the fields' types, in the records that were just added. `chunk`
    /// is the chunk.
    fn check_fields(&self, chunk: &[u8], account: &mut Account) -> wasmtime::Result<()> {
        self.check_lengths()?;
        if self.absent {
            self.check_absent()?;
        }
        self.lists.iter().try_for_each(|field| self.check_lists(*field, chunk, account))
    }

    /// Checks that no field is absent that is not nullable.
    fn check_absent(&self) -> Result<(), Fault> {
        let fields = self.fields.iter().zip(&self.columns).filter(|(field, _)| !field.nullable);
        for (field, column) in fields {
            let new = &column.offsets[self.records..];
            if let Some(row) = new.iter().position(|offset| *offset == ABSENT) {
                return Err(Fault::contract(format!(
                    "record {} of the call lacks the field `{}`, which is not declared nullable",
                    self.records + row,
                    printable(&field.name)
                )));
            }
        }
        Ok(())
    }

    /// Checks the offsets of the lists in a field. Lists in the payload may share bytes, so the
    /// work is charged to `account`.
    fn check_lists(
        &self,
        field: usize,
        chunk: &[u8],
        account: &mut Account,
    ) -> wasmtime::Result<()> {
        let column = &self.columns[field];
        let new = column.offsets.iter().zip(&column.lengths).enumerate().skip(self.records);
        for (record, (offset, length)) in new.filter(|(_, (offset, _))| **offset != ABSENT) {
            let bytes = if offset & IN_PAYLOAD == 0 { chunk } else { &self.payload };
            let from = (offset & !IN_PAYLOAD) as usize;
            account.work(*length as usize)?;
            if let Some(problem) = list_problem(&bytes[from..from + *length as usize]) {
                let name = printable(&self.fields[field].name);
                return Err(Fault::contract(format!(
                    "record {record} of the call has a list in field `{name}` that {problem}"
                ))
                .into());
            }
        }
        Ok(())
    }

    /// Checks the position of an error in a chunk of `chunk` bytes.
    pub(crate) fn check_error(&self, chunk: usize, offset: usize, end: usize) -> Result<(), Fault> {
        if end > chunk || end <= offset {
            return Err(Fault::contract(format!(
                "reports bad bytes from {offset} to {end} in a chunk of {chunk}"
            )));
        }
        if (offset as u64) < self.end {
            return Err(error_inside_record(offset, self.end));
        }
        Ok(())
    }

    /// Adds an error whose position was checked.
    pub(crate) fn add_error(&mut self, offset: usize, end: usize, message: String) {
        self.errors.push(InlineError { records: self.records, offset, end, message });
        self.end = end as u64;
    }

    /// Checks the lengths of the fields that were just added.
    fn check_lengths(&self) -> Result<(), Fault> {
        for (field, (column, rule)) in self.columns.iter().zip(&self.length_rules).enumerate() {
            if *rule == LengthRule::Any {
                continue;
            }
            let (offsets, lengths) =
                (&column.offsets[self.records..], &column.lengths[self.records..]);
            let pairs = offsets.iter().zip(lengths);
            if pairs.clone().fold(true, |good, (at, length)| good & rule.allows(*at, *length)) {
                continue;
            }
            let wrong = pairs.zip(self.records..).find(|((at, len), _)| !rule.allows(**at, **len));
            let (length, record) = wrong.map_or((0, 0), |((_, length), record)| (*length, record));
            let wanted = match rule {
                LengthRule::MultipleOf(bytes) => format!("a multiple of {bytes}"),
                LengthRule::Exactly(bytes) => format!("{bytes}"),
                LengthRule::Any => String::new(),
            };
            return Err(Fault::contract(format!(
                "record {record} of the call has {length} bytes in field `{}`; its type and \
                 shape want {wanted}",
                printable(&self.fields[field].name)
            )));
        }
        Ok(())
    }

    /// Removes the records that a refused call of `emit` has added. `payload` is the length of the
    /// payload before that call.
    fn truncate(&mut self, payload: usize) {
        for column in &mut self.columns {
            column.offsets.truncate(self.records);
            column.lengths.truncate(self.records);
        }
        self.payload.truncate(payload);
    }

    /// Adds records of one field whose spans are all in the chunk, in order and without overlap.
    /// Other records of one field go to [`append_rows`](Self::append_rows). `sizes` are the sizes
    /// of the chunk and of the payload.
    fn append_single(&mut self, sizes: (u64, u64), spans: &[u64]) -> Result<(), Fault> {
        let (chunk, column) = (sizes.0, &mut self.columns[0]);
        let (mut records_end, mut bad, mut all_bits) = (self.end, false, 0u64);
        let from = column.offsets.len();
        column.lengths.extend(spans.iter().map(|span| *span as u32));
        column.offsets.extend(spans.iter().map(|span| {
            let (offset, end) = (span >> 32, (span >> 32) + (span & 0xffff_ffff));
            all_bits |= span;
            bad |= (offset < records_end) | (end > chunk);
            records_end = end;
            offset as u32
        }));
        if all_bits >> 63 == 0 {
            self.all_in_payload &= spans.is_empty();
            if bad {
                return Err(self.describe_bad_span(sizes, spans));
            }
            self.end = records_end;
            return Ok(());
        }
        column.offsets.truncate(from);
        column.lengths.truncate(from);
        self.append_rows(sizes, spans)
    }

    /// Adds records of any fields. The fields of a record that are in the chunk must start at or
    /// after the end of the record before it; they may be in any order. `sizes` are the sizes of
    /// the chunk and of the payload.
    fn append_rows(&mut self, sizes: (u64, u64), spans: &[u64]) -> Result<(), Fault> {
        let fields = self.fields.len();
        let (before, mut bad) = (self.end, false);
        for rows in spans.chunks(BLOCK_RECORDS * fields) {
            match end_in_order(self.end, sizes.0, rows) {
                Some(end) => (self.end, self.all_in_payload) = (end, false),
                None => bad |= !self.check_rows(sizes, rows),
            }
            append_columns(&mut self.columns[..fields], rows);
        }
        if bad {
            self.end = before;
            return Err(self.describe_bad_span(sizes, spans));
        }
        Ok(())
    }

    /// Checks the positions of these spans, and updates the facts about the call. Returns whether
    /// all of them are good.
    fn check_rows(&mut self, (chunk, payload): (u64, u64), rows: &[u64]) -> bool {
        let mut bad = false;
        for row in rows.chunks_exact(self.fields.len()) {
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
        !bad
    }

    /// Finds the first wrong span, and describes it.
    fn describe_bad_span(&self, (chunk, payload): (u64, u64), spans: &[u64]) -> Fault {
        let fields = self.fields.len();
        let mut records_end = self.end;
        for (index, row) in spans.chunks(fields).enumerate() {
            let record = self.records + index;
            for span in row.iter().filter(|span| **span != u64::MAX) {
                let (offset, length) = ((span << 1) >> 33, span & 0xffff_ffff);
                let (place, size) =
                    if span >> 63 == 1 { ("payload", payload) } else { ("chunk", chunk) };
                if offset + length > size {
                    return Fault::contract(format!(
                        "record {record} of the call has a span at {offset}, {length} bytes long, \
                         outside its {place} of {size} bytes"
                    ));
                }
            }
            let in_chunk = || row.iter().filter(|span| *span >> 63 == 0);
            if let Some(low) = in_chunk().map(|span| span >> 32).min()
                && low < records_end
            {
                return Fault::contract(format!(
                    "record {record} of the call starts at {low}, before the end of the record \
                     before it at {records_end}"
                ));
            }
            let end = in_chunk().map(|span| (span >> 32) + (span & 0xffff_ffff)).max();
            records_end = records_end.max(end.unwrap_or(0));
        }
        Fault::contract("emitted a span that is not in order")
    }
}

/// The end of the last span, if all spans are in a chunk of `chunk` bytes at or after `from`, in
/// order and without overlap, as most decoders emit them.
fn end_in_order(from: u64, chunk: u64, spans: &[u64]) -> Option<u64> {
    let (first, last) = (spans.first()?, spans.last()?);
    let (offset, end) = (|span: u64| span >> 32, |span: u64| (span >> 32) + (span & 0xffff_ffff));
    // A record with a payload field usually starts with one: test the first span only.
    if first >> 63 == 1 || offset(*first) < from {
        return None;
    }
    // The top bit of a distance is set if the span starts before the end of the one before it.
    // Without comparisons, the loop is compiled to vector instructions.
    let pairs = spans.iter().zip(&spans[1..]);
    let bits =
        pairs.fold(*last, |bits, (one, next)| bits | one | offset(*next).wrapping_sub(end(*one)));
    (bits >> 63 == 0 && end(*last) <= chunk).then_some(end(*last))
}

/// The fault of an error whose position is before the end of the records of its call.
pub(crate) fn error_inside_record(offset: usize, records_end: u64) -> Fault {
    Fault::contract(format!(
        "reports an error at {offset}, inside a record that it emitted and that ends at \
         {records_end}"
    ))
}
