//! Whose turn it is, and how far the others may be ahead.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pipemill_types::Field;

use super::worker::Job;
use crate::StopReason;

/// What the threads of a channel with workers wait for.
pub(super) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
    /// Bytes that may wait for their turn.
    limit: AheadLimit,
    /// How often something came for the channel's thread.
    news: Mutex<u64>,
    news_changed: Condvar,
    /// A section has gone on where the one before had ended.
    has_joined: AtomicBool,
    /// Sections were decoded in vain.
    has_wasted: AtomicBool,
}

/// How many bytes may wait for their turn.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AheadLimit {
    /// While the channel's thread waits for the object whose turn it is.
    pub(super) while_waiting: usize,
    /// While it has something to do. What waits longer than that for its turn has left the caches of
    /// the cores when it comes, and is not needed before.
    pub(super) while_busy: usize,
}

#[derive(Default)]
struct State {
    /// The channel's thread waits for records.
    is_awaited: bool,
    /// A worker waits that may go on as soon as it does.
    is_held_back: bool,
    /// Bytes that wait for their turn.
    held: usize,
    /// Bytes of them that are of each object, by its number.
    of_object: HashMap<u64, usize>,
    /// Numbers of the objects whose turn it is: one in strict order.
    due: BTreeSet<u64>,
    /// Objects of epochs before this one are not wanted any more.
    first_epoch: u32,
    stopped: bool,
    /// The fields of the records, once an object has said them.
    fields: Option<Arc<[Field]>>,
    /// Objects that are decoded now, or that the planner is about to hand to a worker.
    running: usize,
    /// What waits for a worker.
    jobs: VecDeque<Job>,
    /// Workers that wait for a job.
    idle: usize,
    /// No more jobs come.
    all_planned: bool,
    /// Numbers of sections that belong to the section before them: nobody wants their records.
    dropped: BTreeSet<u64>,
}

impl State {
    fn is_unwanted(&self, object: u64, epoch: u32) -> bool {
        self.stopped || epoch < self.first_epoch || self.dropped.contains(&object)
    }

    /// Whether this object may have `bytes` more bytes that wait for its turn.
    fn may_hold(&self, object: u64, bytes: usize, limit: AheadLimit) -> bool {
        let AheadLimit { while_waiting, while_busy } = limit;
        let limit = if self.is_awaited { while_waiting } else { while_busy };
        let has_none = self.of_object.get(&object).is_none_or(|own| *own == 0);
        has_none && self.due.contains(&object) || self.held + bytes <= limit
    }
}

/// Ends all waits when it is dropped.
pub(super) struct EndAtDrop<'a>(&'a Turns);

impl Drop for EndAtDrop<'_> {
    fn drop(&mut self) {
        self.0.state().stopped = true;
        self.0.changed.notify_all();
        self.0.tell();
    }
}

impl Turns {
    /// `limit`: how many bytes wait for their turn at most.
    pub(super) fn new(limit: AheadLimit) -> Self {
        let (state, changed) = Default::default();
        let (news, news_changed) = Default::default();
        let (has_joined, has_wasted) = Default::default();
        Self { state, changed, limit, news, news_changed, has_joined, has_wasted }
    }

    /// Ends all waits when the result is dropped.
    pub(super) fn end_at_drop(&self) -> EndAtDrop<'_> {
        EndAtDrop(self)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic can't leave it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is something for the channel's thread.
    pub(super) fn tell(&self) {
        *self.news.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.news_changed.notify_one();
    }

    /// How often something came for the channel's thread.
    pub(super) fn news(&self) -> u64 {
        *self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something has come since there was this news, or for this time.
    pub(super) fn wait_for_news(&self, since: u64, most: Duration) {
        let mut state = self.state();
        state.is_awaited = true;
        if std::mem::take(&mut state.is_held_back) {
            self.changed.notify_all();
        }
        drop(state);
        let news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        // Whether something came shows where it is looked for.
        drop(self.news_changed.wait_timeout_while(news, most, |news| *news == since));
        self.state().is_awaited = false;
    }

    /// Waits until this condition gives something.
    fn wait<T>(&self, mut look: impl FnMut(&mut State) -> Option<T>) -> T {
        let mut state = self.state();
        loop {
            if let Some(found) = look(&mut state) {
                return found;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether it is the turn of this object.
    pub(super) fn is_due(&self, object: u64) -> bool {
        self.state().due.contains(&object)
    }

    /// Waits until this object may have `bytes` more bytes that wait for its turn.
    ///
    /// # Errors
    /// Nobody wants them any more.
    pub(super) fn hold(&self, object: u64, epoch: u32, bytes: usize) -> Result<(), StopReason> {
        self.wait(|state| {
            if state.is_unwanted(object, epoch) {
                return Some(Err(StopReason::Stopped));
            }
            if !state.may_hold(object, bytes, self.limit) {
                state.is_held_back = true;
                return None;
            }
            state.held += bytes;
            *state.of_object.entry(object).or_default() += bytes;
            Some(Ok(()))
        })
    }

    /// Bytes of this object were taken.
    pub(super) fn taken(&self, object: u64, bytes: usize) {
        let mut state = self.state();
        state.held -= bytes;
        if let Some(own) = state.of_object.get_mut(&object) {
            *own -= bytes;
        }
        self.changed.notify_all();
    }

    /// A section has gone on where the one before had ended.
    pub(super) fn section_joined(&self) {
        self.has_joined.store(true, Ordering::Relaxed);
    }

    /// Whether that was ever so.
    pub(super) fn has_joined(&self) -> bool {
        self.has_joined.load(Ordering::Relaxed)
    }

    /// Several sections of an object were decoded in vain.
    pub(super) fn sections_were_wasted(&self) {
        self.has_wasted.store(true, Ordering::Relaxed);
    }

    /// Whether it is of no use to divide objects: sections were decoded in vain, and none was not.
    pub(super) fn sections_are_wasted(&self) -> bool {
        self.has_wasted.load(Ordering::Relaxed) && !self.has_joined()
    }

    /// It is the turn of this object.
    pub(super) fn begin(&self, object: u64) {
        self.state().due.insert(object);
        self.changed.notify_all();
    }

    /// Nothing more of this object is taken.
    pub(super) fn end(&self, object: u64) {
        let mut state = self.state();
        state.due.remove(&object);
        let left = state.of_object.remove(&object).unwrap_or(0);
        state.held -= left;
        self.changed.notify_all();
    }

    /// Nothing more of this epoch is wanted.
    pub(super) fn end_epoch(&self, epoch: u32) {
        let mut state = self.state();
        state.first_epoch = state.first_epoch.max(epoch + 1);
        self.changed.notify_all();
    }

    /// Whether nothing of this epoch is wanted any more.
    pub(super) fn is_over(&self, epoch: u32) -> bool {
        let state = self.state();
        state.stopped || epoch < state.first_epoch
    }

    /// Whether nobody wants the records of this object any more.
    pub(super) fn is_unwanted(&self, object: u64, epoch: u32) -> bool {
        self.state().is_unwanted(object, epoch)
    }

    /// Nobody wants the records of this section any more.
    pub(super) fn drop_job(&self, number: u64) {
        let mut state = self.state();
        state.dropped.insert(number);
        let left = state.of_object.remove(&number).unwrap_or(0);
        state.held -= left;
        self.changed.notify_all();
    }

    /// Hands a job to a worker. With `waits`, as soon as one is free.
    ///
    /// # Errors
    /// No object is wanted any more.
    pub(super) fn hand_over(&self, job: Job, waits: bool) -> Result<(), StopReason> {
        let mut job = Some(job);
        self.wait(|state| {
            if state.stopped {
                return Some(Err(StopReason::Stopped));
            }
            if waits && state.idle <= state.jobs.len() {
                return None;
            }
            state.jobs.extend(job.take());
            Some(Ok(()))
        })?;
        self.changed.notify_all();
        Ok(())
    }

    /// The next job for a worker. `None` if no more come.
    pub(super) fn next_job(&self) -> Option<Job> {
        self.state().idle += 1;
        self.changed.notify_all();
        self.wait(|state| {
            let job = state.jobs.pop_front().filter(|_| !state.stopped);
            let is_over = state.stopped || state.all_planned;
            (job.is_some() || is_over).then(|| {
                state.idle -= 1;
                job
            })
        })
    }

    /// No more jobs come.
    pub(super) fn all_planned(&self) {
        self.state().all_planned = true;
        self.changed.notify_all();
    }

    /// The fields of the records, if objects have said them.
    pub(super) fn fields(&self) -> Option<Arc<[Field]>> {
        self.state().fields.clone()
    }

    /// A section of an object is decoded beside the others.
    pub(super) fn begin_section(&self) {
        self.state().running += 1;
    }

    /// Waits until one more object may be decoded. Returns the fields of the records, once they are
    /// known: until then, one object is decoded at a time.
    ///
    /// # Errors
    /// No object is wanted any more.
    pub(super) fn begin_decoding(&self) -> Result<Option<Arc<[Field]>>, StopReason> {
        self.wait(|state| {
            if state.stopped {
                return Some(Err(StopReason::Stopped));
            }
            if state.fields.is_none() && state.running > 0 {
                return None;
            }
            state.running += 1;
            Some(Ok(state.fields.clone()))
        })
    }

    /// An object was decoded to its end.
    pub(super) fn end_decoding(&self) {
        self.state().running -= 1;
        self.changed.notify_all();
    }

    /// An object said the fields of its records.
    pub(super) fn know_fields(&self, fields: &Arc<[Field]>) {
        self.state().fields.get_or_insert_with(|| fields.clone());
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const LIMIT: AheadLimit = AheadLimit { while_waiting: 10, while_busy: 4 };

    #[test]
    fn what_is_ahead_waits_while_the_channel_s_thread_is_busy() {
        let mut state = State { held: 4, ..State::default() };
        state.of_object.insert(2, 4);
        state.due.insert(1);
        assert!(!state.may_hold(2, 1, LIMIT));
        assert!(state.may_hold(1, 100, LIMIT), "it is its turn, and nothing of it is there");
        state.is_awaited = true;
        assert!(state.may_hold(2, 6, LIMIT));
        assert!(!state.may_hold(2, 7, LIMIT));
        state.of_object.insert(1, 1);
        assert!(!state.may_hold(1, 7, LIMIT), "something of it is there to be taken");
    }

    /// Else nothing would be decoded beside an object that takes long.
    #[test]
    fn who_waits_goes_on_when_the_channel_s_thread_waits() {
        let turns = Turns::new(LIMIT);
        turns.begin(1);
        let since = turns.news();
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..2 {
                    turns.hold(2, 0, 4).expect("it is wanted");
                }
                turns.tell();
            });
            turns.wait_for_news(since, Duration::MAX);
        });
        assert_eq!(turns.state().held, 8);
        assert!(!turns.state().is_awaited);
    }
}
