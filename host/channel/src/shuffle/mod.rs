//! The window of a shuffle: changes the order of a channel's records, between its decoder and its
//! batches.
//!
//! **Order**: a *bounded delay*. Each record has a key: its place in the epoch, plus a random
//! number below the window (`delay`). Records leave in the order of their keys. Records of the same
//! key leave in the order of their arrival. The place is the *cost* of all records before it, in
//! the unit of the window. So the order depends only on the records, the seed and the epoch: no
//! record waits for memory, for a consumer or for the source. No record leaves before one that came
//! more than a window earlier.
//!
//! **Way**: the batch writer writes into a [`WindowSink`], which looks to it like any sink. Each
//! batch that it hands over becomes a part of the window (`blocks`). A record is due as soon as no
//! later one can have a smaller key (`queue`). When the records of a batch are due, a second batch
//! writer gets memory of the real sink, and each value is copied there, once (`selected`). The
//! copies are made in a thread of their own, while the decoder works (`background`).
//!
//! **Restart**: a batch's position is that of the oldest record that has not left before the batch.
//! All records before that place have left. Resuming from that position with an empty window
//! reproduces the order, after skipping the records already delivered.
//!
//! - `spare`: memory that a window uses again: of blocks that all records have left.

mod background;
mod blocks;
mod delay;
mod queue;
mod selected;
mod spare;

use std::collections::VecDeque;
use std::sync::Arc;

use pipemill_types::{BatchSize, Field, HUGE_PAGE, Tail, TakenMemory};

pub(super) use self::background::with_window;
use self::blocks::{Blocks, Segment};
use self::delay::Delays;
use self::queue::{DelayQueue, RecordPlace};
use self::selected::Selected;
use self::spare::SpareMemory;
use crate::batch::block_memory::BlockMemory;
use crate::batch::block_source::BlockSource;
use crate::sink::DeliveryCounts;
use crate::stats::monitor::Monitor;
use crate::workers::fill::filler::{BatchFiller, COPY_BYTES, Fillers};
use crate::{Batch, Sink, SinkDelivery, StopReason};

/// Cost of a record in a window of bytes, in addition to the bytes of its values: for its place in
/// the queue, and for each of its fields.
const RECORD_COST: u64 = 32;
const FIELD_COST: u64 = 8;
/// Smallest and largest block, in bytes. A window of bytes is divided into 32 blocks or more.
const BLOCK_BYTES: (u64, u64) = (64 << 10, 4 << 20);

/// The memory of a window is counted again when it has changed by this many bytes.
const COUNTED_STEP: u64 = 4 << 20;

/// A random order of a channel's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shuffle {
    /// Determines the order. Each epoch has an order of its own.
    pub seed: u64,
    /// How far the input is mixed.
    pub window: Window,
}

/// The largest delay of a record: at most this much of the input comes before it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// Bytes, 1 or more. A record costs the bytes of its values, 32, and 8 for each field.
    Bytes(u64),
    /// Number of records, 1 or more.
    Records(u64),
}

impl Window {
    /// The window in its own unit.
    fn len(self) -> u64 {
        match self {
            Self::Bytes(len) | Self::Records(len) => len.max(1),
        }
    }

    fn block_bytes(self) -> usize {
        match self {
            Self::Bytes(bytes) => {
                let bytes = (bytes / 32).clamp(BLOCK_BYTES.0, BLOCK_BYTES.1) as usize;
                if bytes < HUGE_PAGE { bytes } else { bytes / HUGE_PAGE * HUGE_PAGE }
            }
            Self::Records(_) => HUGE_PAGE,
        }
    }
}

/// The window, as the sink of the batch writer that the decoder fills.
pub(super) struct WindowSink<'s, S: Sink> {
    shuffle: Shuffle,
    size: BatchSize,
    /// Makes the batches for the real sink.
    out: BatchFiller<'s, S, Selected>,
    blocks: Blocks,
    /// The memory of the blocks and of the queue, in the channel's budget.
    taken: Option<TakenMemory>,
    /// The bytes counted there.
    counted: u64,
    spare: SpareMemory,
    queue: DelayQueue,
    /// The next records that leave, in their order.
    due: VecDeque<RecordPlace>,
    epoch: u32,
    /// The cost of all records of the epoch so far.
    place: u64,
    /// Number of records of the epoch that have left.
    left: u64,
    /// Buffers that are used during a call.
    lengths: Vec<u64>,
    segments: Vec<Segment>,
}

impl<'s, S: Sink> WindowSink<'s, S> {
    /// An empty window, whose batches of this size go to `sink`.
    pub(super) fn new(
        sink: &'s mut S,
        shuffle: Shuffle,
        size: BatchSize,
        monitor: Monitor<'s>,
    ) -> Self {
        let spare = SpareMemory::new(shuffle.window.block_bytes());
        Self {
            shuffle,
            size,
            out: BatchFiller::new(sink, size, monitor),
            blocks: Blocks::new(spare.clone()),
            taken: None,
            counted: 0,
            spare,
            queue: DelayQueue::new(shuffle.window.len()),
            due: VecDeque::new(),
            epoch: 0,
            place: 0,
            left: 0,
            lengths: Vec::new(),
            segments: Vec::new(),
        }
    }

    /// Bytes of a block of the window.
    pub(super) fn block_bytes(&self) -> usize {
        self.shuffle.window.block_bytes()
    }

    /// From now on, these threads copy the records that leave.
    pub(super) fn fill_by(&mut self, fillers: Fillers) {
        self.out.fill_by(fillers);
    }

    /// Hands over the batches that other threads have filled.
    pub(super) fn grant_full(&mut self) -> Result<(), StopReason> {
        self.out.grant_full()
    }

    /// Takes records of the decoder. Those that become due leave.
    pub(super) fn add(&mut self, memory: BlockMemory, batch: Batch) -> Result<(), StopReason> {
        self.epoch = batch.epoch();
        self.lengths.clear();
        self.lengths.resize(batch.records, 0);
        for column in &batch.columns {
            if let Some(even) = column.even() {
                self.lengths.iter_mut().for_each(|sum| *sum += u64::from(even.size));
                continue;
            }
            for (sum, length) in self.lengths.iter_mut().zip(column.lengths()) {
                *sum += u64::from(*length);
            }
        }
        self.out.counts().in_window.add(batch.records as u64);
        let Shuffle { seed, window } = self.shuffle;
        let delays =
            Delays::new(seed, batch.epoch(), batch.start.position.object_number, window.len());
        let fixed_cost = RECORD_COST + FIELD_COST * batch.columns.len() as u64;
        let first = batch.start.position.first_record;
        let mut segments = std::mem::take(&mut self.segments);
        segments.clear();
        self.blocks.add(memory, batch, &self.lengths, &mut segments);
        let mut skipped = 0;
        for segment in &segments {
            self.queue_segment(segment, first, &delays, skipped, fixed_cost)?;
            skipped += segment.records as usize;
        }
        self.segments = segments;
        self.count_memory(fixed_cost)
    }

    /// Counts the window's memory, if it has changed by much. `fixed_cost` is the cost of a record
    /// without its values.
    fn count_memory(&mut self, fixed_cost: u64) -> Result<(), StopReason> {
        let records = self.out.counts().in_window.get();
        let bytes = self.blocks.bytes() + records * fixed_cost;
        if bytes.abs_diff(self.counted) < COUNTED_STEP {
            return Ok(());
        }
        self.counted = bytes;
        self.out.sink().take_memory(&mut self.taken, bytes)
    }

    /// Puts the records of a segment into the queue. The records that become due leave.
    fn queue_segment(
        &mut self,
        segment: &Segment,
        first_record: u64,
        delays: &Delays,
        skipped: usize,
        fixed_cost: u64,
    ) -> Result<(), StopReason> {
        for number in 0..segment.records {
            let at = skipped + number as usize;
            let key = self.place + delays.of(first_record + at as u64);
            let RecordPlace { block, record } = segment.first;
            self.queue.push(key, RecordPlace { block, record: record + number });
            self.place += match self.shuffle.window {
                Window::Bytes(_) => self.lengths[at] + fixed_cost,
                Window::Records(_) => 1,
            };
            self.queue.take_due(self.place, &mut self.due);
            if self.due.len() >= self.size.records {
                self.give_batches()?;
            }
        }
        Ok(())
    }

    /// Hands over as many batches as are due.
    fn give_batches(&mut self) -> Result<(), StopReason> {
        self.skip_records();
        while self.due.len() >= self.size.records {
            self.fill(self.size.records)?;
        }
        Ok(())
    }

    /// Skips the records that were delivered already.
    fn skip_records(&mut self) {
        let records = self.out.counts().to_skip.take(self.due.len() as u64);
        self.leave(records as usize);
    }

    /// Has the first `records` due records copied to a batch, which leaves then.
    fn fill(&mut self, records: usize) -> Result<(), StopReason> {
        let Some((start, before)) = self.blocks.oldest() else { return Ok(()) };
        let mut start = start.clone();
        start.position.advance(self.left - before);
        self.out.count_index(records, true)?;
        let Some(job) = self.out.begin(&start, Some(records))? else { return Ok(()) };
        let in_window = self.out.counts().in_window.get().max(1);
        let likely_bytes = self.blocks.bytes() / in_window * records as u64;
        let selected = self.blocks.select(&self.due.make_contiguous()[..records]);
        let is_short = |fillers: &Fillers| fillers.copies.is_short(likely_bytes as usize);
        let is_short = self.out.fillers().is_none_or(is_short);
        job.add(&mut VecDeque::from([selected]), true, is_short);
        self.leave(records);
        self.out.leave(job)?;
        self.limit_left()
    }

    /// Waits until the blocks that all records have left take no more memory than allowed.
    fn limit_left(&mut self) -> Result<(), StopReason> {
        let workers = self.out.fillers().map_or(0, |fillers| fillers.workers);
        while self.out.is_filling() && self.blocks.left_bytes() > (workers * COPY_BYTES) as u64 {
            self.out.finish_first()?;
        }
        Ok(())
    }

    /// Removes the first `records` due records, which have left.
    fn leave(&mut self, records: usize) {
        for place in self.due.drain(..records) {
            self.blocks.leave(place);
        }
        self.left += records as u64;
        self.out.counts().in_window.take(records as u64);
    }

    /// Lets all records leave.
    fn flush(&mut self) -> Result<(), StopReason> {
        self.skip_records();
        while self.queue.take_next(&mut self.due) {
            self.give_batches()?;
        }
        let tail = self.due.len();
        if tail > 0 && self.size.tail == Tail::Drop {
            self.out.counts().dropped.add(tail as u64);
            self.leave(tail);
        } else if tail > 0 {
            self.fill(tail)?;
        }
        Ok(())
    }

    /// Removes all records.
    fn clear(&mut self) {
        self.queue.clear();
        self.blocks.clear();
        self.due.clear();
        (self.place, self.left) = (0, 0);
        self.out.counts().in_window.set(0);
    }

    /// Bytes of memory that are held for the window.
    #[cfg(test)]
    fn held_bytes(&self) -> usize {
        let due = size_of::<RecordPlace>() * self.due.capacity();
        self.blocks.held_bytes() + self.queue.held_bytes() + due
    }
}

impl<S: Sink> BlockSource for WindowSink<'_, S> {
    fn block(&mut self) -> Result<BlockMemory, StopReason> {
        Ok(self.spare.lend())
    }

    fn dedicated_block(&mut self, payload: usize) -> Result<BlockMemory, StopReason> {
        Ok(self.spare.lend_dedicated(payload))
    }
}

impl<S: Sink> SinkDelivery for WindowSink<'_, S> {
    fn schema(&mut self, fields: &Arc<[Field]>) {
        self.out.set_schema(fields);
    }

    fn grant(&mut self, memory: BlockMemory, batch: &mut Batch) -> Result<(), StopReason> {
        self.add(memory, batch.clone())
    }

    fn has_demand(&self) -> bool {
        // A waiting consumer does not get a batch earlier from a fuller window.
        false
    }

    fn wants_epoch_end(&self, epoch: u32) -> bool {
        self.out.sink_ref().wants_epoch_end(epoch)
    }

    fn end_epoch(&mut self, epoch: u32, early: bool) -> Result<(), StopReason> {
        if !early {
            self.flush()?;
        }
        self.clear();
        self.out.end_epoch(epoch, early)
    }

    fn counts(&self) -> Option<&Arc<DeliveryCounts>> {
        Some(self.out.counts())
    }

    fn finish(&mut self) -> Result<(), StopReason> {
        self.out.finish()
    }
}

#[cfg(test)]
mod tests;
