//! The TFRecord framing of TensorFlow, as many records at a time as are worth a call of the host.
//!
//! Follows `record_writer.cc`: `u64 length · u32 masked CRC-32C of it · payload · u32 masked CRC-32C of
//! the payload`, all little-endian. The checksums are computed by the host, for many records at once:
//! the lengths are followed first, on trust, and nothing is emitted before the checksums have shown how
//! far the trust was deserved.

mod crc;
mod errors;

use std::ops::Range;

use crc::unmask;
use pipemill_plugin::{DecodeError, OptionSpec, Options, Progress, Records, StreamInfo, pack};

/// Bytes of the length and its checksum.
const HEADER: usize = 12;
/// Bytes of the payload's checksum.
const FOOTER: usize = 4;
/// Bytes of an empty record.
const SMALLEST: usize = HEADER + FOOTER;

/// The framing, as the options and the channel have it.
#[derive(Debug)]
pub struct Framing {
    verify: bool,
    max_record: u64,
    /// Records checked in one call of the host.
    batch: usize,
    /// Of each record followed: the span of its length, the span of its payload.
    spans: Vec<u64>,
    /// The checksums that should be those of the spans.
    expected: Vec<u32>,
}

/// Why no further record was looked at.
enum Stop {
    /// There are enough for one check.
    Batch { at: usize },
    /// The record does not lie whole in the chunk.
    Cut { at: usize, need: usize },
    /// The record has a length that the channel does not take.
    TooLarge { at: usize, length: u64 },
}

impl Framing {
    /// The option that [`open`](Self::open) looks at.
    pub fn option() -> OptionSpec {
        OptionSpec::bool("verify", true, "check the checksums of lengths and payloads")
    }

    /// The framing of a stream. `batch` is how many records are checked in one call of the host: behind
    /// a record that is refused, as many are checked again.
    pub fn open(options: &Options, info: &StreamInfo, batch: usize) -> Self {
        Self {
            verify: options.is_on("verify"),
            max_record: info.max_record,
            batch,
            spans: Vec::with_capacity(2 * batch + 1),
            expected: Vec::with_capacity(2 * batch + 1),
        }
    }

    /// Gives each record that lies whole in the chunk to `take`: where it starts, where its payload
    /// lies. Ends at the first error, its own or that of `take`.
    #[inline]
    pub fn decode(
        &mut self,
        chunk: &[u8],
        out: &mut Records,
        mut take: impl FnMut(&mut Records, usize, Range<usize>) -> Result<(), DecodeError>,
    ) -> Result<Progress, DecodeError> {
        let mut at = 0;
        loop {
            let stop = if self.verify {
                let stop = self.follow(chunk, at);
                self.take_checked(chunk, out, &mut take)?;
                stop
            } else {
                self.take_unchecked(chunk, at, out, &mut take)?
            };
            match stop {
                Stop::Batch { at: next } => at = next,
                Stop::Cut { at, need } => return Ok(Progress { consumed: at, need }),
                Stop::TooLarge { at, length } => {
                    return Err(errors::too_large(at, length, self.max_record, self.verify));
                }
            }
        }
    }

    /// Follows the lengths from `at` on and gathers what has to be checked. Where the last record is
    /// cut off or too large, its length is gathered too: it must be true before it is acted upon.
    fn follow(&mut self, chunk: &[u8], mut at: usize) -> Stop {
        self.spans.clear();
        self.expected.clear();
        for _ in 0..self.batch {
            let (length, crc) = match self.header(chunk, at) {
                Ok(header) => header,
                Err(stop) => {
                    if chunk.len() - at >= SMALLEST {
                        self.spans.push(pack(at..at + 8));
                        self.expected.push(unmask(word(chunk, at + 8)));
                    }
                    return stop;
                }
            };
            let payload = at + HEADER;
            let end = payload + length;
            self.spans.extend_from_slice(&[pack(at..at + 8), pack(payload..end)]);
            self.expected.extend_from_slice(&[unmask(crc), unmask(word(chunk, end))]);
            at = end + FOOTER;
        }
        Stop::Batch { at }
    }

    /// Has the host check what was gathered, and gives away the records before the first wrong one.
    #[inline]
    fn take_checked(
        &mut self,
        chunk: &[u8],
        out: &mut Records,
        take: &mut impl FnMut(&mut Records, usize, Range<usize>) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        if self.spans.is_empty() {
            return Ok(());
        }
        let wrong = out.check_crc32c(&self.spans, &self.expected);
        let (good, _) = self.spans[..wrong.unwrap_or(self.spans.len())].as_chunks::<2>();
        for [_, payload] in good {
            let (from, length) = unpack(*payload);
            take(out, from - HEADER, from..from + length)?;
        }
        let Some(wrong) = wrong else { return Ok(()) };
        let (from, length) = unpack(self.spans[wrong]);
        Err(if wrong.is_multiple_of(2) {
            errors::wrong_length(chunk, from)
        } else {
            errors::wrong_payload(chunk, from - HEADER, length)
        })
    }

    /// Gives away the records that lie whole in the chunk from `at` on, on trust.
    #[inline]
    fn take_unchecked(
        &self,
        chunk: &[u8],
        mut at: usize,
        out: &mut Records,
        take: &mut impl FnMut(&mut Records, usize, Range<usize>) -> Result<(), DecodeError>,
    ) -> Result<Stop, DecodeError> {
        loop {
            let length = match self.header(chunk, at) {
                Ok((length, _)) => length,
                Err(stop) => return Ok(stop),
            };
            let payload = at + HEADER;
            take(out, at, payload..payload + length)?;
            at = payload + length + FOOTER;
        }
    }

    /// Length of the record at `at` and its checksum, if the record is whole and not too large.
    #[inline(always)]
    fn header(&self, chunk: &[u8], at: usize) -> Result<(usize, u32), Stop> {
        let left = chunk.len() - at;
        let Some(header) = chunk[at..].first_chunk::<SMALLEST>() else {
            return Err(Stop::Cut { at, need: SMALLEST });
        };
        let word = u128::from_le_bytes(*header);
        let length = word as u64;
        if length > self.max_record {
            return Err(Stop::TooLarge { at, length });
        }
        if length > (left - SMALLEST) as u64 {
            let need = usize::try_from(length.saturating_add(SMALLEST as u64));
            return Err(Stop::Cut { at, need: need.unwrap_or(usize::MAX) });
        }
        Ok((length as usize, (word >> 64) as u32))
    }
}

/// Where the record behind this payload starts.
pub fn behind(payload: &Range<usize>) -> usize {
    payload.end + FOOTER
}

/// The little-endian number at a place that is known to lie in the chunk.
#[inline(always)]
fn word(chunk: &[u8], at: usize) -> u32 {
    let bytes = [chunk[at], chunk[at + 1], chunk[at + 2], chunk[at + 3]];
    u32::from_le_bytes(bytes)
}

/// Offset and length of a span of the chunk.
#[inline(always)]
fn unpack(span: u64) -> (usize, usize) {
    ((span >> 32) as usize, span as u32 as usize)
}
