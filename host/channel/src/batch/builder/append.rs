//! Adds the records of a call of the decoder to the batch.

use std::ops::Range;

use pipemill_decode::{DecodedRecords, IN_PAYLOAD};

use super::BatchBuilder;
use crate::batch::ALIGN;
use crate::batch::copy::run::ValueSpan;
use crate::batch::cut::CutPoint;
use crate::{Sink, StopReason};

/// The index of a dedicated buffer takes memory of its own. Records whose index takes more than
/// this many bytes go into slots instead.
const MAX_DEDICATED_INDEX: usize = 4 << 20;

impl<S: Sink> BatchBuilder<'_, '_, S> {
    /// Adds the records of a call of the decoder to the batch. If they don't fit, the batch leaves
    /// and a new one begins.
    pub(crate) fn append(&mut self, decoded: &DecodedRecords) -> Result<(), StopReason> {
        // Records after the last wanted one are dropped, and those before the first one.
        let left = self.wanted.end.saturating_sub(self.records);
        let records =
            usize::try_from(left).map_or(decoded.records, |left| left.min(decoded.records));
        if records == 0 {
            return Ok(());
        }
        // The chunk of records that do not lie in their order may have those of several batches.
        let may_be_cut = decoded.in_columns && self.writer.size().is_some();
        let makes_values = decoded.payload.len() as u64 > decoded.end;
        self.input.prefers_copying = Some(makes_values || may_be_cut);
        let again = self.again.min(records as u64);
        self.again -= again;
        self.records += again;
        let left = records as u64 - again;
        let unwanted = self.wanted.start.saturating_sub(self.records).min(left);
        let skipped = self.writer.take_to_skip(left - unwanted);
        let mut from = (again + unwanted + skipped) as usize;
        self.records += unwanted + skipped;
        let Some(size) = self.writer.size() else {
            if from < records {
                self.append_part(decoded, from..records)?;
            }
            self.records += (records - from) as u64;
            return Ok(());
        };
        while from < records {
            let fill = size.records - self.writer.batch.records;
            let part = from..records.min(from + fill);
            self.writer.count_index(self.writer.batch.records + part.len())?;
            self.append_part(decoded, part.clone())?;
            self.records += part.len() as u64;
            self.cut_at(CutPoint::Decoded)?;
            from = part.end;
        }
        Ok(())
    }

    /// Adds a part of a call's records to the batch.
    fn append_part(
        &mut self,
        decoded: &DecodedRecords,
        part: Range<usize>,
    ) -> Result<(), StopReason> {
        self.begin_batch(self.records);
        if self.in_place && decoded.in_columns && part.len() < decoded.records {
            self.leave_batch_memory();
        }
        if self.in_place && !self.append_in_place(decoded, part.clone()) {
            self.leave_batch_memory();
            self.cut_at(CutPoint::NoRoom)?;
            self.begin_batch(self.records);
        }
        if !self.in_place { self.append_copying(decoded, part) } else { Ok(()) }
    }

    /// Notes where the batch's first record comes from, if the batch has none yet.
    fn begin_batch(&mut self, first_record: u64) {
        self.writer.begin_batch(&self.object, self.position, first_record);
    }

    /// Adds a part of the records of a call whose chunk lies in the batch's memory. False if they
    /// don't fit.
    fn append_in_place(&mut self, decoded: &DecodedRecords, part: Range<usize>) -> bool {
        let (records, fields) =
            (self.writer.batch.records + part.len(), self.writer.batch.columns.len());
        if self.writer.is_dedicated()
            && self.writer.size().is_none()
            && 8 * records * fields > MAX_DEDICATED_INDEX
        {
            return false;
        }
        let Some(room) = self.room(records) else { return false };
        let chunk_end = self.at + self.len;
        let payload_at = if self.writer.batch.payload > chunk_end {
            self.writer.batch.payload
        } else {
            chunk_end.next_multiple_of(ALIGN)
        };
        let payload_end = payload_at + decoded.payload.len();
        let end = if decoded.payload.is_empty() { chunk_end } else { payload_end };
        if end.max(self.writer.batch.payload) > room {
            return false;
        }
        if decoded.payload.is_empty() {
            self.writer.batch.payload =
                self.writer.batch.payload.max(self.at + decoded.end as usize);
            self.writer.batch.add_in_place(decoded, part, self.at, 0, self.position);
        } else {
            self.writer.memory_mut()[payload_at..payload_end].copy_from_slice(&decoded.payload);
            self.writer.batch.payload = payload_end;
            self.writer.batch.add_in_place(decoded, part, self.at, payload_at, self.position);
        }
        true
    }

    /// Adds a part of the records of a call whose chunk lies in the private buffer. `self.records`
    /// is the number of the first one.
    fn append_copying(
        &mut self,
        decoded: &DecodedRecords,
        part: Range<usize>,
    ) -> Result<(), StopReason> {
        let first = self.records - part.start as u64;
        // The parts that are left, the next one last.
        let mut parts = vec![part];
        while let Some(part) = parts.pop() {
            let number = first + part.start as u64;
            self.begin_batch(number);
            let place = ValueSpan::of(&decoded.columns, &part);
            if self.append_together(decoded, &part, &place)?
                || self.append_by_field(decoded, &part, &place)?
            {
                continue;
            }
            if part.len() == 1 {
                self.append_record(decoded, part.start, number)?;
            } else if self.has_records() && self.writer.size().is_none() {
                // Values that lie in one batch are adjacent.
                self.cut_at(CutPoint::NoRoom)?;
                parts.push(part);
            } else {
                let middle = part.start + part.len() / 2;
                parts.extend([middle..part.end, part.start..middle]);
            }
        }
        Ok(())
    }

    /// Adds one record, in a dedicated buffer if it fits into no other memory.
    fn append_record(
        &mut self,
        decoded: &DecodedRecords,
        record: usize,
        number: u64,
    ) -> Result<(), StopReason> {
        let bytes: usize = decoded.columns.iter().map(|c| c.get(record).1 as usize).sum();
        self.ensure_room(bytes)?;
        self.begin_batch(number);
        let chunk = self.input.bytes(self.at..self.at + self.len);
        let (batch, memory) = self.writer.batch_and_memory();
        batch.add_copied(memory, decoded, record, chunk, self.position);
        Ok(())
    }

    /// Adds a part of the records of a call, if all their values lie in the chunk, or all lie in
    /// the call's payload. It copies all bytes from the first value to the last one. Returns false
    /// if that would copy many more bytes than the values have, or if the records don't fit.
    fn append_together(
        &mut self,
        decoded: &DecodedRecords,
        part: &Range<usize>,
        place: &ValueSpan,
    ) -> Result<bool, StopReason> {
        let is_of_one_source = !decoded.has_payload || decoded.all_in_payload;
        let from = place.place_from(self.writer.batch.payload);
        let to = from + place.span.len();
        let fits = is_of_one_source && place.is_together();
        if !fits || !self.writer.make_room_for(to, part.len())? {
            return Ok(false);
        }
        let start = place.span.start & !(IN_PAYLOAD as usize);
        let bytes = start..start + place.span.len();
        let source = match decoded.has_payload {
            true => &decoded.payload[bytes],
            false => &self.input.bytes(self.at..self.at + self.len)[bytes],
        };
        self.writer.memory_mut()[from..to].copy_from_slice(source);
        let source_at = from.wrapping_sub(start);
        self.writer.batch.add_in_place(decoded, part.clone(), source_at, source_at, self.position);
        self.writer.batch.payload = to;
        Ok(true)
    }

    /// Adds a part of the records of a call, field by field. Returns false if they don't fit.
    fn append_by_field(
        &mut self,
        decoded: &DecodedRecords,
        part: &Range<usize>,
        place: &ValueSpan,
    ) -> Result<bool, StopReason> {
        let to = self.writer.batch.payload + place.bytes_by_field();
        if !self.writer.make_room_for(to, part.len())? {
            return Ok(false);
        }
        let chunk = self.input.bytes(self.at..self.at + self.len);
        let (batch, memory) = self.writer.batch_and_memory();
        batch.add_by_field(memory, decoded, part, chunk, self.position);
        Ok(true)
    }
}
