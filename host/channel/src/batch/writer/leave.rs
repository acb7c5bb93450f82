//! Lets the batch leave.

use std::sync::Arc;

use pipemill_types::{BatchSize, Tail};

use super::BatchWriter;
use crate::batch::cut::{CutPoint, Fill, WARM_TIME, is_cut};
use crate::{Sink, StopReason};

impl<S: Sink> BatchWriter<'_, S> {
    /// Lets the batch leave if the rule says so at this point.
    pub(crate) fn cut_at(&mut self, point: CutPoint) -> Result<(), StopReason> {
        if self.leaves_at(point) { self.leave() } else { Ok(()) }
    }

    /// Whether the rule says that the batch leaves at this point.
    pub(in crate::batch) fn leaves_at(&self, point: CutPoint) -> bool {
        let fill = Fill { records: self.batch.records, bytes: self.batch.payload };
        let is_awaited = || self.began.elapsed() >= WARM_TIME && self.sink.has_demand();
        is_cut(fill, point, self.size, is_awaited)
    }

    /// Lets the batch leave, or skips its records. Another batch begins. The batch's memory must
    /// hold nothing else.
    pub(in crate::batch) fn leave(&mut self) -> Result<(), StopReason> {
        match self.size {
            Some(size) if size.tail == Tail::Drop && self.batch.records < size.records => {
                self.counts.dropped.add(self.batch.records as u64);
                self.batch.restart();
                Ok(())
            }
            Some(size) => self.grant_of_size(size, false),
            None => self.grant(),
        }
    }

    /// Lets a batch of one record leave as copies of it, none of which is real. Only with a fixed
    /// number of records.
    pub(crate) fn leave_as_copies(&mut self) -> Result<(), StopReason> {
        self.size.map_or(Ok(()), |size| self.grant_of_size(size, true))
    }

    /// Hands over a batch of a fixed size. Pads it if necessary, and makes arrays of values of a
    /// fixed size.
    fn grant_of_size(&mut self, size: BatchSize, are_copies: bool) -> Result<(), StopReason> {
        if size.tail == Tail::Pad {
            self.count_index(size.records)?;
            self.batch.pad(size.records);
        }
        if are_copies {
            self.batch.padding = self.batch.records;
        }
        let (fields, payload) = self.batch.scattered(&self.row_sizes);
        let room = self.room_from(&self.batch.start, self.batch.records);
        if room.is_none_or(|room| payload > room) {
            self.grow(payload, self.batch.payload)?;
        }
        let (batch, memory) = self.batch_and_memory();
        batch.gather(memory, &fields);
        self.grant()
    }

    /// Hands the batch over, and begins another one.
    pub(super) fn grant(&mut self) -> Result<(), StopReason> {
        // Only a call of the decoder holds a clone, and none is running.
        let memory = self.memory.take().and_then(|memory| Arc::try_unwrap(memory).ok());
        if std::mem::take(&mut self.dedicated) && self.size.is_some() {
            let index = 8 * self.batch.records * self.batch.columns.len();
            self.large.used(self.batch.payload + index);
        }
        if let Some(memory) = memory {
            self.sink.grant(memory, &mut self.batch)?;
            self.counts.granted.add(1);
        }
        self.batch.restart();
        Ok(())
    }
}
