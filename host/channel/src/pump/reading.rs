//! Reads bytes of an object to the end of the chunk, as many as are worth a call of the decoder.
//! Consumers do not wait for a source that is idle.

use std::time::{Duration, Instant};

use pipemill_source::{ReadOutcome, SourceError};

use crate::batch::builder::MIN_READ;
use crate::batch::cut::CutPoint;
use crate::pump::decode_loop::{DecodeLoop, LONG_CHUNK};
use crate::stats::stage_timer::Activity;
use crate::{Sink, StopReason};

/// Bytes read and decoded at a time, if the source has them at once: a call of the decoder costs
/// microseconds, and a pipe gives a few KiB in each read. The second-level cache of a server's core
/// holds them twice: it also holds a copy in the decoder's memory.
pub(super) const READ_BYTES: usize = 256 << 10;
/// A long chunk is passed nevertheless if no byte came for this long.
const LONG_CHUNK_WAIT: Duration = Duration::from_millis(20);
/// The shortest time between two batches that leave because the source is idle. A source as fast as
/// the consumer would otherwise spend most of its time on handing over small batches.
const MIN_GRANT_INTERVAL: Duration = Duration::from_millis(1);
/// How often a wait for bytes is interrupted to ask whether the consumers still want them.
const EPOCH_END_POLL_INTERVAL: Duration = Duration::from_millis(100);

impl<S: Sink> DecodeLoop<'_, '_, '_, S> {
    /// Reads once, at most `most` bytes, also beyond the end of the section. A failure of the
    /// source ends the channel.
    pub(super) fn read(&mut self, most: usize) -> Result<ReadOutcome, StopReason> {
        while self.room() == 0
            && let Some(section) = &mut self.section
        {
            section.go_beyond()?;
        }
        self.read_at_most(self.read_size().min(most))
    }

    /// Reads once to the end of the chunk, at most to the end of a part of the plan.
    pub(super) fn try_read(&mut self) -> Result<Result<ReadOutcome, SourceError>, StopReason> {
        self.try_read_at_most(self.read_size().min(self.room_in_parts()))
    }

    /// Reads once, at most `want` bytes. A failure of the source ends the channel.
    pub(super) fn read_at_most(&mut self, want: usize) -> Result<ReadOutcome, StopReason> {
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
    pub(super) fn may_get_more(&self) -> bool {
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
    pub(super) fn source_idle(&mut self) -> Result<(), StopReason> {
        if self.builder.has_records() {
            self.progress.last_idle_grant = Some(Instant::now());
            return self.builder.cut_at(CutPoint::SourceIdle);
        }
        if self.has_unseen_bytes() { self.decode_available() } else { Ok(()) }
    }

    /// Whether the chunk has bytes that the decoder has not seen, and at least as many as it wants.
    pub(super) fn has_unseen_bytes(&self) -> bool {
        let len = self.builder.len();
        len > self.progress.left && len >= self.progress.need
    }

    /// Whether the chunk is worth a call of the decoder.
    pub(super) fn is_due(&self) -> bool {
        let (len, progress) = (self.builder.len(), &self.progress);
        let grown =
            !progress.stalled || len < LONG_CHUNK || len >= progress.left + progress.left / 2;
        len >= progress.need && grown
    }
}
