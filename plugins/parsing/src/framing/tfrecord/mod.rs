//! The TFRecord framing of TensorFlow, many records at a time.
//!
//! Follows `record_writer.cc`: `u64 length · u32 masked CRC-32C of the length · payload · u32
//! masked CRC-32C of the payload`, all little-endian.
//!
//! The host computes the checksums of many records in one call. So a batch has two steps: first the
//! unverified lengths are followed from record to record, then the checksums of all of them are
//! checked. Only records before the first bad checksum are emitted.

mod crc;
mod errors;
mod search;

use std::ops::Range;

use crc::unmask;
use pipemill_plugin::{
    DecodeError, OptionSpec, Options, Progress, Records, Resync, StreamInfo, pack,
};

/// Size of the length and its checksum, in bytes.
const HEADER: usize = 12;
/// Size of the payload's checksum, in bytes.
const FOOTER: usize = 4;
/// Size of a record with an empty payload, in bytes.
const MIN_RECORD: usize = HEADER + FOOTER;

/// Finds the records of a TFRecord stream.
#[derive(Debug)]
pub struct Framing {
    /// Whether checksums are checked.
    verify: bool,
    /// Largest payload in bytes.
    max_record: u64,
    /// Largest number of records that one call of the host checks.
    batch: usize,
    /// For each of these records: the span of its length, the span of its payload. There is room for
    /// one length more.
    spans: Vec<u64>,
    /// The stored checksum of each span.
    expected: Vec<u32>,
    /// Number of spans of the batch.
    gathered: usize,
}

/// The reason why a batch ends. `at` is the start of the next record.
enum StopReason {
    /// The batch is full.
    Batch { at: usize },
    /// The chunk ends before the record does.
    Cut { at: usize, need: usize },
    /// The record is larger than `max_record`.
    TooLarge { at: usize, length: u64 },
}

impl Framing {
    /// The option that [`open`](Self::open) reads.
    pub fn option() -> OptionSpec {
        OptionSpec::bool("verify", true, "check the checksums of lengths and payloads")
    }

    /// The framing of a new stream. `batch` is the number of records that one call of the host
    /// checks. After a refused record, up to `batch` records are checked a second time.
    pub fn open(options: &Options, info: &StreamInfo, batch: usize) -> Self {
        Self {
            verify: options.is_on("verify"),
            max_record: info.max_record,
            batch,
            spans: Vec::new(),
            expected: Vec::new(),
            gathered: 0,
        }
    }

    /// Calls `emit` for each record that is completely in the chunk, with the start of the record
    /// and the range of its payload.
    ///
    /// # Errors
    /// The first error, of the framing or of `emit`.
    #[inline]
    pub fn decode(
        &mut self,
        chunk: &[u8],
        out: &mut Records,
        mut emit: impl FnMut(&mut Records, usize, Range<usize>) -> Result<(), DecodeError>,
    ) -> Result<Progress, DecodeError> {
        let mut at = 0;
        loop {
            let stop = if self.verify {
                let stop = self.gather_batch(chunk, at);
                self.emit_checked(chunk, out, &mut emit)?;
                stop
            } else {
                self.emit_unchecked(chunk, at, out, &mut emit)?
            };
            match stop {
                StopReason::Batch { at: next } => at = next,
                StopReason::Cut { at, need } => return Ok(Progress::consumed(at).and_wants(need)),
                StopReason::TooLarge { at, length } => {
                    return Err(errors::too_large(at, length, self.max_record, self.verify));
                }
            }
        }
    }

    /// Searches for bytes that look like the start of a record, anywhere in the chunk. No error
    /// requests it: only the bytes of a length and its checksum show a start, and payloads may have
    /// such bytes, too.
    pub fn resync(&self, chunk: &[u8], end: bool) -> Resync {
        search::find(chunk, end, self.max_record)
    }

    /// Follows the lengths from `at` on and gathers the spans to check. The length of a last record
    /// that is cut or too large is gathered too, because `need` and the error depend on it.
    fn gather_batch(&mut self, chunk: &[u8], mut at: usize) -> StopReason {
        // One more length is gathered, which shows why there are no more records.
        let most = self.batch.min(chunk.len() / MIN_RECORD + 1);
        if self.spans.len() < 2 * most + 1 {
            self.spans.resize(2 * most + 1, 0);
            self.expected.resize(2 * most + 1, 0);
        }
        self.gathered = 0;
        let (mut stop, mut records) = (None, 0);
        // These elements exist already: appending would need a test for each.
        let (spans, _) = self.spans.as_chunks_mut::<2>();
        let (expected, _) = self.expected.as_chunks_mut::<2>();
        for (spans, expected) in spans.iter_mut().zip(expected) {
            let (length, crc) = match header(chunk, at, self.max_record) {
                Ok(header) => header,
                Err(why) => {
                    stop = Some(why);
                    break;
                }
            };
            let payload = at + HEADER;
            let end = payload + length;
            *spans = [pack(at..at + 8), pack(payload..end)];
            *expected = [unmask(crc), unmask(word(chunk, end))];
            (at, records) = (end + FOOTER, records + 1);
        }
        self.gathered = 2 * records;
        let Some(stop) = stop else { return StopReason::Batch { at } };
        if chunk.len() - at >= MIN_RECORD {
            self.spans[self.gathered] = pack(at..at + 8);
            self.expected[self.gathered] = unmask(word(chunk, at + 8));
            self.gathered += 1;
        }
        stop
    }

    /// Lets the host check the batch, and emits the records before the first bad checksum.
    #[inline]
    fn emit_checked(
        &mut self,
        chunk: &[u8],
        out: &mut Records,
        emit: &mut impl FnMut(&mut Records, usize, Range<usize>) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        if self.gathered == 0 {
            return Ok(());
        }
        let spans = &self.spans[..self.gathered];
        let wrong = out.check_crc32c(spans, &self.expected[..self.gathered]);
        let (good, _) = spans[..wrong.unwrap_or(spans.len())].as_chunks::<2>();
        for [_, payload] in good {
            let (from, length) = unpack(*payload);
            emit(out, from - HEADER, from..from + length)?;
        }
        let Some(wrong) = wrong else { return Ok(()) };
        let (from, length) = unpack(self.spans[wrong]);
        Err(if wrong.is_multiple_of(2) {
            errors::wrong_length(chunk, from)
        } else {
            errors::wrong_payload(chunk, from - HEADER, length)
        })
    }

    /// Emits the records from `at` on without a check of their checksums.
    #[inline]
    fn emit_unchecked(
        &self,
        chunk: &[u8],
        mut at: usize,
        out: &mut Records,
        emit: &mut impl FnMut(&mut Records, usize, Range<usize>) -> Result<(), DecodeError>,
    ) -> Result<StopReason, DecodeError> {
        loop {
            let length = match header(chunk, at, self.max_record) {
                Ok((length, _)) => length,
                Err(stop) => return Ok(stop),
            };
            let payload = at + HEADER;
            emit(out, at, payload..payload + length)?;
            at = payload + length + FOOTER;
        }
    }
}

/// Payload length of the record at `at` and the length's masked checksum, if the record is
/// completely in the chunk and is not too large.
#[inline(always)]
fn header(chunk: &[u8], at: usize, max_record: u64) -> Result<(usize, u32), StopReason> {
    let left = chunk.len() - at;
    let Some(header) = chunk[at..].first_chunk::<MIN_RECORD>() else {
        return Err(StopReason::Cut { at, need: MIN_RECORD });
    };
    let word = u128::from_le_bytes(*header);
    let length = word as u64;
    if length > max_record {
        return Err(StopReason::TooLarge { at, length });
    }
    if length > (left - MIN_RECORD) as u64 {
        let need = usize::try_from(length.saturating_add(MIN_RECORD as u64));
        return Err(StopReason::Cut { at, need: need.unwrap_or(usize::MAX) });
    }
    Ok((length as usize, (word >> 64) as u32))
}

/// The start of the record after this payload.
pub fn next_start(payload: &Range<usize>) -> usize {
    payload.end + FOOTER
}

/// The little-endian number at `at`, which must be in the chunk.
#[inline(always)]
fn word(chunk: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*chunk[at..].first_chunk().expect("four bytes of the chunk"))
}

/// The offset and length of a span of the chunk.
#[inline(always)]
fn unpack(span: u64) -> (usize, usize) {
    ((span >> 32) as usize, span as u32 as usize)
}
