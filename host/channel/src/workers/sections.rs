//! An object that several workers decode: its bytes as they are read, and the sections that it is
//! divided into.
//!
//! The planner reads the object into pieces; a file, each worker reads by itself. Every now and then
//! the planner begins a section, at a place that is hardly ever the start of a record. The worker that takes the section looks for the first place
//! in it that looks like one (`search`) and decodes from there on. Whether it *is* one, the worker of
//! the section before decides: it stops there, and if its decoder has used all bytes up to the place
//! and could begin again there, the records on both sides fit together. Else it goes on, as if the
//! section had never begun. So what a section looks for is a guess, and a wrong one costs time, but
//! never gives a wrong record: each record that leaves was decoded from a place that a decoder had
//! come to from the start of the object.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pipemill_source::{Input, ReadOutcome, SourceError};

use super::turns::Turns;
use crate::StopReason;
use crate::section_end::SectionEnd;

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 256 << 10;
/// A longer header is not kept: then the object has one section.
const MAX_HEADER: u64 = 1 << 20;
/// After this many sections in which no start of a record was found, the object gets no more.
const MAX_FAILED_SEARCHES: u32 = 2;
/// Sections in a row that were decoded in vain, after which no more are begun in an object.
const MAX_WASTED: u32 = 8;
/// The same, as long as no section of the channel has gone on where another one had ended: some decoders
/// never come to the very start of the next section.
const MAX_WASTED_AT_FIRST: u32 = 2;
/// How often a wait is interrupted to see whether anybody wants the object.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// An object whose bytes several workers read.
pub(super) struct Sections {
    state: Mutex<State>,
    changed: Condvar,
    turns: Arc<Turns>,
    epoch: u32,
    /// Bytes of the object that are kept, as long as nobody waits for more.
    most: u64,
}

struct State {
    /// Bytes that were read and may be needed again, in order and without a gap.
    pieces: VecDeque<Piece>,
    /// Number of bytes that were read.
    read: u64,
    /// How the object ended.
    end: Option<Result<(), SourceError>>,
    /// The input, where one worker has to read it by itself from here on.
    rest: Option<Box<dyn Input>>,
    /// The input, where each worker reads its section by itself. Then there are no pieces.
    whole: Option<Box<dyn Input>>,
    /// Where the next section begins of an object of which there are no pieces.
    next_start: u64,
    sections: Vec<Section>,
    /// The sections before this one are over, or were dropped.
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

struct Piece {
    /// Byte offset in the object.
    at: u64,
    len: usize,
    bytes: Arc<Vec<u8>>,
}

impl Piece {
    fn end(&self) -> u64 {
        self.at + self.len as u64
    }
}

#[derive(Clone)]
enum Header {
    /// No decoder has said whether it can begin inside of the object.
    Unknown,
    Known(Arc<Vec<u8>>),
    /// It can't, or the header is too long.
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
    stage: SectionStage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SectionStage {
    /// No worker has it.
    Waiting,
    /// A worker looks for a place to begin at.
    Searching,
    /// It begins with a record, as far as its worker knows.
    Begun,
    /// It belongs to the section before.
    Dropped,
    /// Its worker has finished.
    Over,
}

impl Section {
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

impl State {
    /// The section after this one.
    fn next(&self, index: usize) -> Option<usize> {
        (index + 1..self.sections.len()).find(|next| self.sections[*next].is_there())
    }

    /// The place of the next byte that a section's worker reads, and the end of what it may read.
    fn place(&self, index: usize) -> (u64, u64) {
        let Section { at, stage, .. } = self.sections[index];
        let is_searching = stage == SectionStage::Searching;
        (at, if is_searching { u64::MAX } else { self.limit(index) })
    }

    fn limit(&self, index: usize) -> u64 {
        self.next(index).map_or(u64::MAX, |next| self.sections[next].start)
    }

    /// Forgets pieces that nobody needs any more. The bytes of a section that is over are needed as
    /// long as the section before may go beyond its start.
    fn release(&mut self) {
        while self.sections.get(self.first).is_some_and(|first| first.needs_from().is_none()) {
            self.first += 1;
        }
        let first = self.sections.get(self.first).and_then(Section::needs_from);
        let needed = match self.header {
            Header::Unknown => 0,
            Header::Known(_) | Header::None => first.unwrap_or(self.read),
        };
        while let Some(piece) = self.pieces.pop_front_if(|piece| piece.end() <= needed) {
            // Else a worker copies from it.
            self.spare.extend(Arc::into_inner(piece.bytes));
        }
    }

    fn kept(&self) -> u64 {
        self.pieces.front().map_or(0, |piece| self.read - piece.at)
    }

    fn piece_with(&self, at: u64) -> Option<&Piece> {
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

/// What the planner may do next with an object that each worker reads by itself.
pub(super) enum NextSection {
    /// Hand this section to a worker.
    Begun(SectionPart),
    /// Nothing yet: all sections have workers, or none is known to be possible.
    None,
    /// Go on with other objects: this one gets no more sections.
    Done,
}

/// What the planner may do next with an object.
pub(super) enum Room {
    /// Read at most this many bytes.
    Read(usize),
    /// Nothing: no worker needs bytes now.
    None,
    /// Hand the input over to the worker that decodes the object: it gets no more sections.
    HandOver,
}

impl Sections {
    /// Of an object of this epoch, of which nothing was read. `first` is the number of its first
    /// section, and `most` the bytes of it that are kept. With `whole`, workers read it by themselves.
    pub(super) fn new(
        turns: Arc<Turns>,
        epoch: u32,
        first: u64,
        most: usize,
        whole: Option<Box<dyn Input>>,
    ) -> Arc<Self> {
        let stage = SectionStage::Begun;
        let state = State {
            pieces: VecDeque::new(),
            read: 0,
            end: None,
            rest: None,
            whole,
            next_start: 0,
            sections: vec![Section { number: first, start: 0, at: 0, stage }],
            first: 0,
            waiting: 0,
            header: Header::Unknown,
            failed_searches: 0,
            wasted: 0,
            spare: Vec::new(),
        };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        Arc::new(Self { state, changed, turns, epoch, most: most as u64 })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic can't leave it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the records of this section are wanted.
    fn is_wanted(&self, state: &State, index: usize) -> bool {
        let section = &state.sections[index];
        section.is_there() && !self.turns.is_unwanted(section.number, self.epoch)
    }

    /// Whether no more sections are begun, because they don't help.
    fn has_given_up(&self, state: &State) -> bool {
        let most = if self.turns.has_joined() { MAX_WASTED } else { MAX_WASTED_AT_FIRST };
        state.failed_searches >= MAX_FAILED_SEARCHES || state.wasted >= most
    }

    fn drop_section(&self, state: &mut State, index: usize) {
        if matches!(state.sections[index].stage, SectionStage::Begun | SectionStage::Over) {
            state.wasted += 1;
            if state.wasted >= MAX_WASTED_AT_FIRST {
                self.turns.sections_were_wasted();
            }
        }
        state.sections[index].stage = SectionStage::Dropped;
        self.turns.drop_job(state.sections[index].number);
        self.changed.notify_all();
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>, most: Duration) -> MutexGuard<'s, State> {
        let waited = self.changed.wait_timeout(state, most);
        waited.map_or_else(|error| error.into_inner().0, |(state, _)| state)
    }

    // ---- the planner

    /// What to do next, after waiting for a short time at most. `to_next`: bytes up to where the next
    /// section may begin. `may_hand_over`: a worker may read the input while the planner reads others.
    pub(super) fn room(&self, to_next: u64, may_hand_over: bool) -> Room {
        let mut state = self.state();
        if state.kept() >= self.most && matches!(state.header, Header::Unknown) {
            state.header = Header::None;
            state.release();
        }
        if state.kept() >= self.most && state.waiting == 0 {
            state = self.wait(state, POLL_INTERVAL);
        }
        let is_whole = matches!(state.header, Header::None) || self.has_given_up(&state);
        // Bytes that one section has taken are lost to the others.
        let is_alone = !state.sections[1..].iter().any(Section::is_there);
        if may_hand_over && is_whole && is_alone {
            return Room::HandOver;
        }
        if state.kept() >= self.most && state.waiting == 0 {
            return Room::None;
        }
        Room::Read(usize::try_from(to_next).unwrap_or(PIECE_BYTES).clamp(1, PIECE_BYTES))
    }

    /// Reads from the input. Returns the number of bytes that were read so far, and whether the object
    /// is at its end.
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
                state.pieces.push_back(Piece { at, len, bytes: Arc::new(bytes) });
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

    /// Begins a section at the end of what was read, if a worker could decode it and the sections
    /// that wait for one are fewer than `workers`.
    pub(super) fn begin(self: &Arc<Self>, number: u64, workers: usize) -> Option<SectionPart> {
        let mut state = self.state();
        let waits = |section: &&Section| section.stage == SectionStage::Waiting;
        let Header::Known(header) = state.header.clone() else { return None };
        if state.sections.iter().filter(waits).count() >= workers || self.has_given_up(&state) {
            return None;
        }
        let (start, stage) = (state.read, SectionStage::Waiting);
        state.sections.push(Section { number, start, at: start, stage });
        let index = state.sections.len() - 1;
        Some(SectionPart { sections: self.clone(), index, header })
    }

    /// Begins the next section of an object of this size, of which each worker reads its own, after
    /// `step` bytes or more, or waits for a short time. A section is begun only when a worker has the
    /// one before, so that workers stay close to each other.
    pub(super) fn begin_after(self: &Arc<Self>, number: u64, step: u64, size: u64) -> NextSection {
        let mut state = self.state();
        let Header::Known(header) = state.header.clone() else {
            if matches!(state.header, Header::None) {
                return NextSection::Done;
            }
            drop(self.wait(state, POLL_INTERVAL));
            return NextSection::None;
        };
        let come = state.sections.iter().filter(|section| section.is_there());
        let come = come.map(|section| section.at).max().unwrap_or(0);
        let start = (state.next_start + step).max(come.next_multiple_of(step));
        // A short rest is not worth a section.
        if start + step / 2 >= size || self.has_given_up(&state) {
            return NextSection::Done;
        }
        if state.sections.iter().any(|section| section.stage == SectionStage::Waiting) {
            drop(self.wait(state, POLL_INTERVAL));
            return NextSection::None;
        }
        state.next_start = start;
        let stage = SectionStage::Waiting;
        state.sections.push(Section { number, start, at: start, stage });
        let index = state.sections.len() - 1;
        NextSection::Begun(SectionPart { sections: self.clone(), index, header })
    }

    /// The last section, which no worker has, belongs to the one before.
    pub(super) fn drop_last(&self) {
        let mut state = self.state();
        let last = state.sections.len() - 1;
        self.drop_section(&mut state, last);
    }

    /// The input, which the worker of the only section reads by itself from here on.
    pub(super) fn hand_over(&self, input: Box<dyn Input>) {
        self.state().rest = Some(input);
        self.changed.notify_all();
    }

    /// The first section.
    pub(super) fn first(self: &Arc<Self>) -> SectionPart {
        SectionPart { sections: self.clone(), index: 0, header: Arc::default() }
    }
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

    /// A worker has it. Returns where to look for the first record; `None` if the section before has
    /// gone beyond that place.
    pub(super) fn search(&self) -> Option<u64> {
        let mut state = self.sections.state();
        let section = &mut state.sections[self.index];
        let is_waiting = section.stage == SectionStage::Waiting;
        if is_waiting {
            section.stage = SectionStage::Searching;
            self.sections.changed.notify_all();
        }
        let start = state.sections[self.index].start;
        is_waiting.then_some(start)
    }

    /// It begins at this place, or nowhere. Places after the start of the next section don't count:
    /// there, that section would have to end before it has begun.
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
        state.release();
        self.sections.changed.notify_all();
    }

    /// Its worker has finished.
    pub(super) fn finish(&self) {
        let mut state = self.sections.state();
        let section = &mut state.sections[self.index];
        if section.stage != SectionStage::Dropped {
            section.stage = SectionStage::Over;
        }
        if self.index == 0 && matches!(state.header, Header::Unknown) {
            state.header = Header::None;
        }
        state.release();
        self.sections.changed.notify_all();
    }

    /// The bytes of the object from where the section begins.
    pub(super) fn input(&self) -> SectionInput {
        let reads_itself = self.sections.state().whole.is_some();
        SectionInput { part: self.clone(), rest: None, reads_itself, own: None }
    }

    /// Where it ends.
    pub(super) fn end(&self) -> EndOfSection {
        EndOfSection { part: self.clone(), next: None }
    }
}

/// Reads the bytes of a section, and those after it.
pub(super) struct SectionInput {
    part: SectionPart,
    /// The input itself, once it was handed over.
    rest: Option<Box<dyn Input>>,
    /// Whether there are no pieces.
    reads_itself: bool,
    /// An input of its own, and the byte offset at which it is.
    own: Option<(u64, Box<dyn Input>)>,
}

impl SectionInput {
    /// Reads from an input of its own.
    fn read_itself(
        &mut self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<ReadOutcome, SourceError> {
        let SectionPart { sections, index, .. } = &self.part;
        let state = sections.state();
        if !sections.is_wanted(&state, *index) {
            return Ok(ReadOutcome::Stopped);
        }
        let (at, limit) = state.place(*index);
        if at >= limit {
            // The next section has begun in the meantime.
            return Ok(ReadOutcome::Nothing);
        }
        let (_, input) = match (self.own.take(), &state.whole) {
            (Some(own), _) if own.0 == at => self.own.insert(own),
            (_, Some(whole)) => match whole.at(at) {
                Some(input) => self.own.insert((at, input?)),
                None => return Ok(ReadOutcome::End),
            },
            (_, None) => return Ok(ReadOutcome::End),
        };
        drop(state);
        let most = buf.len().min(usize::try_from(limit - at).unwrap_or(usize::MAX));
        let outcome = input.read(&mut buf[..most], timeout)?;
        if let (ReadOutcome::Bytes(len), Some((own_at, _))) = (outcome, &mut self.own) {
            *own_at += len as u64;
            sections.state().sections[*index].at += len as u64;
        }
        Ok(outcome)
    }

    /// Bytes that are there, or how the wait for them ended.
    fn take(&self, most: usize, timeout: Option<Duration>) -> Result<Taken, SourceError> {
        let SectionPart { sections, index, .. } = &self.part;
        let mut state = sections.state();
        let mut is_late = false;
        loop {
            if !sections.is_wanted(&state, *index) {
                return Ok(Taken::Outcome(ReadOutcome::Stopped));
            }
            let (at, limit) = state.place(*index);
            if at >= limit {
                // The next section has begun in the meantime.
                return Ok(Taken::Outcome(ReadOutcome::Nothing));
            }
            if let Some(piece) = state.piece_with(at) {
                let from = (at - piece.at) as usize;
                let most = most.min(usize::try_from(limit - at).unwrap_or(usize::MAX));
                let to = piece.len.min(from + most);
                let bytes = piece.bytes.clone();
                state.sections[*index].at += (to - from) as u64;
                return Ok(Taken::Bytes(bytes, from, to));
            }
            if let Some(rest) = state.rest.take() {
                return Ok(Taken::Rest(rest));
            }
            if let Some(end) = state.end.clone() {
                return end.map(|()| Taken::Outcome(ReadOutcome::End));
            }
            if is_late {
                return Ok(Taken::Outcome(ReadOutcome::Nothing));
            }
            state.waiting += 1;
            sections.changed.notify_all();
            state = sections.wait(state, timeout.unwrap_or(Duration::MAX));
            state.waiting -= 1;
            is_late = timeout.is_some();
        }
    }
}

enum Taken {
    Bytes(Arc<Vec<u8>>, usize, usize),
    Rest(Box<dyn Input>),
    Outcome(ReadOutcome),
}

impl Input for SectionInput {
    fn read(
        &mut self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<ReadOutcome, SourceError> {
        if let Some(rest) = &mut self.rest {
            return rest.read(buf, timeout);
        }
        if self.reads_itself {
            return self.read_itself(buf, timeout);
        }
        match self.take(buf.len(), timeout)? {
            Taken::Bytes(bytes, from, to) => {
                buf[..to - from].copy_from_slice(&bytes[from..to]);
                drop(bytes);
                let sections = &self.part.sections;
                sections.state().release();
                sections.changed.notify_all();
                Ok(ReadOutcome::Bytes(to - from))
            }
            Taken::Rest(rest) => self.rest.insert(rest).read(buf, timeout),
            Taken::Outcome(outcome) => Ok(outcome),
        }
    }
}

/// The end of a section, for its decoder.
pub(super) struct EndOfSection {
    part: SectionPart,
    /// Number in the plan of the section that goes on where this one has ended.
    pub(super) next: Option<u64>,
}

impl SectionEnd for EndOfSection {
    fn limit(&self) -> u64 {
        self.part.sections.state().limit(self.part.index)
    }

    fn can_restart(&mut self, header: u64) {
        if !self.part.is_first() {
            return;
        }
        let mut state = self.part.sections.state();
        if matches!(state.header, Header::Unknown) {
            state.header = match header {
                0..=MAX_HEADER => Header::Known(Arc::new(state.first_bytes(header))),
                _ => Header::None,
            };
            state.release();
            self.part.sections.changed.notify_all();
        }
    }

    fn reach(&mut self, restart: Option<u64>) -> Result<bool, StopReason> {
        let SectionPart { sections, index, .. } = &self.part;
        let mut state = sections.state();
        let limit = state.limit(*index);
        loop {
            if !sections.is_wanted(&state, *index) {
                return Err(StopReason::Stopped);
            }
            let Some(next) = state.next(*index) else { return Ok(false) };
            let Section { number, start, stage, .. } = state.sections[next];
            let fits = match &state.header {
                Header::Known(header) => restart == Some(header.len() as u64),
                Header::Unknown | Header::None => false,
            };
            match stage {
                SectionStage::Searching => state = sections.wait(state, POLL_INTERVAL),
                SectionStage::Begun | SectionStage::Over if start > limit => return Ok(false),
                SectionStage::Begun | SectionStage::Over if start == limit && fits => {
                    state.wasted = 0;
                    sections.turns.section_joined();
                    self.next = Some(number);
                    return Ok(true);
                }
                SectionStage::Waiting
                | SectionStage::Begun
                | SectionStage::Over
                | SectionStage::Dropped => {
                    sections.drop_section(&mut state, next);
                    if state.limit(*index) > limit {
                        return Ok(false);
                    }
                }
            }
        }
    }

    fn go_beyond(&mut self) {
        let SectionPart { sections, index, .. } = &self.part;
        let mut state = sections.state();
        if let Some(next) = state.next(*index) {
            sections.drop_section(&mut state, next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Zeros;

    impl Input for Zeros {
        fn read(
            &mut self,
            buf: &mut [u8],
            _: Option<Duration>,
        ) -> Result<ReadOutcome, SourceError> {
            buf.fill(0);
            Ok(ReadOutcome::Bytes(buf.len()))
        }
    }

    #[test]
    fn bytes_that_were_used_are_forgotten_even_if_decoding_can_begin_nowhere_inside() {
        const MOST: usize = 3 * PIECE_BYTES;
        let sections = Sections::new(Arc::new(Turns::new(1)), 0, 0, MOST, None);
        let (mut input, mut buf) = (sections.first().input(), vec![0; PIECE_BYTES]);
        for _ in 0..100 {
            if let Room::Read(most) = sections.room(u64::MAX, false) {
                let read = sections.read_from(&mut Zeros, most);
                assert!(matches!(read, Ok((_, false))));
            }
            let read = input.read(&mut buf, Some(Duration::ZERO));
            assert_eq!(read, Ok(ReadOutcome::Bytes(PIECE_BYTES)));
            assert!(sections.state().kept() <= MOST as u64);
        }
        assert!(matches!(sections.room(u64::MAX, true), Room::HandOver));
    }

    /// Else the section that has found it, and the one after it, would both have its records.
    #[test]
    fn what_is_found_beyond_the_next_section_does_not_count() {
        let sections = Sections::new(Arc::new(Turns::new(1)), 0, 0, 10 * PIECE_BYTES, None);
        sections.first().end().can_restart(0);
        let begin = |number| {
            assert!(matches!(sections.read_from(&mut Zeros, 100), Ok((_, false))));
            sections.begin(number, 5).expect("a section")
        };
        let (second, third) = (begin(1), begin(2));
        assert_eq!((second.search(), third.search()), (Some(100), Some(200)));
        second.found(Some(201));
        assert_eq!(sections.first().end().limit(), 200);
        third.found(Some(230));
        assert_eq!(sections.first().end().limit(), 230);
        let mut end = sections.first().end();
        assert!(matches!(end.reach(Some(0)), Ok(true)));
        assert_eq!(end.next, Some(2));
    }

    /// Begins a section and lets its worker find a record where it begins. `None`: no more are begun.
    fn begun(sections: &Arc<Sections>, number: u64) -> Option<SectionPart> {
        assert!(matches!(sections.read_from(&mut Zeros, 100), Ok((_, false))));
        let part = sections.begin(number, 5)?;
        part.found(part.search());
        Some(part)
    }

    /// A decoder that never comes to the very start of the next section would decode all twice.
    #[test]
    fn no_more_sections_are_begun_where_they_are_decoded_in_vain() {
        let turns = Arc::new(Turns::new(1));
        let sections = Sections::new(turns.clone(), 0, 0, 10 * PIECE_BYTES, None);
        let mut end = sections.first().end();
        end.can_restart(0);
        for number in 1..=2 {
            assert!(!turns.sections_are_wasted());
            assert!(begun(&sections, number).is_some(), "{number}");
            end.go_beyond();
        }
        assert!(begun(&sections, 3).is_none());
        assert!(turns.sections_are_wasted(), "nor in later objects");
    }

    #[test]
    fn sections_go_on_if_some_of_the_channel_were_of_use() {
        let turns = Arc::new(Turns::new(1));
        let sections = Sections::new(turns.clone(), 0, 0, 10 * PIECE_BYTES, None);
        sections.first().end().can_restart(0);
        let second = begun(&sections, 1).expect("a section");
        assert!(matches!(sections.first().end().reach(Some(0)), Ok(true)));
        for number in 2..10 {
            assert!(begun(&sections, number).is_some(), "{number}");
            second.end().go_beyond();
        }
        assert!(begun(&sections, 10).is_none(), "eight in a row were in vain");
        assert!(!turns.sections_are_wasted());
    }
}
