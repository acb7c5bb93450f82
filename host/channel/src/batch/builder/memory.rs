//! The memory of the chunk and of the batch: where the next bytes are read to, and how room is
//! made.

use std::sync::Arc;

use super::{BatchBuilder, FREE_INDEX, MIN_READ};
use crate::batch::ALIGN;
use crate::batch::BatchStart;
use crate::batch::cut::CutPoint;
use crate::{Sink, StopReason};

impl<S: Sink> BatchBuilder<'_, S> {
    /// Free memory right after the chunk: at least one byte and at most `want`. The batch leaves if
    /// there is no room.
    pub(crate) fn read_buffer(&mut self, want: usize) -> Result<&mut [u8], StopReason> {
        if self.in_place && self.prefers_copying {
            self.leave_batch_memory();
        } else if !self.in_place && !self.prefers_copying {
            self.enter_batch_memory()?;
        }
        let (from, to) =
            if self.in_place { self.room_in_place(want)? } else { self.room_while_copying(want) };
        let bytes = if self.in_place { self.memory_mut() } else { self.input_mut().as_mut_slice() };
        Ok(&mut bytes[from..to])
    }

    /// Bytes of the memory that a batch gets first.
    pub(crate) fn memory_bytes(&mut self) -> Result<usize, StopReason> {
        self.ensure_memory()?;
        Ok(self.memory.as_ref().map_or(0, |memory| (**memory).as_ref().len()))
    }

    /// Takes the memory of a batch that is not wanted, for another builder.
    pub(crate) fn take_memory(&mut self) -> Option<S::Memory> {
        self.batch.restart();
        self.memory.take().and_then(|memory| Arc::try_unwrap(memory).ok())
    }

    /// Moves the chunk to the private buffer.
    pub(super) fn leave_batch_memory(&mut self) {
        let range = self.at..self.at + self.len;
        let memory = self.memory.take();
        let input = self.input_mut();
        input.clear();
        if let Some(memory) = &memory {
            input.extend_from_slice(&(**memory).as_ref()[range]);
        }
        self.memory = memory;
        self.at = 0;
        self.in_place = false;
    }

    /// Moves the chunk to the batch's memory, after its records.
    fn enter_batch_memory(&mut self) -> Result<(), StopReason> {
        let fields = self.batch.columns.len();
        loop {
            self.ensure_memory()?;
            let records = self.batch.records + self.density.records_in(self.len);
            let room = self.room(records, fields).unwrap_or(0);
            let to = self.batch.payload.next_multiple_of(ALIGN);
            if to + self.len <= room {
                let input = std::mem::take(&mut self.input);
                let range = self.at..self.at + self.len;
                self.memory_mut()[to..to + range.len()].copy_from_slice(&input[range]);
                self.input = input;
                self.at = to;
                self.in_place = true;
                return Ok(());
            }
            if self.has_records() {
                self.make_room(to + self.len + MIN_READ)?;
            } else {
                self.replace_by_dedicated(self.len + MIN_READ)?;
            }
        }
    }

    /// Takes memory from the sink if the batch has none.
    pub(super) fn ensure_memory(&mut self) -> Result<(), StopReason> {
        if self.memory.is_none() && self.grown > 0 {
            self.replace_by_dedicated(self.grown)?;
        } else if self.memory.is_none() {
            self.memory = Some(Arc::new(self.sink.memory()?));
            self.dedicated = false;
        }
        Ok(())
    }

    /// Counts the index of a batch of a fixed size with this many records, before it has them. It
    /// is held as columns, whose vectors may have twice their room, and as it is written into the
    /// batch's memory.
    pub(super) fn count_index(&mut self, records: usize) -> Result<(), StopReason> {
        let bytes = 24 * records as u64 * self.batch.columns.len() as u64;
        if bytes <= self.index_bytes {
            return Ok(());
        }
        // Seldom, because the steps are large.
        let bytes = bytes.next_multiple_of(FREE_INDEX);
        self.sink.take_memory(&mut self.index_taken, bytes)?;
        self.index_bytes = bytes;
        Ok(())
    }

    /// Makes room for `payload` bytes: the batch leaves, or else its memory grows, because it has a
    /// fixed size.
    fn make_room(&mut self, payload: usize) -> Result<(), StopReason> {
        if self.size.is_some() { self.grow(payload) } else { self.cut_at(CutPoint::NoRoom) }
    }

    /// Gives the batch memory for at least `payload` bytes. The batch and the chunk stay. The sink
    /// takes more than that for what will follow, if it may have more.
    pub(super) fn grow(&mut self, payload: usize) -> Result<(), StopReason> {
        let memory = self.memory.take().and_then(|memory| Arc::try_unwrap(memory).ok());
        let memory = match memory {
            Some(mut memory) if self.dedicated => {
                self.sink.grow(&mut memory, payload)?;
                memory
            }
            Some(slot) => {
                let fields = self.batch.columns.len().max(1);
                let mut memory = self.sink.dedicated_memory(payload, fields)?;
                let chunk_end = if self.in_place { self.at + self.len } else { 0 };
                let used = self.batch.payload.max(chunk_end);
                memory.as_mut()[..used].copy_from_slice(&slot.as_ref()[..used]);
                memory
            }
            None => return Ok(()),
        };
        (self.memory, self.dedicated) = (Some(Arc::new(memory)), true);
        Ok(())
    }

    /// Takes a dedicated buffer in place of the batch's memory. Only for a batch without records,
    /// while copying.
    pub(super) fn replace_by_dedicated(&mut self, payload: usize) -> Result<(), StopReason> {
        let fields = self.batch.columns.len().max(1);
        self.memory = None;
        self.memory = Some(Arc::new(self.sink.dedicated_memory(payload, fields)?));
        self.dedicated = true;
        Ok(())
    }

    /// Bytes that the payload may take of the batch's memory if it has `records` records of
    /// `fields` fields. `None` if there is no memory, or if not even their index fits.
    pub(super) fn room(&self, records: usize, fields: usize) -> Option<usize> {
        let start = if self.has_records() { &self.batch.start } else { &self.object };
        self.room_from(start, records, fields)
    }

    /// The same of a batch that begins there.
    pub(super) fn room_from(
        &self,
        start: &BatchStart,
        records: usize,
        fields: usize,
    ) -> Option<usize> {
        let memory = self.memory.as_ref()?;
        self.sink.room(memory, records, fields, start.facts())
    }

    /// The range of the batch's memory into which the next bytes can be read.
    fn room_in_place(&mut self, want: usize) -> Result<(usize, usize), StopReason> {
        loop {
            self.ensure_memory()?;
            if self.batch.payload > self.at {
                // Payload lies after the chunk: the next byte can't be written there.
                self.leave_batch_memory();
                self.enter_batch_memory()?;
            }
            let fields = self.batch.columns.len();
            let records = self.batch.records + self.density.records_in(self.len);
            let room = self.room(records, fields).unwrap_or(0);
            let end = self.at + self.len;
            let free = room.saturating_sub(end);
            // Each byte that is read takes its own room and that of its records' index.
            let index = 8.0 * fields as f64 * self.density.cautious();
            let readable = ((free as f64 / (1.0 + index)) as usize).min(want);
            let is_empty = !self.has_records();
            let goes_on = is_empty || !self.dedicated || self.size.is_some();
            if goes_on && readable >= want.min(MIN_READ) {
                return Ok((end, end + readable));
            }
            if is_empty && self.at == 0 && free > 0 {
                return Ok((end, end + free.min(MIN_READ)));
            }
            if !is_empty && self.size.is_some() {
                let index = 8 * fields * records;
                self.grow(end + want + index)?;
            } else if !is_empty {
                self.cut_at(CutPoint::NoRoom)?;
                self.enter_batch_memory()?;
            } else if self.at > 0 {
                let (at, len) = (self.at, self.len);
                self.memory_mut().copy_within(at..at + len, 0);
                self.at = 0;
                self.batch.payload = 0;
            } else {
                self.leave_batch_memory();
                let larger = (self.len + want).max(self.len * 2);
                self.replace_by_dedicated(larger)?;
                self.enter_batch_memory()?;
            }
        }
    }

    /// The range of the private buffer into which the next bytes can be read.
    fn room_while_copying(&mut self, want: usize) -> (usize, usize) {
        let (at, len) = (self.at, self.len);
        let input = self.input_mut();
        if at > 0 {
            input.copy_within(at..at + len, 0);
        }
        if input.len() < len + want {
            input.resize(len + want, 0);
        }
        self.at = 0;
        (len, len + want)
    }

    /// Makes room for this many more records, with which the payload has `payload` bytes: a batch
    /// of a fixed size grows. False if one without a size has no room, or should not have more
    /// records.
    pub(super) fn make_room_for(
        &mut self,
        payload: usize,
        records: usize,
    ) -> Result<bool, StopReason> {
        self.ensure_memory()?;
        let fields = self.batch.columns.len();
        let records = self.batch.records + records;
        if self.size.is_none() && self.dedicated {
            // It would grow for the index of however many records.
            return Ok(false);
        }
        let room = self.room_from(&self.batch.start, records, fields);
        if room.is_some_and(|room| payload <= room) {
            return Ok(true);
        }
        if self.size.is_some() {
            self.grow(payload + 8 * records * fields)?;
        }
        Ok(self.size.is_some())
    }

    /// Makes room for one more record of `bytes` bytes.
    pub(super) fn ensure_room(&mut self, bytes: usize) -> Result<(), StopReason> {
        let fields = self.batch.columns.len();
        loop {
            self.ensure_memory()?;
            let end = self.batch.payload + bytes;
            let fits = self.room(self.batch.records + 1, fields).is_some_and(|room| end <= room);
            let is_full = self.dedicated && self.has_records() && self.size.is_none();
            if fits && !is_full {
                return Ok(());
            }
            if self.has_records() {
                self.make_room(end)?;
            } else {
                self.batch.payload = 0;
                self.replace_by_dedicated(bytes)?;
            }
        }
    }

    pub(super) fn memory_mut(&mut self) -> &mut [u8] {
        let memory = self.memory.as_mut().and_then(Arc::get_mut);
        // Every caller has ensured the memory, and clones live only as long as a call of the
        // decoder.
        memory.expect("the batch's memory is there and not shared").as_mut()
    }

    fn input_mut(&mut self) -> &mut Vec<u8> {
        // As above.
        Arc::get_mut(&mut self.input).expect("the input buffer is not shared")
    }
}
