//! Reads the bytes of a plan: contexts from memory, ranges from the object. Ranges of objects in a
//! store are requested before they are read.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pipemill_source::{Input, ReadOutcome, SourceError};

use crate::ask::ended;
use crate::plan::{Origin, Plan};

/// Most bytes of one request.
const REQUEST_BYTES: u64 = 8 << 20;
/// The same, of bytes for which there is no room but that are read next.
const LEAST_REQUEST_BYTES: u64 = 1 << 20;
/// Requests of one reader at a time.
const MAX_REQUESTS: usize = 4;

/// An object whose parts are read.
pub(crate) struct PlannedObject {
    plan: Arc<Plan>,
    /// The object and its companions as they are stored.
    stored: Mutex<Vec<Stored>>,
    /// The requests that were made before anybody reads the object.
    begun: Mutex<Option<Begun>>,
}

/// Requests for the first bytes that are read.
struct Begun {
    /// Byte of the plan at which who reads them begins.
    at: u64,
    /// Byte of the plan from which on nothing is requested yet.
    requested: u64,
    requests: VecDeque<Request>,
}

/// The object, or one of its companions.
pub(crate) struct Stored {
    /// For messages.
    pub(crate) name: String,
    pub(crate) input: Box<dyn Input>,
}

impl Stored {
    pub(crate) fn named(&self, error: SourceError) -> SourceError {
        SourceError { object: error.object.or_else(|| Some(self.name.clone())), ..error }
    }
}

impl PlannedObject {
    pub(crate) fn new(plan: Arc<Plan>, stored: Vec<Stored>) -> Self {
        Self { plan, stored: Mutex::new(stored), begun: Mutex::default() }
    }

    /// The requests that were made for who begins at this byte of the plan.
    fn take_begun(&self, at: u64) -> Option<Begun> {
        self.begun().take_if(|begun| begun.at == at)
    }

    fn begun(&self) -> MutexGuard<'_, Option<Begun>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes of the object, or of a companion, in this range.
    fn range(&self, of: usize, range: Range<u64>) -> Result<Box<dyn Input>, SourceError> {
        // The plan was checked.
        let stored = &self.stored()[of];
        let input = stored.input.range(range.clone()).unwrap_or_else(|| {
            Err(ended(range.start, 0, usize::try_from(range.end - range.start).unwrap_or(0)))
        });
        input.map_err(|error| stored.named(error))
    }

    /// See [`Input::room_ahead`].
    fn room_ahead(&self, of: usize) -> Option<u64> {
        self.stored()[of].input.room_ahead()
    }

    /// See [`Input::check_unchanged`].
    fn check_unchanged(&self) -> Result<(), SourceError> {
        let unchanged =
            |stored: &Stored| stored.input.check_unchanged().map_err(|error| stored.named(error));
        self.stored().iter().try_for_each(unchanged)
    }

    fn stored(&self) -> MutexGuard<'_, Vec<Stored>> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An error in the bytes of the object or of a companion.
    fn named(&self, of: usize, error: SourceError) -> SourceError {
        self.stored()[of].named(error)
    }
}

/// The bytes of a plan, from one of them on.
pub(crate) struct PlannedInput {
    object: Arc<PlannedObject>,
    /// The end of the header, and the byte that follows it, if not all bytes are read.
    jump: Option<(u64, u64)>,
    /// Byte of the plan that is read next.
    at: u64,
    /// Byte of the plan from which on nothing is requested yet.
    requested: u64,
    /// Byte of the plan from which on nothing is requested before it is read.
    ahead_to: u64,
    /// The requests for bytes of the object that are next, in order.
    requests: VecDeque<Request>,
}

/// Bytes of an object that are being fetched.
struct Request {
    /// 0 for the object, or the number of a companion.
    of: usize,
    input: Box<dyn Input>,
    /// Bytes of the object that are still to be read.
    left: Range<u64>,
}

impl PlannedInput {
    /// The bytes from this one on.
    pub(crate) fn new(object: Arc<PlannedObject>, at: u64) -> Self {
        let (requested, requests, ahead_to) = (at, VecDeque::new(), u64::MAX);
        Self { object, jump: None, at, requested, ahead_to, requests }
    }

    /// The first `header` bytes, and then those from `at` on.
    pub(crate) fn with_header(object: Arc<PlannedObject>, header: u64, at: u64) -> Self {
        let jump = (header > 0).then_some((header, at));
        Self { jump, ..Self::new(object, if header > 0 { 0 } else { at }) }
    }

    /// Requests the bytes of the first part before anybody reads them, as far as there is room for
    /// them. Bytes from `end` on will most likely not be read.
    pub(crate) fn begin(&mut self, end: u64) -> Result<(), SourceError> {
        self.ahead_to = self.object.plan.parts().next_start(self.at.saturating_add(1)).min(end);
        // The bytes after a header are at another place.
        if self.jump.is_none() {
            self.request_more(false)?;
        }
        let (at, requested, requests) = (self.at, self.requested, &mut self.requests);
        let begun = Begun { at, requested, requests: std::mem::take(requests) };
        *self.object.begun() = Some(begun).filter(|begun| !begun.requests.is_empty());
        self.requested = at;
        self.ahead_to = end;
        Ok(())
    }

    /// Requests bytes of the object and its companions: those that are read next, and as many after
    /// them as there is room for.
    fn request(&mut self) -> Result<(), SourceError> {
        if self.requests.is_empty()
            && let Some(Begun { requested, requests, .. }) = self.object.take_begun(self.requested)
        {
            (self.requested, self.requests) = (requested, requests);
        }
        self.request_more(true)
    }

    /// Requests bytes after those that are requested. `is_needed`: the first of all of them is read
    /// now.
    fn request_more(&mut self, is_needed: bool) -> Result<(), SourceError> {
        while self.requests.len() < MAX_REQUESTS
            && let Some(run) = self.object.plan.run_with(self.requested)
        {
            let Origin::Object { of, offset } = run.from else {
                self.requested = run.end();
                continue;
            };
            let begin = offset + (self.requested - run.at);
            let is_ahead = !is_needed || !self.requests.is_empty();
            if is_ahead && self.requested >= self.ahead_to {
                break;
            }
            let end = if self.requested < self.ahead_to { self.ahead_to } else { u64::MAX };
            let left = run.end().min(end) - self.requested;
            let length = match self.object.room_ahead(of) {
                // A file is read to the end of the run, and opened for the next one then.
                None if is_ahead => break,
                None => left,
                Some(room) if !is_ahead => left.min(room.clamp(LEAST_REQUEST_BYTES, REQUEST_BYTES)),
                Some(room) if room >= left.min(REQUEST_BYTES) => left.min(REQUEST_BYTES),
                Some(_) => break,
            };
            let bytes = begin..begin + length;
            let input = self.object.range(of, bytes.clone())?;
            self.requests.push_back(Request { of, input, left: bytes });
            self.requested += length;
        }
        Ok(())
    }

    fn read_next(
        &mut self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<ReadOutcome, SourceError> {
        if let Some((_, to)) = self.jump.take_if(|(header, _)| self.at >= *header) {
            *self = Self { ahead_to: self.ahead_to, ..Self::new(self.object.clone(), to) };
        }
        let object = self.object.clone();
        let Some(run) = object.plan.run_with(self.at) else {
            self.check_unchanged()?;
            return Ok(ReadOutcome::End);
        };
        let end = self.jump.map_or(run.end(), |(header, _)| header.min(run.end()));
        let most = usize::try_from(end - self.at).map_or(buf.len(), |left| left.min(buf.len()));
        let buf = &mut buf[..most];
        if let Origin::Contexts(from) = run.from {
            let from = from + (self.at - run.at) as usize;
            buf.copy_from_slice(object.plan.context(from..from + most));
            self.at += most as u64;
            return Ok(ReadOutcome::Bytes(most));
        }
        self.request()?;
        // There is one: the next byte is of the object.
        let Some(request) = self.requests.front_mut() else { return Ok(ReadOutcome::Nothing) };
        let left = usize::try_from(request.left.end - request.left.start).unwrap_or(usize::MAX);
        let most = most.min(left);
        let of = request.of;
        let outcome = request.input.read(&mut buf[..most], timeout);
        let outcome = outcome.map_err(|error| object.named(of, error))?;
        match outcome {
            ReadOutcome::Bytes(count) => {
                self.at += count as u64;
                request.left.start += count as u64;
                if request.left.is_empty() {
                    self.requests.pop_front();
                }
            }
            ReadOutcome::End => return Err(object.named(of, ended(request.left.start, 0, left))),
            ReadOutcome::Nothing | ReadOutcome::Stopped => {}
        }
        Ok(outcome)
    }
}

impl Input for PlannedInput {
    fn is_stored(&self) -> bool {
        true
    }

    fn check_unchanged(&self) -> Result<(), SourceError> {
        self.object.check_unchanged()
    }

    fn at(&self, offset: u64) -> Option<Result<Box<dyn Input>, SourceError>> {
        Some(Ok(Box::new(Self::new(self.object.clone(), offset))))
    }

    fn read_ahead_to(&mut self, end: u64) {
        self.ahead_to = end;
    }

    fn next_start(&self, offset: u64) -> Option<u64> {
        Some(self.object.plan.parts().next_start(offset))
    }

    fn read(
        &mut self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<ReadOutcome, SourceError> {
        let size = self.object.plan.size();
        if self.at > size {
            let message =
                format!("was to be read from byte {} of its plan, which has {size} bytes", self.at);
            let remedy = "it, or its decoder, has changed since the state was taken: bring it \
                          back, or begin without the state";
            return Err(self
                .object
                .named(0, SourceError { object: None, ..SourceError::new("", message, remedy) }));
        }
        self.read_next(buf, timeout)
    }
}
