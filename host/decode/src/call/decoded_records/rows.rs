//! The records of a call of `emit`: one span for each field of each record.

use pipemill_types::{Fault, printable};

use super::columns::too_large;
use super::{DecodedRecords, IN_PAYLOAD};
use crate::call::transpose::append_columns;
use crate::sandbox::account::Account;

/// Spans are turned into columns in blocks of this many records: a block of a few fields stays in
/// the first-level cache.
const BLOCK_RECORDS: usize = 512;
/// Number of field names that an error shows.
const SHOWN_NAMES: usize = 8;

/// The arguments of one call of `emit`, not checked yet.
pub(crate) struct EmittedRows<'a> {
    /// Number of records.
    pub(crate) records: usize,
    /// One span for each field of each record.
    pub(crate) spans: &'a [u64],
    /// Bytes that the decoder made.
    pub(crate) payload: &'a [u8],
    /// The start of each record in the chunk.
    pub(crate) starts: &'a [u32],
}

impl DecodedRecords {
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
        emitted: EmittedRows<'_>,
        wants_starts: bool,
        account: &mut Account,
    ) -> wasmtime::Result<()> {
        let EmittedRows { records, spans, payload, starts } = emitted;
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
                return Err(too_large(self.records + index, bytes, max));
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

    /// Adds records of one field whose spans are all in the chunk, in order and without overlap.
    /// Other records of one field go to [`append_rows`](Self::append_rows). `sizes` are the sizes
    /// of the chunk and of the payload.
    fn append_single(&mut self, sizes: (u64, u64), spans: &[u64]) -> Result<(), Fault> {
        let (chunk, column) = (sizes.0, &mut self.columns[0]);
        let (mut records_end, mut bad, mut all_bits) = (self.end, false, 0u64);
        let (from, (offsets, lengths)) = (column.len(), column.lists());
        lengths.extend(spans.iter().map(|span| *span as u32));
        offsets.extend(spans.iter().map(|span| {
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
        column.truncate(from);
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
