//! A source whose objects are shown as the plans of their decoder have them.

use std::sync::{Arc, Mutex};

use pipemill_decode::{Limits, PlanInstance, Plugin};
use pipemill_source::{
    Awaited, Input, Object, SMALL_OBJECT, SeekPoint, Source, SourceError, SourceEvent, Start,
    TotalSize, cache::CacheCounters, skip,
};
use pipemill_types::{Fault, ListIdentity, StreamInfo};

use crate::ask::{Asked, NoPlan, ask};
use crate::input::{PlannedInput, PlannedObject};
use crate::memory::InMemory;

/// The decoder that makes the plans of a channel, and what it is told.
pub struct PlanMaker {
    /// Name of the channel.
    pub channel: String,
    /// The decoder.
    pub plugin: Plugin,
    /// Its options.
    pub options: Vec<(String, String)>,
    /// Its limits.
    pub limits: Limits,
    /// Largest record in bytes.
    pub max_record: u64,
}

/// A source whose objects are planned. Objects that can't be read at several places, or of which
/// the decoder makes no plan, are shown whole.
pub struct Planned {
    inner: Box<dyn Source>,
    maker: PlanMaker,
    /// The start of the next object. `None`: its first byte.
    start: Option<Start>,
}

impl Planned {
    /// The objects of this source, planned by this decoder.
    pub fn new(inner: Box<dyn Source>, maker: PlanMaker) -> Self {
        Self { inner, maker, start: None }
    }

    /// The object as its plan has it, from this byte on. `None` if a stop was requested.
    fn planned(&self, mut object: Object, offset: u64) -> Result<Option<Object>, SourceError> {
        let Some(mut size) = object.facts.size.filter(|_| object.input.range(0..0).is_some())
        else {
            return self.whole(object, offset).map(Some);
        };
        // A store has sent all of a small object.
        if object.input.room_ahead().is_some() && size <= SMALL_OBJECT && object.block.is_none() {
            let Some(whole) = InMemory::read(object.input)? else { return Ok(None) };
            size = whole.size();
            object.facts.size = Some(size);
            object.input = Box::new(whole);
        }
        let asked = self.ask(&object, size).map_err(|why| self.error(&object, why))?;
        let plan = match asked {
            Asked::Stopped => return Ok(None),
            Asked::Whole => return self.whole(object, offset).map(Some),
            Asked::Plan(plan) => plan,
        };
        let Object { name, mut facts, input, block, .. } = object;
        (facts.size, facts.is_planned) = (Some(plan.size()), true);
        let planned = PlannedObject { name: name.clone(), plan, stored: Mutex::new(input) };
        let planned = Arc::new(planned);
        let mut input = Box::new(match block {
            Some(block) => PlannedInput::with_header(planned, block.header.into(), block.offset),
            None => PlannedInput::new(planned, offset),
        });
        input.read_ahead_to(block.and_then(|block| block.end).unwrap_or(u64::MAX));
        Ok(Some(Object { name, facts, input, ..object }))
    }

    fn ask(&self, object: &Object, size: u64) -> Result<Asked, NoPlan> {
        let PlanMaker { channel, plugin, options, limits, max_record } = &self.maker;
        let info = StreamInfo {
            channel: channel.clone(),
            epoch: object.epoch,
            object: object.name.clone(),
            max_record: *max_record,
            facts: object.facts.clone(),
            ..StreamInfo::default()
        };
        let mut instance = PlanInstance::new(plugin, &info, limits)?;
        ask(&mut instance, options, &*object.input, size)
    }

    /// The object without a plan, from this byte on.
    fn whole(&self, object: Object, offset: u64) -> Result<Object, SourceError> {
        if offset == 0 {
            return Ok(object);
        }
        let input = match object.input.at(offset) {
            Some(input) => input?,
            None => skip(&object.name, object.input, 0, offset),
        };
        Ok(Object { input, ..object })
    }

    /// The error of an object without a plan.
    fn error(&self, object: &Object, why: NoPlan) -> SourceError {
        let error = match why {
            NoPlan::Source(error) => error,
            NoPlan::Decoder(Fault { kind, message, remedy, .. }) => SourceError {
                kind,
                ..SourceError::new(&object.name, format!("has no plan: {message}"), remedy)
            },
        };
        let name = error.object.unwrap_or_else(|| object.name.clone());
        SourceError { object: Some(name), epoch: Some(object.epoch), ..error }
    }
}

impl Source for Planned {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        let start = self.start.take();
        match self.inner.next()? {
            SourceEvent::Object(object) => {
                let planned = self.planned(object, start.map_or(0, |start| start.offset))?;
                Ok(planned.map_or(SourceEvent::End, SourceEvent::Object))
            }
            event => Ok(event),
        }
    }

    fn start_at(&mut self, start: Start) -> Result<(), SourceError> {
        if !self.inner.can_reread() {
            // Its objects have no plans.
            return self.inner.start_at(start);
        }
        self.start = Some(start);
        // What the offset counts is known when the object has a plan.
        self.inner.start_at(Start { offset: 0, ..start })
    }

    fn expect_list(&mut self, list: Option<ListIdentity>) {
        self.inner.expect_list(list);
    }

    fn start_from(&mut self, point: Option<Arc<SeekPoint>>) {
        // An object with a seek point is compressed. It is inflated from its beginning.
        let _ = point;
    }

    fn can_reread(&self) -> bool {
        self.inner.can_reread()
    }

    fn is_planned(&self) -> bool {
        true
    }

    fn end_epoch(&mut self) {
        self.start = None;
        self.inner.end_epoch();
    }

    fn total_size(&mut self) -> TotalSize {
        self.inner.total_size()
    }

    fn cache(&self) -> Option<Arc<CacheCounters>> {
        self.inner.cache()
    }

    fn awaited(&self) -> Awaited {
        self.inner.awaited()
    }
}
