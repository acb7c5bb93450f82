//! Decodes one object: reads bytes to the end of the chunk, passes the chunk to the decoder when a
//! call is worth it, appends the records that it emits to the batch, and handles decode errors.

use std::time::{Duration, Instant};

use pipemill_decode::{DecodeOutcome, Resume, SavedState, Stream};
use pipemill_source::{Block, Input, ReadOutcome, SourceError};
use pipemill_types::{AddedField, ErrorKind, Fault, Position};

use crate::batch::builder::{BatchBuilder, MIN_READ};
use crate::batch::cut::CutPoint;
use crate::errors::failure::SHOWN_BYTES;
use crate::errors::policy::{ErrorPolicy, MAX_KEPT_BYTES};
use crate::pump::added_values::AddedValues;
use crate::pump::part_counts::PartCounts;
use crate::pump::record_numbers::RecordNumbers;
use crate::pump::section_end::{DecodedTo, SectionEnd};
use crate::record_cache::{Mark, Recorder};
use crate::stats::monitor::Monitor;
use crate::stats::stage_timer::Activity;
use crate::{Failure, Sink, StopReason};

/// Bytes read and decoded at a time, if the source has them at once: a call of the decoder costs
/// microseconds, and a pipe gives a few KiB in each read. The second-level cache of a server's core
/// holds them twice: it also holds a copy in the decoder's memory.
const READ_BYTES: usize = 256 << 10;
/// A chunk of at least this size, in which the decoder found no end of a record, is passed again
/// only when it has grown by half. So a long record costs a few calls instead of thousands.
const LONG_CHUNK: usize = 64 << 10;
/// A long chunk is passed nevertheless if no byte came for this long.
const LONG_CHUNK_WAIT: Duration = Duration::from_millis(20);
/// The shortest time between two batches that leave because the source is idle. A source as fast as
/// the consumer would otherwise spend most of its time on handing over small batches.
const MIN_GRANT_INTERVAL: Duration = Duration::from_millis(1);
/// How often a wait for bytes is interrupted to ask whether the consumers still want them.
const EPOCH_END_POLL_INTERVAL: Duration = Duration::from_millis(100);
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
    need: usize,
    /// Bytes that were left of the chunk after the last call.
    left: usize,
    /// The last call consumed nothing.
    stalled: bool,
    /// The last read gave fewer bytes than were asked for: there may be more by now.
    was_short: bool,
    /// The input is at its end.
    input_ended: bool,
    /// The rest of the object can't be decoded and was skipped.
    rest_skipped: bool,
    /// The batch builder has the fields of this object's records.
    schema_known: bool,
    /// The header was shown: the bytes that are read now belong to the section.
    in_section: bool,
    /// When a batch last left because the source was idle.
    last_idle_grant: Option<Instant>,
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
    fn room_in_parts(&self) -> usize {
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
    fn room(&self) -> usize {
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

    /// Fails if the object has changed since it was opened.
    pub(crate) fn check_unchanged(&self) -> Result<(), StopReason> {
        self.input.check_unchanged().map_err(|error| self.source_failure(error).into())
    }

    /// Shows the decoder the first `header` bytes of the object, which have no record.
    pub(crate) fn show_header(&mut self, header: u64) -> Result<(), StopReason> {
        while self.builder.position() < header {
            let left = header - self.builder.position() - self.builder.len() as u64;
            if left > 0 {
                self.read_at_most(usize::try_from(left).unwrap_or(usize::MAX))?;
                if self.progress.input_ended {
                    return Err(self.header_failure(header, "the object ends before").into());
                }
                continue;
            }
            let len = self.builder.len();
            let consumed = match self.decode()? {
                Ok(DecodeOutcome::Progress { consumed, .. }) => consumed,
                Ok(DecodeOutcome::Bad { message, resume, .. }) => {
                    return Err(self.failure(0, decode_fault(message, resume)).into());
                }
                Err(fault) => return Err(self.failure(0, fault).into()),
            };
            self.builder.consume(consumed);
            if consumed < len || self.builder.records() > 0 {
                return Err(self.header_failure(header, "they hold more than a header").into());
            }
        }
        Ok(())
    }

    /// Checks that a block that was decoded has the records that are known of it.
    pub(crate) fn check_block(&self, block: &Block) -> Result<(), StopReason> {
        let (found, expected) = (self.builder.records(), block.read_to);
        if found >= expected {
            return Ok(());
        }
        let message = format!(
            "the index says that the records {} to {expected} begin at byte {}, but they end with \
             record {found}",
            block.record, block.offset
        );
        let remedy = "the index is not that of this object: make it again";
        Err(self.failure(0, Fault::new(ErrorKind::Refused, message, remedy)).into())
    }

    /// Continues at `offset` in the object, with record number `record`. The decoder has seen the
    /// first `header` bytes, or has loaded what it has saved there.
    pub(crate) fn begin_at(
        &mut self,
        offset: u64,
        record: u64,
        header: u64,
        saved: Option<&SavedState>,
    ) {
        self.builder.jump_to(offset, record);
        match saved {
            Some(saved) => self.builder.mark_saved(&saved.bytes),
            None => self.builder.mark_restart(header),
        }
        self.parts.begin_at(offset);
        let schema_known = self.progress.schema_known;
        self.progress = Progress { schema_known, ..Progress::default() };
    }

    /// Reads and discards the bytes from the chunk up to `offset`.
    pub(crate) fn throw_away_to(&mut self, offset: u64) -> Result<(), StopReason> {
        loop {
            let left = offset.saturating_sub(self.builder.position());
            let count = usize::try_from(left).unwrap_or(usize::MAX).min(self.builder.len());
            self.builder.consume(count);
            if left == count as u64 {
                return Ok(());
            }
            if self.progress.input_ended {
                let message =
                    format!("the object ends before byte {offset}, at which the state goes on");
                return Err(self.failure(0, changed_object(message)).into());
            }
            self.read_at_most(READ_BYTES.min(usize::try_from(left).unwrap_or(usize::MAX)))?;
        }
    }

    fn header_failure(&self, header: u64, why: &str) -> Failure {
        let message =
            format!("the state says that decoding goes on after the first {header} bytes: {why}");
        self.failure(0, changed_object(message))
    }

    /// Reads once, at most `most` bytes, also beyond the end of the section. A failure of the
    /// source ends the channel.
    fn read(&mut self, most: usize) -> Result<ReadOutcome, StopReason> {
        while self.room() == 0
            && let Some(section) = &mut self.section
        {
            section.go_beyond()?;
        }
        self.read_at_most(self.read_size().min(most))
    }

    /// Reads once to the end of the chunk, at most to the end of a part of the plan.
    fn try_read(&mut self) -> Result<Result<ReadOutcome, SourceError>, StopReason> {
        self.try_read_at_most(self.read_size().min(self.room_in_parts()))
    }

    /// Reads once, at most `want` bytes. A failure of the source ends the channel.
    fn read_at_most(&mut self, want: usize) -> Result<ReadOutcome, StopReason> {
        self.try_read_at_most(want)?.map_err(|error| self.source_failure(error).into())
    }

    /// Reads once to the end of the chunk, at most `want` bytes.
    fn try_read_at_most(
        &mut self,
        want: usize,
    ) -> Result<Result<ReadOutcome, SourceError>, StopReason> {
        let wait = self.longest_wait();
        let want = want.min(self.room());
        self.context.monitor.enter(Activity::Batch);
        let buf = self.builder.read_buffer(want)?;
        let size = buf.len();
        self.context.monitor.enter(Activity::Source);
        let outcome = self.input.read(buf, Some(wait));
        match outcome {
            Ok(ReadOutcome::Bytes(count)) => {
                self.progress.was_short = count < size;
                self.builder.advance(count);
                self.context.monitor.bytes_read(count);
            }
            Ok(ReadOutcome::Stopped) => return Err(StopReason::Stopped),
            Ok(ReadOutcome::End) => self.input_ended()?,
            Ok(ReadOutcome::Nothing) | Err(_) => {}
        }
        Ok(outcome)
    }

    /// Notes that the object has no more bytes. So no other section begins where this one ends.
    fn input_ended(&mut self) -> Result<(), StopReason> {
        self.progress.input_ended = true;
        if let Some(section) = self.section.as_mut().filter(|_| self.progress.in_section) {
            while section.limit() != u64::MAX {
                section.go_beyond()?;
            }
        }
        Ok(())
    }

    /// Number of bytes to read at once. A read that ends close to the end of a batch leaves few
    /// records to copy into the next one.
    fn read_size(&self) -> usize {
        let to_cut = self.builder.bytes_to_cut().unwrap_or(READ_BYTES);
        let needed = self.progress.need.saturating_sub(self.builder.len());
        to_cut.clamp(MIN_READ, READ_BYTES).max(needed)
    }

    /// Whether the decoder could be called, but more bytes may be there already.
    fn may_get_more(&self) -> bool {
        let new_bytes = self.builder.len().saturating_sub(self.progress.left);
        self.progress.was_short
            && (1..READ_BYTES).contains(&new_bytes)
            && self.is_due()
            // Reading a regular file always blocks: no timeout applies.
            && !self.input.is_stored()
    }

    /// Longest wait for bytes before something else has to be done.
    fn longest_wait(&self) -> Duration {
        if self.may_get_more() {
            return Duration::ZERO;
        }
        if self.builder.has_records() {
            let linger = self.context.linger;
            if !self.builder.writer().has_demand() {
                return linger;
            }
            let idle_grant_due = match self.progress.last_idle_grant {
                Some(at) => MIN_GRANT_INTERVAL.saturating_sub(at.elapsed()),
                None => Duration::ZERO,
            };
            return linger.min(idle_grant_due);
        }
        let has_new_bytes = self.builder.len() > self.progress.left;
        if has_new_bytes { LONG_CHUNK_WAIT } else { EPOCH_END_POLL_INTERVAL }
    }

    /// Called if the source had nothing for [`longest_wait`](Self::longest_wait). The batch leaves,
    /// or the decoder gets a long chunk that was held back.
    fn source_idle(&mut self) -> Result<(), StopReason> {
        if self.builder.has_records() {
            self.progress.last_idle_grant = Some(Instant::now());
            return self.builder.cut_at(CutPoint::SourceIdle);
        }
        if self.has_unseen_bytes() { self.decode_available() } else { Ok(()) }
    }

    /// Whether the chunk has bytes that the decoder has not seen, and at least as many as it wants.
    fn has_unseen_bytes(&self) -> bool {
        let len = self.builder.len();
        len > self.progress.left && len >= self.progress.need
    }

    /// Whether the chunk is worth a call of the decoder.
    fn is_due(&self) -> bool {
        let (len, progress) = (self.builder.len(), &self.progress);
        let grown =
            !progress.stalled || len < LONG_CHUNK || len >= progress.left + progress.left / 2;
        len >= progress.need && grown
    }

    /// Decodes the new bytes, and lets the batch leave if it is time.
    fn decode_new_bytes(&mut self) -> Result<(), StopReason> {
        self.decode_available()?;
        self.builder.cut_at(CutPoint::Decoded)
    }

    /// Calls the decoder as long as it makes progress with the available bytes.
    fn decode_available(&mut self) -> Result<(), StopReason> {
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
    fn decode(&mut self) -> Result<Result<DecodeOutcome, Fault>, StopReason> {
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

    /// Handles the errors that the decoder reported while it went on. `first_record` is the number
    /// of the first record of the call.
    fn skip_inline_errors(&mut self, first_record: u64) -> Result<(), StopReason> {
        if !self.stream.decoded().errors.is_empty() {
            self.parts.error_skipped();
            self.recorder = None;
        }
        for error in &self.stream.decoded().errors {
            let fault = decode_fault(error.message.clone(), Resume::At(error.end as u64));
            let mut failure = self.failure(error.offset, fault);
            failure.position.record = Some(first_record + error.records as u64);
            let length = error.end - error.offset;
            let kept = match self.policy.keeps_bytes() {
                true => self.builder.peek(error.offset, length.min(MAX_KEPT_BYTES)),
                false => Vec::new(),
            };
            self.context.monitor.error_skipped(&failure, length as u64);
            self.policy.error_skipped(&failure, length as u64, &kept)?;
        }
        Ok(())
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

    /// Handles a call that consumed nothing of `left` bytes. This is an error if no more bytes can
    /// come, or if a record is too large.
    fn check_stalled(&mut self, left: usize, need: usize) -> Result<(), StopReason> {
        if self.progress.input_ended && left > 0 {
            let wants =
                if need > left { format!("; it wants at least {need}") } else { String::new() };
            let message =
                format!("the input ends inside a record, {left} bytes after its start{wants}");
            let remedy = "the object was cut short, or is not of this format";
            let fault = Fault::new(ErrorKind::Decode, message, remedy);
            return self.skip_error(0, fault, Resume::None);
        }
        if left.max(need) > self.max_chunk() {
            let max_record = self.context.max_record;
            let message = format!("a record is larger than `max_record` = {max_record} bytes");
            let remedy = "raise `max_record` (and `limits.memory`) if the input is sound";
            let fault = Fault::new(ErrorKind::TooLarge, message, remedy);
            return self.skip_error(0, fault, Resume::None);
        }
        Ok(())
    }

    /// Handles a failure of the decoder `offset` bytes into the chunk. Its instance can't be called
    /// again, so the rest of the object is lost.
    fn plugin_failed(&mut self, offset: usize, mut fault: Fault) -> Result<(), StopReason> {
        fault.remedy.push_str("; see `on_plugin_error` to skip objects that make a decoder fail");
        self.skip_error(offset, fault, Resume::None)
    }

    /// Handles an error `offset` bytes into the chunk: ends the channel, or skips to the place at
    /// which decoding can continue.
    fn skip_error(
        &mut self,
        offset: usize,
        fault: Fault,
        resume: Resume,
    ) -> Result<(), StopReason> {
        let failure = self.failure(offset, fault);
        if !self.policy.skips(failure.fault.kind) {
            // Decode errors in an object that has changed mean nothing.
            self.check_unchanged()?;
            return Err(failure.into());
        }
        self.parts.error_skipped();
        self.recorder = None;
        let start = self.builder.position();
        self.builder.consume(offset);
        let mut kept = Vec::new();
        match resume {
            Resume::At(to) => self.discard_to(start.saturating_add(to), &mut kept)?,
            Resume::None | Resume::Refused => {
                self.progress.rest_skipped = true;
                self.discard_to(u64::MAX, &mut kept)?;
            }
            Resume::Scan(from) => {
                self.discard_to(start.saturating_add(from), &mut kept)?;
                self.resync(&mut kept)?;
            }
        }
        let length = self.builder.position() - start - offset as u64;
        self.progress = Progress {
            input_ended: self.progress.input_ended,
            rest_skipped: self.progress.rest_skipped,
            schema_known: self.progress.schema_known,
            in_section: self.progress.in_section,
            last_idle_grant: self.progress.last_idle_grant,
            ..Progress::default()
        };
        self.context.monitor.error_skipped(&failure, length);
        Ok(self.policy.error_skipped(&failure, length, &kept)?)
    }

    /// Drops the bytes before this offset of the object, or up to the object's end.
    fn discard_to(&mut self, offset: u64, kept: &mut Vec<u8>) -> Result<(), StopReason> {
        loop {
            let left = offset.saturating_sub(self.builder.position());
            self.discard(usize::try_from(left).unwrap_or(usize::MAX).min(self.builder.len()), kept);
            if self.builder.position() >= offset || self.progress.input_ended {
                return Ok(());
            }
            self.progress.need = 0;
            // The bytes after the error may belong to the next part of a plan.
            let left = offset - self.builder.position();
            self.read(usize::try_from(left).unwrap_or(usize::MAX))?;
        }
    }

    /// Drops the first `count` bytes of the chunk, and keeps them if the policy wants them.
    fn discard(&mut self, count: usize, kept: &mut Vec<u8>) {
        if self.policy.keeps_bytes() {
            kept.extend(self.builder.peek(0, count.min(MAX_KEPT_BYTES - kept.len())));
        }
        self.builder.consume(count);
    }

    /// Drops bytes until the decoder finds the start of a record, or the object ends. A decoder
    /// that drops no byte gets more bytes: at most as many as a record may have. It gets a long
    /// chunk again only when that has grown by half.
    fn resync(&mut self, kept: &mut Vec<u8>) -> Result<(), StopReason> {
        let (mut seen, mut wanted) = (0, 0);
        loop {
            while self.builder.len() < wanted && !self.progress.input_ended {
                let is_idle = matches!(self.read(usize::MAX)?, ReadOutcome::Nothing);
                if is_idle && self.builder.len() > seen {
                    break;
                }
            }
            self.context.monitor.enter(Activity::Decoder);
            let found = {
                let (bytes, range) = self.builder.chunk();
                self.stream.resync(&bytes, range, self.progress.input_ended)
            };
            let (count, found) = match found {
                Ok(found) => found,
                Err(fault) => return self.plugin_failed(0, fault),
            };
            self.discard(count, kept);
            if found {
                return Ok(());
            }
            if self.progress.input_ended {
                return self.discard_to(u64::MAX, kept);
            }
            let left = self.builder.len();
            if left > self.max_chunk() {
                let message = format!(
                    "the decoder was shown {left} bytes to find the next record in, and ruled out \
                     none of them"
                );
                let remedy = "raise `max_record` if records are that large; else tell its author";
                return self.plugin_failed(0, Fault::new(ErrorKind::Limit, message, remedy));
            }
            let more = if count == 0 && left >= LONG_CHUNK { left / 2 } else { 1 };
            (seen, wanted) = (left, (left + more).min(self.max_chunk() + 1));
        }
    }

    /// Bytes that a record may take in the input, its framing included.
    fn max_chunk(&self) -> usize {
        max_chunk(self.context.max_record)
    }

    /// A failure `offset` bytes into the chunk.
    fn failure(&self, offset: usize, fault: Fault) -> Failure {
        Failure {
            fault,
            channel: self.context.channel.to_owned(),
            position: Position {
                epoch: self.epoch,
                object: Some(self.object.to_owned()),
                offset: Some(self.builder.position() + offset as u64),
                record: Some(self.builder.records()),
            },
            decoder: self.context.decoder.to_owned(),
            bytes: self.builder.peek(offset, SHOWN_BYTES),
            missing: false,
        }
    }

    /// A failure of the source, after the last byte that was read.
    pub(crate) fn source_failure(&self, error: SourceError) -> Failure {
        let fault = Fault::new(ErrorKind::Source, error.message, error.remedy);
        let offset = self.builder.len();
        Failure { bytes: Vec::new(), missing: error.missing, ..self.failure(offset, fault) }
    }
}

/// The fault of an object that has changed since a state was taken.
fn changed_object(message: String) -> Fault {
    let remedy = "the object has changed since the state was taken: bring it back, or begin \
                  without the state";
    Fault::new(ErrorKind::Refused, message, remedy)
}

/// The fault of an error that a decoder reports.
fn decode_fault(message: String, resume: Resume) -> Fault {
    match resume {
        Resume::Refused => {
            let remedy = "correct the decoder's `options`, or leave this object out";
            Fault::new(ErrorKind::Refused, message, remedy)
        }
        Resume::At(_) | Resume::Scan(_) | Resume::None => {
            // Skipping would lose a record that an option can read.
            let remedy = match names_option(&message) {
                true => "",
                false => "see `on_error` to skip records that can't be decoded",
            };
            Fault::new(ErrorKind::Decode, message, remedy)
        }
    }
}

/// Whether the message of a decoder names the option that reads the record, as in `set null =
/// "NA"`.
fn names_option(message: &str) -> bool {
    message.contains("; ") && message.contains(" = ")
}
