//! Begins to decode in the middle of an object: the decoder is shown the header, or has loaded what
//! it has saved, and the bytes before the place are left out.

use pipemill_decode::{DecodeOutcome, SavedState};
use pipemill_source::Block;
use pipemill_types::{ErrorKind, Fault};

use crate::pump::decode_loop::{DecodeLoop, Progress};
use crate::pump::reading::READ_BYTES;
use crate::pump::skipping::decode_fault;
use crate::{Failure, Sink, StopReason};

impl<S: Sink> DecodeLoop<'_, '_, '_, S> {
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
}

/// The fault of an object that has changed since a state was taken.
fn changed_object(message: String) -> Fault {
    let remedy = "the object has changed since the state was taken: bring it back, or begin \
                  without the state";
    Fault::new(ErrorKind::Refused, message, remedy)
}
