//! Compressed blocks. A block must be completely in the chunk, and its sync marker is checked
//! first. The host decompresses it in parts; each part begins at the first record that was not
//! complete in the part before it. The beginnings and ends of parts depend only on the block, so
//! that errors in it do not depend on the split.

use std::ops::Range;

use pipemill_plugin::{Block, Codec, DecodeError, Progress, Records, pack, unpack};

use crate::block::{BlockCodec, Budget, Call, File, Next};
use crate::errors::{self, Limit};
use crate::header::{SYNC, was_sync};
use crate::record::{RecordReader, RecordStop, Source};
use crate::state::{Avro, PackedBlock, State};

/// Number of bytes that are decompressed at a time only for a checksum.
const CHECKED_BYTES: usize = 1 << 20;
/// Size of the checksum after a snappy block.
const CRC: usize = 4;
/// Number of bytes that some writers leave after the data of a deflate block: fastavro and Apache's
/// Python package remove one byte too few of zlib's checksum, and leave three.
const DEFLATE_TAIL: usize = 3;

/// The progress in a block.
enum Reached {
    /// The end of the block.
    End,
    /// The limit of this call. The next call continues.
    Budget,
}

/// The result of decompressing when `limits.output` leaves too little room.
const NO_ROOM: &str = "a record of it, or with snappy the whole block, needs more than one call may \
                       produce; raise limits.output if the file is sound";

impl Avro {
    /// Reads records of a block, and its end.
    pub(crate) fn packed(
        &mut self,
        call: &mut Call,
        out: &mut Records,
    ) -> Result<Next, DecodeError> {
        let (State::Packed(block), Some(file)) = (&mut self.state, &self.file) else {
            return Ok(Next::GoOn);
        };
        let at = call.at;
        let size = block.head as u64 + block.size + SYNC as u64;
        if (call.rest().len() as u64) < size && !call.end {
            return Ok(call.wants(usize::try_from(size).unwrap_or(usize::MAX)));
        }
        if (call.rest().len() as u64) < size {
            let message = errors::cut_short(block.place());
            self.state = State::Between;
            return Err(DecodeError::searchable(at, message, at as u64 + 1));
        }
        // The value fits: the chunk is not shorter.
        let end = at + size as usize;
        let body = at + block.head..end - SYNC;
        let sync = call.chunk[body.end..].first_chunk::<SYNC>().unwrap_or(&file.sync);
        if *sync != file.sync {
            let message = errors::no_sync(&file.sync, sync);
            self.state = State::Between;
            return Err(match was_sync(&file.sync, sync) {
                true => DecodeError::skippable(at, message, end as u64),
                false => DecodeError::searchable(at, message, at as u64 + 1),
            });
        }
        let mut parts = PartReader {
            file,
            body,
            max_record: self.max_record,
            budget: self.budget,
            reader: &mut self.reader,
            has_tail: &mut self.has_tail,
        };
        match parts.read(block, call, out) {
            Ok(Reached::Budget) => Ok(Next::Return(Progress::more(at))),
            Ok(Reached::End) => {
                self.state = State::Between;
                call.at = end;
                Ok(Next::GoOn)
            }
            Err(message) => {
                out.abandon_record();
                self.state = State::Between;
                Err(DecodeError::skippable(at, message, end as u64))
            }
        }
    }
}

/// The context for reading the parts of a block.
struct PartReader<'a> {
    file: &'a File,
    /// The block's bytes in the chunk, without head and marker.
    body: Range<usize>,
    max_record: u64,
    budget: Budget,
    reader: &'a mut RecordReader,
    /// Whether a deflate block with a tail was seen.
    has_tail: &'a mut bool,
}

impl PartReader<'_> {
    /// Reads a block, part by part. The error is the message for the rest of the block.
    fn read(
        &mut self,
        block: &mut PackedBlock,
        call: &mut Call,
        out: &mut Records,
    ) -> Result<Reached, String> {
        if block.records == 0 && block.size == 0 {
            return Ok(Reached::End);
        }
        let failed = |why: &str, block: &PackedBlock| {
            format!("{} and those after it can't be decompressed: {why}", block.place())
        };
        if self.file.codec == BlockCodec::Snappy && self.body.len() < CRC {
            return Err(errors::no_checksum(self.body.len()));
        }
        loop {
            if call.spent >= self.budget.call && call.has_progress() {
                return Ok(Reached::Budget);
            }
            let part = self.decompress(block, out).map_err(|why| failed(&why, block))?;
            call.spent += part.bytes.len();
            let mut has_room = part.last || part.bytes.len() == block.part;
            if has_room && self.file.codec == BlockCodec::Snappy && !block.checked {
                has_room = self.check(&part, call, out).map_err(|why| failed(&why, block))?;
                block.checked = has_room;
            }
            match has_room {
                true if self.part(block, &part, call, out)? => return Ok(Reached::End),
                true => {}
                // `limits.output` has too little room left. The next call has all of it.
                false if call.has_progress() => return Ok(Reached::Budget),
                false => return Err(failed(NO_ROOM, block)),
            }
        }
    }

    /// The compressed bytes of a block, and their codec.
    fn data(&self) -> (Codec, Range<usize>) {
        let Range { start, end } = self.body;
        match self.file.codec {
            BlockCodec::Snappy => (Codec::Snappy, start..end - CRC),
            BlockCodec::Deflate if *self.has_tail => {
                (Codec::Deflate, start..start.max(end.saturating_sub(DEFLATE_TAIL)))
            }
            // A block without compression never gets here.
            BlockCodec::Null | BlockCodec::Deflate => (Codec::Deflate, start..end),
            BlockCodec::Zstd => (Codec::Zstd, start..end),
        }
    }

    /// Decompresses the next part. Either all blocks of a file have a tail, or none: the choice
    /// that was right for the previous block is tried first.
    fn decompress(&mut self, block: &PackedBlock, out: &mut Records) -> Result<Block, String> {
        let (codec, data) = self.data();
        let first = out.decompress_part(codec, data, block.done, block.part);
        if first.is_ok() || codec != Codec::Deflate {
            return first;
        }
        *self.has_tail = !*self.has_tail;
        let second = out.decompress_part(codec, self.data().1, block.done, block.part);
        if second.is_err() {
            *self.has_tail = !*self.has_tail;
        }
        second.or(first)
    }

    /// Reads the records that are complete in a part. Returns whether the block is at its end.
    fn part(
        &mut self,
        block: &mut PackedBlock,
        part: &Block,
        call: &mut Call,
        out: &mut Records,
    ) -> Result<bool, String> {
        let (layout, size) = (&self.file.layout, part.bytes.len());
        let (mut from, mut spent, mut need) = (0, 0, None);
        while block.left > 0 && spent < self.budget.part_output {
            if part.last && from == size {
                return Err(errors::records_missing(block.place()));
            }
            let largest = from as u64 + self.max_record;
            let largest = usize::try_from(largest).unwrap_or(usize::MAX);
            let is_near_end = part.last && size <= largest;
            let limit = if is_near_end { size } else { largest };
            match self.reader.read(layout, Source::Part(part), from, limit, out) {
                Ok(next) => {
                    out.end_record(call.at);
                    block.left -= 1;
                    spent += layout.cost + self.reader.array_bytes;
                    from = next;
                }
                Err(RecordStop::Cut(bytes)) => {
                    out.abandon_record();
                    need = Some(bytes);
                    break;
                }
                Err(RecordStop::Bad { step, at, problem }) => {
                    let limit = match is_near_end {
                        true => Limit::Block,
                        false => Limit::MaxRecord(self.max_record),
                    };
                    return Err(errors::bad_record(
                        block.place(),
                        layout,
                        step,
                        at,
                        problem,
                        limit,
                    ));
                }
            }
        }
        call.spent += spent;
        call.emitted |= from > 0;
        block.done += from as u64;
        if block.left == 0 {
            return match part.last && from == size {
                true => Ok(true),
                false => Err(errors::bytes_after_records(block.records)),
            };
        }
        if let Some(need) = need.filter(|_| from == 0) {
            // No record is complete in the part: the next one is larger.
            let max = usize::try_from(self.max_record).unwrap_or(usize::MAX);
            block.part = block.part.saturating_mul(2).min(max).max(need);
        }
        Ok(false)
    }

    /// Compares the checksum of a snappy block, whose first part is `first`. The host then has all
    /// of the block in the payload; of that, this keeps only the first part. Returns whether
    /// `limits.output` had room for it.
    fn check(&self, first: &Block, call: &mut Call, out: &mut Records) -> Result<bool, String> {
        let (codec, data) = self.data();
        let mut span = out.span_in(first, 0..first.bytes.len());
        let mut last = first.last;
        while !last {
            let done = unpack(span);
            let (skip, data) = (done.len() as u64, data.clone());
            let part = out.decompress_part(codec, data, skip, CHECKED_BYTES)?;
            call.spent += part.bytes.len();
            if !part.last && part.bytes.len() < CHECKED_BYTES {
                return Ok(false);
            }
            // The parts follow each other in the payload. Bit 63 marks a span of the payload.
            span = 1 << 63 | pack(done.start..done.end + part.bytes.len());
            last = part.last;
        }
        let stored = &call.chunk[data.end..data.end + CRC];
        let expected = stored.iter().fold(0, |all, byte| all << 8 | u32::from(*byte));
        match out.check_crc32(&[span], &[expected]) {
            None => Ok(true),
            Some(_) => Err(format!(
                "expected bytes with the CRC-32 {expected:08x}, found others; the block is damaged"
            )),
        }
    }
}
