//! The end of a section: decides whether the next section begins there.

use std::sync::Arc;

use super::{Header, MAX_HEADER, POLL_INTERVAL, Section, SectionPart, SectionStage, SectionsState};
use crate::StopReason;
use crate::pump::section_end::{DecodedTo, SectionEnd};

/// Bytes after the start of the next section that a decoder is shown at first, if it does not say
/// how many it wants.
const MIN_BEYOND: u64 = 512;
/// The largest number of these bytes. Some decoders know only from the header of a record that the
/// record before it is whole.
const MAX_BEYOND: u64 = 64 << 10;

impl SectionPart {
    /// The end of this section.
    pub(in crate::workers) fn end(&self) -> EndOfSection {
        EndOfSection { part: self.clone(), next: None }
    }
}

/// The end of a section, for its decoder.
pub(in crate::workers) struct EndOfSection {
    part: SectionPart,
    /// Number in the plan of the section that begins where this one has ended.
    pub(in crate::workers) next: Option<u64>,
}

impl SectionEnd for EndOfSection {
    fn limit(&self) -> u64 {
        self.part.sections.state().shown_to(self.part.index)
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
            self.part.sections.changed_for_planner.notify_one();
        }
    }

    fn reach(&mut self, decoded: &DecodedTo) -> Result<bool, StopReason> {
        let SectionPart { sections, index, .. } = &self.part;
        let mut state = sections.state();
        let shown = state.shown_to(*index);
        loop {
            if !sections.is_wanted(&state, *index) {
                return Err(StopReason::Stopped);
            }
            let Some(next) = state.next(*index) else { return Ok(false) };
            let Section { number, start, stage, .. } = state.sections[next];
            if stage == SectionStage::Searching {
                state = sections.wait(state, POLL_INTERVAL);
                continue;
            }
            let has_begun = matches!(stage, SectionStage::Begun | SectionStage::Over);
            if has_begun && state.fits(start, decoded) {
                state.wasted = 0;
                sections.limiter.section_joined();
                self.next = Some(number);
                return Ok(true);
            }
            let may_join = start > shown || state.look_beyond(*index, start, shown, decoded);
            if !(has_begun && may_join) {
                sections.drop_section(&mut state, next);
            }
            if state.shown_to(*index) > shown {
                return Ok(false);
            }
        }
    }

    fn go_beyond(&mut self) -> Result<(), StopReason> {
        let SectionPart { sections, index, .. } = &self.part;
        let mut state = sections.state();
        if !sections.is_wanted(&state, *index) {
            // The section before this one may have ended where the next one begins.
            return Err(StopReason::Stopped);
        }
        if let Some(next) = state.next(*index) {
            sections.drop_section(&mut state, next);
        }
        Ok(())
    }
}

impl SectionsState {
    /// Whether a section that begins at `start` fits to the place that a decoder has come to.
    fn fits(&self, start: u64, decoded: &DecodedTo) -> bool {
        let Header::Known(header) = &self.header else { return false };
        decoded.offset == start && decoded.restart == Some(header.len() as u64)
    }

    /// Extends the section's view past the `start` of the next one, up to `MAX_BEYOND`, if the
    /// decoder has used nothing there. It was already shown the bytes before `shown`.
    fn look_beyond(&mut self, index: usize, start: u64, shown: u64, decoded: &DecodedTo) -> bool {
        let to = match decoded.wants {
            wants if wants > shown => wants,
            _ => shown + (shown - start).max(MIN_BEYOND),
        };
        let may_join = decoded.offset < start && to - start <= MAX_BEYOND;
        if may_join {
            self.sections[index].beyond = to - start;
        }
        may_join
    }
}
