//! Runs a channel: object after object, epoch after epoch, to the end of its source or its failure.

use std::time::Duration;

use pipemill_decode::{Limits, Plugin, Stream};
use pipemill_source::{Object, Source, SourceError, SourceEvent};
use pipemill_types::{BatchSize, ErrorKind, Fault, Position, StreamInfo, schema_extension};

use super::batch_builder::BatchBuilder;
use super::cut::CutPoint;
use super::decode_loop::{Context, DecodeLoop, Progress};
use super::monitor::Monitor;
use super::observer::Observer;
use super::shuffle::WindowSink;
use super::{ChannelStats, ErrorPolicy, Failure, Resume, Shuffle, Sink, Stage, StopReason};

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
    /// Changes the order of the records. Only with `batch`: else it has no effect.
    pub shuffle: Option<Shuffle>,
    /// Where to go on, if not at the beginning.
    pub resume: Option<Resume>,
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
    /// The consumers asked for another beginning. The channel can run again, from there on.
    BeginsAgain,
    /// The channel failed. What it decoded before was handed over, if the sink took it.
    Failed(Failure),
}

impl Channel {
    /// Runs until the source ends, the channel fails or the run is stopped. `stats` belongs to this
    /// channel alone. The channel's thread is still at a stage afterwards: [`stop`](Self::stop)
    /// ends it.
    pub fn run<S: Sink>(&mut self, sink: &mut S, stats: &ChannelStats) -> Outcome {
        match (self.shuffle, self.batch) {
            (Some(shuffle), Some(size)) => {
                self.run_into(&mut WindowSink::new(sink, shuffle, size), None, stats)
            }
            (_, size) => self.run_into(sink, size, stats),
        }
    }

    /// Runs with a sink that gets batches of this size.
    fn run_into<S: Sink>(
        &mut self,
        sink: &mut S,
        size: Option<BatchSize>,
        stats: &ChannelStats,
    ) -> Outcome {
        let observers = std::mem::take(&mut self.observers);
        let monitor = Monitor::new(stats, &observers);
        let mut builder = BatchBuilder::new(sink, size);
        // A channel that begins again goes on counting.
        builder.counts().granted = stats.snapshot().batches;
        let decoded = self.decode_objects(&mut builder, monitor);
        let failure =
            decoded.map(|left_early| self.nothing_delivered(stats).filter(|_| !left_early));
        let outcome = outcome(failure, &mut builder, monitor);
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
        let mut resume = self.resume.take();
        let state_schema = resume.as_ref().and_then(Resume::schema_extension);
        if let Some(resume) = &resume {
            epoch = resume.position.epoch;
            let begun = self.source.start_at(resume.start());
            begun.map_err(|error| self.source_failure(epoch, error))?;
            builder.pass_over(resume.passed_over());
        }
        loop {
            monitor.enter(Stage::Source);
            let event = self.source.next();
            match event.map_err(|error| self.source_failure(epoch, error))? {
                SourceEvent::End => return Ok(left_early),
                SourceEvent::EpochEnd(ended) => {
                    monitor.enter(Stage::Consumer);
                    monitor.batches_granted(builder.granted());
                    if !early {
                        self.check_passed_over(ended, builder.left_to_pass_over())?;
                    }
                    builder.end_epoch(ended, early)?;
                    builder.pass_over(0);
                    report_dropped(&self.name, self.batch, ended, builder.take_dropped());
                    monitor.epoch_ends(ended, std::mem::take(&mut early));
                    epoch = ended + 1;
                }
                SourceEvent::Object(mut object) => {
                    epoch = object.epoch;
                    let resume = resume.take();
                    if let Some(resume) = &resume {
                        resume.check(&object).map_err(|fault| self.failure(&object, fault))?;
                    }
                    let state_schema = state_schema.clone();
                    match self.decode_object(&mut object, resume, state_schema, builder, monitor) {
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
        resume: Option<Resume>,
        state_schema: Option<(String, String)>,
        builder: &mut BatchBuilder<'_, S>,
        monitor: Monitor<'_>,
    ) -> Result<(), StopReason> {
        let resume = resume.filter(|resume| resume.offset() > 0);
        let info = StreamInfo {
            channel: self.name.clone(),
            epoch: object.epoch,
            object: object.name.clone(),
            max_record: self.max_record,
            offsets: self.offsets,
            facts: object.facts.clone(),
            extensions: match &resume {
                Some(resume) => resume.extensions(),
                None => {
                    let schema = builder.schema().and_then(schema_extension);
                    schema.or(state_schema).into_iter().collect()
                }
            },
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
        let mut after_header = None;
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
        let done = match &resume {
            Some(resume) => {
                begin_inside(resume, &mut *self.source, &mut after_header, &mut decode_loop)
                    .and_then(|()| decode_loop.run())
            }
            None => decode_loop.run(),
        };
        monitor.object_ends();
        done
    }

    /// Checks that an epoch has as many records as were given of it.
    fn check_passed_over(&self, epoch: u32, left: u64) -> Result<(), StopReason> {
        if left == 0 {
            return Ok(());
        }
        let failure = Failure {
            fault: ends_before_state(epoch, left),
            channel: self.name.clone(),
            position: Position::epoch(epoch),
            decoder: self.plugin.name().to_owned(),
            bytes: Vec::new(),
            missing: false,
        };
        Err(failure.into())
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

/// How a channel ended. `ended` has the failure of one that came to its end all the same.
pub(super) fn outcome<S: Sink>(
    ended: Result<Option<Failure>, StopReason>,
    builder: &mut BatchBuilder<'_, S>,
    monitor: Monitor<'_>,
) -> Outcome {
    let outcome = match ended {
        Ok(None) => Outcome::Ended,
        Ok(Some(failure)) => Outcome::Failed(failure),
        Err(StopReason::Stopped | StopReason::EpochEnded) => Outcome::Stopped,
        Err(StopReason::BeginsAgain) => Outcome::BeginsAgain,
        Err(StopReason::Failed(failure)) => match builder.cut_at(CutPoint::Failed) {
            Err(StopReason::Stopped) => Outcome::Stopped,
            Err(StopReason::BeginsAgain) => Outcome::BeginsAgain,
            _ => Outcome::Failed(*failure),
        },
    };
    monitor.batches_granted(builder.granted());
    monitor.enter(Stage::Consumer);
    if let Outcome::Failed(failure) = &outcome {
        monitor.failed(failure);
    }
    outcome
}

/// The fault of an epoch that has `left` records too few for the state that it goes on at.
pub(super) fn ends_before_state(epoch: u32, left: u64) -> Fault {
    let message =
        format!("epoch {epoch} ends {left} records before the place at which the state goes on");
    let remedy = "the input has changed since the state was taken: bring it back, or begin without \
                  the state";
    Fault::new(ErrorKind::Refused, message, remedy)
}

/// Says how many records of an epoch were left out by `tail = "drop"`.
pub(super) fn report_dropped(name: &str, size: Option<BatchSize>, epoch: u32, dropped: usize) {
    if let Some(size) = size.filter(|_| dropped > 0) {
        log::info!(
            channel = name, epoch, records = dropped;
            "channel `{name}`, epoch {epoch}: {dropped} records at the end were left out, because \
            they don't fill a batch of {} (tail = \"drop\")",
            size.records
        );
    }
}

/// Begins to decode inside of an object: shows the decoder the header, and goes on at the offset.
fn begin_inside<'a, S: Sink>(
    resume: &Resume,
    source: &mut dyn Source,
    after_header: &'a mut Option<Object>,
    decode_loop: &mut DecodeLoop<'a, '_, S>,
) -> Result<(), StopReason> {
    if resume.header() > 0 {
        decode_loop.show_header(resume.header())?;
        if source.can_reread() {
            let begun = source.start_at(resume.after_header()).and_then(|()| source.next());
            match begun.map_err(|error| decode_loop.source_failure(error))? {
                SourceEvent::Object(object) => {
                    decode_loop.input = &mut *after_header.insert(object).input;
                }
                SourceEvent::EpochEnd(_) | SourceEvent::End => return Err(StopReason::Stopped),
            }
        } else {
            decode_loop.throw_away_to(resume.offset())?;
        }
    }
    decode_loop.begin_at(resume.offset(), resume.record(), resume.header());
    Ok(())
}
