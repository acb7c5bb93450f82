//! Decodes one object, from its beginning or from the place of a state, with a stream of its own.

use std::time::Duration;

use pipemill_decode::{DecoderInstance, Limits, Plugin, SavedState, Stream};
use pipemill_source::cache::{RecordCache, RecordsId, StoredRecords};
use pipemill_source::{AskedObject, Input, Object, ReadOutcome, Source, SourceError, SourceEvent};
use pipemill_types::{
    AddedField, Fault, ObjectIdentity, Position, StreamInfo, planned_extension, split_identity,
};

use crate::batch::builder::BatchBuilder;
use crate::batch::cut::CutPoint;
use crate::pump::added_values::AddedValues;
use crate::pump::decode_loop::{Context, DecodeLoop, Progress};
use crate::pump::part_counts::PartCounts;
use crate::pump::record_numbers::RecordNumbers;
use crate::pump::section_end::{BlockEnd, SectionEnd};
use crate::record_cache::{Recorder, Replay, Replayed, id_of};
use crate::stats::monitor::Monitor;
use crate::{ErrorPolicy, Failure, Resume, Sink, StopReason};

/// Parts that decode all objects of a channel.
#[derive(Clone, Copy)]
pub(crate) struct Decoding<'a> {
    pub(crate) channel: &'a str,
    pub(crate) plugin: &'a Plugin,
    pub(crate) options: &'a [(String, String)],
    pub(crate) limits: &'a Limits,
    pub(crate) max_record: u64,
    pub(crate) offsets: bool,
    pub(crate) added_fields: &'a [AddedField],
    pub(crate) linger: Duration,
    /// The cache of what the decoder makes, if there is one.
    pub(crate) cache: Option<&'a RecordCache>,
}

/// The place at which decoding of an object begins, and facts for its stream.
#[derive(Default)]
pub(crate) struct Begin {
    /// A place in the object; `None` for its start.
    pub(crate) resume: Option<Resume>,
    /// What the decoder has saved at that place.
    saved: Option<SavedState>,
    /// The fields of earlier objects, in the form that decoders get.
    pub(crate) schema: Option<(String, String)>,
    /// Number of the first record that is wanted. Only a block has records before it that are not.
    pub(crate) first_record: u64,
}

/// The source of an object's bytes, if decoding begins inside of it, and their end.
pub(crate) enum Reading<'a> {
    /// The source reads the object again, from the place on.
    Source(&'a mut dyn Source),
    /// The object's input continues at the place, after the header.
    Input,
    /// As [`Input`](Self::Input), and only a section is decoded.
    Section(&'a mut (dyn SectionEnd + 'static)),
}

impl Begin {
    /// At the place of a state in the object, if it has one. The state was
    /// [checked](Resume::check).
    pub(crate) fn new(resume: Option<Resume>, schema: Option<(String, String)>) -> Self {
        let resume = resume.filter(|resume| resume.offset() > 0);
        let saved = resume.as_ref().and_then(|resume| resume.saved().ok().flatten());
        Self { resume, saved, schema, first_record: 0 }
    }

    /// At the place of a state in this object, if it has one. A block is decoded from its start,
    /// and its records before the state's place are left out.
    pub(crate) fn of(
        object: &Object,
        resume: Option<Resume>,
        schema: Option<(String, String)>,
    ) -> Self {
        let Some(block) = object.block else { return Self::new(resume, schema) };
        let first_record = resume.map_or(0, |resume| resume.record());
        let at_block = Resume::at_block(object, &block, schema.clone().map(|(_, fields)| fields));
        Self { first_record, ..Self::new(Some(at_block), schema) }
    }

    fn extensions(&self) -> Vec<(String, String)> {
        match &self.resume {
            Some(resume) => resume.extensions(),
            None => self.schema.clone().into_iter().collect(),
        }
    }
}

/// Decodes the objects of one thread, one after the other.
pub(crate) struct Decoder<'a> {
    decoding: Decoding<'a>,
    /// The instance of the last stream, if it can have another one.
    instance: Option<DecoderInstance>,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(decoding: Decoding<'a>) -> Self {
        Self { decoding, instance: None }
    }

    /// A stream for an object that is decoded from there on.
    ///
    /// # Errors
    /// As [`Stream::open`].
    pub(crate) fn stream(&mut self, object: &Object, begin: &Begin) -> Result<Stream, Fault> {
        let Decoding { channel, plugin, options, limits, max_record, offsets, .. } = self.decoding;
        let mut extensions = begin.extensions();
        for (_, schema) in extensions.iter_mut().filter(|(name, _)| name == "schema") {
            *schema = AddedField::removed_from(schema, self.decoding.added_fields);
        }
        extensions.extend(object.facts.is_planned.then(planned_extension));
        let info = StreamInfo {
            channel: channel.to_owned(),
            epoch: object.epoch,
            object: object.name.clone(),
            max_record,
            offsets,
            facts: object.facts.clone(),
            extensions,
        };
        match (self.instance.take(), &begin.saved) {
            (Some(instance), saved) => Stream::open_in(instance, options, &info, saved.as_ref()),
            (None, Some(saved)) => Stream::load(plugin, options, &info, limits, saved),
            (None, None) => Stream::open(plugin, options, &info, limits),
        }
    }

    /// Closes a stream that has come to its end.
    pub(crate) fn close(&mut self, stream: Stream) {
        self.instance = stream.close();
    }

    /// Decodes an object to its end, or a section of it.
    pub(crate) fn decode<S: Sink>(
        &mut self,
        object: &mut Object,
        begin: &Begin,
        from: Reading<'_>,
        builder: &mut BatchBuilder<'_, '_, S>,
        policy: &mut ErrorPolicy,
        monitor: Monitor<'_>,
    ) -> Result<(), StopReason> {
        let decoding = self.decoding;
        let known = object.known.clone();
        let added = AddedValues::of(decoding.added_fields, known.is_some(), &object.name);
        let added = added.map_err(|fault| decoding.failure(object, fault))?;
        builder.set_added(&added);
        let is_section = matches!(from, Reading::Section(_));
        let cached = decoding.cache.filter(|_| !is_section);
        let cached = cached.and_then(|cache| Some((cache, decoding.records_id(object, begin)?)));
        if let Some((cache, _)) = cached {
            cache.enter_epoch(object.epoch);
        }
        let came = match cached.and_then(|(cache, id)| Some((cache, cache.get(id)?))) {
            None => 0,
            Some((cache, stored)) => {
                let replay = Cached { decoding, cache, added: &added, begin, monitor };
                let Some(came) = replay.take(stored, object, builder)? else { return Ok(()) };
                came
            }
        };
        let stream = self.stream(object, begin);
        let stream = stream.map_err(|fault| decoding.failure(object, fault))?;
        let is_whole = begin.resume.is_none() || object.block.is_some();
        let recorder = cached.filter(|_| is_whole).and_then(|(cache, id)| cache.store(id));
        let numbers = RecordNumbers::new(known, is_section);
        let (source, section) = match from {
            Reading::Source(source) => (Some(source), None),
            Reading::Input => (None, None),
            Reading::Section(section) => (None, Some(section)),
        };
        let context = Context {
            channel: decoding.channel,
            decoder: decoding.plugin.name(),
            max_record: decoding.max_record,
            linger: decoding.linger,
            monitor,
        };
        let mut block_end = object.block.and_then(BlockEnd::of);
        let section = match &mut block_end {
            Some(end) => Some(end as &mut (dyn SectionEnd + 'static)),
            None => section,
        };
        if let Some(block) = object.block {
            builder.keep_records(block.read_from.max(begin.first_record)..block.read_to);
        }
        let (mut after_header, identity) = (None, object.identity.clone());
        let mut decode_loop = DecodeLoop {
            context,
            builder,
            policy,
            epoch: object.epoch,
            object: &object.name,
            input: &mut *object.input,
            stream,
            save_distance: decoding.plugin.save_distance(),
            added,
            numbers,
            parts: PartCounts::new(&object.facts),
            section,
            progress: Progress::default(),
            recorder: recorder.map(Recorder::new),
        };
        if let Some(resume) = &begin.resume {
            decode_loop.numbers.begin_at(resume.record(), object.block);
            begin_inside(begin, resume, source, &identity, &mut after_header, &mut decode_loop)?;
        }
        let (first, from) = (decode_loop.builder.records(), decode_loop.builder.position());
        decode_loop.builder.drop_again(came.saturating_sub(first));
        decode_loop.run()?;
        if let Some(block) = object.block {
            decode_loop.check_block(&block)?;
        }
        if let Some((cache, _)) = cached {
            cache.counters().add_missed(decode_loop.builder.position().saturating_sub(from));
        }
        // What is read of an object that has changed is not what its identity says.
        let recorder = decode_loop.recorder.take();
        if let Some(recorder) = recorder.filter(|_| decode_loop.check_unchanged().is_ok()) {
            recorder.finish(&decode_loop.stream);
        }
        self.close(decode_loop.stream);
        Ok(())
    }
}

/// What takes the records of an object from the cache.
struct Cached<'a> {
    decoding: Decoding<'a>,
    cache: &'a RecordCache,
    added: &'a AddedValues<'a>,
    begin: &'a Begin,
    monitor: Monitor<'a>,
}

impl Cached<'_> {
    /// Takes the records from the start of the object, or of its block, on. `None` if these are
    /// all. Otherwise the object is to be decoded, and this is the number of the next record.
    fn take<S: Sink>(
        &self,
        stored: StoredRecords,
        object: &Object,
        builder: &mut BatchBuilder<'_, '_, S>,
    ) -> Result<Option<u64>, StopReason> {
        let Cached { decoding, cache, added, begin, monitor } = *self;
        let mut numbers = RecordNumbers::new(object.known.clone(), false);
        match (&object.block, &begin.resume) {
            (Some(block), _) => {
                builder.keep_records(block.read_from.max(begin.first_record)..block.read_to);
                numbers.begin_at(block.record, object.block);
                builder.jump_to(block.offset, block.record);
                builder.mark_restart(block.header.into());
            }
            (None, Some(resume)) => builder.drop_again(resume.record()),
            (None, None) => {}
        }
        let epoch = object.epoch;
        let replayed = Replay { builder, added, numbers, epoch, cache, monitor }.run(stored)?;
        let needed = object.block.map_or(0, |block| block.read_to);
        match replayed {
            Replayed::Refused(fault) => return Err(decoding.failure(object, fault).into()),
            Replayed::All if builder.records() >= needed => return Ok(None),
            Replayed::All | Replayed::Damaged => {}
        }
        let came = builder.records();
        builder.cut_at(CutPoint::NoRoom)?;
        builder.begin_object(object);
        Ok(Some(came))
    }
}

impl Decoding<'_> {
    /// The identity of the records of an object, or of its block, in the cache. `None` if they are
    /// not kept.
    fn records_id(&self, object: &Object, begin: &Begin) -> Option<RecordsId> {
        let (_, content) = split_identity(object.identity.text());
        let (facts, block) = (&object.facts, object.block.as_ref());
        let asked = AskedObject { name: &object.name, content, facts, block };
        // A state goes on inside of an object, whose records are kept from its start on.
        let told = begin.extensions();
        let schema = told.iter().find(|(name, _)| name == "schema");
        id_of(self, &asked, schema.map(|(_, schema)| schema.as_str()))
    }

    /// The failure of an object before its first byte.
    pub(crate) fn failure(&self, object: &Object, fault: Fault) -> Failure {
        self.failure_at(Position::object(object.epoch, &object.name), fault)
    }

    /// The failure of an epoch.
    pub(crate) fn epoch_failure(&self, epoch: u32, fault: Fault) -> Failure {
        self.failure_at(Position::epoch(epoch), fault)
    }

    /// The failure of a source that has no next object. `epoch` is the one of the last object.
    pub(crate) fn source_failure(&self, epoch: u32, error: SourceError) -> Failure {
        let fault = Fault::new(error.kind, error.message, error.remedy);
        let epoch = error.epoch.unwrap_or(epoch);
        let position = Position { object: error.object, ..Position::epoch(epoch) };
        Failure { missing: error.missing, ..self.failure_at(position, fault) }
    }

    fn failure_at(&self, position: Position, fault: Fault) -> Failure {
        Failure::new(self.channel, self.plugin.name(), position, fault)
    }
}

/// Checks that an object that was opened again after its header was read is the same. `header` is
/// the input of the header, and `then` identified the object at that time.
///
/// # Errors
/// The object is another one.
pub(crate) fn check_opened_again(
    header: &dyn Input,
    then: &ObjectIdentity,
    now: &Object,
) -> Result<(), SourceError> {
    header.check_unchanged()?;
    let ((_, then), (_, found)) =
        (split_identity(then.text()), split_identity(now.identity.text()));
    if then == found {
        return Ok(());
    }
    let message =
        format!("changed while it was read: its header is of {then}, and it is {found} now");
    let remedy = "don't change objects while they are read: write new data under new names";
    Err(SourceError::new(&now.name, message, remedy))
}

/// Begins to decode inside of an object: shows the decoder the header, and continues at the offset.
fn begin_inside<'a, S: Sink>(
    begin: &Begin,
    resume: &Resume,
    source: Option<&mut dyn Source>,
    identity: &ObjectIdentity,
    after_header: &'a mut Option<Object>,
    decode_loop: &mut DecodeLoop<'a, '_, '_, S>,
) -> Result<(), StopReason> {
    if resume.header() > 0 {
        decode_loop.show_header(resume.header())?;
        match source {
            Some(source) if source.can_reread() => {
                let begun = source.start_at(resume.after_header()).and_then(|()| source.next());
                match begun.map_err(|error| decode_loop.source_failure(error))? {
                    SourceEvent::Object(object) => {
                        check_opened_again(decode_loop.input, identity, &object)
                            .map_err(|error| decode_loop.source_failure(error))?;
                        decode_loop.input = &mut *after_header.insert(object).input;
                    }
                    SourceEvent::EpochEnd(_) | SourceEvent::End => return Err(StopReason::Stopped),
                }
            }
            Some(_) => decode_loop.throw_away_to(resume.offset())?,
            None => {}
        }
    }
    decode_loop.begin_at(resume.offset(), resume.record(), resume.header(), begin.saved.as_ref());
    Ok(())
}

/// Replaces an input that another thread reads.
pub(crate) struct NoInput;

impl Input for NoInput {
    fn read(&mut self, _: &mut [u8], _: Option<Duration>) -> Result<ReadOutcome, SourceError> {
        Ok(ReadOutcome::End)
    }
}
