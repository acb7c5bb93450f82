//! The memory of the batch: takes it from the sink, and makes room in it.

use std::sync::Arc;

use super::{BatchWriter, FREE_INDEX};
use crate::batch::BatchStart;
use crate::{Batch, Sink, StopReason};

impl<S: Sink> BatchWriter<'_, S> {
    /// Bytes of the memory that a batch gets first.
    pub(crate) fn memory_bytes(&mut self) -> Result<usize, StopReason> {
        self.ensure_memory()?;
        Ok(self.memory.as_ref().map_or(0, |memory| (**memory).as_ref().len()))
    }

    /// Takes the memory of an unwanted batch, for another writer.
    pub(crate) fn take_memory(&mut self) -> Option<S::Memory> {
        self.batch.restart();
        self.memory.take().and_then(|memory| Arc::try_unwrap(memory).ok())
    }

    /// The memory, if there is some. A clone must not live longer than a call of the decoder.
    pub(in crate::batch) fn memory(&self) -> Option<&Arc<S::Memory>> {
        self.memory.as_ref()
    }

    pub(in crate::batch) fn memory_mut(&mut self) -> &mut [u8] {
        self.batch_and_memory().1
    }

    /// The batch, and the memory that its records lie in.
    pub(in crate::batch) fn batch_and_memory(&mut self) -> (&mut Batch, &mut [u8]) {
        let memory = self.memory.as_mut().and_then(Arc::get_mut);
        // Every caller has ensured the memory, and clones live only as long as a call of the
        // decoder.
        let memory = memory.expect("the batch's memory is there and not shared");
        (&mut self.batch, memory.as_mut())
    }

    /// Whether the memory is a dedicated buffer.
    pub(in crate::batch) fn is_dedicated(&self) -> bool {
        self.dedicated
    }

    /// Takes memory from the sink if the batch has none.
    pub(in crate::batch) fn ensure_memory(&mut self) -> Result<(), StopReason> {
        if self.memory.is_some() {
            return Ok(());
        }
        let fields = self.batch.columns.len().max(1);
        let large = self.large.next_bytes();
        let memory = match large {
            Some(bytes) => self.sink.memory_about(bytes, fields)?,
            None => self.sink.memory()?,
        };
        (self.memory, self.dedicated) = (Some(Arc::new(memory)), large.is_some());
        Ok(())
    }

    /// Counts the index of a batch of a fixed size, before it has these `records` records. The
    /// index exists twice: as columns, whose vectors may have twice the capacity, and as it is
    /// written into the batch's memory.
    pub(in crate::batch) fn count_index(&mut self, records: usize) -> Result<(), StopReason> {
        let bytes = 24 * records as u64 * self.batch.columns.len() as u64;
        if bytes <= self.index_bytes {
            return Ok(());
        }
        // Rarely more than before, because the steps are large.
        let bytes = bytes.next_multiple_of(FREE_INDEX);
        self.sink.take_memory(&mut self.index_taken, bytes)?;
        self.index_bytes = bytes;
        Ok(())
    }

    /// Gives the batch memory for at least `payload` bytes. The first `used` bytes of the memory
    /// stay. The sink takes more for later records, if it may have more.
    pub(in crate::batch) fn grow(&mut self, payload: usize, used: usize) -> Result<(), StopReason> {
        let memory = self.memory.take().and_then(|memory| Arc::try_unwrap(memory).ok());
        let memory = match memory {
            Some(mut memory) if self.dedicated => {
                self.sink.grow(&mut memory, payload)?;
                memory
            }
            Some(slot) => {
                let fields = self.batch.columns.len().max(1);
                self.large.left_slot(slot.as_ref().len());
                let mut memory = self.sink.dedicated_memory(payload, fields)?;
                memory.as_mut()[..used].copy_from_slice(&slot.as_ref()[..used]);
                memory
            }
            None => return Ok(()),
        };
        (self.memory, self.dedicated) = (Some(Arc::new(memory)), true);
        Ok(())
    }

    /// Takes a dedicated buffer in place of the batch's memory. Only for a batch without records.
    pub(in crate::batch) fn replace_by_dedicated(
        &mut self,
        payload: usize,
    ) -> Result<(), StopReason> {
        let fields = self.batch.columns.len().max(1);
        if let Some(slot) = self.memory.take().filter(|_| !self.dedicated) {
            self.large.left_slot((*slot).as_ref().len());
        }
        self.memory = Some(Arc::new(self.sink.dedicated_memory(payload, fields)?));
        self.dedicated = true;
        Ok(())
    }

    /// Bytes of its memory that the payload of a batch that begins at `start` may take, if it has
    /// `records` records. `None` if there is no memory, or if not even their index fits.
    pub(in crate::batch) fn room_from(&self, start: &BatchStart, records: usize) -> Option<usize> {
        let memory = self.memory.as_ref()?;
        self.sink.room(memory, records, self.batch.columns.len(), start.facts())
    }

    /// Makes room for more records, with which the payload has `payload` bytes. A batch of a fixed
    /// size grows. Returns false for a batch without a fixed size that has no room, or should not
    /// have more records.
    pub(in crate::batch) fn make_room_for(
        &mut self,
        payload: usize,
        records: usize,
    ) -> Result<bool, StopReason> {
        self.ensure_memory()?;
        let records = self.batch.records + records;
        if self.size.is_none() && self.dedicated {
            // The memory would grow for the index of any number of records.
            return Ok(false);
        }
        let room = self.room_from(&self.batch.start, records);
        if room.is_some_and(|room| payload <= room) {
            return Ok(true);
        }
        if self.size.is_some() {
            let index = 8 * records * self.batch.columns.len();
            self.grow(payload + index, self.batch.payload)?;
        }
        Ok(self.size.is_some())
    }
}
