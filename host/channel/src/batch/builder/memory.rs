//! Finds memory for the next bytes of input, and makes room for records.

use pipemill_types::{BatchMemory, VIEW_BYTES};

use super::{BatchBuilder, MIN_READ};
use crate::batch::ALIGN;
use crate::batch::cut::CutPoint;
use crate::{Sink, StopReason};

impl<S: Sink> BatchBuilder<'_, '_, S> {
    /// Free memory right after the chunk: at least one byte and at most `want`. The batch leaves if
    /// there is no room.
    pub(crate) fn read_buffer(&mut self, want: usize) -> Result<&mut [u8], StopReason> {
        let prefers_copying = self.input.prefers_copying();
        if self.in_place && prefers_copying {
            self.leave_batch_memory();
        } else if !self.in_place && !prefers_copying {
            self.enter_batch_memory()?;
        }
        let (from, to) =
            if self.in_place { self.room_in_place(want)? } else { self.room_while_copying(want) };
        let bytes =
            if self.in_place { self.writer.memory_mut() } else { self.input.buffer_mut().as_mut() };
        Ok(&mut bytes[from..to])
    }

    /// Takes records that come without a chunk, which must be empty: their values are copied.
    pub(crate) fn begin_without_chunk(&mut self) {
        if self.in_place {
            self.leave_batch_memory();
        }
        self.input.prefers_copying = Some(true);
    }

    /// Moves the chunk to the private buffer.
    pub(super) fn leave_batch_memory(&mut self) {
        let range = self.at..self.at + self.len;
        let buffer = self.input.buffer_mut();
        buffer.hold(self.len, 0);
        if let Some(memory) = self.writer.memory() {
            buffer.as_mut()[..self.len].copy_from_slice(&(**memory).as_ref()[range]);
        }
        self.at = 0;
        self.in_place = false;
    }

    /// Moves the chunk to the batch's memory, after its records.
    fn enter_batch_memory(&mut self) -> Result<(), StopReason> {
        loop {
            self.writer.ensure_memory()?;
            let records = self.writer.batch.records + self.density.records_in(self.len);
            let room = self.room(records).unwrap_or(0);
            let to = self.writer.batch.payload.next_multiple_of(ALIGN);
            if to + self.len <= room {
                let chunk = self.input.bytes(self.at..self.at + self.len);
                self.writer.memory_mut()[to..to + chunk.len()].copy_from_slice(chunk);
                self.at = to;
                self.in_place = true;
                return Ok(());
            }
            if self.has_records() {
                self.make_room(to + self.len + MIN_READ)?;
            } else {
                self.writer.replace_by_dedicated(self.len + MIN_READ)?;
            }
        }
    }

    /// Makes room for `payload` bytes: lets the batch leave. A batch of a fixed size stays, and its
    /// memory grows.
    fn make_room(&mut self, payload: usize) -> Result<(), StopReason> {
        if self.writer.size().is_some() {
            self.grow(payload)
        } else {
            self.cut_at(CutPoint::NoRoom)
        }
    }

    /// Gives the batch memory for at least `payload` bytes. The batch and the chunk stay.
    fn grow(&mut self, payload: usize) -> Result<(), StopReason> {
        let chunk_end = if self.in_place { self.at + self.len } else { 0 };
        let used = self.writer.batch.payload.max(chunk_end);
        self.writer.grow(payload, used)
    }

    /// Bytes of the batch's memory that the payload may take if the batch has `records` records.
    /// `None` if there is no memory, or if not even their index fits.
    pub(super) fn room(&self, records: usize) -> Option<usize> {
        let start = if self.has_records() { &self.writer.batch.start } else { &self.object };
        self.writer.room_from(start, records)
    }

    /// Number of fields that get views.
    fn wanted_views(&self) -> usize {
        // A batch of a fixed size gets them only if they fit.
        let memory = self.writer.memory().filter(|_| self.writer.size().is_none());
        memory.map_or(0, |memory| memory.wanted_views())
    }

    /// The range of the batch's memory into which the next bytes can be read.
    fn room_in_place(&mut self, want: usize) -> Result<(usize, usize), StopReason> {
        loop {
            self.writer.ensure_memory()?;
            if self.writer.batch.payload > self.at {
                // Payload lies after the chunk, so the next byte can't be written there.
                self.leave_batch_memory();
                self.enter_batch_memory()?;
            }
            let fields = self.writer.batch.columns.len();
            let records = self.writer.batch.records + self.density.records_in(self.len);
            let room = self.room(records).unwrap_or(0);
            let end = self.at + self.len;
            let (of_record, of_call) = self.added_bytes;
            let free = room.saturating_sub(end);
            // Each byte of input needs room for itself and for the index of its records.
            let index = 8 * fields + VIEW_BYTES * self.wanted_views() + of_record;
            let index = index as f64 * self.density.cautious();
            let free_for_call = free.saturating_sub(of_call) as f64;
            let readable = ((free_for_call / (1.0 + index)) as usize).min(want);
            let is_empty = !self.has_records();
            let goes_on = is_empty || !self.writer.is_dedicated() || self.writer.size().is_some();
            if goes_on && readable >= want.min(MIN_READ) {
                return Ok((end, end + readable));
            }
            if is_empty && self.at == 0 && free > 0 {
                return Ok((end, end + free.min(MIN_READ).min(want)));
            }
            if !is_empty && self.writer.size().is_some() {
                let index = 8 * fields * records;
                self.grow(end + want + index)?;
            } else if !is_empty {
                self.cut_at(CutPoint::NoRoom)?;
                self.enter_batch_memory()?;
            } else if self.at > 0 {
                let (at, len) = (self.at, self.len);
                self.writer.memory_mut().copy_within(at..at + len, 0);
                self.at = 0;
                self.writer.batch.payload = 0;
            } else {
                self.leave_batch_memory();
                let larger = (self.len + want).max(self.len * 2);
                self.writer.replace_by_dedicated(larger)?;
                self.enter_batch_memory()?;
            }
        }
    }

    /// The range of the private buffer into which the next bytes can be read.
    fn room_while_copying(&mut self, want: usize) -> (usize, usize) {
        let (at, len) = (self.at, self.len);
        let input = self.input.buffer_mut();
        if at > 0 {
            input.as_mut().copy_within(at..at + len, 0);
        }
        input.hold(len + want, len);
        self.at = 0;
        (len, len + want)
    }

    /// Makes room for one more record of `bytes` bytes.
    pub(super) fn ensure_room(&mut self, bytes: usize) -> Result<(), StopReason> {
        loop {
            self.writer.ensure_memory()?;
            let end = self.writer.batch.payload + bytes;
            let fits = self.room(self.writer.batch.records + 1).is_some_and(|room| end <= room);
            let is_full =
                self.writer.is_dedicated() && self.has_records() && self.writer.size().is_none();
            if fits && !is_full {
                return Ok(());
            }
            if self.has_records() {
                self.make_room(end)?;
            } else {
                self.writer.batch.payload = 0;
                self.writer.replace_by_dedicated(bytes)?;
            }
        }
    }
}
