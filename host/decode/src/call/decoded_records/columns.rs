//! The records of a call of `emit-columns`: the values of each field, one after the other.

use std::ops::Range;

use pipemill_types::{ABSENT, Column, ErrorKind, Even, Fault, printable};
use wasmtime::component::{ComponentType, Lift};

use super::{DecodedRecords, IN_PAYLOAD, LengthRule};
use crate::sandbox::account::Account;

/// Records whose bytes are added up at a time.
const SUMMED_RECORDS: usize = 1024;
/// The payload of a call begins at a multiple of this, if there is one.
const PAYLOAD_ALIGN: usize = 64;
/// Bytes of one entry of a list of offsets.
const OFFSET_BYTES: u64 = size_of::<u32>() as u64;

/// Where the values of one field lie, as the decoder says it: three spans.
#[derive(Debug, Clone, Copy, ComponentType, Lift)]
#[component(record)]
pub(crate) struct ColumnSpans {
    /// The values.
    values: u64,
    /// Where each begins and ends in them; 0 if all have the size of the field's type.
    offsets: u64,
    /// A bit for each record, set if it has the field; 0 if all have it.
    present: u64,
}

/// The arguments of one call of `emit-columns`, not checked yet.
pub(crate) struct EmittedColumns<'a> {
    /// Number of records.
    pub(crate) records: usize,
    /// One for each field: see [`DecodedRecords::check_columns`].
    pub(crate) columns: &'a [ColumnSpans],
    /// Bytes that the decoder made.
    pub(crate) payload: &'a [u8],
    /// The place in the chunk where all of the records begin.
    pub(crate) start: u32,
}

/// Bytes of a span.
struct Place<'a> {
    bytes: &'a [u8],
    /// The offset of the first one, as in a [`Column`].
    at: u32,
}

impl DecodedRecords {
    /// Checks that there are as many columns as fields.
    pub(crate) fn check_columns(&self, columns: usize) -> Result<(), Fault> {
        let fields = self.fields.len();
        if columns == fields {
            return Ok(());
        }
        Err(Fault::contract(format!("emitted {columns} columns for {fields} fields")))
    }

    /// Checks and adds the records of one call of `emit-columns`. `chunk` is the chunk.
    ///
    /// # Errors
    /// A span is outside of the chunk or the payload, or does not fit the number of records;
    /// offsets are not in order; a field is absent that is not nullable; a value has a length that
    /// its field does not allow; a list's offsets are wrong; a record is larger than a record may
    /// be; or the records start before others. Nothing is added then.
    pub(crate) fn append_columns(
        &mut self,
        chunk: &[u8],
        emitted: EmittedColumns<'_>,
        wants_starts: bool,
        account: &mut Account,
    ) -> wasmtime::Result<()> {
        let EmittedColumns { records, columns, payload, start } = emitted;
        if wants_starts {
            self.check_start(chunk.len(), start)?;
        }
        let base = self.payload.len();
        let place = if payload.is_empty() { base } else { base.next_multiple_of(PAYLOAD_ALIGN) };
        if place as u64 + payload.len() as u64 >= u64::from(IN_PAYLOAD) {
            return Err(Fault::contract("emitted 2 GiB of payload in a call").into());
        }
        self.payload.resize(place, 0);
        self.payload.extend_from_slice(payload);
        let end_before = self.end;
        let added = self.add_all(chunk, records, columns, account);
        if let Err(error) = added.and_then(|()| self.check_fields(chunk, account)) {
            self.truncate(base);
            self.end = end_before;
            return Err(error);
        }
        if wants_starts {
            self.starts.resize(self.records + records, start);
        }
        self.in_columns |= records > 0;
        self.records += records;
        Ok(())
    }

    /// Checks the place where records begin.
    fn check_start(&self, chunk: usize, start: u32) -> Result<(), Fault> {
        let before = self.starts.last().copied().unwrap_or(0);
        let first = self.records;
        if start < before {
            return Err(Fault::contract(format!(
                "says that record {first} of the call starts at {start}, before the one before it \
                 at {before}"
            )));
        }
        if start as usize > chunk {
            return Err(Fault::contract(format!(
                "says that record {first} of the call starts at {start}, outside its chunk of \
                 {chunk} bytes"
            )));
        }
        Ok(())
    }

    /// Adds the records, whose fields are then to be checked.
    fn add_all(
        &mut self,
        chunk: &[u8],
        records: usize,
        columns: &[ColumnSpans],
        account: &mut Account,
    ) -> wasmtime::Result<()> {
        let mut bytes = 0u64;
        for (field, spans) in columns.iter().enumerate() {
            // A column has at least a byte for each record, so this number is bounded.
            account.work(records.saturating_mul(size_of::<u64>()))?;
            bytes += self.add_column(field, *spans, records, chunk)?;
        }
        // Columns may share their bytes, so neither chunk nor payload bounds the bytes of a record.
        if bytes > account.max_record() {
            self.check_sizes(records, account.max_record())?;
        }
        Ok(())
    }

    /// Adds the values of a field. Returns their bytes.
    fn add_column(
        &mut self,
        field: usize,
        spans: ColumnSpans,
        records: usize,
        chunk: &[u8],
    ) -> Result<u64, Fault> {
        let Self { columns, payload, fields, length_rules, .. } = self;
        let wrong = |what: String| {
            let name = printable(&fields[field].name);
            Fault::contract(format!(
                "emitted a column of {records} records for field `{name}` {what}"
            ))
        };
        let place = |what: &str, span: u64| {
            find(span, chunk, payload).ok_or_else(|| {
                let (offset, length) = ((span << 1) >> 33, span & 0xffff_ffff);
                let (place, size) = match span >> 63 {
                    1 => ("payload", payload.len()),
                    _ => ("chunk", chunk.len()),
                };
                wrong(format!(
                    "with {what} at {offset}, {length} bytes long, outside its {place} of {size} \
                     bytes"
                ))
            })
        };
        let values = place("values", spans.values)?;
        let column = &mut columns[field];
        let found = values.bytes.len() as u64;
        if spans.offsets != 0 {
            let offsets = place("offsets", spans.offsets)?.bytes;
            let (wanted, had) = (OFFSET_BYTES * (records as u64 + 1), offsets.len());
            if had as u64 != wanted {
                return Err(wrong(format!("with {had} bytes of offsets, not {wanted}")));
            }
            add_sized(column, &values, offsets).map_err(wrong)?;
        } else if let LengthRule::Exactly(size) = length_rules[field] {
            let wanted = records as u64 * u64::from(size);
            if found != wanted {
                return Err(wrong(format!("with {found} bytes of values, not {wanted}")));
            }
            add_even(column, &values, records, size);
        } else {
            return Err(wrong("without offsets, and its values may have any size".to_owned()));
        }
        let is_in_chunk = spans.values >> 63 == 0;
        if spans.present != 0 {
            let bits = place("bits", spans.present)?.bytes;
            let wanted = records.div_ceil(8);
            let had = bits.len();
            let Some(bits) = bits.get(..wanted) else {
                return Err(wrong(format!("with {had} bytes of bits, not {wanted}")));
            };
            self.absent |= remove_absent(column, records, bits);
        }
        if records > 0 {
            let end = (spans.values >> 32) + found;
            self.end = if is_in_chunk { self.end.max(end) } else { self.end };
            self.has_payload |= !is_in_chunk;
            self.all_in_payload &= !is_in_chunk;
        }
        Ok(found)
    }

    /// Checks that the fields of each of the records that were just added have at most `max` bytes
    /// together.
    fn check_sizes(&self, records: usize, max: u64) -> Result<(), Fault> {
        let all = self.records..self.records + records;
        let mut sums = [0u64; SUMMED_RECORDS];
        for first in all.clone().step_by(SUMMED_RECORDS) {
            let part: Range<usize> = first..all.end.min(first + SUMMED_RECORDS);
            let sums = &mut sums[..part.len()];
            sums.fill(0);
            for column in &self.columns[..self.fields.len()] {
                let lengths = column.lengths()[part.clone()].iter();
                sums.iter_mut().zip(lengths).for_each(|(sum, length)| *sum += u64::from(*length));
            }
            if let Some(at) = sums.iter().position(|sum| *sum > max) {
                return Err(too_large(first + at, sums[at], max));
            }
        }
        Ok(())
    }
}

/// The fault of a record of a call whose fields have this many bytes together.
pub(super) fn too_large(record: usize, bytes: u64, max: u64) -> Fault {
    Fault::new(
        ErrorKind::Limit,
        format!(
            "record {record} of the call has fields of {bytes} bytes together, more than \
             `max_record` = {max} bytes"
        ),
        "if its records are really that large, raise `max_record`",
    )
}

/// The bytes of a span; `None` if it is outside of the chunk or the payload.
fn find<'a>(span: u64, chunk: &'a [u8], payload: &'a [u8]) -> Option<Place<'a>> {
    let (from, length) = (((span << 1) >> 33) as usize, (span & 0xffff_ffff) as usize);
    let (bytes, bit) = if span >> 63 == 1 { (payload, IN_PAYLOAD) } else { (chunk, 0) };
    let bytes = bytes.get(from..from.checked_add(length)?)?;
    Some(Place { bytes, at: from as u32 | bit })
}

/// Adds values of one size.
fn add_even(column: &mut Column, values: &Place<'_>, records: usize, size: u32) {
    // The values lie in memory that 31 bits can count, so nothing overflows.
    column.extend_even(Even { first: values.at, size, records: records as u32 });
}

/// Adds values between offsets. The error says what is wrong with the offsets.
fn add_sized(column: &mut Column, values: &Place<'_>, offsets: &[u8]) -> Result<(), String> {
    let (offsets, _) = offsets.as_chunks::<4>();
    let Some((last, starts)) = offsets.split_last() else { return Ok(()) };
    let last = u32::from_le_bytes(*last);
    let size = values.bytes.len();
    if last as usize > size {
        return Err(format!("with an offset of {last} in {size} bytes of values"));
    }
    let numbers = || offsets.iter().map(|offset| u32::from_le_bytes(*offset));
    let (to_offsets, to_lengths) = column.lists();
    to_offsets.extend(starts.iter().map(|at| values.at.wrapping_add(u32::from_le_bytes(*at))));
    let mut is_ordered = true;
    to_lengths.extend(numbers().zip(numbers().skip(1)).map(|(start, end)| {
        is_ordered &= start <= end;
        end.wrapping_sub(start)
    }));
    if is_ordered {
        return Ok(());
    }
    let mut pairs = numbers().zip(numbers().skip(1));
    let (start, end) = pairs.find(|(start, end)| start > end).unwrap_or_default();
    Err(format!("with an offset of {end} after one of {start}"))
}

/// Makes the last `records` values absent where the bit of a record is not set. Returns whether
/// there is one.
fn remove_absent(column: &mut Column, records: usize, bits: &[u8]) -> bool {
    let is_last = |at: usize| at + 1 == records.div_ceil(8);
    let all = |at: usize| if is_last(at) { u8::MAX >> ((8 - records % 8) % 8) } else { u8::MAX };
    if bits.iter().enumerate().all(|(at, bits)| bits & all(at) == all(at)) {
        return false;
    }
    let (offsets, lengths) = column.lists();
    let from = offsets.len() - records;
    let offsets = offsets[from..].chunks_mut(8);
    let lengths = lengths[from..].chunks_mut(8);
    let mut has_absent = false;
    for ((offsets, lengths), bits) in offsets.zip(lengths).zip(bits) {
        if *bits == u8::MAX {
            continue;
        }
        for (bit, (offset, length)) in offsets.iter_mut().zip(lengths).enumerate() {
            if bits >> bit & 1 == 0 {
                (*offset, *length) = (ABSENT, 0);
                has_absent = true;
            }
        }
    }
    has_absent
}
