//! Decodes one object: passes the chunk to the decoder when a call is worth it, and appends the
//! records that it emits to the batch. `reading` reads the bytes, `skipping` handles errors.

use std::time::{Duration, Instant};

use pipemill_decode::{DecodeOutcome, SavedState, Stream};
use pipemill_source::{Input, ReadOutcome};
use pipemill_types::{AddedField, Fault};

use crate::batch::builder::BatchBuilder;
use crate::batch::cut::CutPoint;
use crate::errors::policy::ErrorPolicy;
use crate::pump::added_values::AddedValues;
use crate::pump::part_counts::PartCounts;
use crate::pump::record_numbers::RecordNumbers;
use crate::pump::section_end::{DecodedTo, SectionEnd};
use crate::pump::skipping::decode_fault;
use crate::record_cache::{Mark, Recorder};
use crate::stats::monitor::Monitor;
use crate::stats::stage_timer::Activity;
use crate::{Sink, StopReason};

/// A chunk of at least this size, in which the decoder found no end of a record, is passed again
/// only when it has grown by half. So a long record costs a few calls instead of thousands.
pub(super) const LONG_CHUNK: usize = 64 << 10;
/// Bytes of framing that a record may have beyond `max_record`.
pub const MAX_FRAMING: usize = 1 << 20;

/// Bytes that a record may take in the input, its framing included.
pub(crate) fn max_chunk(max_record: u64) -> usize {
    usize::try_from(max_record.saturating_add(MAX_FRAMING as u64)).unwrap_or(usize::MAX)
}

/// Parts shared by all objects of a channel.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) channel: &'a str,
    pub(crate) decoder: &'a str,
    pub(crate) max_record: u64,
    pub(crate) linger: Duration,
    pub(crate) monitor: Monitor<'a>,
}

/// The loop that decodes one object.
pub(crate) struct DecodeLoop<'a, 'w, 's, S: Sink> {
    pub(crate) context: Context<'a>,
    pub(crate) builder: &'a mut BatchBuilder<'w, 's, S>,
    pub(crate) policy: &'a mut ErrorPolicy,
    pub(crate) epoch: u32,
    pub(crate) object: &'a str,
    pub(crate) input: &'a mut dyn Input,
    pub(crate) stream: Stream,
    /// Bytes of the object after which the decoder's state is saved again. `None` if it is not.
    pub(crate) save_distance: Option<u64>,
    /// The values of the fields that are added to each record.
    pub(crate) added: AddedValues<'a>,
    pub(crate) numbers: RecordNumbers,
    /// The records of the plan's parts.
    pub(crate) parts: PartCounts,
    /// The end of the section. `None` if the whole object is decoded.
    pub(crate) section: Option<&'a mut (dyn SectionEnd + 'static)>,
    pub(crate) progress: Progress,
    /// Stores what the decoder makes in the cache. `None` without one, or once an error was
    /// skipped.
    pub(crate) recorder: Option<Recorder>,
}

/// The decoder's progress in the chunk.
#[derive(Default)]
pub(crate) struct Progress {
    /// Bytes that the decoder wants before it is called again; 0 if unknown.
    pub(super) need: usize,
    /// Bytes that were left of the chunk after the last call.
    pub(super) left: usize,
    /// The last call consumed nothing.
    pub(super) stalled: bool,
    /// The last read gave fewer bytes than were asked for: there may be more by now.
    pub(super) was_short: bool,
    /// The input is at its end.
    pub(super) input_ended: bool,
    /// The rest of the object can't be decoded and was skipped.
    pub(super) rest_skipped: bool,
    /// The batch builder has the fields of this object's records.
    pub(super) schema_known: bool,
    /// The header was shown: the bytes that are read now belong to the section.
    pub(super) in_section: bool,
    /// When a batch last left because the source was idle.
    pub(super) last_idle_grant: Option<Instant>,
}

impl<S: Sink> DecodeLoop<'_, '_, '_, S> {
    /// Decodes to the end of the object.
    pub(crate) fn run(&mut self) -> Result<(), StopReason> {
        self.learn_schema()?;
        self.progress.in_section = true;
        while !self.progress.input_ended && !self.progress.rest_skipped {
            if self.room_in_parts() == 0 {
                self.reach_part()?;
                continue;
            }
            if self.room() == 0 {
                if self.is_section_over()? {
                    return self.builder.cut_at(CutPoint::ObjectEnd);
                }
                continue;
            }
            match self.try_read()? {
                Ok(ReadOutcome::Bytes(_)) if self.is_due() && !self.may_get_more() => {
                    self.decode_new_bytes()?;
                }
                Ok(ReadOutcome::Nothing) if self.may_get_more() => self.decode_new_bytes()?,
                Ok(ReadOutcome::Nothing) => self.source_idle()?,
                Ok(_) => {}
                Err(error) => {
                    // Bytes that came since the last call may hold whole records.
                    if self.has_unseen_bytes() {
                        self.decode_available()?;
                    }
                    return Err(self.source_failure(error).into());
                }
            }
            if self.builder.writer().wants_epoch_end(self.epoch) {
                return Err(StopReason::EpochEnded);
            }
        }
        if !self.progress.rest_skipped {
            self.decode_available()?;
            self.end_last_part()?;
        }
        self.builder.cut_at(CutPoint::ObjectEnd)
    }

    /// Bytes that may be read before the decoder has to use all bytes of the plan's parts so far.
    pub(super) fn room_in_parts(&self) -> usize {
        let end = self.builder.position() + self.builder.len() as u64;
        usize::try_from(self.parts.limit().saturating_sub(end)).unwrap_or(usize::MAX)
    }

    /// Lets the decoder use all bytes up to a part of the plan, and compares the records before it.
    fn reach_part(&mut self) -> Result<(), StopReason> {
        if self.has_unseen_bytes() {
            self.decode_new_bytes()?;
        }
        let place = self.builder.position();
        let reached = self.parts.reach(place, place + self.builder.len() as u64);
        self.parts_compared(reached)
    }

    /// Compares the records of the plan's last part.
    fn end_last_part(&mut self) -> Result<(), StopReason> {
        let ended = self.parts.end_part(self.builder.position());
        self.parts_compared(ended)
    }

    fn parts_compared(&mut self, compared: Result<(), Fault>) -> Result<(), StopReason> {
        match compared {
            Err(fault) if !self.progress.rest_skipped => self.plugin_failed(0, fault),
            _ => Ok(()),
        }
    }

    /// Bytes that may be read before the end of the section.
    pub(super) fn room(&self) -> usize {
        let Some(section) = self.section.as_ref().filter(|_| self.progress.in_section) else {
            return usize::MAX;
        };
        let end = self.builder.position() + self.builder.len() as u64;
        usize::try_from(section.limit().saturating_sub(end)).unwrap_or(usize::MAX)
    }

    /// Whether the section is over, after all bytes up to its end were read. First decodes as many
    /// of them as possible.
    fn is_section_over(&mut self) -> Result<bool, StopReason> {
        if self.has_unseen_bytes() {
            self.decode_available()?;
        }
        // An error that was skipped may have led beyond the end.
        if self.room() > 0 || self.progress.rest_skipped {
            return Ok(false);
        }
        let offset = self.builder.position();
        let decoded = DecodedTo {
            offset,
            restart: self.builder.restart_here(),
            wants: offset.saturating_add(self.progress.need as u64),
        };
        let Some(section) = &mut self.section else { return Ok(false) };
        let is_over = section.reach(&decoded)?;
        if is_over {
            // The worker that reads the end of the object may have come there before.
            self.check_unchanged()?;
        }
        Ok(is_over)
    }

    /// Decodes the new bytes, and lets the batch leave if it is time.
    fn decode_new_bytes(&mut self) -> Result<(), StopReason> {
        self.decode_available()?;
        self.builder.cut_at(CutPoint::Decoded)
    }

    /// Calls the decoder as long as it makes progress with the available bytes.
    pub(super) fn decode_available(&mut self) -> Result<(), StopReason> {
        loop {
            let outcome = self.decode()?;
            let end = self.progress.input_ended;
            match outcome {
                Ok(DecodeOutcome::Progress { consumed, more: true, .. }) => {
                    self.builder.consume(consumed);
                    self.end_call(consumed, Mark::None);
                    self.builder.cut_at(CutPoint::Decoded)?;
                }
                Ok(DecodeOutcome::Progress { consumed, need, .. }) => {
                    self.builder.consume(consumed);
                    let restart = self.stream.restart();
                    let mut mark = restart.map_or(Mark::None, Mark::Restart);
                    if let Some(header) = restart.filter(|_| self.numbers.can_restart()) {
                        self.builder.mark_restart(header);
                        if let Some(section) = &mut self.section {
                            section.can_restart(header);
                        }
                    } else {
                        match self.save_state() {
                            Err(fault) => return self.plugin_failed(0, fault),
                            Ok(Some(saved)) => mark = Mark::Saved(saved.bytes),
                            Ok(None) => {}
                        }
                    }
                    self.end_call(consumed, mark);
                    let left = self.builder.len();
                    self.progress.stalled = consumed == 0;
                    (self.progress.need, self.progress.left) = (need, left);
                    if consumed == 0 {
                        return self.check_stalled(left, need);
                    }
                    if left == 0 || !(end || (1..=left).contains(&need)) {
                        return Ok(());
                    }
                }
                Ok(DecodeOutcome::Bad { offset, message, resume }) => {
                    self.skip_error(offset, decode_fault(message, resume), resume)?;
                    if self.builder.len() == 0 || self.progress.rest_skipped {
                        return Ok(());
                    }
                }
                Err(fault) => {
                    let offset = self.stream.decoded().end as usize;
                    return self.plugin_failed(offset, fault);
                }
            }
        }
    }

    /// Saves the state of a decoder that needs it to decode again from here, if the last such place
    /// is far behind.
    fn save_state(&mut self) -> Result<Option<SavedState>, Fault> {
        let Some(distance) = self.save_distance else { return Ok(None) };
        let is_wanted = !self.progress.input_ended
            && self.numbers.can_restart()
            && self.builder.takes_saved(distance);
        let saved = if is_wanted { self.stream.save()? } else { None };
        if let Some(saved) = &saved {
            self.builder.mark_saved(&saved.bytes);
        }
        Ok(saved)
    }

    /// Notes how the last call has ended, for the cache.
    fn end_call(&mut self, consumed: usize, mark: Mark) {
        if let Some(recorder) = &mut self.recorder {
            recorder.end_call(consumed as u64, mark);
        }
    }

    /// Calls the decoder once. The records that it emitted are appended even if the call fails.
    pub(super) fn decode(&mut self) -> Result<Result<DecodeOutcome, Fault>, StopReason> {
        self.context.monitor.enter(Activity::Decoder);
        let mut outcome = {
            let (bytes, range) = self.builder.chunk();
            let max_errors = self.policy.errors_left(self.epoch);
            self.stream.decode(&bytes, range, self.progress.input_ended, max_errors)
        };
        self.context.monitor.call_ended(self.stream.memory_held());
        self.learn_schema()?;
        self.note_call();
        let first_record = self.builder.records();
        if let Err(fault) = self.added.add_to(self.stream.decoded_mut(), self.numbers.next()) {
            outcome = Err(fault);
        }
        self.parts.add(self.stream.decoded().records);
        self.numbers.pass(self.stream.decoded_mut());
        if self.builder.is_at_first_record() {
            self.builder.set_metadata(self.stream.metadata());
        }
        // Report errors before appending the records: with workers, the sequencer needs them first.
        let skipped = self.skip_inline_errors(first_record);
        let counted = self.builder.counted();
        self.builder.append(self.stream.decoded())?;
        skipped?;
        let granted = self.builder.writer().granted();
        // Records after the end of a block are not counted: they are those of the next one.
        let records = (self.builder.counted() - counted) as usize;
        self.context.monitor.records_decoded(records, granted);
        Ok(outcome)
    }

    /// Notes what the last call has made, for the cache. A header has no records.
    fn note_call(&mut self) {
        let Some(recorder) = self.recorder.as_mut().filter(|_| self.progress.in_section) else {
            return;
        };
        let (bytes, range) = self.builder.chunk();
        recorder.call(&self.stream, &(*bytes).as_ref()[range]);
    }

    /// Passes the fields of the records on to the batch builder, once the decoder has declared
    /// them.
    fn learn_schema(&mut self) -> Result<(), StopReason> {
        let Some(fields) = self.stream.schema().filter(|_| !self.progress.schema_known) else {
            return Ok(());
        };
        self.progress.schema_known = true;
        let accepted = AddedField::after(fields, self.added.fields)
            .and_then(|fields| self.builder.writer_mut().set_schema(&fields));
        accepted.map_err(|fault| self.failure(0, fault).into())
    }

    /// Bytes that a record may take in the input, its framing included.
    pub(super) fn max_chunk(&self) -> usize {
        max_chunk(self.context.max_record)
    }
}
