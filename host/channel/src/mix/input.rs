//! One input of a mix: its channel decodes in a thread of its own and hands over records, as they
//! come, to the thread that mixes.
//!
//! An input is a few batches ahead, and then waits. Its records depend only on its bytes, but the
//! boundaries of its batches do not. So the mix may look at records, and never at boundaries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use pipemill_types::{BatchPosition, Field, InputPosition};

use crate::batch::Batch;
use crate::batch::block_memory::BlockMemory;
use crate::batch::block_source::BlockSource;
use crate::batch::copy::pieces::PieceQueue;
use crate::{Outcome, SinkDelivery, StopReason};

/// Bytes of memory of one batch.
const BATCH_BYTES: usize = 1 << 20;
/// Batches that wait for the mix.
const WAITING: usize = 2;
/// How often a wait for an input is interrupted to ask whether the consumers still want the epoch.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// An item that an input hands over.
pub(super) enum InputEvent {
    /// The fields of its records. Comes before the first records.
    Fields(Arc<[Field]>),
    /// Records.
    Records(BlockMemory, Batch),
    /// The epoch of this number is at its end.
    EpochEnd(u32),
    /// The input has ended.
    Ended(Outcome),
}

/// Requests of the mix to an input.
#[derive(Default)]
struct Orders {
    /// Epochs before this one are not wanted any more.
    first_epoch: AtomicU32,
    stopped: AtomicBool,
}

/// The input's end: where its channel hands over batches.
pub(super) struct InputSink {
    deliveries: SyncSender<InputEvent>,
    spare: Receiver<BlockMemory>,
    orders: Arc<Orders>,
}

/// Makes the two ends of an input.
pub(super) fn connect() -> (InputSink, InputReader) {
    let (deliveries, received) = sync_channel(WAITING);
    let (give_back, spare) = channel();
    let orders = Arc::<Orders>::default();
    let reader = InputReader {
        deliveries: received,
        give_back,
        orders: orders.clone(),
        put_back: None,
        parts: PieceQueue::default(),
        epoch: 0,
        last: BatchPosition::default(),
        is_resumed: None,
        has_ended: false,
    };
    (InputSink { deliveries, spare, orders }, reader)
}

impl InputSink {
    /// Hands over how the channel ended.
    pub(super) fn end(&self, outcome: Outcome) {
        // The mix may be over.
        let _ = self.send(InputEvent::Ended(outcome));
    }

    fn send(&self, delivery: InputEvent) -> Result<(), StopReason> {
        // Fails if the mix is over.
        self.deliveries.send(delivery).map_err(|_| StopReason::Stopped)
    }

    fn check_stopped(&self) -> Result<(), StopReason> {
        match self.orders.stopped.load(Ordering::Acquire) {
            true => Err(StopReason::Stopped),
            false => Ok(()),
        }
    }
}

impl BlockSource for InputSink {
    fn block(&mut self) -> Result<BlockMemory, StopReason> {
        self.check_stopped()?;
        Ok(self.spare.try_recv().unwrap_or_else(|_| BlockMemory::new(BATCH_BYTES)))
    }

    fn dedicated_block(&mut self, payload: usize) -> Result<BlockMemory, StopReason> {
        self.check_stopped()?;
        Ok(BlockMemory::dedicated(payload))
    }
}

impl SinkDelivery for InputSink {
    fn schema(&mut self, fields: &Arc<[Field]>) {
        // Fails if the mix is over, which then needs no fields.
        let _ = self.send(InputEvent::Fields(fields.clone()));
    }

    fn grant(&mut self, memory: BlockMemory, batch: &mut Batch) -> Result<(), StopReason> {
        if self.wants_epoch_end(batch.epoch()) {
            return Ok(());
        }
        self.send(InputEvent::Records(memory, batch.clone()))
    }

    fn has_demand(&self) -> bool {
        true
    }

    fn wants_epoch_end(&self, epoch: u32) -> bool {
        let is_over = epoch < self.orders.first_epoch.load(Ordering::Acquire);
        is_over || self.orders.stopped.load(Ordering::Acquire)
    }

    fn end_epoch(&mut self, epoch: u32, _: bool) -> Result<(), StopReason> {
        self.check_stopped()?;
        self.send(InputEvent::EpochEnd(epoch))
    }
}

/// The next item of an input.
pub(super) enum Next {
    /// The fields of its records.
    Fields(Arc<[Field]>),
    /// A record.
    Record,
    /// The end of the epoch of this number.
    EpochEnd(u32),
    /// The end of the input.
    Ended(Outcome),
}

/// The mix's end of an input.
pub(super) struct InputReader {
    deliveries: Receiver<InputEvent>,
    give_back: Sender<BlockMemory>,
    orders: Arc<Orders>,
    /// The next item, if it was put back.
    put_back: Option<Next>,
    /// The last batches that it handed over, and the records that were picked of them.
    pub(super) parts: PieceQueue,
    /// The epoch of the next record.
    epoch: u32,
    /// The position of the last batch.
    last: BatchPosition,
    /// The position at which the input begins, until it has handed over a batch.
    is_resumed: Option<BatchPosition>,
    /// Whether it has come to its end in this epoch of the mix.
    pub(super) has_ended: bool,
}

impl InputReader {
    /// Sets the position at which the input begins.
    pub(super) fn begin_at(&mut self, position: BatchPosition, has_ended: bool) {
        self.epoch = position.epoch;
        self.is_resumed = Some(position);
        self.has_ended = has_ended;
    }

    /// The epoch of the next record.
    pub(super) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Puts an item back: [`next`](Self::next) returns it next.
    pub(super) fn put_back(&mut self, next: Next) {
        self.put_back = Some(next);
    }

    /// Waits for the next item. `poll` is called during the wait. `received` gets the number of
    /// records and bytes of each batch.
    pub(super) fn next(
        &mut self,
        mut poll: impl FnMut() -> Result<(), StopReason>,
        mut received: impl FnMut(usize, usize),
    ) -> Result<Next, StopReason> {
        loop {
            if let Some(next) = self.put_back.take() {
                return Ok(next);
            }
            if self.parts.has_record() {
                return Ok(Next::Record);
            }
            let delivery = match self.deliveries.recv_timeout(POLL_INTERVAL) {
                Ok(delivery) => delivery,
                Err(RecvTimeoutError::Timeout) => {
                    poll()?;
                    continue;
                }
                // Its thread has panicked. The panic continues where the thread is joined.
                Err(RecvTimeoutError::Disconnected) => return Err(StopReason::Stopped),
            };
            match delivery {
                InputEvent::Fields(fields) => return Ok(Next::Fields(fields)),
                InputEvent::Records(memory, batch) => {
                    received(batch.records, batch.payload);
                    self.epoch = batch.epoch();
                    self.last.clone_from(&batch.start.position);
                    self.is_resumed = None;
                    self.parts.push(memory, batch);
                }
                InputEvent::EpochEnd(number) => {
                    self.epoch = number + 1;
                    self.is_resumed = Some(BatchPosition::of_epoch(self.epoch));
                    return Ok(Next::EpochEnd(number));
                }
                InputEvent::Ended(outcome) => return Ok(Next::Ended(outcome)),
            }
        }
    }

    /// Drops the rest of an epoch that is not wanted any more.
    pub(super) fn skip_epoch(&mut self, epoch: u32) -> Result<Option<Outcome>, StopReason> {
        self.orders.first_epoch.fetch_max(epoch + 1, Ordering::AcqRel);
        // Else the end of an epoch without records, which came before the first record of the mix,
        // would end the next epoch.
        if matches!(self.put_back, Some(Next::EpochEnd(ended)) if ended <= epoch) {
            self.put_back = None;
        }
        while self.epoch <= epoch {
            // No picked record is needed any more.
            self.parts.clear(|memory| give_back(&self.give_back, memory));
            match self.next(|| Ok(()), |_, _| ())? {
                Next::Fields(_) | Next::Record | Next::EpochEnd(_) => {}
                Next::Ended(outcome) => return Ok(Some(outcome)),
            }
        }
        Ok(None)
    }

    /// Releases the records that were taken: they are not needed any more.
    pub(super) fn release_taken(&mut self) {
        self.parts.release_taken(|memory| give_back(&self.give_back, memory));
    }

    /// The place of the next record.
    pub(super) fn position(&self, input: &str) -> InputPosition {
        let place = || {
            let mut position = self.last.clone();
            position.advance(self.parts.taken());
            position
        };
        let position = self.is_resumed.clone().unwrap_or_else(place);
        InputPosition { input: input.to_owned(), ended: self.has_ended, position }
    }
}

/// Gives memory back to the input, which may have ended.
fn give_back(to: &Sender<BlockMemory>, memory: BlockMemory) {
    let _ = to.send(memory);
}

impl Drop for InputReader {
    fn drop(&mut self) {
        self.orders.stopped.store(true, Ordering::Release);
    }
}
