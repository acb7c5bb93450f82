//! Runs a channel: object after object, epoch after epoch, to the end of its source or its failure.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use pipemill_decode::{Limits, Plugin};
use pipemill_planned::{PlanMaker, Planned};
use pipemill_source::cache::{CacheCounters, RecordCache};
use pipemill_source::{NoSource, Source, SourceEvent};
use pipemill_types::{AddedField, BatchSize, ErrorKind, Fault, Position, schema_extension};

use crate::batch::builder::{BatchBuilder, KeptInput};
use crate::batch::cut::CutPoint;
use crate::batch::writer::BatchWriter;
use crate::epoch_end::end_epoch;
use crate::pump::background_inflate::BackgroundInflate;
use crate::pump::decode_loop::max_chunk;
use crate::pump::object::{Begin, Decoder, Decoding, Reading};
use crate::record_cache::is_cached;
use crate::run_context::RunContext;
use crate::shuffle::{WindowSink, with_window};
use crate::stats::monitor::Monitor;
use crate::stats::observer::Observer;
use crate::stats::stage_timer::Activity;
use crate::stats::timed_sink::TimedSink;
use crate::workers::{InBatchesSink, InOrderSink, PortionSink, Workers};
use crate::{ChannelStats, ErrorPolicy, Failure, Learning, Resume, Shuffle, Sink, StopReason};

/// A channel, ready to run.
pub struct Channel {
    /// Its name.
    pub name: String,
    /// The source of its bytes.
    pub source: Box<dyn Source>,
    /// The decoder.
    pub plugin: Plugin,
    /// The decoder's options.
    pub options: Vec<(String, String)>,
    /// The decoder's limits.
    pub limits: Limits,
    /// How errors are handled.
    pub policy: ErrorPolicy,
    /// Largest record, in bytes.
    pub max_record: u64,
    /// How long records wait for more records while the source has nothing.
    pub linger: Duration,
    /// The number of records of each batch. `None`: a batch leaves as early as its consumer gains
    /// from it.
    pub batch: Option<BatchSize>,
    /// The threads that decode objects concurrently. More than one thread needs a source whose
    /// objects can be read concurrently: see [`Source::can_reread`].
    pub workers: Workers,
    /// Whether long objects that are compressed are inflated in a thread of their own. Only with
    /// one worker.
    pub inflates_in_background: bool,
    /// Changes the order of the records. Has an effect only with `batch`.
    pub shuffle: Option<Shuffle>,
    /// How the fields of the records are learned.
    pub learning: Learning,
    /// Fields that are added to each record, after those of the decoder.
    pub added_fields: Vec<AddedField>,
    /// Where to resume. `None`: at the beginning.
    pub resume: Option<Resume>,
    /// The cache of what the decoder makes, if there is one.
    pub cache: Option<Arc<RecordCache>>,
    /// Whether batches contain the byte offset of each record in its object.
    pub offsets: bool,
    /// Each of them gets every event of the channel's thread, in this order.
    pub observers: Vec<Box<dyn Observer>>,
}

/// How a channel ended.
#[derive(Debug)]
pub enum Outcome {
    /// The source came to its end.
    Ended,
    /// The run was stopped.
    Stopped,
    /// The consumers requested another place to begin at. The channel can run again, from there on.
    Restart,
    /// The channel failed. Records decoded before were handed over, if the sink took them.
    Failed(Failure),
}

impl Channel {
    /// Runs until the source ends, the channel fails or the run is stopped. `stats` belongs to this
    /// channel alone. Afterwards, the channel's thread is still in a stage: [`stop`](Self::stop)
    /// ends it.
    pub fn run<S: Sink + Send>(&mut self, sink: &mut S, stats: &ChannelStats) -> Outcome {
        self.plan_objects();
        if let Some(cache) = &self.cache {
            let is_cached = is_cached(self, cache.clone());
            self.source.set_cached(is_cached);
        }
        let observers = std::mem::take(&mut self.observers);
        let monitor = Monitor::new(stats, &observers);
        let outcome = match (self.shuffle, self.batch) {
            (Some(shuffle), Some(size)) if self.workers.count() == 1 => {
                self.run_with_window(sink, shuffle, size, monitor)
            }
            (shuffle, size) => {
                let mut sink = TimedSink::new(sink, monitor, Activity::Consumer);
                self.run_without_window_thread(&mut sink, shuffle, size, monitor)
            }
        };
        self.observers = observers;
        outcome
    }

    /// Lets the decoder choose the bytes of the objects, if it makes plans.
    fn plan_objects(&mut self) {
        if !self.plugin.plans() {
            return;
        }
        let (of_first, of_own) = (self.plan_maker(), self.plan_maker());
        let first = match &mut self.learning {
            Learning::From { source, .. } => Some(source),
            Learning::FromOwn | Learning::Known(_) => None,
        };
        let first = first.map(|source| (source, of_first));
        for (source, maker) in first.into_iter().chain([(&mut self.source, of_own)]) {
            if !source.is_planned() {
                let inner = std::mem::replace(source, Box::new(NoSource));
                *source = Box::new(Planned::new(inner, maker));
            }
        }
    }

    /// What makes the plans of its objects.
    pub fn plan_maker(&self) -> PlanMaker {
        PlanMaker {
            channel: self.name.clone(),
            plugin: self.plugin.clone(),
            options: self.options.clone(),
            limits: self.limits.clone(),
            max_record: self.max_record,
        }
    }

    /// Runs with a window in a thread of its own.
    fn run_with_window<S: Sink + Send>(
        &mut self,
        sink: &mut S,
        shuffle: Shuffle,
        size: BatchSize,
        monitor: Monitor<'_>,
    ) -> Outcome {
        let name = format!("window-{}", self.name);
        let ran = with_window(sink, shuffle, size, name, monitor, |window| {
            self.run_into(BatchWriter::new(window, None), monitor, Self::decode_objects)
        });
        ran.unwrap_or_else(|error| {
            no_window_thread(&self.name, self.plugin.name(), &error, monitor)
        })
    }

    /// Runs without a thread for a window: the channel's thread decides which records batches have.
    fn run_without_window_thread<S: Sink>(
        &mut self,
        sink: &mut S,
        shuffle: Option<Shuffle>,
        size: Option<BatchSize>,
        monitor: Monitor<'_>,
    ) -> Outcome {
        match (shuffle, size) {
            (Some(shuffle), Some(size)) => {
                let mut window = WindowSink::new(sink, shuffle, size, monitor);
                let writer = BatchWriter::new(&mut window, None);
                self.run_into(writer, monitor, Self::decode_with_workers)
            }
            (None, Some(size)) if self.workers.count() > 1 => {
                let mut in_batches = InBatchesSink::new(sink, size, monitor);
                let writer = BatchWriter::new(&mut in_batches, None);
                self.run_into(writer, monitor, Self::decode_with_workers)
            }
            (_, None) if self.workers.count() > 1 => {
                let mut in_order = InOrderSink::new(sink);
                let writer = BatchWriter::new(&mut in_order, None);
                self.run_into(writer, monitor, Self::decode_with_workers)
            }
            (_, size) => self.run_into(BatchWriter::new(sink, size), monitor, Self::decode_objects),
        }
    }

    /// Runs with a writer of batches, and the function that fills them.
    fn run_into<'s, S: Sink>(
        &mut self,
        mut writer: BatchWriter<'s, S>,
        monitor: Monitor<'_>,
        decode: fn(&mut Self, &mut BatchWriter<'s, S>, Monitor<'_>) -> Result<bool, StopReason>,
    ) -> Outcome {
        // A restarted channel continues its counts.
        writer.counts().granted.set(monitor.totals().batches);
        let decoded = self.begin(&mut writer).and_then(|()| decode(self, &mut writer, monitor));
        let failure =
            decoded.map(|left_early| self.nothing_delivered(monitor).filter(|_| !left_early));
        outcome(failure, &mut writer, monitor)
    }

    /// Tells the writer the fields of the records, if they are known by now.
    fn begin<S: Sink>(&mut self, writer: &mut BatchWriter<'_, S>) -> Result<(), StopReason> {
        let resumed = self.resume.as_ref().filter(|resume| !resume.accepted.schema);
        writer.expect_state_fields(resumed.and_then(|resume| resume.schema.clone()));
        let Some(fields) = self.learn()? else { return Ok(()) };
        writer.set_schema(&fields).map_err(|fault| {
            let (epoch, (parts, resume)) = (self.epoch(), self.parts());
            let failure = parts.decoding.epoch_failure(epoch, fault);
            self.resume = resume;
            failure.into()
        })
    }

    /// The epoch at which the channel begins.
    fn epoch(&self) -> u32 {
        self.resume.as_ref().map_or(0, |resume| resume.position.epoch)
    }

    /// The counts of its caches.
    pub fn caches(&self) -> Vec<Arc<CacheCounters>> {
        let of_records = self.cache.as_ref().map(|cache| cache.counters().clone());
        self.source.cache().into_iter().chain(of_records).collect()
    }

    /// Ends the last stage of the channel's thread: all batches were delivered, or the run was
    /// stopped.
    pub fn stop(&self, stats: &ChannelStats) {
        Monitor::new(stats, &self.observers).stopped();
    }

    /// Decodes all objects, one after the other. Returns whether the consumers ended an epoch
    /// early.
    pub(super) fn decode_objects<S: Sink>(
        &mut self,
        writer: &mut BatchWriter<'_, S>,
        monitor: Monitor<'_>,
    ) -> Result<bool, StopReason> {
        let inflates_in_background = self.inflates_in_background;
        let (parts, mut resume) = self.parts();
        let decoding = parts.decoding;
        let mut decoder = Decoder::new(decoding);
        let mut input = KeptInput::new(max_chunk(decoding.max_record));
        let mut builder = BatchBuilder::new(writer, &mut input);
        let (mut epoch, mut early, mut left_early) = (0, false, false);
        let state_schema = resume.as_ref().and_then(Resume::schema_extension);
        if let Some(resume) = &resume {
            epoch = resume.position.epoch;
            let begun = resume.begin(parts.source);
            begun.map_err(|error| decoding.source_failure(epoch, error))?;
            builder.writer_mut().skip_records(resume.to_skip());
        }
        loop {
            monitor.enter(Activity::Source);
            let event = parts.source.next();
            match event.map_err(|error| decoding.source_failure(epoch, error))? {
                SourceEvent::End => return Ok(left_early),
                SourceEvent::EpochEnd(ended) => {
                    let early = std::mem::take(&mut early);
                    let batch = parts.batch;
                    let writer = builder.writer_mut();
                    left_early |= end_epoch(&decoding, batch, writer, monitor, ended, early)?;
                    epoch = ended + 1;
                }
                SourceEvent::Object(mut object) => {
                    epoch = object.epoch;
                    let resume = resume.take();
                    if let Some(resume) = &resume {
                        resume.check(&object).map_err(|fault| decoding.failure(&object, fault))?;
                    }
                    if inflates_in_background {
                        let most = object.block.and_then(|block| block.bytes());
                        object.input = Box::new(BackgroundInflate::new(object.input, most));
                    }
                    let schema = builder.writer().schema().and_then(schema_extension);
                    let begin = Begin::of(&object, resume, schema.or(state_schema.clone()));
                    let reading = match object.block {
                        Some(_) => Reading::Input,
                        None => Reading::Source(&mut *parts.source),
                    };
                    builder.begin_object(&object);
                    monitor.object_begins(object.epoch, &object.name);
                    monitor.enter(Activity::Decoder);
                    let policy = &mut *parts.policy;
                    let decoded =
                        decoder.decode(&mut object, &begin, reading, &mut builder, policy, monitor);
                    monitor.object_ends();
                    match decoded {
                        Err(StopReason::EpochEnded) => {
                            (early, left_early) = (true, true);
                            parts.source.end_epoch();
                        }
                        other => other?,
                    }
                }
            }
        }
    }

    /// Decodes all objects, several at a time. Returns whether the consumers ended an epoch early.
    fn decode_with_workers<S: PortionSink>(
        &mut self,
        writer: &mut BatchWriter<'_, S>,
        monitor: Monitor<'_>,
    ) -> Result<bool, StopReason> {
        let known = match &self.learning {
            Learning::Known(fields) => Some(fields.clone()),
            Learning::FromOwn | Learning::From { .. } => None,
        };
        // The context borrows the rest of the channel.
        let workers = std::mem::replace(&mut self.workers, Workers::new(1));
        let (context, resume) = self.parts();
        let decoded = workers.decode(context, resume, known, writer, monitor);
        self.workers = workers;
        decoded
    }

    /// The context of this run, and the place to resume at.
    pub(super) fn parts(&mut self) -> (RunContext<'_>, Option<Resume>) {
        let decoding = Decoding {
            channel: &self.name,
            plugin: &self.plugin,
            options: &self.options,
            limits: &self.limits,
            max_record: self.max_record,
            offsets: self.offsets,
            added_fields: &self.added_fields,
            linger: self.linger,
            cache: self.cache.as_deref(),
        };
        let (source, policy) = (&mut *self.source, &mut self.policy);
        (RunContext { decoding, source, policy, batch: self.batch }, self.resume.take())
    }
    /// The failure of a channel that delivered no record and skipped errors: most likely the
    /// decoder or its options don't fit the input. An index knows that they do: its records may all
    /// be left out by a list.
    fn nothing_delivered(&self, monitor: Monitor<'_>) -> Option<Failure> {
        let is_known = matches!(self.learning, Learning::Known(_));
        let is_nothing = monitor.totals().records == 0 && !is_known;
        let first = self.policy.first_skipped().filter(|_| is_nothing)?;
        let message = format!(
            "no record was delivered: all of the input was skipped as errors; the first one was: \
             {}",
            first.fault.message
        );
        let remedy = "check that this decoder, with these `options`, fits the input";
        Some(Failure { fault: Fault::new(first.fault.kind, message, remedy), ..first.clone() })
    }
}

/// The outcome of a channel. `ended` has the failure of a channel that came to its end.
pub(super) fn outcome<S: Sink>(
    ended: Result<Option<Failure>, StopReason>,
    writer: &mut BatchWriter<'_, S>,
    monitor: Monitor<'_>,
) -> Outcome {
    let outcome = match ended {
        Ok(None) => Outcome::Ended,
        Ok(Some(failure)) => Outcome::Failed(failure),
        Err(StopReason::Stopped | StopReason::EpochEnded) => Outcome::Stopped,
        Err(StopReason::Restart) => Outcome::Restart,
        Err(StopReason::Failed(failure)) => match flush_failed(writer) {
            Err(StopReason::Stopped) => Outcome::Stopped,
            Err(StopReason::Restart) => Outcome::Restart,
            _ => Outcome::Failed(*failure),
        },
    };
    monitor.batches_granted(writer.granted());
    monitor.enter(Activity::Consumer);
    if let Outcome::Failed(failure) = &outcome {
        monitor.failed(failure);
    }
    outcome
}

/// Hands over the records that were decoded before the channel failed.
fn flush_failed<S: Sink>(writer: &mut BatchWriter<'_, S>) -> Result<(), StopReason> {
    writer.cut_at(CutPoint::Failed)?;
    writer.finish()
}

/// The outcome of a channel or a mix that can't start the thread of its window.
pub(super) fn no_window_thread(
    channel: &str,
    decoder: &str,
    error: &io::Error,
    monitor: Monitor<'_>,
) -> Outcome {
    let remedy = "allow more threads, or leave `window` out";
    let fault = Fault::new(ErrorKind::Host, error.to_string(), remedy);
    let failure = Failure::new(channel, decoder, Position::epoch(0), fault);
    monitor.failed(&failure);
    Outcome::Failed(failure)
}
