//! Opens the objects of a source, and makes their plans.

use std::sync::Arc;

use pipemill_decode::{Limits, PlanInstance, Plugin};
use pipemill_source::{Object, SMALL_OBJECT, Source, SourceError, SourceEvent, skip};
use pipemill_types::{
    Fault, ObjectFacts, StreamInfo, companions_extension, planned_extension, split_identity,
};

use crate::ask::{Asked, NoPlan, ask};
use crate::input::{PlannedInput, PlannedObject, Stored};
use crate::memory::InMemory;
use crate::plan_cache::{Made, PlanCache, PlanKey};

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

/// Is told of each object whose plan says how many records each part has: what its stream would be
/// told, and the number of the object. Returns whether it has taken the object: then no byte of the
/// parts is read, and the source gives the next one. Several threads tell it at once.
pub type TakeCounted = Box<dyn Fn(&StreamInfo, u64) -> bool + Send + Sync>;

/// What becomes of an object.
#[expect(clippy::large_enum_variant, reason = "most objects are shown")]
pub(crate) enum Shown {
    Object(Object),
    /// It was taken by its plan.
    Taken,
    /// A stop was requested.
    Stopped,
}

/// A source, and the decoder that makes the plans of its objects.
pub(crate) struct Planner {
    pub(crate) inner: Box<dyn Source>,
    planner: ObjectPlanner,
    /// Whether the last object was in a store, where reading takes a while.
    pub(crate) is_store: bool,
}

impl Planner {
    pub(crate) fn new(inner: Box<dyn Source>, maker: PlanMaker) -> Self {
        Self { inner, planner: ObjectPlanner::new(Arc::new(maker), None), is_store: false }
    }

    /// The source's next event. An object is shown as its plan has it, from this byte on.
    pub(crate) fn next(&mut self, offset: u64) -> Result<SourceEvent, SourceError> {
        loop {
            let object = match self.inner.next()? {
                SourceEvent::Object(object) => object,
                event => return Ok(event),
            };
            self.is_store = object.input.room_ahead().is_some();
            match self.planner.planned(object, offset)? {
                Shown::Object(object) => return Ok(SourceEvent::Object(object)),
                Shown::Stopped => return Ok(SourceEvent::End),
                Shown::Taken => {}
            }
        }
    }
}

/// The decoder that makes the plans of objects.
pub(crate) struct ObjectPlanner {
    maker: Arc<PlanMaker>,
    takes: Option<Arc<TakeCounted>>,
    plans: PlanCache,
}

impl ObjectPlanner {
    /// Plans objects, but for those that are taken by their plans.
    pub(crate) fn new(maker: Arc<PlanMaker>, takes: Option<Arc<TakeCounted>>) -> Self {
        Self { maker, takes, plans: PlanCache::default() }
    }

    /// The object as its plan has it, from this byte on.
    pub(crate) fn planned(&mut self, object: Object, offset: u64) -> Result<Shown, SourceError> {
        let Some(size) = object.facts.size.filter(|_| object.input.range(0..0).is_some()) else {
            return self.whole(object, offset).map(Shown::Object);
        };
        if object.companions.len() != self.maker.plugin.companions().rules().len() {
            return Err(self.without_companions(&object));
        }
        let Object { name, epoch, mut facts, input, companions, block, .. } = object;
        let companions = companions.into_iter().map(|one| (one.name, one.size, one.input));
        let (mut stored, mut sizes) = (Vec::new(), Vec::new());
        // A block of an object is not all of it.
        let mut room = if block.is_none() { SMALL_OBJECT } else { 0 };
        for (name, mut size, mut input) in
            std::iter::once((name.clone(), size, input)).chain(companions)
        {
            // A store sends all of a small object at once.
            if input.room_ahead().is_some() && size <= room {
                let Some(whole) = InMemory::read(input)? else { return Ok(Shown::Stopped) };
                size = whole.size();
                room = room.saturating_sub(size);
                input = Box::new(whole);
            }
            sizes.push(size);
            stored.push(Stored { name, input });
        }
        facts.size = Some(sizes[0]);
        let identity = split_identity(object.identity.text()).1.to_owned();
        let key = PlanKey { name: name.clone(), identity, sizes };
        let made = match self.plans.get(&key) {
            Some(made) => made,
            None => {
                let info = self.info(epoch, &name, &facts, &key.sizes[1..]);
                let asked = self.ask(&info, &stored, &key.sizes);
                let made = match asked.map_err(|why| error(&name, epoch, why))? {
                    Asked::Stopped => return Ok(Shown::Stopped),
                    Asked::Whole => Made::Whole,
                    Asked::Plan(plan) => Made::Plan(Arc::new(plan)),
                };
                // Each object is looked at once to be taken.
                if self.takes.is_none() {
                    self.plans.keep(key, made.clone());
                }
                made
            }
        };
        let companions = Vec::new();
        let Made::Plan(plan) = made else {
            let input = stored.swap_remove(0).input;
            let object = Object { name, facts, input, companions, ..object };
            return self.whole(object, offset).map(Shown::Object);
        };
        facts.size = Some(plan.size());
        (facts.is_planned, facts.parts) = (true, plan.parts().clone());
        if block.is_none() && self.is_taken(epoch, &name, &facts, object.ordinal) {
            return Ok(Shown::Taken);
        }
        let planned = Arc::new(PlannedObject::new(plan, stored));
        let mut input = match block {
            Some(block) => PlannedInput::with_header(planned, block.header.into(), block.offset),
            None => PlannedInput::new(planned, offset),
        };
        let end = block.and_then(|block| block.end).unwrap_or(u64::MAX);
        input.begin(end).map_err(|error| SourceError { epoch: Some(epoch), ..error })?;
        Ok(Shown::Object(Object { name, facts, input: Box::new(input), companions, ..object }))
    }

    /// Whether an object is taken by its plan.
    fn is_taken(&self, epoch: u32, name: &str, facts: &ObjectFacts, ordinal: u64) -> bool {
        let Some(takes) = self.takes.as_ref().filter(|_| facts.parts.records().is_some()) else {
            return false;
        };
        let mut info = self.info(epoch, name, facts, &[]);
        info.extensions.push(planned_extension());
        takes(&info, ordinal)
    }

    /// What the decoder is told of an object that it plans.
    fn info(&self, epoch: u32, name: &str, facts: &ObjectFacts, companions: &[u64]) -> StreamInfo {
        let sizes = (!companions.is_empty()).then(|| companions_extension(companions));
        StreamInfo {
            channel: self.maker.channel.clone(),
            epoch,
            object: name.to_owned(),
            max_record: self.maker.max_record,
            facts: facts.clone(),
            extensions: sizes.into_iter().collect(),
            ..StreamInfo::default()
        }
    }

    fn ask(&self, info: &StreamInfo, stored: &[Stored], sizes: &[u64]) -> Result<Asked, NoPlan> {
        let PlanMaker { plugin, options, limits, .. } = &*self.maker;
        let mut instance = PlanInstance::new(plugin, info, limits)?;
        ask(&mut instance, options, stored, sizes)
    }

    /// The error for an object that was opened before it was known that it has companions.
    fn without_companions(&self, object: &Object) -> SourceError {
        let decoder = self.maker.plugin.name();
        let message = format!(
            "was opened without its companions: the decoder `{decoder}`, which needs them, was not \
             named"
        );
        SourceError::new(&object.name, message, format!("name it: decoder = {decoder:?}"))
    }

    /// The object without a plan, from this byte on.
    ///
    /// # Errors
    /// Its decoder needs companions: without a plan, it is not shown them.
    fn whole(&self, object: Object, offset: u64) -> Result<Object, SourceError> {
        if let Some(rule) = self.maker.plugin.companions().rules().first() {
            let decoder = self.maker.plugin.name();
            let message = format!(
                "can't be read at any place, as the decoder `{decoder}` reads it with its \
                 companion ({rule}): it is a pipe, standard input, compressed or wrapped, or its \
                 decoder makes no plan of it"
            );
            let remedy = "name an uncompressed file or object in S3 that lies beside its companion";
            let error = SourceError::new(&object.name, message, remedy);
            return Err(SourceError { epoch: Some(object.epoch), ..error });
        }
        if offset == 0 {
            return Ok(object);
        }
        let input = match object.input.at(offset) {
            Some(input) => input?,
            None => skip(&object.name, object.input, 0, offset),
        };
        Ok(Object { input, ..object })
    }
}

/// The error of an object without a plan.
fn error(object: &str, epoch: u32, why: NoPlan) -> SourceError {
    let error = match why {
        NoPlan::Source(error) => error,
        NoPlan::Decoder(Fault { kind, message, remedy, .. }) => SourceError {
            kind,
            ..SourceError::new(object, format!("has no plan: {message}"), remedy)
        },
    };
    let name = error.object.unwrap_or_else(|| object.to_owned());
    SourceError { object: Some(name), epoch: Some(epoch), ..error }
}
