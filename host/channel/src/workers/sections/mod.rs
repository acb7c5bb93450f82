//! An object that several workers decode: its bytes as they are read, and the sections that it is
//! divided into.
//!
//! The planner reads the object into pieces. A file is read by each worker itself. From time to
//! time the planner begins a section, most likely in the middle of a record. The worker that takes
//! the section looks for the first place that looks like the start of a record (`search`) and
//! decodes from there on. The worker of the section before decides whether it *is* one (`end`). It
//! stops there. If its decoder has used all bytes up to the place and could begin again there, the
//! records on both sides fit together. Otherwise it continues as if the section had never begun. So
//! the start of a section is a guess. A wrong guess costs time, but never gives a wrong record:
//! each record that leaves was decoded from a place that a decoder had reached from the start of
//! the object.
//!
//! - `input`: reads the bytes of a section.

mod end;
mod input;

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pipemill_source::{Input, ReadOutcome, SourceError};

use super::ahead_limiter::AheadLimiter;
use crate::StopReason;

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 256 << 10;
/// A longer header is not kept: then the object has one section.
const MAX_HEADER: u64 = 1 << 20;
/// After this many sections in which no start of a record was found, the object gets no more.
const MAX_FAILED_SEARCHES: u32 = 2;
/// Sections in a row that were decoded in vain, after which no more are begun in an object.
const MAX_WASTED: u32 = 8;
/// The same limit before the first successful join: some decoders never stop exactly at the next
/// section's start.
const MAX_WASTED_AT_FIRST: u32 = 2;
/// How often a wait is interrupted to see whether anybody wants the object.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// An object whose bytes several workers read.
pub(super) struct Sections {
    state: Mutex<SectionsState>,
    /// Something changed for workers.
    changed: Condvar,
    /// Something changed for the planner, which is not woken for anything else: it would take a
    /// core from a worker each time.
    changed_for_planner: Condvar,
    limiter: Arc<AheadLimiter>,
    epoch: u32,
    /// Limit of the bytes of the object that are kept, unless a worker waits for more.
    most: u64,
}

struct SectionsState {
    /// Bytes that were read and may be needed again, in order and without a gap.
    pieces: VecDeque<ReadPiece>,
    /// Number of bytes that were read.
    read: u64,
    /// How the object ended.
    end: Option<Result<(), SourceError>>,
    /// The input, if one worker has to read the rest of it by itself.
    rest: Option<Box<dyn Input>>,
    /// The input, if each worker reads its section by itself. Then there are no pieces.
    whole: Option<Box<dyn Input>>,
    /// The start of the next section, if there are no pieces.
    next_start: u64,
    sections: Vec<Section>,
    /// All sections before this one are over, or were dropped.
    first: usize,
    /// Workers that wait for bytes.
    waiting: u32,
    /// The bytes at the object's start that a decoder is shown first.
    header: Header,
    failed_searches: u32,
    /// Sections in a row that were decoded in vain: the one before went beyond their start.
    wasted: u32,
    spare: Vec<Vec<u8>>,
}

struct ReadPiece {
    /// Byte offset in the object.
    at: u64,
    len: usize,
    bytes: Arc<Vec<u8>>,
}

impl ReadPiece {
    fn end(&self) -> u64 {
        self.at + self.len as u64
    }
}

#[derive(Clone)]
enum Header {
    /// It is not known whether a decoder can begin inside of the object.
    Unknown,
    Known(Arc<Vec<u8>>),
    /// No decoder can begin inside of the object, or the header is too long.
    None,
}

/// A section.
struct Section {
    /// Its number in the plan.
    number: u64,
    /// Byte offset in the object at which it begins.
    start: u64,
    /// Byte offset in the object of the next byte that its worker reads.
    at: u64,
    /// Bytes after the start of the next section that its decoder may be shown, too.
    beyond: u64,
    stage: SectionStage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SectionStage {
    /// No worker has it.
    Waiting,
    /// A worker looks for a place to begin at.
    Searching,
    /// Its worker has found a place that looks like the start of a record.
    Begun,
    /// It belongs to the section before.
    Dropped,
    /// Its worker has finished.
    Over,
}

impl Section {
    fn new(number: u64, start: u64, stage: SectionStage) -> Self {
        Self { number, start, at: start, beyond: 0, stage }
    }

    fn is_there(&self) -> bool {
        self.stage != SectionStage::Dropped
    }

    /// The first byte that may still be needed.
    fn needs_from(&self) -> Option<u64> {
        match self.stage {
            SectionStage::Waiting | SectionStage::Searching => Some(self.start),
            SectionStage::Begun => Some(self.at),
            SectionStage::Dropped | SectionStage::Over => None,
        }
    }
}

impl SectionsState {
    /// The section after this one.
    fn next(&self, index: usize) -> Option<usize> {
        (index + 1..self.sections.len()).find(|next| self.sections[*next].is_there())
    }

    /// The offset of the next byte that a section's worker reads, and the limit of its reads.
    fn place(&self, index: usize) -> (u64, u64) {
        let Section { at, stage, .. } = self.sections[index];
        let is_searching = stage == SectionStage::Searching;
        (at, if is_searching { u64::MAX } else { self.shown_to(index) })
    }

    /// The start of the section after this one.
    fn limit(&self, index: usize) -> u64 {
        self.next(index).map_or(u64::MAX, |next| self.sections[next].start)
    }

    /// The offset up to which a section's decoder may be shown bytes.
    fn shown_to(&self, index: usize) -> u64 {
        self.limit(index).saturating_add(self.sections[index].beyond)
    }

    /// Forgets pieces that nobody needs any more. The bytes of a section that is over are needed as
    /// long as the section before may go beyond its start. Returns whether there were such pieces.
    fn release(&mut self) -> bool {
        let pieces = self.pieces.len();
        while self.sections.get(self.first).is_some_and(|first| first.needs_from().is_none()) {
            self.first += 1;
        }
        // The first section may have looked beyond the start of the second one.
        let first = self.sections[self.first..].iter().filter_map(Section::needs_from).min();
        let needed = match self.header {
            Header::Unknown => 0,
            Header::Known(_) | Header::None => first.unwrap_or(self.read),
        };
        while let Some(piece) = self.pieces.pop_front_if(|piece| piece.end() <= needed) {
            // A worker may still be copying from it.
            self.spare.extend(Arc::into_inner(piece.bytes));
        }
        self.pieces.len() < pieces
    }

    fn kept(&self) -> u64 {
        self.pieces.front().map_or(0, |piece| self.read - piece.at)
    }

    fn piece_with(&self, at: u64) -> Option<&ReadPiece> {
        let index = self.pieces.partition_point(|piece| piece.end() <= at);
        self.pieces.get(index)
    }

    /// A copy of the first bytes of the object.
    fn first_bytes(&self, count: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Some(Ok(mut input)) = self.whole.as_ref().and_then(|whole| whole.at(0)) {
            bytes.resize(count as usize, 0);
            let mut read = 0;
            while let Some(rest @ [_, ..]) = bytes.get_mut(read..)
                && let Ok(ReadOutcome::Bytes(len)) = input.read(rest, None)
            {
                read += len;
            }
            bytes.truncate(read);
        }
        while (bytes.len() as u64) < count
            && let Some(piece) = self.piece_with(bytes.len() as u64)
        {
            let from = (bytes.len() as u64 - piece.at) as usize;
            let to = piece.len.min((count - piece.at) as usize);
            bytes.extend_from_slice(&piece.bytes[from..to]);
        }
        bytes
    }
}

/// The planner's next step with an object that each worker reads by itself.
pub(super) enum NextSection {
    /// Hand this section to a worker.
    Begun(SectionPart),
    /// Nothing yet: all sections have workers, or none is known to be possible.
    None,
    /// Go on with other objects: this one gets no more sections.
    Done,
}

/// The planner's next step with an object.
pub(super) enum Room {
    /// Read at most this many bytes.
    Read(usize),
    /// Nothing: no worker needs bytes now.
    None,
    /// Hand the input over to the worker that decodes the object: it gets no more sections.
    HandOver,
}

impl Sections {
    /// The sections of an object of this epoch, of which nothing was read. `first` is the number of
    /// its first section, and `most` the limit of its bytes that are kept. With `whole`, workers
    /// read it by themselves.
    pub(super) fn new(
        limiter: Arc<AheadLimiter>,
        epoch: u32,
        first: u64,
        most: usize,
        whole: Option<Box<dyn Input>>,
    ) -> Arc<Self> {
        let state = SectionsState {
            pieces: VecDeque::new(),
            read: 0,
            end: None,
            rest: None,
            whole,
            next_start: 0,
            sections: vec![Section::new(first, 0, SectionStage::Begun)],
            first: 0,
            waiting: 0,
            header: Header::Unknown,
            failed_searches: 0,
            wasted: 0,
            spare: Vec::new(),
        };
        let (state, most) = (Mutex::new(state), most as u64);
        let (changed, changed_for_planner) = Default::default();
        Arc::new(Self { state, changed, changed_for_planner, limiter, epoch, most })
    }

    fn state(&self) -> MutexGuard<'_, SectionsState> {
        // A panic can't leave it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the records of this section are wanted.
    fn is_wanted(&self, state: &SectionsState, index: usize) -> bool {
        let section = &state.sections[index];
        section.is_there() && !self.limiter.is_unwanted(section.number, self.epoch)
    }

    /// Whether no more sections are begun, because they don't help.
    fn has_given_up(&self, state: &SectionsState) -> bool {
        let most = if self.limiter.has_joined() { MAX_WASTED } else { MAX_WASTED_AT_FIRST };
        state.failed_searches >= MAX_FAILED_SEARCHES || state.wasted >= most
    }

    fn drop_section(&self, state: &mut SectionsState, index: usize) {
        if matches!(state.sections[index].stage, SectionStage::Begun | SectionStage::Over) {
            state.wasted += 1;
            if state.wasted >= MAX_WASTED_AT_FIRST {
                self.limiter.sections_were_wasted();
            }
        }
        state.sections[index].stage = SectionStage::Dropped;
        if let Some(before) = (0..index).rfind(|before| state.sections[*before].is_there()) {
            state.sections[before].beyond = 0;
        }
        self.limiter.drop_job(state.sections[index].number);
        self.changed.notify_all();
        self.changed_for_planner.notify_one();
    }

    /// Lets a worker wait until something changes for it, at most for this time.
    fn wait<'s>(
        &self,
        state: MutexGuard<'s, SectionsState>,
        most: Duration,
    ) -> MutexGuard<'s, SectionsState> {
        wait_on(&self.changed, state, most)
    }

    /// The same for the planner.
    fn wait_for_workers<'s>(
        &self,
        state: MutexGuard<'s, SectionsState>,
    ) -> MutexGuard<'s, SectionsState> {
        wait_on(&self.changed_for_planner, state, POLL_INTERVAL)
    }

    // ---- the planner

    /// The next step, after a short wait at most. `to_next`: bytes up to where the next section may
    /// begin. `may_hand_over`: a worker may read the input while the planner reads others.
    pub(super) fn room(&self, to_next: u64, may_hand_over: bool) -> Room {
        let mut state = self.state();
        if state.kept() >= self.most && matches!(state.header, Header::Unknown) {
            state.header = Header::None;
            state.release();
        }
        if state.kept() >= self.most && state.waiting == 0 {
            state = self.wait_for_workers(state);
        }
        let is_whole = matches!(state.header, Header::None) || self.has_given_up(&state);
        // The other sections would lack the bytes that one worker reads.
        let is_alone = !state.sections[1..].iter().any(Section::is_there);
        if may_hand_over && is_whole && is_alone {
            return Room::HandOver;
        }
        if state.kept() >= self.most && state.waiting == 0 {
            return Room::None;
        }
        Room::Read(usize::try_from(to_next).unwrap_or(PIECE_BYTES).clamp(1, PIECE_BYTES))
    }

    /// Reads from the input. Returns the number of bytes that were read so far, and whether the
    /// object is at its end.
    ///
    /// # Errors
    /// The run was stopped.
    pub(super) fn read_from(
        &self,
        input: &mut dyn Input,
        most: usize,
    ) -> Result<(u64, bool), StopReason> {
        let spare = self.state().spare.pop();
        let mut bytes = spare.unwrap_or_else(|| vec![0; PIECE_BYTES]);
        let outcome = input.read(&mut bytes[..most], Some(POLL_INTERVAL));
        let mut state = self.state();
        match outcome {
            Ok(ReadOutcome::Bytes(len)) => {
                let at = state.read;
                state.pieces.push_back(ReadPiece { at, len, bytes: Arc::new(bytes) });
                state.read += len as u64;
            }
            Ok(ReadOutcome::Nothing) => state.spare.push(bytes),
            Ok(ReadOutcome::Stopped) => return Err(StopReason::Stopped),
            Ok(ReadOutcome::End) => state.end = Some(Ok(())),
            Err(error) => state.end = Some(Err(error)),
        }
        self.changed.notify_all();
        Ok((state.read, state.end.is_some()))
    }

    /// Begins a section at the end of the bytes that were read, if a worker could decode it and the
    /// sections that wait for one are fewer than `workers`.
    pub(super) fn begin(self: &Arc<Self>, number: u64, workers: usize) -> Option<SectionPart> {
        let mut state = self.state();
        let waits = |section: &&Section| section.stage == SectionStage::Waiting;
        let Header::Known(header) = state.header.clone() else { return None };
        if state.sections.iter().filter(waits).count() >= workers || self.has_given_up(&state) {
            return None;
        }
        let start = state.read;
        Some(self.push(&mut state, number, start, header))
    }

    /// Begins the next section of an object of `size` bytes, of which each worker reads its own,
    /// `step` bytes or more after the last one. Otherwise waits for a short time. A section is
    /// begun only when a worker has the one before, so that workers stay close to each other.
    pub(super) fn begin_after(self: &Arc<Self>, number: u64, step: u64, size: u64) -> NextSection {
        let mut state = self.state();
        let Header::Known(header) = state.header.clone() else {
            if matches!(state.header, Header::Unknown) {
                if state.sections[0].at < step + MAX_HEADER {
                    drop(self.wait_for_workers(state));
                    return NextSection::None;
                }
                // The decoder has seen more than a section, and could begin again nowhere in it.
                state.header = Header::None;
                self.limiter.sections_were_wasted();
            }
            return NextSection::Done;
        };
        let come = state.sections.iter().filter(|section| section.is_there());
        let come = come.map(|section| section.at).max().unwrap_or(0);
        let start = (state.next_start + step).max(come.next_multiple_of(step));
        let told = state.whole.as_ref().and_then(|whole| whole.next_start(start));
        let start = told.unwrap_or(start);
        // A short rest is not worth a section, unless it is known that it can be one.
        let least = if told.is_some() { 0 } else { step / 2 };
        if start.saturating_add(least) >= size || self.has_given_up(&state) {
            return NextSection::Done;
        }
        if state.sections.iter().any(|section| section.stage == SectionStage::Waiting) {
            drop(self.wait_for_workers(state));
            return NextSection::None;
        }
        state.next_start = start;
        NextSection::Begun(self.push(&mut state, number, start, header))
    }

    /// Adds a section after the others, which no worker has yet.
    fn push(
        self: &Arc<Self>,
        state: &mut SectionsState,
        number: u64,
        start: u64,
        header: Arc<Vec<u8>>,
    ) -> SectionPart {
        state.sections.push(Section::new(number, start, SectionStage::Waiting));
        SectionPart { sections: self.clone(), index: state.sections.len() - 1, header }
    }

    /// Gives the last section, which no worker has, to the one before.
    pub(super) fn drop_last(&self) {
        let mut state = self.state();
        let last = state.sections.len() - 1;
        self.drop_section(&mut state, last);
    }

    /// Hands the input over: the worker of the only section reads the rest by itself.
    pub(super) fn hand_over(&self, input: Box<dyn Input>) {
        self.state().rest = Some(input);
        self.changed.notify_all();
    }

    /// The first section.
    pub(super) fn first(self: &Arc<Self>) -> SectionPart {
        SectionPart { sections: self.clone(), index: 0, header: Arc::default() }
    }
}

fn wait_on<'s>(
    changed: &Condvar,
    state: MutexGuard<'s, SectionsState>,
    most: Duration,
) -> MutexGuard<'s, SectionsState> {
    let waited = changed.wait_timeout(state, most);
    waited.map_or_else(|error| error.into_inner().0, |(state, _)| state)
}

/// A section, for its worker.
#[derive(Clone)]
pub(super) struct SectionPart {
    sections: Arc<Sections>,
    index: usize,
    /// The bytes at the object's start that its decoder is shown first.
    pub(super) header: Arc<Vec<u8>>,
}

impl SectionPart {
    /// Whether it begins at the start of the object.
    pub(super) fn is_first(&self) -> bool {
        self.index == 0
    }

    /// Takes the section for a worker. Returns the offset at which to look for the first record.
    /// `None` if the section before has gone beyond that offset.
    pub(super) fn search(&self) -> Option<u64> {
        let mut state = self.sections.state();
        let section = &mut state.sections[self.index];
        let is_waiting = section.stage == SectionStage::Waiting;
        if is_waiting {
            section.stage = SectionStage::Searching;
            self.sections.changed_for_planner.notify_one();
        }
        let start = state.sections[self.index].start;
        is_waiting.then_some(start)
    }

    /// Whether the object tells that decoding can begin at this place.
    pub(super) fn is_told(&self, start: u64) -> bool {
        let state = self.sections.state();
        let told = state.whole.as_ref().and_then(|whole| whole.next_start(start));
        told == Some(start)
    }

    /// Sets the place at which the section begins, or that it has none. A place after the start of
    /// the next section does not count: the section would end before it has begun.
    pub(super) fn found(&self, start: Option<u64>) {
        let mut state = self.sections.state();
        let limit = state.limit(self.index);
        let section = &mut state.sections[self.index];
        if section.stage == SectionStage::Searching {
            match start {
                Some(start) if start > limit => section.stage = SectionStage::Dropped,
                Some(start) => {
                    (section.start, section.at) = (start, start);
                    section.stage = SectionStage::Begun;
                    state.failed_searches = 0;
                }
                None => {
                    section.stage = SectionStage::Dropped;
                    state.failed_searches += 1;
                }
            }
        }
        self.sections.changed.notify_all();
        if state.release() || start.is_none() {
            self.sections.changed_for_planner.notify_one();
        }
    }

    /// Notes that its worker has finished.
    pub(super) fn finish(&self) {
        let mut state = self.sections.state();
        let section = &mut state.sections[self.index];
        if section.stage != SectionStage::Dropped {
            section.stage = SectionStage::Over;
        }
        let ends_unknown = self.index == 0 && matches!(state.header, Header::Unknown);
        if ends_unknown {
            state.header = Header::None;
        }
        if state.release() || ends_unknown {
            self.sections.changed_for_planner.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
