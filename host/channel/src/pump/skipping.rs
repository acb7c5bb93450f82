//! Errors of a decoder and of its input: they end the channel, or decoding continues after them.

use pipemill_decode::Resume;
use pipemill_source::{ReadOutcome, SourceError};
use pipemill_types::{ErrorKind, Fault, Position};

use crate::errors::failure::SHOWN_BYTES;
use crate::errors::policy::MAX_KEPT_BYTES;
use crate::pump::decode_loop::{DecodeLoop, LONG_CHUNK, Progress};
use crate::stats::stage_timer::Activity;
use crate::{Failure, Sink, StopReason};

impl<S: Sink> DecodeLoop<'_, '_, '_, S> {
    /// Handles the errors that the decoder reported while it went on. `first_record` is the number
    /// of the first record of the call.
    pub(super) fn skip_inline_errors(&mut self, first_record: u64) -> Result<(), StopReason> {
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

    /// Handles a call that consumed nothing of `left` bytes. This is an error if no more bytes can
    /// come, or if a record is too large.
    pub(super) fn check_stalled(&mut self, left: usize, need: usize) -> Result<(), StopReason> {
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
    pub(super) fn plugin_failed(
        &mut self,
        offset: usize,
        mut fault: Fault,
    ) -> Result<(), StopReason> {
        fault.remedy.push_str("; see `on_plugin_error` to skip objects that make a decoder fail");
        self.skip_error(offset, fault, Resume::None)
    }

    /// Handles an error `offset` bytes into the chunk: ends the channel, or skips to the place at
    /// which decoding can continue.
    pub(super) fn skip_error(
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

    /// A failure `offset` bytes into the chunk.
    pub(super) fn failure(&self, offset: usize, fault: Fault) -> Failure {
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

/// The fault of an error that a decoder reports.
pub(super) fn decode_fault(message: String, resume: Resume) -> Fault {
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
