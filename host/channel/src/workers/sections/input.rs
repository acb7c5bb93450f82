//! Reads the bytes of a section.

use std::sync::Arc;
use std::time::Duration;

use pipemill_source::{Input, ReadOutcome, SourceError};

use super::{Header, SectionPart};

impl SectionPart {
    /// The bytes of the object from where the section begins.
    pub(in crate::workers) fn input(&self) -> SectionInput {
        let reads_itself = self.sections.state().whole.is_some();
        SectionInput { part: self.clone(), rest: None, reads_itself, own: None }
    }
}

/// Reads the bytes of a section, and those after it.
pub(in crate::workers) struct SectionInput {
    part: SectionPart,
    /// The input itself, once it was handed over.
    rest: Option<Box<dyn Input>>,
    /// Whether it reads by itself, because there are no pieces.
    reads_itself: bool,
    /// An input of its own, and its byte offset.
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
        // Another section may begin at each place that the object tells.
        let told = if limit == u64::MAX { input.next_start(at + 1) } else { None };
        input.read_ahead_to(told.unwrap_or(limit));
        let outcome = input.read(&mut buf[..most], timeout)?;
        if let (ReadOutcome::Bytes(len), Some((own_at, _))) = (outcome, &mut self.own) {
            *own_at += len as u64;
            let mut state = sections.state();
            state.sections[*index].at += len as u64;
            if matches!(state.header, Header::Unknown) {
                sections.changed_for_planner.notify_one();
            }
        }
        Ok(outcome)
    }

    /// The next bytes, or how the wait for them ended.
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
            sections.changed_for_planner.notify_one();
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
    fn is_stored(&self) -> bool {
        self.reads_itself
    }

    fn check_unchanged(&self) -> Result<(), SourceError> {
        let input = self.rest.as_ref().or(self.own.as_ref().map(|(_, own)| own));
        input.map_or(Ok(()), |input| input.check_unchanged())
    }

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
                if sections.state().release() {
                    sections.changed_for_planner.notify_one();
                }
                Ok(ReadOutcome::Bytes(to - from))
            }
            Taken::Rest(rest) => self.rest.insert(rest).read(buf, timeout),
            Taken::Outcome(outcome) => Ok(outcome),
        }
    }
}
