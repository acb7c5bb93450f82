//! Runs a channel: object after object, epoch after epoch, to the end of its source or its failure.

use std::sync::Arc;
use std::time::Duration;

use super::mill::{Mill, Progress, Setting};
use super::space::Space;
use super::{Failure, Halt, Meter, Policy, Sink, Stage};
use pipemill_decode::{Limits, Plugin, Stream};
use pipemill_source::{Object, Source, SourceError, Step};
use pipemill_types::{ErrorKind, Fault, Field, Position, StreamInfo};

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
    /// What happens to bad places.
    pub policy: Policy,
    /// Largest record, in bytes.
    pub max_record: u64,
    /// How long records wait for more of their kind when the source has nothing ready.
    pub linger: Duration,
    /// Whether batches tell where each record begins.
    pub offsets: bool,
}

/// How a channel ended.
#[derive(Debug)]
pub enum Outcome {
    /// The source is at its end.
    Ended,
    /// Somebody asked to stop.
    Stopped,
    /// It failed.
    Failed(Failure),
}

impl Channel {
    /// Runs until the source ends, fails, or somebody asks to stop. `meter`, which is this channel's alone, tells
    /// at any time how far it is; its clock is left running.
    pub fn run<S: Sink>(mut self, sink: &mut S, meter: &Meter) -> Outcome {
        let mut space = Space::new();
        let mut schema = None;
        let outcome = match self.objects(sink, &mut space, &mut schema, meter) {
            Ok(()) => Outcome::Ended,
            Err(Halt::Stopped | Halt::EpochEnded) => Outcome::Stopped,
            Err(Halt::Failed(failure)) => match space.grant(sink) {
                // What was decoded before the failure is good.
                Err(Halt::Stopped) => Outcome::Stopped,
                _ => Outcome::Failed(*failure),
            },
        };
        meter.granted(space.granted());
        meter.enter(Stage::Consumer);
        outcome
    }

    fn objects<S: Sink>(
        &mut self,
        sink: &mut S,
        space: &mut Space<S::Memory>,
        schema: &mut Option<Arc<[Field]>>,
        meter: &Meter,
    ) -> Result<(), Halt> {
        let (mut epoch, mut early) = (0, false);
        loop {
            meter.enter(Stage::Source);
            let step = self.source.next();
            match step.map_err(|error| self.source_failure(epoch, error))? {
                Step::End => return Ok(()),
                Step::EpochEnd(ended) => {
                    meter.enter(Stage::Consumer);
                    meter.granted(space.granted());
                    sink.end_epoch(ended, early)?;
                    meter.end_epoch(ended, std::mem::take(&mut early));
                    epoch = ended + 1;
                }
                Step::Object(mut object) => {
                    epoch = object.epoch;
                    match self.object(&mut object, sink, space, schema, meter) {
                        Err(Halt::EpochEnded) => {
                            early = true;
                            self.source.end_epoch();
                        }
                        other => other?,
                    }
                }
            }
        }
    }

    fn object<S: Sink>(
        &mut self,
        object: &mut Object,
        sink: &mut S,
        space: &mut Space<S::Memory>,
        schema: &mut Option<Arc<[Field]>>,
        meter: &Meter,
    ) -> Result<(), Halt> {
        let info = StreamInfo {
            channel: self.name.clone(),
            epoch: object.epoch,
            object: object.name.clone(),
            max_record: self.max_record,
            offsets: self.offsets,
        };
        space.begin(object.epoch, &object.name);
        meter.begin(object.epoch, &object.name);
        meter.enter(Stage::Decoder);
        let stream = Stream::open(&self.plugin, &self.options, &info, &self.limits)
            .map_err(|fault| self.failure(object, fault))?;
        let setting = Setting {
            channel: &self.name,
            decoder: self.plugin.name(),
            max_record: self.max_record,
            linger: self.linger,
        };
        let mut mill = Mill {
            setting: &setting,
            sink,
            space,
            policy: &mut self.policy,
            meter,
            epoch: object.epoch,
            object: &object.name,
            input: &mut *object.input,
            stream,
            schema: &mut |stream, sink| agree(schema, stream, sink),
            progress: Progress::default(),
        };
        let done = mill.grind();
        meter.end_object();
        done
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
            position: Position { object: error.object, ..Position::epoch(epoch) },
            decoder: self.plugin.name().to_owned(),
            bytes: Vec::new(),
            missing: error.missing,
        }
    }
}

/// All objects of a channel have the same fields: consumers were told once. The answer is how many.
fn agree<S: Sink>(
    known: &mut Option<Arc<[Field]>>,
    stream: &Stream,
    sink: &mut S,
) -> Result<usize, Fault> {
    let Some(fields) = stream.schema() else { return Ok(0) };
    match known {
        Some(known) if known != fields => Err(Fault::new(
            ErrorKind::Decode,
            format!(
                "its records have the fields {}; those of the objects before it have {}",
                names(fields),
                names(known)
            ),
            "put objects of different schemas into channels of their own",
        )),
        Some(_) => Ok(fields.len()),
        none => {
            sink.schema(fields);
            *none = Some(fields.clone());
            Ok(fields.len())
        }
    }
}

fn names(fields: &[Field]) -> String {
    let name = |field: &Field| format!("{} ({})", field.name, field.scalar.word());
    fields.iter().map(name).collect::<Vec<_>>().join(", ")
}
