//! The planner: takes the source's objects in order, and hands them to workers.

use std::sync::mpsc::{Receiver, SyncSender, channel};
use std::sync::{Arc, OnceLock};

use pipemill_source::{Input, KnownRecords, Object, ReadOutcome, Source, SourceEvent};
use pipemill_types::{Field, schema_extension};

use super::ahead_limiter::AheadLimiter;
use super::header_and_rest::HeaderAndRest;
use super::job::{Job, WorkerOutput};
use super::job_queue::JobQueue;
use super::sections::{NextSection, Room, SectionPart, Sections};
use crate::pump::object::{Begin, Decoding, NoInput, check_opened_again};
use crate::{ChannelStats, Failure, Resume, StopReason};

/// Largest size of a short object. A thread that waits for it sleeps longer than it takes to
/// decode.
const SHORT_OBJECT: u64 = 256 << 10;
/// Upper limit of short objects that wait for a worker, so that a worker finds the next one at
/// once.
const SHORT_AHEAD: usize = 32;
/// Sections that an object should have for each worker. Otherwise sections are shorter.
const SECTIONS_OF_WORKER: usize = 4;
/// How many times as long as a short section a long one is.
pub(super) const LONG_SECTION: usize = 2;
/// The same for an object of which each worker reads its own sections, so that no bytes are kept.
/// Longer sections were no faster.
const LONGEST_SECTION: usize = 3;

/// The next item of the plan, in the order of the source.
pub(super) enum Planned {
    /// An object.
    Object(PlannedObject),
    /// The end of the epoch of this number.
    EpochEnd(u32),
    /// The end of the source.
    End,
    /// The source, or the place to begin at, is at fault.
    Failed(Box<Failure>),
}

/// An object that a worker decodes, or a section of one.
pub(super) struct PlannedObject {
    /// Its number in the plan.
    pub(super) number: u64,
    /// It is a section of the same object as the one before.
    pub(super) goes_on: bool,
    pub(super) epoch: u32,
    pub(super) name: String,
    /// What an index knows of its records, if it is a section.
    pub(super) known: Option<KnownRecords>,
    pub(super) deliveries: Receiver<WorkerOutput>,
    /// The statistics of its worker, once it has one.
    pub(super) worker: Arc<OnceLock<Arc<ChannelStats>>>,
}

/// The state of the planner's thread.
pub(super) struct Planner<'a> {
    pub(super) decoding: Decoding<'a>,
    pub(super) source: &'a mut dyn Source,
    pub(super) limiter: &'a Arc<AheadLimiter>,
    pub(super) jobs: &'a JobQueue,
    pub(super) workers: usize,
    /// Bytes of a short section. Objects that are not longer than two have one.
    pub(super) section_bytes: usize,
    pub(super) planned: SyncSender<Planned>,
    /// Gets an item after each end of an epoch, when the next one may begin.
    pub(super) may_go_on: Receiver<()>,
}

impl Planner<'_> {
    /// Plans all objects from this place on.
    pub(super) fn plan(mut self, resume: Option<Resume>) {
        // If this panics, nobody waits for bytes that will not come.
        let end = self.limiter.end_at_drop();
        let planned = self.plan_objects(resume);
        std::mem::forget(end);
        self.limiter.all_planned();
        match planned {
            Ok(()) => self.send(Planned::End),
            Err(StopReason::Failed(failure)) => self.send(Planned::Failed(failure)),
            // Nothing is wanted any more.
            Err(_) => {}
        }
    }

    fn send(&self, planned: Planned) {
        // Fails if nothing is wanted any more: the next wait says so.
        let _ = self.planned.send(planned);
        self.limiter.tell_planned();
    }

    fn plan_objects(&mut self, mut resume: Option<Resume>) -> Result<(), StopReason> {
        let decoding = self.decoding;
        let state_schema = resume.as_ref().and_then(Resume::schema_extension);
        let (mut epoch, mut number, mut is_left) = (0, 0, false);
        if let Some(resume) = &resume {
            epoch = resume.position.epoch;
            let begun = resume.begin(self.source);
            begun.map_err(|error| decoding.source_failure(epoch, error))?;
        }
        loop {
            let event = self.source.next();
            match event.map_err(|error| decoding.source_failure(epoch, error))? {
                SourceEvent::End => return Ok(()),
                SourceEvent::EpochEnd(ended) => {
                    self.send(Planned::EpochEnd(ended));
                    self.may_go_on.recv().map_err(|_| StopReason::Stopped)?;
                    (epoch, is_left) = (ended + 1, false);
                }
                SourceEvent::Object(_) if is_left => {}
                SourceEvent::Object(object) if self.limiter.is_over(object.epoch) => {
                    self.source.end_epoch();
                    is_left = true;
                }
                SourceEvent::Object(mut object) => {
                    epoch = object.epoch;
                    let resume = resume.take();
                    if let Some(resume) = &resume {
                        resume.check(&object).map_err(|fault| decoding.failure(&object, fault))?;
                    }
                    let is_whole = object.block.is_none();
                    let joined = resume.as_ref().filter(|resume| resume.header() > 0 && is_whole);
                    if let Some(resume) = joined {
                        object = self.join_header(object, resume)?;
                    }
                    let fields = self.limiter.begin_decoding()?;
                    let schema = fields.as_deref().and_then(schema_extension);
                    let begin = Begin::of(&object, resume, schema.or(state_schema.clone()));
                    if is_whole && begin.resume.is_none() && self.is_divided(&object) {
                        number = self.divide(number, object, begin, fields)?;
                        continue;
                    }
                    let is_short = object.facts.size.is_some_and(|size| size <= SHORT_OBJECT);
                    let ahead = if is_short { SHORT_AHEAD } else { 0 };
                    let (planned, job) = Self::job(number, object, begin, fields, None);
                    self.send(Planned::Object(planned));
                    self.jobs.hand_over(job, ahead)?;
                    number += 1;
                }
            }
        }
    }

    /// A job for a worker, and the planned object whose output the job gives.
    fn job(
        number: u64,
        object: Object,
        begin: Begin,
        fields: Option<Arc<[Field]>>,
        section: Option<SectionPart>,
    ) -> (PlannedObject, Job) {
        let (deliveries, received) = channel();
        let worker = Arc::<OnceLock<_>>::default();
        let planned = PlannedObject {
            number,
            goes_on: section.as_ref().is_some_and(|part| !part.is_first()),
            epoch: object.epoch,
            name: object.name.clone(),
            known: section.as_ref().and_then(|_| object.known.clone()),
            deliveries: received,
            worker: worker.clone(),
        };
        (planned, Job { number, object, begin, fields, deliveries, section, worker })
    }

    /// Whether several workers decode the object: it is long, and uncompressed or read at the
    /// places of an index; or it is the only object that can be read now. Records that are kept are
    /// those of whole objects.
    fn is_divided(&self, object: &Object) -> bool {
        if !self.source.can_reread() {
            return true;
        }
        if self.decoding.cache.is_some() {
            return false;
        }
        let is_long = object.facts.size.is_some_and(|size| size > 2 * self.section_bytes as u64);
        let is_told = object.input.is_inflated() && object.input.next_start(0).is_some();
        (is_long && object.input.is_stored() || is_told) && !self.limiter.sections_are_wasted()
    }

    /// Hands an object to workers section by section. Returns the next number of the plan.
    fn divide(
        &mut self,
        first: u64,
        object: Object,
        begin: Begin,
        fields: Option<Arc<[Field]>>,
    ) -> Result<u64, StopReason> {
        let copied = copy(&object);
        let mut input = object.input;
        let reads_themselves = matches!(input.at(0), Some(Ok(_))) && copied.facts.size.is_some();
        let longest = if reads_themselves { LONGEST_SECTION } else { LONG_SECTION };
        let step = step(object.facts.size, self.workers, self.section_bytes, longest);
        let (most, epoch) = ((self.workers + 1) * step, object.epoch);
        // The stored size says nothing of the inflated bytes.
        let size = if input.is_inflated() { None } else { copied.facts.size };
        let size = size.unwrap_or(u64::MAX);
        let whole = reads_themselves.then(|| std::mem::replace(&mut input, Box::new(NoInput)));
        let sections = Sections::new(self.limiter.clone(), epoch, first, most, whole);
        let part = Some(sections.first());
        let (planned, job) = Self::job(first, copy(&copied), begin, fields, part);
        self.send(Planned::Object(planned));
        self.jobs.hand_over(job, 0)?;
        if reads_themselves {
            self.divide_whole(first + 1, &sections, &copied, (step as u64, size))
        } else {
            self.divide_pieces(first + 1, &sections, &copied, input, step as u64)
        }
    }

    /// Begins sections of an object of which each worker reads its own.
    fn divide_whole(
        &mut self,
        mut number: u64,
        sections: &Arc<Sections>,
        object: &Object,
        (step, size): (u64, u64),
    ) -> Result<u64, StopReason> {
        while !self.limiter.is_over(object.epoch) {
            match sections.begin_after(number, step, size) {
                NextSection::Begun(part) => {
                    self.plan_section(number, sections, object, part)?;
                    number += 1;
                }
                NextSection::None => {}
                NextSection::Done => break,
            }
        }
        Ok(number)
    }

    /// Reads an object, and begins sections at the end of the bytes that were read.
    fn divide_pieces(
        &mut self,
        mut number: u64,
        sections: &Arc<Sections>,
        object: &Object,
        mut input: Box<dyn Input>,
        step: u64,
    ) -> Result<u64, StopReason> {
        let (mut read, mut next) = (0, step);
        while !self.limiter.is_over(object.epoch) {
            let most = match sections.room(next - read, self.source.can_reread()) {
                Room::None => continue,
                Room::Read(most) => most,
                Room::HandOver => {
                    sections.hand_over(input);
                    break;
                }
            };
            let is_end;
            (read, is_end) = sections.read_from(&mut *input, most)?;
            if is_end {
                break;
            }
            if read < next {
                continue;
            }
            next += step;
            if let Some(part) = sections.begin(number, self.workers) {
                self.plan_section(number, sections, object, part)?;
                number += 1;
            }
        }
        Ok(number)
    }

    /// Hands a section that has begun to a worker. If it can't be planned, it is dropped for ever:
    /// its number is not used again.
    fn plan_section(
        &mut self,
        number: u64,
        sections: &Sections,
        object: &Object,
        part: SectionPart,
    ) -> Result<(), StopReason> {
        let fields = self.limiter.fields();
        let begin = Begin::new(None, fields.as_deref().and_then(schema_extension));
        let (planned, job) = Self::job(number, copy(object), begin, fields, Some(part));
        // Don't block: the sequencer may itself be waiting for bytes of this object.
        if job.fields.is_none() || self.planned.try_send(Planned::Object(planned)).is_err() {
            sections.drop_last();
            return Ok(());
        }
        self.limiter.tell_planned();
        self.limiter.begin_section();
        self.jobs.hand_over(job, usize::MAX)
    }

    /// An object whose bytes are its header, and then those from the place of a state on.
    fn join_header(&mut self, mut object: Object, resume: &Resume) -> Result<Object, StopReason> {
        let header = self.read_header(&mut object, resume.header())?;
        if (header.len() as u64) < resume.header() {
            // Its worker sees that it ends there, and reports it.
            let input = HeaderAndRest::new(Arc::new(header), object.input);
            return Ok(Object { input: Box::new(input), ..object });
        }
        let epoch = object.epoch;
        let begun = self.source.start_at(resume.after_header()).and_then(|()| self.source.next());
        match begun.map_err(|error| self.decoding.source_failure(epoch, error))? {
            SourceEvent::Object(rest) => {
                check_opened_again(&*object.input, &object.identity, &rest)
                    .map_err(|error| self.decoding.source_failure(epoch, error))?;
                let input = HeaderAndRest::new(Arc::new(header), rest.input);
                Ok(Object { input: Box::new(input), ..object })
            }
            SourceEvent::EpochEnd(_) | SourceEvent::End => Err(StopReason::Stopped),
        }
    }

    /// The first `bytes` bytes of an object, or all of a shorter one.
    fn read_header(&self, object: &mut Object, bytes: u64) -> Result<Vec<u8>, StopReason> {
        let (mut header, mut piece) = (Vec::new(), vec![0; 64 << 10]);
        while (header.len() as u64) < bytes {
            let left = usize::try_from(bytes - header.len() as u64).unwrap_or(usize::MAX);
            let size = left.min(piece.len());
            let read = object.input.read(&mut piece[..size], None);
            match read.map_err(|error| self.decoding.source_failure(object.epoch, error))? {
                ReadOutcome::Bytes(count) => header.extend_from_slice(&piece[..count]),
                ReadOutcome::Nothing => {}
                ReadOutcome::Stopped => return Err(StopReason::Stopped),
                ReadOutcome::End => break,
            }
        }
        Ok(header)
    }
}

/// Bytes of the sections of an object. Each section has a fixed cost. So the sections are longer if
/// the object has enough of them: up to `longest` times as long as a short one.
fn step(size: Option<u64>, workers: usize, short: usize, longest: usize) -> usize {
    let of_each_worker = size.unwrap_or(0) / (SECTIONS_OF_WORKER * workers) as u64;
    let times = usize::try_from(of_each_worker / short as u64).unwrap_or(longest);
    short * times.clamp(1, longest)
}

/// The object, without its input, which another thread reads.
fn copy(object: &Object) -> Object {
    Object {
        name: object.name.clone(),
        identity: object.identity.clone(),
        facts: object.facts.clone(),
        known: object.known.clone(),
        input: Box::new(NoInput),
        companions: Vec::new(),
        ..*object
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sections_are_long_where_each_worker_has_enough_of_them(
            size in 0_u64..10_000,
            workers in 1_usize..20,
            short in 1_usize..100,
            longest in 1_usize..5,
        ) {
            let bytes = step(Some(size), workers, short, longest);
            prop_assert!(bytes.is_multiple_of(short) && (short..=longest * short).contains(&bytes));
            let needed = |bytes: usize| (bytes * workers * SECTIONS_OF_WORKER) as u64;
            prop_assert!(bytes == short || needed(bytes) <= size);
            prop_assert!(bytes == longest * short || needed(bytes + short) > size);
        }
    }

    #[test]
    fn sections_of_an_object_of_unknown_size_are_short() {
        assert_eq!(step(None, 2, 10, 4), 10);
        assert_eq!(step(Some(u64::MAX), 2, 10, 4), 40);
    }
}
