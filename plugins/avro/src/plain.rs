//! Blocks without compression: their records lie in the chunk, and are consumed one by one.

use pipemill_plugin::{DecodeError, Progress, Records};

use crate::Avro;
use crate::block::{Call, Next, State};
use crate::errors::{self, Limit, Place};
use crate::header::{SYNC, was_sync};
use crate::record::RecordStop;

/// A block that is being read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlainBlock {
    /// Size of its head, which is consumed with the first record: if the head is damaged, the search
    /// for the marker must begin in it.
    head: usize,
    /// Its records.
    records: u64,
    /// Records that were not read yet.
    records_left: u64,
    /// Bytes of them, by the block's head.
    bytes_left: u64,
}

impl PlainBlock {
    pub(crate) fn new(head: usize, records: u64, size: u64) -> Self {
        Self { head, records, records_left: records, bytes_left: size }
    }
    /// The next record.
    fn place(&self) -> Place {
        Place { record: self.records - self.records_left + 1, records: self.records }
    }
}

impl Avro {
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
            match self.reader.read(layout, &shown, at, limit, out) {
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
        Err(DecodeError::searchable(call.at, message, call.at as u64 + 1))
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
        // With the marker there, the next block follows it, whatever is wrong with this one.
        match was_sync(&sync, found) {
            true => Err(DecodeError::skippable(start, message, end)),
            false => Err(DecodeError::searchable(start, message, start as u64 + 1)),
        }
    }
}
