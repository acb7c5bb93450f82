//! One batch that other threads fill, one of them at a time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pipemill_types::{BatchMemory, BatchSize, Column, Tail};

use super::queue::{CopyJob, CopyQueue};
use crate::Batch;

/// How often a wait for a copy is interrupted, to see whether there is still a thread for it.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Settings that all batches of a channel share.
#[derive(Clone)]
pub(crate) struct Layout {
    pub(crate) size: BatchSize,
    /// Bytes of each field's values, where they have a fixed size.
    pub(crate) row_sizes: Arc<[Option<usize>]>,
}

/// Records that are copied to the end of a batch.
pub(crate) trait CopiedRecords: Send + Sync + 'static {
    /// Adds them to the end of a batch, whose values may take `room` bytes of its memory. Returns
    /// the bytes of values that it copied.
    ///
    /// # Errors
    /// They don't fit: the bytes that the values would take.
    fn append_to(
        &self,
        batch: &mut Batch,
        memory: &mut [u8],
        room: usize,
        row_sizes: &[Option<usize>],
    ) -> Result<usize, usize>;

    /// Bytes that their values take, without gaps for alignment.
    fn payload(&self) -> usize;
}

/// A batch that is not full.
pub(crate) struct Filling<M> {
    pub(crate) memory: M,
    pub(crate) is_dedicated: bool,
    /// Bytes that its values may take; `None` if not even the index fits.
    pub(crate) room: Option<usize>,
    pub(crate) batch: Batch,
}

/// A batch that can be handed over.
pub(crate) struct Filled<M> {
    pub(crate) memory: M,
    pub(crate) is_dedicated: bool,
    pub(crate) batch: Batch,
    /// The columns with their memory, if the index was written.
    pub(crate) columns: Option<Vec<Column>>,
}

/// The stage of a batch.
enum FillStage<M> {
    /// No record waits to be copied.
    Idle(Filling<M>),
    /// It waits for a thread.
    Queued(Filling<M>),
    /// A thread is at work on it.
    Busy,
    /// It needs memory for this many bytes of values.
    NoRoom(Filling<M>, usize),
    Full(Filled<M>),
    /// The batch was taken, nobody wants it, or its thread has panicked.
    Gone,
}

struct FillState<M, R> {
    stage: FillStage<M>,
    /// Records that are still to be copied.
    records: VecDeque<R>,
    /// Whether no more records come.
    is_complete: bool,
}

/// The state in which the channel's thread finds a batch.
pub(crate) enum Found<M> {
    /// All of its records so far were copied.
    Idle,
    /// Some of its records were not copied yet, or that is not known.
    Busy,
    /// It needs memory for this many bytes of values, to be given back by
    /// [`go_on`](BatchJob::go_on).
    NoRoom(Filling<M>, usize),
    Full(Filled<M>),
    /// Its thread has panicked.
    Gone,
}

/// A batch that is being filled.
pub(crate) struct BatchJob<M, R> {
    state: Mutex<FillState<M, R>>,
    changed: Condvar,
    /// Whether its memory is a dedicated buffer. Only the channel's thread changes it.
    is_dedicated: AtomicBool,
    layout: Layout,
    /// The queue from which other threads take the batch, if there are any.
    queue: Option<Arc<CopyQueue>>,
}

impl<M: BatchMemory + 'static, R: CopiedRecords> BatchJob<M, R> {
    /// A batch without records.
    pub(crate) fn new(
        filling: Filling<M>,
        layout: Layout,
        queue: Option<Arc<CopyQueue>>,
    ) -> Arc<Self> {
        let is_dedicated = filling.is_dedicated.into();
        let stage = FillStage::Idle(filling);
        let state = FillState { stage, records: VecDeque::new(), is_complete: false };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        Arc::new(Self { state, changed, is_dedicated, layout, queue })
    }

    /// Whether its memory is a dedicated buffer.
    pub(crate) fn is_dedicated(&self) -> bool {
        self.is_dedicated.load(Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, FillState<M, R>> {
        // A panic can't leave it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds records, and hands the batch to a thread if none has it. With `here`, this thread
    /// copies them.
    pub(crate) fn add(self: &Arc<Self>, records: &mut VecDeque<R>, is_complete: bool, here: bool) {
        let mut state = self.state();
        state.records.append(records);
        state.is_complete = is_complete;
        if let FillStage::Idle(filling) = take(&mut state.stage, |stage| stage.is_idle()) {
            self.hand_over(state, filling, here);
        }
    }

    /// Continues with memory that has room for more.
    pub(crate) fn go_on(self: &Arc<Self>, filling: Filling<M>) {
        self.is_dedicated.store(filling.is_dedicated, Ordering::Relaxed);
        self.hand_over(self.state(), filling, false);
    }

    fn hand_over(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, FillState<M, R>>,
        filling: Filling<M>,
        here: bool,
    ) {
        state.stage = FillStage::Queued(filling);
        drop(state);
        match self.queue.as_ref().filter(|queue| !here && !queue.is_over()) {
            Some(queue) => queue.add(self.clone()),
            None => self.run(),
        }
    }

    /// Discards the batch: nobody wants it any more.
    pub(crate) fn discard(&self) {
        let mut state = self.state();
        let stage = std::mem::replace(&mut state.stage, FillStage::Gone);
        let records = std::mem::take(&mut state.records);
        drop(state);
        drop((stage, records));
    }

    /// The batch's state, without waiting.
    pub(crate) fn look(&self) -> Found<M> {
        Self::found(&mut self.state())
    }

    fn found(state: &mut FillState<M, R>) -> Found<M> {
        match take(&mut state.stage, |stage| stage.needs_channel()) {
            FillStage::NoRoom(filling, payload) => Found::NoRoom(filling, payload),
            FillStage::Full(filled) => Found::Full(filled),
            _ => match &state.stage {
                FillStage::Idle(_) => Found::Idle,
                FillStage::Queued(_) | FillStage::Busy => Found::Busy,
                FillStage::NoRoom(..) | FillStage::Full(_) | FillStage::Gone => Found::Gone,
            },
        }
    }

    /// Waits until no thread has to do anything for it. If there are no threads any more, this one
    /// does it.
    pub(crate) fn wait(&self) -> Found<M> {
        let mut state = self.state();
        loop {
            match Self::found(&mut state) {
                Found::Busy => {}
                found => return found,
            }
            if self.queue.as_ref().is_none_or(|queue| queue.is_over())
                && matches!(state.stage, FillStage::Queued(_))
            {
                drop(state);
                self.run();
                state = self.state();
                continue;
            }
            let waited = self.changed.wait_timeout(state, POLL_INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends the work of a thread.
    fn set_stage(&self, mut state: MutexGuard<'_, FillState<M, R>>, stage: FillStage<M>) {
        // It may have been discarded meanwhile.
        let is_wanted = matches!(state.stage, FillStage::Busy);
        let tells = is_wanted && stage.needs_channel();
        let unused = if is_wanted { std::mem::replace(&mut state.stage, stage) } else { stage };
        drop(state);
        drop(unused);
        self.changed.notify_all();
        if let Some(queue) = self.queue.as_ref().filter(|_| tells) {
            queue.tell();
        }
    }

    /// Copies records until none waits.
    fn copy(&self, mut filling: Filling<M>) {
        loop {
            let mut state = self.state();
            let records = std::mem::take(&mut state.records);
            if records.is_empty() && !state.is_complete {
                return self.set_stage(state, FillStage::Idle(filling));
            }
            drop(state);
            if records.is_empty() {
                let stage = self.complete(filling);
                return self.set_stage(self.state(), stage);
            }
            if let Err((left, payload)) = self.append(&mut filling, records) {
                let mut state = self.state();
                let later = std::mem::replace(&mut state.records, left);
                state.records.extend(later);
                return self.set_stage(state, FillStage::NoRoom(filling, payload));
            }
        }
    }

    /// Copies these records.
    ///
    /// # Errors
    /// They don't fit: the records that were not copied, and the bytes of values with all of them.
    fn append(
        &self,
        filling: &mut Filling<M>,
        mut records: VecDeque<R>,
    ) -> Result<(), (VecDeque<R>, usize)> {
        let Filling { memory, room, batch, .. } = filling;
        let Some(room) = *room else {
            let payload = batch.payload + records.iter().map(R::payload).sum::<usize>();
            return Err((records, payload));
        };
        while let Some(first) = records.front() {
            match first.append_to(batch, memory.as_mut(), room, &self.layout.row_sizes) {
                Ok(bytes) => self.count(bytes),
                Err(payload) => {
                    let later: usize = records.iter().skip(1).map(R::payload).sum();
                    return Err((records, payload + later));
                }
            }
            records.pop_front();
        }
        Ok(())
    }

    fn count(&self, bytes: usize) {
        if let Some(queue) = &self.queue {
            queue.count(bytes);
        }
    }

    /// Completes a batch that has all its records. Pads it if necessary, makes arrays of values of
    /// a fixed size, and writes the index.
    fn complete(&self, mut filling: Filling<M>) -> FillStage<M> {
        let Layout { size, row_sizes } = &self.layout;
        // Not a second time, after the batch got more memory.
        if size.tail == Tail::Pad && filling.batch.records < size.records {
            filling.batch.pad(size.records);
        }
        let (fields, payload) = filling.batch.scattered(row_sizes);
        if filling.room.is_none_or(|room| payload > room) {
            return FillStage::NoRoom(filling, payload);
        }
        let Filling { mut memory, is_dedicated, mut batch, .. } = filling;
        let before = batch.payload;
        batch.gather(memory.as_mut(), &fields);
        self.count(batch.payload - before);
        let filled = match batch.with_written_index(&mut memory) {
            Some(written) => {
                Filled { memory, is_dedicated, batch: written, columns: Some(batch.columns) }
            }
            None => Filled { memory, is_dedicated, batch, columns: None },
        };
        FillStage::Full(filled)
    }
}

impl<M: BatchMemory + 'static, R: CopiedRecords> CopyJob for BatchJob<M, R> {
    fn run(&self) {
        let mut state = self.state();
        let queued = take(&mut state.stage, |stage| matches!(stage, FillStage::Queued(_)));
        let FillStage::Queued(filling) = queued else { return };
        state.stage = FillStage::Busy;
        drop(state);
        let lost = LostAtDrop(self);
        self.copy(filling);
        std::mem::forget(lost);
    }
}

/// Ends the wait for a batch whose thread panics.
struct LostAtDrop<'a, M: BatchMemory + 'static, R: CopiedRecords>(&'a BatchJob<M, R>);

impl<M: BatchMemory + 'static, R: CopiedRecords> Drop for LostAtDrop<'_, M, R> {
    fn drop(&mut self) {
        self.0.discard();
        self.0.changed.notify_all();
        if let Some(queue) = &self.0.queue {
            queue.tell();
        }
    }
}

impl<M> FillStage<M> {
    fn is_idle(&self) -> bool {
        matches!(self, Self::Idle(_))
    }

    /// Whether the channel's thread has to do something.
    fn needs_channel(&self) -> bool {
        matches!(self, Self::NoRoom(..) | Self::Full(_))
    }
}

/// Takes the stage if `is_such` is true of it. Otherwise the stage stays, and this returns
/// [`FillStage::Gone`].
fn take<M>(stage: &mut FillStage<M>, is_such: fn(&FillStage<M>) -> bool) -> FillStage<M> {
    if is_such(stage) { std::mem::replace(stage, FillStage::Gone) } else { FillStage::Gone }
}
