//! Decides which objects are current and how far workers of others may be ahead, and wakes threads.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pipemill_types::Field;

use crate::StopReason;

/// Everything that the threads of a channel with workers wait for. Each thread is woken only for
/// its own condition: with short objects, a wake-up costs more than to decode one.
pub(super) struct AheadLimiter {
    state: Mutex<LimiterState>,
    /// Wakes the planner.
    plan_changed: Condvar,
    /// Wakes workers without a job.
    jobs_changed: Condvar,
    /// Wakes workers whose records have to wait.
    room_changed: Condvar,
    /// Wakes the copier.
    copies_changed: Condvar,
    /// Limit of the bytes of objects that are not current.
    limit: AheadLimit,
    wakeups: Mutex<Wakeups>,
    woken: Condvar,
    /// Whether a section has begun where the one before had ended.
    has_joined: AtomicBool,
    /// Whether sections were decoded in vain.
    has_wasted: AtomicBool,
}

/// The largest number of bytes of objects that are not current.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AheadLimit {
    /// While the channel's thread waits for the current object.
    pub(super) while_waiting: usize,
    /// While the channel's thread is busy. More bytes would have left the caches of the cores
    /// before they are needed.
    pub(super) while_busy: usize,
}

/// Events that the channel's thread waits for.
#[derive(Default)]
struct Wakeups {
    /// Number of events so far.
    count: u64,
    /// Whether the channel's thread waits for the next event.
    is_awaited: bool,
    /// Whether it also waits for planned objects.
    awaits_plan: bool,
}

/// A condition that the planner waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum PlannerWait {
    #[default]
    Nothing,
    /// Fewer than this many jobs that no worker is free for.
    Jobs(usize),
    /// The fields of the records, or the end of the objects that are being decoded.
    Fields,
}

/// The next work of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkKind {
    /// The worker makes a copy.
    Copy,
    /// The worker decodes an object or a section.
    Job,
    /// Nothing: no more jobs come.
    End,
}

/// The room that a worker waits for before it hands over records.
#[derive(Debug, Clone, Copy)]
struct RoomWait {
    epoch: u32,
    bytes: usize,
}

#[derive(Default)]
struct LimiterState {
    /// Whether the channel's thread waits for records.
    is_awaited: bool,
    planner: PlannerWait,
    /// Workers whose records have to wait, by the numbers of their objects.
    waiting: BTreeMap<u64, RoomWait>,
    /// Bytes of objects that are not current.
    held: usize,
    /// The same bytes by the number of the object.
    of_object: HashMap<u64, usize>,
    /// Numbers of the current objects: one in strict order.
    due: BTreeSet<u64>,
    /// Objects of epochs before this one are not wanted any more.
    first_epoch: u32,
    stopped: bool,
    /// The fields of the records, once an object has declared them.
    fields: Option<Arc<[Field]>>,
    /// Objects that are decoded now, or that the planner is about to hand to a worker.
    running: usize,
    /// Jobs that wait for a worker.
    jobs: usize,
    /// Workers that wait for a job.
    idle: usize,
    /// Copies that wait for a thread.
    copies: usize,
    /// Whether the copier waits for a copy.
    copier_is_idle: bool,
    /// Whether no more jobs come.
    all_planned: bool,
    /// Numbers of sections that belong to the section before them: nobody wants their records.
    dropped: BTreeSet<u64>,
}

impl LimiterState {
    /// Takes a copy, if one waits and is wanted.
    fn takes_copy(&mut self) -> bool {
        let takes = self.copies > 0 && !self.stopped;
        self.copies -= usize::from(takes);
        takes
    }

    fn is_unwanted(&self, object: u64, epoch: u32) -> bool {
        self.stopped || epoch < self.first_epoch || self.dropped.contains(&object)
    }

    /// Whether this object may hold `bytes` more bytes.
    fn may_hold(&self, object: u64, bytes: usize, limit: AheadLimit) -> bool {
        let AheadLimit { while_waiting, while_busy } = limit;
        let limit = if self.is_awaited { while_waiting } else { while_busy };
        let has_none = self.of_object.get(&object).is_none_or(|own| *own == 0);
        has_none && self.due.contains(&object) || self.held + bytes <= limit
    }

    /// Whether there are fewer than `most` jobs that no worker is free for.
    fn has_few_jobs(&self, most: usize) -> bool {
        self.jobs < self.idle.saturating_add(most)
    }

    /// Whether the planner's wait may be over. Then its condition is removed: the planner sets it
    /// again if it has to wait further.
    fn wakes_planner(&mut self) -> bool {
        let wakes = match self.planner {
            PlannerWait::Nothing => false,
            // Several jobs at a time, not each single one.
            PlannerWait::Jobs(most) => self.has_few_jobs(most.div_ceil(2)),
            PlannerWait::Fields => self.fields.is_some() || self.running == 0,
        };
        if wakes {
            self.planner = PlannerWait::Nothing;
        }
        wakes
    }

    /// Whether the wait of a worker for room may be over. Then its condition is removed: the worker
    /// sets it again if it has to wait further.
    fn wakes_for_room(&mut self, limit: AheadLimit) -> bool {
        let mut waiting = std::mem::take(&mut self.waiting);
        let before = waiting.len();
        waiting.retain(|object, RoomWait { epoch, bytes }| {
            !self.is_unwanted(*object, *epoch) && !self.may_hold(*object, *bytes, limit)
        });
        self.waiting = waiting;
        self.waiting.len() < before
    }
}

/// Ends all waits when it is dropped.
pub(super) struct EndWorkersAtDrop<'a>(&'a AheadLimiter);

impl Drop for EndWorkersAtDrop<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.stopped = true;
        self.0.wake(state);
        self.0.tell();
    }
}

impl AheadLimiter {
    /// `limit`: the largest number of bytes of objects that are not current.
    pub(super) fn new(limit: AheadLimit) -> Self {
        let (state, wakeups, woken) = Default::default();
        let (plan_changed, jobs_changed, room_changed, copies_changed) = Default::default();
        let (has_joined, has_wasted) = Default::default();
        Self {
            state,
            plan_changed,
            jobs_changed,
            room_changed,
            copies_changed,
            limit,
            wakeups,
            woken,
            has_joined,
            has_wasted,
        }
    }

    /// Ends all waits when the result is dropped.
    pub(super) fn end_at_drop(&self) -> EndWorkersAtDrop<'_> {
        EndWorkersAtDrop(self)
    }

    fn state(&self) -> MutexGuard<'_, LimiterState> {
        // A panic can't leave it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a change of the state: wakes those whose wait may be over.
    fn wake(&self, mut state: MutexGuard<'_, LimiterState>) {
        if state.stopped {
            self.copies_changed.notify_all();
        }
        let is_over = state.idle > 0 && (state.stopped || state.all_planned);
        let planner = state.wakes_planner() || state.stopped;
        let room = state.wakes_for_room(self.limit) || state.stopped;
        let jobs = state.idle > 0 && state.jobs > 0;
        drop(state);
        if planner {
            self.plan_changed.notify_all();
        }
        if room {
            self.room_changed.notify_all();
        }
        if is_over {
            self.jobs_changed.notify_all();
        } else if jobs {
            self.jobs_changed.notify_one();
        }
    }

    fn lock_wakeups(&self) -> MutexGuard<'_, Wakeups> {
        self.wakeups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an event. Wakes the channel's thread if it waits for this one.
    fn wake_sequencer(&self, waits_for_it: impl FnOnce(&Wakeups) -> bool) {
        let mut wakeups = self.lock_wakeups();
        wakeups.count += 1;
        let is_awaited = waits_for_it(&wakeups) && std::mem::take(&mut wakeups.is_awaited);
        drop(wakeups);
        if is_awaited {
            self.woken.notify_one();
        }
    }

    /// Tells the channel's thread that there is something for it.
    pub(super) fn tell(&self) {
        self.wake_sequencer(|_| true);
    }

    /// Tells the channel's thread that something was planned.
    pub(super) fn tell_planned(&self) {
        self.wake_sequencer(|wakeups| wakeups.awaits_plan);
    }

    /// Tells the channel's thread that something of this object was handed over. If the object is
    /// not current, the thread looks for it when it is.
    pub(super) fn tell_of(&self, object: u64) {
        if self.is_due(object) {
            self.tell();
        }
    }

    /// Number of events so far for the channel's thread.
    pub(super) fn wakeups(&self) -> u64 {
        self.lock_wakeups().count
    }

    /// Waits until there is an event after the first `since` ones, or for the time `most`.
    /// `for_plan`: also for planned objects.
    pub(super) fn wait_for_wakeup(&self, since: u64, for_plan: bool, most: Duration) {
        let mut state = self.state();
        state.is_awaited = true;
        self.wake(state);
        let mut wakeups = self.lock_wakeups();
        (wakeups.is_awaited, wakeups.awaits_plan) = (wakeups.count == since, for_plan);
        // The caller sees for itself whether there was an event.
        let waited = self.woken.wait_timeout_while(wakeups, most, |wakeups| wakeups.is_awaited);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_awaited = false;
        self.state().is_awaited = false;
    }

    /// Whether this object is current.
    pub(super) fn is_due(&self, object: u64) -> bool {
        self.state().due.contains(&object)
    }

    /// Waits until this object may hold `bytes` more bytes. Meanwhile, `run_copy` makes a copy that
    /// this thread has taken.
    ///
    /// # Errors
    /// Nobody wants them any more.
    pub(super) fn hold(
        &self,
        object: u64,
        epoch: u32,
        bytes: usize,
        run_copy: impl Fn(),
    ) -> Result<(), StopReason> {
        let mut state = self.state();
        while !state.is_unwanted(object, epoch) && !state.may_hold(object, bytes, self.limit) {
            if state.takes_copy() {
                drop(state);
                run_copy();
                state = self.state();
                continue;
            }
            state.waiting.insert(object, RoomWait { epoch, bytes });
            state = self.room_changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting.remove(&object);
        }
        if state.is_unwanted(object, epoch) {
            return Err(StopReason::Stopped);
        }
        state.held += bytes;
        *state.of_object.entry(object).or_default() += bytes;
        Ok(())
    }

    /// Notes that bytes of this object were taken.
    pub(super) fn taken(&self, object: u64, bytes: usize) {
        let mut state = self.state();
        state.held -= bytes;
        if let Some(own) = state.of_object.get_mut(&object) {
            *own -= bytes;
        }
        self.wake(state);
    }

    /// Notes that a section has begun where the one before had ended.
    pub(super) fn section_joined(&self) {
        self.has_joined.store(true, Ordering::Relaxed);
    }

    /// Whether any section has joined the one before it.
    pub(super) fn has_joined(&self) -> bool {
        self.has_joined.load(Ordering::Relaxed)
    }

    /// Notes that several sections of an object were decoded in vain.
    pub(super) fn sections_were_wasted(&self) {
        self.has_wasted.store(true, Ordering::Relaxed);
    }

    /// True when every section so far was wasted: stop dividing objects.
    pub(super) fn sections_are_wasted(&self) -> bool {
        self.has_wasted.load(Ordering::Relaxed) && !self.has_joined()
    }

    /// Makes this object current.
    pub(super) fn begin(&self, object: u64) {
        let mut state = self.state();
        state.due.insert(object);
        self.wake(state);
    }

    /// Ends this object: nothing more of it is taken.
    pub(super) fn end(&self, object: u64) {
        let mut state = self.state();
        state.due.remove(&object);
        let left = state.of_object.remove(&object).unwrap_or(0);
        state.held -= left;
        self.wake(state);
    }

    /// Ends this epoch: nothing more of it is wanted.
    pub(super) fn end_epoch(&self, epoch: u32) {
        let mut state = self.state();
        state.first_epoch = state.first_epoch.max(epoch + 1);
        self.wake(state);
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

    /// Drops this section: nobody wants its records any more.
    pub(super) fn drop_job(&self, number: u64) {
        let mut state = self.state();
        state.dropped.insert(number);
        let left = state.of_object.remove(&number).unwrap_or(0);
        state.held -= left;
        self.wake(state);
    }

    /// Lets the planner wait for `what`, until `is_so` is true.
    ///
    /// # Errors
    /// No object is wanted any more.
    fn wait_as_planner(
        &self,
        what: PlannerWait,
        is_so: impl Fn(&LimiterState) -> bool,
    ) -> Result<MutexGuard<'_, LimiterState>, StopReason> {
        let mut state = self.state();
        while !state.stopped && !is_so(&state) {
            state.planner = what;
            state = self.plan_changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.planner = PlannerWait::Nothing;
        if state.stopped { Err(StopReason::Stopped) } else { Ok(state) }
    }

    /// Waits until a worker is free, or fewer than `ahead` jobs wait for one.
    ///
    /// # Errors
    /// No object is wanted any more.
    pub(super) fn wait_for_few_jobs(&self, ahead: usize) -> Result<(), StopReason> {
        let has_few = |state: &LimiterState| state.has_few_jobs(ahead);
        self.wait_as_planner(PlannerWait::Jobs(ahead), has_few).map(drop)
    }

    /// Adds a job that waits for a worker.
    pub(super) fn add_job(&self) {
        let mut state = self.state();
        state.jobs += 1;
        self.wake(state);
    }

    /// Waits for something to do, and takes it.
    pub(super) fn take_work(&self) -> WorkKind {
        let mut state = self.state();
        state.idle += 1;
        loop {
            // Copies first: consumers wait for them.
            let work = if state.takes_copy() {
                Some(WorkKind::Copy)
            } else if state.jobs > 0 && !state.stopped {
                state.jobs -= 1;
                Some(WorkKind::Job)
            } else if state.stopped || state.all_planned {
                Some(WorkKind::End)
            } else {
                None
            };
            if let Some(work) = work {
                state.idle -= 1;
                self.wake(state);
                return work;
            }
            if state.wakes_planner() {
                self.plan_changed.notify_all();
            }
            state = self.jobs_changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Adds a copy that waits for a thread: wakes a thread that has nothing else to do.
    pub(super) fn add_copy(&self) {
        let mut state = self.state();
        state.copies += 1;
        // The copier is woken once for each wait.
        let copier = std::mem::take(&mut state.copier_is_idle);
        let worker = state.idle > 0;
        let waits_for_room = !state.waiting.is_empty();
        drop(state);
        if copier {
            self.copies_changed.notify_one();
        } else if worker {
            self.jobs_changed.notify_one();
        } else if waits_for_room {
            // Any of them takes the copy before it waits again.
            self.room_changed.notify_one();
        }
    }

    /// Takes a copy, if one waits.
    pub(super) fn take_copy(&self) -> bool {
        self.state().takes_copy()
    }

    /// Waits for a copy, and takes it. False if nothing is wanted any more.
    pub(super) fn wait_for_copy(&self) -> bool {
        let mut state = self.state();
        while !state.stopped && state.copies == 0 {
            state.copier_is_idle = true;
            state = self.copies_changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.copier_is_idle = false;
        }
        state.takes_copy()
    }

    /// Whether nothing is wanted any more.
    pub(super) fn is_stopped(&self) -> bool {
        self.state().stopped
    }

    /// Notes that no more jobs come.
    pub(super) fn all_planned(&self) {
        let mut state = self.state();
        state.all_planned = true;
        self.wake(state);
    }

    /// The fields of the records, if an object has declared them.
    pub(super) fn fields(&self) -> Option<Arc<[Field]>> {
        self.state().fields.clone()
    }

    /// Counts a section that is decoded while others of its object are.
    pub(super) fn begin_section(&self) {
        self.state().running += 1;
    }

    /// Waits until one more object may be decoded. Returns the fields of the records, once they are
    /// known: until then, one object is decoded at a time.
    ///
    /// # Errors
    /// No object is wanted any more.
    pub(super) fn begin_decoding(&self) -> Result<Option<Arc<[Field]>>, StopReason> {
        let may_begin = |state: &LimiterState| state.fields.is_some() || state.running == 0;
        let mut state = self.wait_as_planner(PlannerWait::Fields, may_begin)?;
        state.running += 1;
        Ok(state.fields.clone())
    }

    /// Notes that an object was decoded to its end.
    pub(super) fn end_decoding(&self) {
        let mut state = self.state();
        state.running -= 1;
        self.wake(state);
    }

    /// Keeps the fields of the records, which an object has declared.
    pub(super) fn know_fields(&self, fields: &Arc<[Field]>) {
        let mut state = self.state();
        state.fields.get_or_insert_with(|| fields.clone());
        self.wake(state);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const LIMIT: AheadLimit = AheadLimit { while_waiting: 10, while_busy: 4 };

    #[test]
    fn what_is_ahead_waits_while_the_channel_s_thread_is_busy() {
        let mut state = LimiterState { held: 4, ..LimiterState::default() };
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

    #[test]
    fn only_those_whose_wait_may_be_over_are_woken() {
        let mut state = LimiterState { held: 4, running: 1, ..LimiterState::default() };
        for object in [2, 3] {
            state.waiting.insert(object, RoomWait { epoch: 0, bytes: 1 });
        }
        state.planner = PlannerWait::Fields;
        assert!(!state.wakes_for_room(LIMIT) && !state.wakes_planner());
        state.due.insert(3);
        assert!(state.wakes_for_room(LIMIT));
        assert_eq!(state.waiting.keys().collect::<Vec<_>>(), [&2]);
        state.running = 0;
        assert!(state.wakes_planner());
        assert!(!state.wakes_for_room(LIMIT) && !state.wakes_planner(), "they were woken");
        state.first_epoch = 1;
        assert!(state.wakes_for_room(LIMIT), "nobody wants its records");
    }

    #[test]
    fn a_planner_is_woken_once_when_a_worker_is_free() {
        let mut state = LimiterState { planner: PlannerWait::Jobs(0), ..LimiterState::default() };
        assert!(!state.wakes_planner(), "no worker is free");
        state.idle = 1;
        assert!(state.wakes_planner());
        assert!(!state.wakes_planner(), "it was woken");
    }

    /// Otherwise the copier would fill batches alone while all workers are ahead.
    #[test]
    fn who_waits_for_room_makes_copies() {
        let limiter = AheadLimiter::new(LIMIT);
        thread::scope(|scope| {
            // The object has room only after the copy.
            let held = scope.spawn(|| limiter.hold(2, 0, 11, || limiter.begin(2)));
            limiter.add_copy();
            held.join().expect("it does not panic").expect("it is wanted");
        });
        assert!(!limiter.take_copy(), "it was made");
    }

    #[test]
    fn nobody_takes_a_copy_after_the_end() {
        let limiter = AheadLimiter::new(LIMIT);
        limiter.add_copy();
        drop(limiter.end_at_drop());
        assert!(limiter.is_stopped() && !limiter.take_copy() && !limiter.wait_for_copy());
        assert_eq!(limiter.take_work(), WorkKind::End);
    }

    /// Otherwise nothing would be decoded while an object takes long.
    #[test]
    fn who_waits_goes_on_when_the_channel_s_thread_waits() {
        let limiter = AheadLimiter::new(LIMIT);
        limiter.begin(1);
        let since = limiter.wakeups();
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..2 {
                    limiter.hold(2, 0, 4, || ()).expect("it is wanted");
                }
                limiter.tell();
            });
            limiter.wait_for_wakeup(since, false, Duration::MAX);
        });
        assert_eq!(limiter.state().held, 8);
        assert!(!limiter.state().is_awaited);
    }
}
