//! Lets the batch leave.

use std::sync::Arc;

use pipemill_types::{BatchSize, Tail};

use super::BatchBuilder;
use crate::batch::cut::{CutPoint, Fill, WARM_TIME, is_cut};
use crate::{Sink, StopReason};

impl<S: Sink> BatchBuilder<'_, S> {
    /// Lets the batch leave if the rule says so at this point. The chunk moves on to other memory.
    pub(crate) fn cut_at(&mut self, point: CutPoint) -> Result<(), StopReason> {
        let fill = Fill { records: self.batch.records, bytes: self.batch.payload };
        let is_awaited = || self.began.elapsed() >= WARM_TIME && self.sink.has_demand();
        if !is_cut(fill, point, self.size, is_awaited) {
            return Ok(());
        }
        match self.size {
            Some(size) if size.tail == Tail::Drop && fill.records < size.records => {
                self.counts.dropped.add(fill.records as u64);
                self.batch.restart();
                Ok(())
            }
            Some(size) => self.grant_of_size(size),
            None => self.grant(),
        }
    }

    /// Hands over a batch of a fixed size: filled up if it has to be, with the values of a fixed
    /// size as arrays.
    fn grant_of_size(&mut self, size: BatchSize) -> Result<(), StopReason> {
        if self.in_place {
            self.leave_batch_memory();
        }
        if size.tail == Tail::Pad {
            self.count_index(size.records)?;
            self.batch.pad(size.records);
        }
        let (fields, payload) = self.batch.scattered(&self.row_sizes);
        let room = self.room(self.batch.records, self.batch.columns.len());
        if room.is_none_or(|room| payload > room) {
            self.grow(payload)?;
        }
        let mut batch = std::mem::take(&mut self.batch);
        batch.gather(self.memory_mut(), &fields);
        self.batch = batch;
        self.grant()
    }

    /// Hands the batch over, and begins another one.
    pub(super) fn grant(&mut self) -> Result<(), StopReason> {
        if self.in_place {
            self.leave_batch_memory();
        }
        // Only a call of the decoder holds a clone, and none is running.
        let memory = self.memory.take().and_then(|memory| Arc::try_unwrap(memory).ok());
        if std::mem::take(&mut self.dedicated) && self.size.is_some() {
            let used = self.batch.payload + 8 * self.batch.records * self.batch.columns.len();
            // No more: what one batch could take, another one can.
            self.grown = self.grown.max(used);
        }
        if let Some(memory) = memory {
            self.sink.grant(memory, &mut self.batch)?;
            self.counts.granted.add(1);
        }
        self.batch.restart();
        Ok(())
    }
}
