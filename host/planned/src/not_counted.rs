//! A source without the objects that are counted by their plans. Several plans are made at once.
//!
//! A thread takes the objects from the source, in their order, and hands them to threads that make
//! their plans. What becomes of them comes back in the same order: so does an error, after all
//! objects before it.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use pipemill_source::{
    Awaited, NoSource, Object, Source, SourceError, SourceEvent, Start, TotalSize,
};
use pipemill_types::ListIdentity;

use crate::planner::{ObjectPlanner, PlanMaker, Shown, TakeCounted};

/// A source without the objects that are counted by their plans. All others are shown as their
/// plans have them, or whole, as [`Planned`](crate::Planned) shows them.
pub struct NotCounted {
    /// `None` while the threads have it.
    inner: Option<Box<dyn Source>>,
    maker: Arc<PlanMaker>,
    takes: Arc<TakeCounted>,
    /// Number of plans that are made at once. As many objects more may wait with what became of
    /// them.
    at_once: usize,
    threads: Option<Threads>,
    /// The end of the epoch, which the threads had found when it was ended early.
    end: Option<SourceEvent>,
    /// The byte at which the next object begins.
    offset: u64,
    can_reread: bool,
    awaited: Awaited,
}

/// What became of an object: `None` if it was taken.
type Found = Result<Option<SourceEvent>, SourceError>;

/// An object that is to be planned from this byte on, and who waits for what becomes of it.
struct Job {
    object: Object,
    offset: u64,
    found: Sender<Found>,
}

struct Threads {
    /// What becomes of the objects, in their order.
    events: Receiver<Receiver<Found>>,
    reader: JoinHandle<Reader>,
    planners: Vec<JoinHandle<()>>,
}

/// Takes objects from the source, up to the first other event.
struct Reader {
    source: Box<dyn Source>,
    /// The other event, unless it is an error.
    end: Option<SourceEvent>,
}

impl Reader {
    /// Hands objects to those who plan them, in their order. The first one begins at this byte.
    fn read(
        mut self,
        mut offset: u64,
        jobs: &Sender<Job>,
        events: &SyncSender<Receiver<Found>>,
    ) -> Self {
        loop {
            let next = self.source.next();
            let (found, event) = channel();
            self.end = match &next {
                Ok(SourceEvent::EpochEnd(epoch)) => Some(SourceEvent::EpochEnd(*epoch)),
                Ok(SourceEvent::End) => Some(SourceEvent::End),
                _ => None,
            };
            // It waits while as many objects wait as may.
            let is_wanted = events.send(event).is_ok();
            match next {
                Ok(SourceEvent::Object(object)) if is_wanted => {
                    let job = Job { object, offset: std::mem::take(&mut offset), found };
                    if jobs.send(job).is_err() {
                        // They have failed, and who waits for the object finds out.
                        return self;
                    }
                }
                next => {
                    let _ = found.send(next.map(Some));
                    return self;
                }
            }
        }
    }
}

/// Plans objects until there are no more.
fn plan(jobs: &Mutex<Receiver<Job>>, mut planner: ObjectPlanner) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { object, offset, found }) = job else { return };
        let became = planner.planned(object, offset).map(|shown| match shown {
            Shown::Object(object) => Some(SourceEvent::Object(object)),
            Shown::Stopped => Some(SourceEvent::End),
            Shown::Taken => None,
        });
        // Nobody waits for it any more if the source begins elsewhere.
        let _ = found.send(became);
    }
}

impl NotCounted {
    /// The objects of this source that `takes` does not take by the plans that this decoder makes.
    pub fn new(
        inner: Box<dyn Source>,
        maker: PlanMaker,
        takes: TakeCounted,
        at_once: usize,
    ) -> Self {
        Self {
            can_reread: inner.can_reread(),
            awaited: inner.awaited(),
            inner: Some(inner),
            maker: Arc::new(maker),
            takes: Arc::new(takes),
            at_once: at_once.max(1),
            threads: None,
            end: None,
            offset: 0,
        }
    }

    /// What becomes of the next object. `None` if the threads have ended.
    fn found(&mut self) -> Result<Option<Found>, SourceError> {
        let threads = match self.threads.take() {
            Some(threads) => threads,
            None => self.start()?,
        };
        let event = self.threads.insert(threads).events.recv();
        Ok(event.and_then(|event| event.recv()).ok())
    }

    fn start(&mut self) -> Result<Threads, SourceError> {
        let name = self.maker.channel.clone();
        let failed = |error| SourceError::io(&*name, "can't start", &error);
        let thread = || Builder::new().name(format!("plans-{name}"));
        let (jobs, taken) = channel();
        let taken = Arc::new(Mutex::new(taken));
        let mut planners = Vec::new();
        for _ in 0..self.at_once {
            let planner = ObjectPlanner::new(self.maker.clone(), Some(self.takes.clone()));
            let taken = taken.clone();
            match thread().spawn(move || plan(&taken, planner)) {
                Ok(planner) => planners.push(planner),
                Err(error) if planners.is_empty() => return Err(failed(error)),
                // Fewer are enough.
                Err(_) => break,
            }
        }
        let (events_sender, events) = sync_channel(self.at_once);
        // The source is handed over once there is a thread for it.
        let (handed, source) = channel::<(Box<dyn Source>, u64)>();
        let reader = thread().spawn(move || {
            let (source, offset) = source.recv().unwrap_or_else(|_| (Box::new(NoSource), 0));
            Reader { source, end: None }.read(offset, &jobs, &events_sender)
        });
        let reader = reader.map_err(failed)?;
        if let Some(inner) = self.inner.take() {
            let _ = handed.send((inner, std::mem::take(&mut self.offset)));
        }
        Ok(Threads { events, reader, planners })
    }

    /// Ends the threads. Returns the end of the epoch, if they have found it.
    fn halt(&mut self) -> Option<SourceEvent> {
        let Threads { events, reader, planners } = self.threads.take()?;
        drop(events);
        // A panic of a thread continues here.
        let reader = reader.join().unwrap_or_else(|panic| resume_unwind(panic));
        for planner in planners {
            planner.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
        self.inner = Some(reader.source);
        reader.end
    }

    /// The source, after the threads have ended.
    fn inner(&mut self) -> Option<&mut Box<dyn Source>> {
        self.halt();
        self.inner.as_mut()
    }
}

impl Source for NotCounted {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        loop {
            if let Some(end) = self.end.take() {
                return Ok(end);
            }
            match self.found()? {
                Some(Ok(None)) => {}
                Some(Ok(Some(event @ SourceEvent::Object(_)))) => return Ok(event),
                Some(Ok(Some(end))) => {
                    self.halt();
                    return Ok(end);
                }
                Some(Err(error)) => return Err(error),
                // The last event was an error of the source, or a thread has failed.
                None => drop(self.halt()),
            }
        }
    }

    fn start_at(&mut self, start: Start) -> Result<(), SourceError> {
        self.end = None;
        let can_reread = self.can_reread;
        let Some(inner) = self.inner() else { return Ok(()) };
        if !can_reread {
            // Its objects have no plans.
            return inner.start_at(start);
        }
        // What the offset counts is known when the object has a plan.
        let started = inner.start_at(Start { offset: 0, ..start });
        self.offset = start.offset;
        started
    }

    fn expect_list(&mut self, list: Option<ListIdentity>) {
        // The source is told where to begin next.
        if let Some(inner) = self.inner() {
            inner.expect_list(list);
        }
    }

    fn can_reread(&self) -> bool {
        self.can_reread
    }

    fn is_planned(&self) -> bool {
        true
    }

    fn end_epoch(&mut self) {
        self.offset = 0;
        if self.end.is_none() {
            self.end = self.halt();
        }
        if self.end.is_none()
            && let Some(inner) = &mut self.inner
        {
            inner.end_epoch();
        }
    }

    fn total_size(&mut self) -> TotalSize {
        self.inner.as_mut().map(|inner| inner.total_size()).unwrap_or_default()
    }

    fn awaited(&self) -> Awaited {
        self.awaited.clone()
    }
}
