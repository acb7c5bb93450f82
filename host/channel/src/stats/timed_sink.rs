//! A sink whose waits for consumers are timed apart from the work on batches.

use std::sync::Arc;

use pipemill_types::{Field, TakenMemory};

use crate::sink::DeliveryCounts;
use crate::stats::monitor::Monitor;
use crate::stats::stage_timer::Activity;
use crate::{Batch, SinkDelivery, SinkMemory, StopReason};

/// The calls of `sink` that may wait are the activity `waits`. Before and after them, the thread
/// works on a batch.
pub(crate) struct TimedSink<'a, S> {
    sink: &'a mut S,
    monitor: Monitor<'a>,
    waits: Activity,
}

impl<'a, S> TimedSink<'a, S> {
    pub(crate) fn new(sink: &'a mut S, monitor: Monitor<'a>, waits: Activity) -> Self {
        Self { sink, monitor, waits }
    }

    fn timed<R>(&mut self, call: impl FnOnce(&mut S) -> R) -> R {
        self.monitor.enter(self.waits);
        let result = call(self.sink);
        self.monitor.enter(Activity::Batch);
        result
    }
}

impl<S: SinkMemory> SinkMemory for TimedSink<'_, S> {
    type Memory = S::Memory;

    fn memory(&mut self) -> Result<S::Memory, StopReason> {
        self.timed(S::memory)
    }

    fn free_memory(&mut self) -> Option<S::Memory> {
        self.sink.free_memory()
    }

    fn extra_memory(&mut self) -> Option<S::Memory> {
        self.sink.extra_memory()
    }

    fn dedicated_memory(&mut self, payload: usize, fields: usize) -> Result<S::Memory, StopReason> {
        self.timed(|sink| sink.dedicated_memory(payload, fields))
    }

    fn memory_about(&mut self, payload: usize, fields: usize) -> Result<S::Memory, StopReason> {
        self.timed(|sink| sink.memory_about(payload, fields))
    }

    fn free_dedicated_memory(&mut self, payload: usize, fields: usize) -> Option<S::Memory> {
        self.sink.free_dedicated_memory(payload, fields)
    }

    fn grow(&mut self, memory: &mut S::Memory, payload: usize) -> Result<(), StopReason> {
        self.sink.grow(memory, payload)
    }

    fn take_memory(
        &mut self,
        taken: &mut Option<TakenMemory>,
        bytes: u64,
    ) -> Result<(), StopReason> {
        self.timed(|sink| sink.take_memory(taken, bytes))
    }

    fn room(
        &self,
        memory: &S::Memory,
        records: usize,
        fields: usize,
        texts: usize,
    ) -> Option<usize> {
        self.sink.room(memory, records, fields, texts)
    }
}

impl<S: SinkDelivery> SinkDelivery for TimedSink<'_, S> {
    fn schema(&mut self, fields: &Arc<[Field]>) {
        self.sink.schema(fields);
    }

    fn grant(&mut self, memory: S::Memory, batch: &mut Batch) -> Result<(), StopReason> {
        self.timed(|sink| sink.grant(memory, batch))
    }

    fn has_demand(&self) -> bool {
        self.sink.has_demand()
    }

    fn wants_epoch_end(&self, epoch: u32) -> bool {
        self.sink.wants_epoch_end(epoch)
    }

    fn end_epoch(&mut self, epoch: u32, early: bool) -> Result<(), StopReason> {
        self.timed(|sink| sink.end_epoch(epoch, early))
    }

    fn counts(&self) -> Option<&Arc<DeliveryCounts>> {
        self.sink.counts()
    }

    fn finish(&mut self) -> Result<(), StopReason> {
        self.timed(S::finish)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{ChannelStats, Stage};

    const LONG: Duration = Duration::from_millis(50);

    /// Each call lasts until the statistics have counted it in its stage.
    struct SlowSink<'a>(&'a ChannelStats);

    impl SlowSink<'_> {
        fn until_counted(&self, stages: &[Stage]) {
            let count =
                || stages.iter().map(|stage| self.0.snapshot().of(*stage)).sum::<Duration>();
            let before = count();
            while count() < before + LONG {}
        }
    }

    impl SinkMemory for SlowSink<'_> {
        type Memory = Vec<u8>;

        fn memory(&mut self) -> Result<Vec<u8>, StopReason> {
            self.until_counted(&[Stage::Consumer]);
            Ok(Vec::new())
        }

        fn dedicated_memory(&mut self, _: usize, _: usize) -> Result<Vec<u8>, StopReason> {
            self.memory()
        }

        fn grow(&mut self, _: &mut Vec<u8>, _: usize) -> Result<(), StopReason> {
            // The cores may be busy with others.
            self.until_counted(&[Stage::Batch, Stage::Cores]);
            Ok(())
        }

        fn room(&self, _: &Vec<u8>, _: usize, _: usize, _: usize) -> Option<usize> {
            None
        }
    }

    #[test]
    fn waits_for_consumers_are_no_work_on_batches() {
        let stats = ChannelStats::default();
        let monitor = Monitor::new(&stats, &[]);
        monitor.enter(Activity::Batch);
        let mut slow = SlowSink(&stats);
        let mut sink = TimedSink::new(&mut slow, monitor, Activity::Consumer);
        let mut memory = sink.memory().expect("it has some");
        sink.dedicated_memory(1, 1).expect("it has some");
        assert_eq!(stats.stage(), Some(Stage::Batch));
        let consumer = stats.snapshot().of(Stage::Consumer);
        assert!(consumer >= 2 * LONG);
        sink.grow(&mut memory, 1).expect("it has some");
        assert_eq!(stats.snapshot().of(Stage::Consumer), consumer);
    }
}
