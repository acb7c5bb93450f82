//! Adds the records of a call of the decoder to the batch.

use std::ops::Range;
use std::time::Instant;

use pipemill_decode::{DecodedRecords, IN_PAYLOAD};

use super::BatchBuilder;
use crate::batch::ALIGN;
use crate::batch::copy::run::ValueSpan;
use crate::batch::cut::CutPoint;
use crate::{Sink, StopReason};

/// The index of a dedicated buffer takes memory of its own. Records whose index takes more than
/// this, in bytes, go into slots instead.
const MAX_DEDICATED_INDEX: usize = 4 << 20;

impl<S: Sink> BatchBuilder<'_, S> {
    /// Adds the records of a call of the decoder to the batch. If they don't fit, the batch leaves
    /// and a new one begins.
    pub(crate) fn append(&mut self, decoded: &DecodedRecords) -> Result<(), StopReason> {
        if decoded.records == 0 {
            return Ok(());
        }
        self.prefers_copying = decoded.payload.len() as u64 > decoded.end;
        let mut from = self.counts.to_skip.take(decoded.records as u64) as usize;
        self.records += from as u64;
        let Some(size) = self.size else {
            if from < decoded.records {
                self.append_part(decoded, from..decoded.records)?;
            }
            self.records += (decoded.records - from) as u64;
            return Ok(());
        };
        while from < decoded.records {
            let fill = size.records - self.batch.records;
            let part = from..decoded.records.min(from + fill);
            self.count_index(self.batch.records + part.len())?;
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
        if self.in_place && !self.append_in_place(decoded, part.clone()) {
            self.leave_batch_memory();
            self.cut_at(CutPoint::NoRoom)?;
            self.begin_batch(self.records);
        }
        if !self.in_place { self.append_copying(decoded, part) } else { Ok(()) }
    }

    /// Notes where the batch's first record comes from, if the batch has none yet.
    fn begin_batch(&mut self, first_record: u64) {
        if self.batch.records == 0 {
            self.began = Instant::now();
            let start = &mut self.batch.start;
            start.object.clone_from(&self.object.object);
            start.metadata.clone_from(&self.object.metadata);
            start.identity.clone_from(&self.object.identity);
            start.object_number = self.object.object_number;
            (start.first_record, start.object_offset) = (first_record, self.position);
            start.restart_header = self.object.restart_header;
            start.restart_offset = self.object.restart_offset;
            start.restart_records = first_record - self.object.first_record;
        }
    }

    /// Adds a part of the records of a call whose chunk lies in the batch's memory. False if they
    /// don't fit.
    fn append_in_place(&mut self, decoded: &DecodedRecords, part: Range<usize>) -> bool {
        let (records, fields) = (self.batch.records + part.len(), self.batch.columns.len());
        if self.dedicated && self.size.is_none() && 8 * records * fields > MAX_DEDICATED_INDEX {
            return false;
        }
        let Some(room) = self.room(records, fields) else { return false };
        let chunk_end = self.at + self.len;
        let payload_at = if self.batch.payload > chunk_end {
            self.batch.payload
        } else {
            chunk_end.next_multiple_of(ALIGN)
        };
        let payload_end = payload_at + decoded.payload.len();
        let end = if decoded.payload.is_empty() { chunk_end } else { payload_end };
        if end.max(self.batch.payload) > room {
            return false;
        }
        if decoded.payload.is_empty() {
            self.batch.payload = self.batch.payload.max(self.at + decoded.end as usize);
            self.batch.add_in_place(decoded, part, self.at, 0, self.position);
        } else {
            self.memory_mut()[payload_at..payload_end].copy_from_slice(&decoded.payload);
            self.batch.payload = payload_end;
            self.batch.add_in_place(decoded, part, self.at, payload_at, self.position);
        }
        true
    }

    /// Adds a part of the records of a call whose chunk lies in the private buffer.
    fn append_copying(
        &mut self,
        decoded: &DecodedRecords,
        part: Range<usize>,
    ) -> Result<(), StopReason> {
        let is_of_one_source = !decoded.has_payload || decoded.all_in_payload;
        if is_of_one_source && self.append_together(decoded, &part)? {
            return Ok(());
        }
        for record in part.clone() {
            let bytes: usize = decoded.columns.iter().map(|c| c.lengths[record] as usize).sum();
            self.ensure_room(bytes)?;
            self.begin_batch(self.records + (record - part.start) as u64);
            let input = std::mem::take(&mut self.input);
            let chunk = &input[self.at..self.at + self.len];
            let (mut batch, from) = (std::mem::take(&mut self.batch), self.position);
            batch.add_copied(self.memory_mut(), decoded, record, chunk, from);
            self.batch = batch;
            self.input = input;
        }
        Ok(())
    }

    /// Adds a part of the records of a call, whose values all lie in the chunk or all in the call's
    /// payload, by copying all bytes from the first value to the last one. False if these are far
    /// more than those of the values, or if they don't fit.
    fn append_together(
        &mut self,
        decoded: &DecodedRecords,
        part: &Range<usize>,
    ) -> Result<bool, StopReason> {
        let place = ValueSpan::of(&decoded.columns, part);
        let (from, to) = (self.batch.payload, self.batch.payload + place.span.len());
        if !place.is_together() || !self.make_room_for(to, part.len())? {
            return Ok(false);
        }
        let start = place.span.start & !(IN_PAYLOAD as usize);
        let bytes = start..start + place.span.len();
        let input = std::mem::take(&mut self.input);
        let source = match decoded.has_payload {
            true => &decoded.payload[bytes],
            false => &input[self.at..self.at + self.len][bytes],
        };
        self.memory_mut()[from..to].copy_from_slice(source);
        self.input = input;
        let source_at = from.wrapping_sub(start);
        self.batch.add_in_place(decoded, part.clone(), source_at, source_at, self.position);
        self.batch.payload = to;
        Ok(true)
    }
}
