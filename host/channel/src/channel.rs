//! Runs a channel: object after object, epoch after epoch, to the end of its source or its failure.

use std::time::Duration;

use pipemill_decode::{Limits, Plugin, Stream};
use pipemill_source::{Object, Source, SourceError, SourceEvent};
use pipemill_types::{ErrorKind, Fault, Position, StreamInfo, schema_extension};

use super::batch_builder::BatchBuilder;
use super::cut::{BatchSize, CutPoint};
use super::decode_loop::{Context, DecodeLoop, Progress};
use super::monitor::Monitor;
use super::observer::Observer;
use super::{ChannelStats, ErrorPolicy, Failure, Sink, Stage, StopReason};

/// A channel, ready to run.
pub struct Channel {
    /// Its name.
    pub name: String,
    /// Where its bytes come from.
    pub source: Box<dyn Source>,
    /// What decodes them.
    pub plugin: Plugin,
    /// The decoder's options.
    pub options: Vec<(String, String)>,
    /// What the decoder may use.
    pub limits: Limits,
    /// What happens at errors.
    pub policy: ErrorPolicy,
    /// Largest record, in bytes.
    pub max_record: u64,
    /// How long records wait for more records while the source has nothing.
    pub linger: Duration,
    /// The number of records of each batch. `None`: a batch leaves as early as its consumer gains
    /// from it.
    pub batch: Option<BatchSize>,
    /// Whether batches contain the byte offset of each record in its object.
    pub offsets: bool,
    /// They get each event of the channel's thread, in this order.
    pub observers: Vec<Box<dyn Observer>>,
}

/// How a channel ended.
#[derive(Debug)]
pub enum Outcome {
    /// The source came to its end.
    Ended,
    /// The run was stopped.
    Stopped,
    /// The channel failed. What it decoded before was handed over, if the sink took it.
    Failed(Failure),
}

impl Channel {
    /// Runs until the source ends, the channel fails or the run is stopped. `stats` belongs to this
    /// channel alone. The channel's thread is still at a stage afterwards: [`stop`](Self::stop)
    /// ends it.
    pub fn run<S: Sink>(&mut self, sink: &mut S, stats: &ChannelStats) -> Outcome {
        let observers = std::mem::take(&mut self.observers);
        let monitor = Monitor::new(stats, &observers);
        let mut builder = BatchBuilder::new(sink, self.batch);
        let outcome = match self.decode_objects(&mut builder, monitor) {
            Ok(left_early) => match self.nothing_delivered(stats) {
                Some(failure) if !left_early => Outcome::Failed(failure),
                _ => Outcome::Ended,
            },
            Err(StopReason::Stopped | StopReason::EpochEnded) => Outcome::Stopped,
            Err(StopReason::Failed(failure)) => match builder.cut_at(CutPoint::Failed) {
                Err(StopReason::Stopped) => Outcome::Stopped,
                _ => Outcome::Failed(*failure),
            },
        };
        monitor.batches_granted(builder.granted());
        monitor.enter(Stage::Consumer);
        if let Outcome::Failed(failure) = &outcome {
            monitor.failed(failure);
        }
        self.observers = observers;
        outcome
    }

    /// The channel's thread has nothing more to do: all batches were delivered, or the run was
    /// stopped.
    pub fn stop(&self, stats: &ChannelStats) {
        Monitor::new(stats, &self.observers).stopped();
    }

    /// Decodes all objects. Returns whether the consumers ended an epoch early.
    fn decode_objects<S: Sink>(
        &mut self,
        builder: &mut BatchBuilder<'_, S>,
        monitor: Monitor<'_>,
    ) -> Result<bool, StopReason> {
        let (mut epoch, mut early, mut left_early) = (0, false, false);
        loop {
            monitor.enter(Stage::Source);
            let event = self.source.next();
            match event.map_err(|error| self.source_failure(epoch, error))? {
                SourceEvent::End => return Ok(left_early),
                SourceEvent::EpochEnd(ended) => {
                    monitor.enter(Stage::Consumer);
                    monitor.batches_granted(builder.granted());
                    builder.end_epoch(ended, early)?;
                    self.report_dropped(ended, builder.take_dropped());
                    monitor.epoch_ends(ended, std::mem::take(&mut early));
                    epoch = ended + 1;
                }
                SourceEvent::Object(mut object) => {
                    epoch = object.epoch;
                    match self.decode_object(&mut object, builder, monitor) {
                        Err(StopReason::EpochEnded) => {
                            (early, left_early) = (true, true);
                            self.source.end_epoch();
                        }
                        other => other?,
                    }
                }
            }
        }
    }

    fn decode_object<S: Sink>(
        &mut self,
        object: &mut Object,
        builder: &mut BatchBuilder<'_, S>,
        monitor: Monitor<'_>,
    ) -> Result<(), StopReason> {
        let info = StreamInfo {
            channel: self.name.clone(),
            epoch: object.epoch,
            object: object.name.clone(),
            max_record: self.max_record,
            offsets: self.offsets,
            facts: object.facts.clone(),
            extensions: builder.schema().and_then(schema_extension).into_iter().collect(),
        };
        builder.begin_object(object);
        monitor.object_begins(object.epoch, &object.name);
        monitor.enter(Stage::Decoder);
        let stream = Stream::open(&self.plugin, &self.options, &info, &self.limits)
            .map_err(|fault| self.failure(object, fault))?;
        let context = Context {
            channel: &self.name,
            decoder: self.plugin.name(),
            max_record: self.max_record,
            linger: self.linger,
            monitor,
        };
        let mut decode_loop = DecodeLoop {
            context,
            builder,
            policy: &mut self.policy,
            epoch: object.epoch,
            object: &object.name,
            input: &mut *object.input,
            stream,
            progress: Progress::default(),
        };
        let done = decode_loop.run();
        monitor.object_ends();
        done
    }

    /// Says how many records of an epoch were left out by `tail = "drop"`.
    fn report_dropped(&self, epoch: u32, dropped: usize) {
        if let Some(size) = self.batch.filter(|_| dropped > 0) {
            log::info!(
                channel = self.name, epoch, records = dropped;
                "channel `{}`, epoch {epoch}: {dropped} records at the end were left out, because \
                they don't fill a batch of {} (tail = \"drop\")",
                self.name, size.records
            );
        }
    }

    /// The failure of a channel that delivered no record and skipped errors: most likely the decoder
    /// or its options don't fit the input.
    fn nothing_delivered(&self, stats: &ChannelStats) -> Option<Failure> {
        let first = self.policy.first_skipped().filter(|_| stats.snapshot().records == 0)?;
        let message = format!(
            "no record was delivered: all of the input was skipped as errors; the first one was: {}",
            first.fault.message
        );
        let remedy = "check that this decoder, with these `options`, fits the input";
        Some(Failure { fault: Fault::new(first.fault.kind, message, remedy), ..first.clone() })
    }

    fn failure(&self, object: &Object, fault: Fault) -> Failure {
        Failure {
            fault,
            channel: self.name.clone(),
            position: Position::object(object.epoch, &object.name),
            decoder: self.plugin.name().to_owned(),
            bytes: Vec::new(),
            missing: false,
        }
    }

    fn source_failure(&self, epoch: u32, error: SourceError) -> Failure {
        Failure {
            fault: Fault::new(ErrorKind::Source, error.message, error.remedy),
            channel: self.name.clone(),
            position: Position {
                object: error.object,
                ..Position::epoch(error.epoch.unwrap_or(epoch))
            },
            decoder: self.plugin.name().to_owned(),
            bytes: Vec::new(),
            missing: error.missing,
        }
    }
}
