//! Decodes one object, from its beginning or from where a state goes on, with a stream of its own.

use std::time::Duration;

use pipemill_decode::{DecoderInstance, Limits, Plugin, Stream};
use pipemill_source::{Input, Object, ReadOutcome, Source, SourceError, SourceEvent};
use pipemill_types::{ErrorKind, Fault, Position, StreamInfo};

use super::batch_builder::BatchBuilder;
use super::decode_loop::{Context, DecodeLoop, Progress};
use super::monitor::Monitor;
use super::section_end::SectionEnd;
use super::{ErrorPolicy, Failure, Resume, Sink, StopReason};

/// What all objects of a channel are decoded with.
#[derive(Clone, Copy)]
pub(super) struct Decoding<'a> {
    pub(super) channel: &'a str,
    pub(super) plugin: &'a Plugin,
    pub(super) options: &'a [(String, String)],
    pub(super) limits: &'a Limits,
    pub(super) max_record: u64,
    pub(super) offsets: bool,
    pub(super) linger: Duration,
}

/// Where decoding of an object begins, and what its stream is told.
#[derive(Default)]
pub(super) struct Begin {
    /// A place in the object; `None` for its start.
    pub(super) resume: Option<Resume>,
    /// The fields that objects before it had, as decoders get them.
    pub(super) schema: Option<(String, String)>,
}

/// Where the bytes of an object come from, if decoding begins inside of it, and where they end.
pub(super) enum Reading<'a> {
    /// The source reads the object again, from the place on.
    Source(&'a mut dyn Source),
    /// The object's input goes on at the place, after the header.
    Input,
    /// The same, and it is a section that is decoded. With the instance that had the worker's section of
    /// the object before, and then this one.
    Section(&'a mut (dyn SectionEnd + 'static), &'a mut Option<DecoderInstance>),
}

impl Begin {
    /// At the place of a state in the object, if it has one.
    pub(super) fn new(resume: Option<Resume>, schema: Option<(String, String)>) -> Self {
        Self { resume: resume.filter(|resume| resume.offset() > 0), schema }
    }

    fn extensions(&self) -> Vec<(String, String)> {
        match &self.resume {
            Some(resume) => resume.extensions(),
            None => self.schema.clone().into_iter().collect(),
        }
    }
}

impl Decoding<'_> {
    /// A stream for an object that is decoded from there on: in this instance, if there is one that
    /// had a stream of the same object, or else in a new one.
    ///
    /// # Errors
    /// As [`Stream::open`].
    pub(super) fn stream(
        &self,
        object: &Object,
        begin: &Begin,
        instance: Option<DecoderInstance>,
    ) -> Result<Stream, Fault> {
        let info = StreamInfo {
            channel: self.channel.to_owned(),
            epoch: object.epoch,
            object: object.name.clone(),
            max_record: self.max_record,
            offsets: self.offsets,
            facts: object.facts.clone(),
            extensions: begin.extensions(),
        };
        match instance {
            Some(instance) => Stream::open_in(instance, self.options, &info),
            None => Stream::open(self.plugin, self.options, &info, self.limits),
        }
    }

    /// Decodes an object to its end, or a section of it.
    pub(super) fn decode<S: Sink>(
        &self,
        object: &mut Object,
        begin: &Begin,
        from: Reading<'_>,
        builder: &mut BatchBuilder<'_, S>,
        policy: &mut ErrorPolicy,
        monitor: Monitor<'_>,
    ) -> Result<(), StopReason> {
        let (source, section, mut instance) = match from {
            Reading::Source(source) => (Some(source), None, None),
            Reading::Input => (None, None, None),
            Reading::Section(section, instance) => (None, Some(section), Some(instance)),
        };
        let used = instance.as_mut().and_then(|instance| instance.take());
        let stream = self.stream(object, begin, used);
        let stream = stream.map_err(|fault| self.failure(object, fault))?;
        let context = Context {
            channel: self.channel,
            decoder: self.plugin.name(),
            max_record: self.max_record,
            linger: self.linger,
            monitor,
        };
        let mut after_header = None;
        let mut decode_loop = DecodeLoop {
            context,
            builder,
            policy,
            epoch: object.epoch,
            object: &object.name,
            input: &mut *object.input,
            stream,
            section,
            progress: Progress::default(),
        };
        if let Some(resume) = &begin.resume {
            begin_inside(resume, source, &mut after_header, &mut decode_loop)?;
        }
        decode_loop.run()?;
        if let Some(instance) = instance {
            *instance = decode_loop.stream.close();
        }
        Ok(())
    }

    /// The failure of an object before its first byte.
    pub(super) fn failure(&self, object: &Object, fault: Fault) -> Failure {
        self.failure_at(Position::object(object.epoch, &object.name), fault)
    }

    /// The failure of an epoch.
    pub(super) fn epoch_failure(&self, epoch: u32, fault: Fault) -> Failure {
        self.failure_at(Position::epoch(epoch), fault)
    }

    /// The failure of a source that has no next object. `epoch` is the one of the last object.
    pub(super) fn source_failure(&self, epoch: u32, error: SourceError) -> Failure {
        let fault = Fault::new(ErrorKind::Source, error.message, error.remedy);
        let epoch = error.epoch.unwrap_or(epoch);
        let position = Position { object: error.object, ..Position::epoch(epoch) };
        Failure { missing: error.missing, ..self.failure_at(position, fault) }
    }

    fn failure_at(&self, position: Position, fault: Fault) -> Failure {
        Failure::new(self.channel, self.plugin.name(), position, fault)
    }
}

/// Begins to decode inside of an object: shows the decoder the header, and goes on at the offset.
fn begin_inside<'a, S: Sink>(
    resume: &Resume,
    source: Option<&mut dyn Source>,
    after_header: &'a mut Option<Object>,
    decode_loop: &mut DecodeLoop<'a, '_, S>,
) -> Result<(), StopReason> {
    if resume.header() > 0 {
        decode_loop.show_header(resume.header())?;
        match source {
            Some(source) if source.can_reread() => {
                let begun = source.start_at(resume.after_header()).and_then(|()| source.next());
                match begun.map_err(|error| decode_loop.source_failure(error))? {
                    SourceEvent::Object(object) => {
                        decode_loop.input = &mut *after_header.insert(object).input;
                    }
                    SourceEvent::EpochEnd(_) | SourceEvent::End => return Err(StopReason::Stopped),
                }
            }
            Some(_) => decode_loop.throw_away_to(resume.offset())?,
            None => {}
        }
    }
    decode_loop.begin_at(resume.offset(), resume.record(), resume.header());
    Ok(())
}

/// In the place of an input that somebody else reads.
pub(super) struct NoInput;

impl Input for NoInput {
    fn read(&mut self, _: &mut [u8], _: Option<Duration>) -> Result<ReadOutcome, SourceError> {
        Ok(ReadOutcome::End)
    }
}
