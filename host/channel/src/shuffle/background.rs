//! A window in a thread of its own: the records that leave are copied while the channel's thread
//! decodes the next ones.
//!
//! The channel's thread puts decoded records into a short queue, and the window's thread takes
//! them. The channel's thread does all else (fields, counts, the end of an epoch), after it has
//! waited for the window's thread. So records leave as with one thread.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, TryLockError};
use std::thread;

use pipemill_types::{BatchSize, Field};

use super::spare::SpareMemory;
use super::{Shuffle, WindowSink};
use crate::batch::block_memory::BlockMemory;
use crate::batch::block_source::BlockSource;
use crate::sink::DeliveryCounts;
use crate::stats::monitor::Monitor;
use crate::stats::stage_timer::Activity;
use crate::stats::timed_sink::TimedSink;
use crate::{Batch, ChannelStats, Sink, SinkDelivery, StopReason};

/// Batches that wait for the window's thread.
const QUEUED: usize = 1;

/// Runs `work` with the input of a window, whose records leave to `sink` in a thread of this name.
/// `monitor` is that of the thread that calls this.
///
/// # Errors
/// The thread can't be started.
pub(crate) fn with_window<S: Sink + Send, R>(
    sink: &mut S,
    shuffle: Shuffle,
    size: BatchSize,
    name: String,
    monitor: Monitor<'_>,
    work: impl FnOnce(&mut TimedSink<'_, WindowInput<'_, '_, TimedSink<'_, S>>>) -> R,
) -> io::Result<R> {
    let stats = Arc::<ChannelStats>::default();
    monitor.waits_for_window(stats.clone());
    let of_window = Monitor::new(&stats, &[]);
    let mut sink = TimedSink::new(sink, of_window, Activity::Consumer);
    let window = WindowSink::new(&mut sink, shuffle, size, of_window);
    let (spare, counts) = (window.spare.clone(), window.out.counts().clone());
    let shared = Shared {
        window: Mutex::new(window),
        spare: spare.clone(),
        queue: Mutex::default(),
        changed: Condvar::new(),
    };
    thread::scope(|scope| {
        // Ends the window's thread also if this one panics.
        let _end = EndShuffleAtDrop(&shared);
        let mut input = WindowInput { shared: &shared, counts };
        thread::Builder::new().name(name).spawn_scoped(scope, || shared.take_all(of_window))?;
        Ok(work(&mut TimedSink::new(&mut input, monitor, Activity::Window)))
    })
}

/// The state that both threads share.
struct Shared<'s, S: Sink> {
    window: Mutex<WindowSink<'s, S>>,
    spare: SpareMemory,
    queue: Mutex<Queue>,
    /// The queue has changed.
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    batches: VecDeque<(BlockMemory, Batch)>,
    /// Whether the window's thread is working on a batch.
    is_busy: bool,
    /// The reason why the window takes no more, until the channel's thread has got it.
    stopped: Option<StopReason>,
    /// Whether one of the threads has ended.
    is_over: bool,
}

impl<'s, S: Sink> Shared<'s, S> {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("no code under this lock panics")
    }

    /// Waits as long as this holds.
    fn wait_while(&self, mut condition: impl FnMut(&Queue) -> bool) -> MutexGuard<'_, Queue> {
        let waits = |queue: &mut Queue| condition(queue) && !queue.is_over;
        self.changed.wait_while(self.lock(), waits).expect("no code under this lock panics")
    }

    /// The window, once its thread has taken all batches. An error if the window takes no more.
    fn finished(&self) -> Result<MutexGuard<'_, WindowSink<'s, S>>, StopReason> {
        let has_work = |queue: &Queue| queue.is_busy || !queue.batches.is_empty();
        if let Some(reason) = self.wait_while(has_work).stopped.take() {
            return Err(reason);
        }
        // It has panicked. The panic continues where the thread is joined.
        self.window.lock().map_err(|_| StopReason::Stopped)
    }

    /// Waits for a batch, or the end. Prepares memory during the wait.
    fn next_work(&self) -> MutexGuard<'_, Queue> {
        let waits = |queue: &Queue| queue.batches.is_empty();
        loop {
            let queue = self.lock();
            if !waits(&queue) || queue.is_over {
                return queue;
            }
            drop(queue);
            if !self.spare.prepare() {
                return self.wait_while(waits);
            }
        }
    }

    /// The window's thread: takes batches until the channel's thread has ended.
    fn take_all(&self, monitor: Monitor<'_>) {
        let _end = EndShuffleAtDrop(self);
        loop {
            let mut queue = self.next_work();
            let Some((memory, batch)) = queue.batches.pop_front().filter(|_| !queue.is_over) else {
                return;
            };
            queue.is_busy = true;
            self.changed.notify_all();
            drop(queue);
            let taken = match self.window.lock() {
                // Only the thread that holds the window changes that thread's activity.
                Ok(mut window) => {
                    monitor.enter(Activity::Batch);
                    let taken = take(&mut window, memory, batch);
                    monitor.enter(Activity::Source);
                    taken
                }
                Err(_) => return,
            };
            let mut queue = self.lock();
            queue.is_busy = false;
            if let Err(reason) = taken {
                queue.stopped = Some(reason);
                queue.batches.clear();
            }
            self.changed.notify_all();
        }
    }
}

/// Lets the window take a batch, and asks whether the consumers want more.
fn take<S: Sink>(
    window: &mut WindowSink<'_, S>,
    memory: BlockMemory,
    batch: Batch,
) -> Result<(), StopReason> {
    let epoch = batch.epoch();
    window.add(memory, batch)?;
    if window.wants_epoch_end(epoch) { Err(StopReason::EpochEnded) } else { Ok(()) }
}

/// Tells the other thread that this one has ended, also by a panic.
struct EndShuffleAtDrop<'a, 's, S: Sink>(&'a Shared<'s, S>);

impl<S: Sink> Drop for EndShuffleAtDrop<'_, '_, S> {
    fn drop(&mut self) {
        // The queue is consistent at any time.
        let mut queue = self.0.queue.lock().unwrap_or_else(|error| error.into_inner());
        queue.is_over = true;
        self.0.changed.notify_all();
    }
}

/// The end of the queue into which the channel's thread puts decoded records.
pub(crate) struct WindowInput<'w, 's, S: Sink> {
    shared: &'w Shared<'s, S>,
    counts: Arc<DeliveryCounts>,
}

impl<S: Sink> BlockSource for WindowInput<'_, '_, S> {
    fn block(&mut self) -> Result<BlockMemory, StopReason> {
        Ok(self.shared.spare.lend())
    }

    fn dedicated_block(&mut self, payload: usize) -> Result<BlockMemory, StopReason> {
        Ok(self.shared.spare.lend_dedicated(payload))
    }
}

impl<S: Sink> SinkDelivery for WindowInput<'_, '_, S> {
    fn schema(&mut self, fields: &Arc<[Field]>) {
        // Before the first batch there is nothing to wait for, and nothing that can stop it.
        if let Ok(mut window) = self.shared.finished() {
            window.schema(fields);
        }
    }

    fn grant(&mut self, memory: BlockMemory, batch: &mut Batch) -> Result<(), StopReason> {
        let batch = batch.clone();
        let is_full = |queue: &Queue| queue.batches.len() >= QUEUED && queue.stopped.is_none();
        let mut queue = self.shared.wait_while(is_full);
        if let Some(reason) = queue.stopped.take() {
            return Err(reason);
        }
        if queue.is_over {
            // The window's thread has panicked. The panic continues where the thread is joined.
            return Err(StopReason::Stopped);
        }
        queue.batches.push_back((memory, batch));
        self.shared.changed.notify_all();
        Ok(())
    }

    fn has_demand(&self) -> bool {
        // A waiting consumer does not get a batch earlier from a fuller window.
        false
    }

    fn wants_epoch_end(&self, epoch: u32) -> bool {
        match self.shared.window.try_lock() {
            Ok(window) => window.wants_epoch_end(epoch),
            // The window's thread is at work, and will ask.
            Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => false,
        }
    }

    fn end_epoch(&mut self, epoch: u32, early: bool) -> Result<(), StopReason> {
        let mut window = match self.shared.finished() {
            Err(StopReason::EpochEnded) if early => self.shared.finished()?,
            other => other?,
        };
        window.end_epoch(epoch, early)
    }

    fn counts(&self) -> Option<&Arc<DeliveryCounts>> {
        Some(&self.counts)
    }

    fn finish(&mut self) -> Result<(), StopReason> {
        self.shared.finished().map(drop)
    }
}
