//! Blocks without compression: their records are in the chunk, and are consumed one by one.
//!
//! Only the sync marker shows whether a block is sound. So a small block must be complete first,
//! and its marker is checked, as for a compressed block. The records of a large block are read
//! before its end has arrived.

use pipemill_plugin::{DecodeError, Progress, Records};

use crate::block::{Call, Next};
use crate::errors::{self, Limit};
use crate::header::{SYNC, was_sync};
use crate::record::{RecordStop, Source};
use crate::state::{Avro, PlainBlock, State};

/// Largest size of a small block's records in bytes: more than most writers put into a block. A
/// block that is larger than `max_record` is not small, either.
const SMALL_BLOCK: u64 = 128 << 10;

impl Avro {
    /// Begins a block whose head was read. Waits for the end of a small one, and checks its marker.
    pub(crate) fn begin_plain(
        &mut self,
        mut block: PlainBlock,
        call: &mut Call,
    ) -> Result<Next, DecodeError> {
        let at = call.at;
        if block.bytes_left <= SMALL_BLOCK.min(self.max_record) {
            // The value fits: the block is small.
            let end = block.head + block.bytes_left as usize;
            let sync = self.file.as_ref().map(|file| file.sync).unwrap_or_default();
            let found = call.rest().get(end..).and_then(<[u8]>::first_chunk);
            let message = match found {
                Some(found) if was_sync(&sync, found) => None,
                Some(found) => Some(errors::no_sync(&sync, found)),
                None if call.end => Some(errors::cut_short(block.place())),
                None => return Ok(call.wants(end + SYNC)),
            };
            if let Some(message) = message {
                return Err(DecodeError::searchable(at, message, at as u64 + 1));
            }
            block.checked = true;
        }
        self.state = State::Plain(block);
        Ok(Next::GoOn)
    }

    /// Reads records of a block, and its end.
    pub(crate) fn plain(
        &mut self,
        call: &mut Call,
        out: &mut Records,
    ) -> Result<Next, DecodeError> {
        let (State::Plain(block), Some(file)) = (&self.state, &self.file) else {
            return Ok(Next::GoOn);
        };
        let (mut block, layout) = (*block, &file.layout);
        let mut at = call.at + block.head;
        // The last byte of the chunk belongs to no record: see the crate.
        let Some((_, shown)) = call.chunk.split_last().filter(|_| at < call.chunk.len()) else {
            return Ok(call.wants(block.head + 2));
        };
        let stop = loop {
            if block.records_left == 0 || block.bytes_left == 0 {
                break None;
            }
            if call.spent >= self.budget.call {
                self.state = State::Plain(block);
                return Ok(Next::Return(Progress::more(call.at)));
            }
            let limit = at as u64 + block.bytes_left.min(self.max_record);
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            match self.reader.read(layout, Source::Chunk(shown), at, limit, out) {
                Ok(next) => {
                    out.end_record(at);
                    block.head = 0;
                    block.records_left -= 1;
                    block.bytes_left -= (next - at) as u64;
                    call.spent += layout.cost + self.reader.array_bytes;
                    at = next;
                    call.at = next;
                }
                Err(stop) => break Some(stop),
            }
        };
        self.state = State::Plain(block);
        let Some(stop) = stop else { return self.end_plain(block, call) };
        out.abandon_record();
        let message = match stop {
            RecordStop::Cut(need) if !call.end => return Ok(call.wants(block.head + need + 1)),
            RecordStop::Cut(_) => errors::cut_short(block.place()),
            RecordStop::Bad { step, at, problem } => {
                let limit = match self.max_record {
                    max if max < block.bytes_left => Limit::MaxRecord(max),
                    _ => Limit::Block,
                };
                errors::bad_record(block.place(), layout, step, at, problem, limit)
            }
        };
        self.state = State::Between;
        Err(skip_block(&block, call.at, at, message))
    }

    /// Checks that a block's records end with its bytes, and that the sync marker follows.
    fn end_plain(&mut self, block: PlainBlock, call: &mut Call) -> Result<Next, DecodeError> {
        let Some(sync) = self.file.as_ref().map(|file| file.sync) else { return Ok(Next::GoOn) };
        let (start, at) = (call.at, call.at + block.head);
        let end = (at + SYNC) as u64;
        let Some(found) = call.chunk[at..].first_chunk::<SYNC>() else {
            if !call.end {
                return Ok(call.wants(block.head + SYNC));
            }
            self.state = State::Between;
            let message = errors::ends_before_sync(call.chunk.len() - at);
            return Err(DecodeError::searchable(start, message, start as u64 + 1));
        };
        self.state = State::Between;
        let message = match (block.records_left, block.bytes_left) {
            (0, 0) if *found == sync => {
                call.at = at + SYNC;
                return Ok(Next::GoOn);
            }
            (0, 0) => errors::no_sync(&sync, found),
            (0, _) => errors::bytes_after_records(block.records),
            _ => errors::records_missing(block.place()),
        };
        // If the marker is there, the next block follows it, whatever the error in this one.
        Err(match was_sync(&sync, found) {
            true => DecodeError::skippable(start, message, end),
            false => skip_block(&block, start, at, message),
        })
    }
}

/// The error at `start` in a block whose next record is at `at`.
fn skip_block(block: &PlainBlock, start: usize, at: usize, message: String) -> DecodeError {
    match block.checked {
        true => DecodeError::skippable(start, message, at as u64 + block.bytes_left + SYNC as u64),
        false => DecodeError::searchable(start, message, start as u64 + 1),
    }
}
