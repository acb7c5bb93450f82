//! A source whose objects are shown as the plans of their decoder have them.

use std::sync::Arc;

use pipemill_source::{
    Awaited, IsCached, SeekPoint, Source, SourceError, SourceEvent, Start, TotalSize,
    cache::CacheCounters,
};
use pipemill_types::ListIdentity;

use crate::ahead::{AheadThread, Next};
use crate::planner::{PlanMaker, Planner};

/// A source whose objects are planned. Objects that can't be read at several places, or of which
/// the decoder makes no plan, are shown whole.
///
/// Of objects in a store, the next one is planned while the last one is read, and its first bytes
/// are requested, as far as there is room for them.
pub struct Planned {
    /// `None` while the thread has it.
    planner: Option<Box<Planner>>,
    /// The thread that plans the next object, once there was one in a store.
    thread: Option<AheadThread>,
    /// The event that was found ahead.
    found: Option<Next>,
    /// Name of the channel.
    channel: String,
    /// The start of the next object. `None`: its first byte.
    start: Option<Start>,
    can_reread: bool,
    cache: Option<Arc<CacheCounters>>,
    awaited: Awaited,
}

impl Planned {
    /// The objects of this source, planned by this decoder.
    pub fn new(inner: Box<dyn Source>, maker: PlanMaker) -> Self {
        Self {
            channel: maker.channel.clone(),
            can_reread: inner.can_reread(),
            cache: inner.cache(),
            awaited: inner.awaited(),
            planner: Some(Box::new(Planner::new(inner, maker))),
            thread: None,
            found: None,
            start: None,
        }
    }

    /// The planner, once it has found what it looks for.
    fn planner(&mut self) -> Option<&mut Planner> {
        if self.planner.is_none()
            && let Some((thread, planner, found)) = self.thread.take().and_then(AheadThread::end)
        {
            (self.thread, self.planner, self.found) = (Some(thread), Some(planner), Some(found));
        }
        self.planner.as_deref_mut()
    }

    /// Begins to plan the next object, if the last one was in a store: others can be read while it
    /// is.
    fn plan_ahead(&mut self) {
        let Some(planner) = self.planner.take_if(|planner| planner.is_store) else { return };
        if self.thread.is_none() {
            self.thread = AheadThread::new(&self.channel);
        }
        self.planner = match &self.thread {
            Some(thread) => thread.begin(planner).err(),
            None => Some(planner),
        };
    }
}

impl Source for Planned {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        let offset = self.start.take().map_or(0, |start| start.offset);
        // It may find the event.
        self.planner();
        let next = match (self.found.take(), self.planner()) {
            (Some(found), _) => found,
            (None, Some(planner)) => planner.next(offset),
            (None, None) => Ok(SourceEvent::End),
        };
        if matches!(next, Ok(SourceEvent::Object(_))) {
            self.plan_ahead();
        }
        next
    }

    fn start_at(&mut self, start: Start) -> Result<(), SourceError> {
        let can_reread = self.can_reread;
        let Some(planner) = self.planner() else { return Ok(()) };
        if !can_reread {
            // Its objects have no plans.
            return planner.inner.start_at(start);
        }
        // What the offset counts is known when the object has a plan.
        let started = planner.inner.start_at(Start { offset: 0, ..start });
        (self.start, self.found) = (Some(start), None);
        started
    }

    fn expect_list(&mut self, list: Option<ListIdentity>) {
        if let Some(planner) = self.planner() {
            planner.inner.expect_list(list);
        }
    }

    fn start_from(&mut self, point: Option<Arc<SeekPoint>>) {
        // An object with a seek point is compressed. It is inflated from its beginning.
        let _ = point;
    }

    fn can_reread(&self) -> bool {
        self.can_reread
    }

    fn is_planned(&self) -> bool {
        true
    }

    fn end_epoch(&mut self) {
        self.start = None;
        self.planner();
        // The source has said already that the epoch has ended: that comes next.
        if matches!(self.found, Some(Ok(SourceEvent::EpochEnd(_) | SourceEvent::End))) {
            return;
        }
        self.found = None;
        if let Some(planner) = self.planner() {
            planner.inner.end_epoch();
        }
    }

    fn total_size(&mut self) -> TotalSize {
        self.planner().map(|planner| planner.inner.total_size()).unwrap_or_default()
    }

    fn set_cached(&mut self, is_cached: IsCached) {
        if let Some(planner) = self.planner() {
            planner.inner.set_cached(is_cached);
        }
    }

    fn cache(&self) -> Option<Arc<CacheCounters>> {
        self.cache.clone()
    }

    fn awaited(&self) -> Awaited {
        self.awaited.clone()
    }
}
