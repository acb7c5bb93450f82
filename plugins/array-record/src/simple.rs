//! A simple chunk: the sizes of its records, and their values one after the other.
//!
//! ```text
//! uint8   compression of both: 0, or a letter
//! varint  bytes of the sizes
//! sizes   a varint for each record
//! values
//! ```
//!
//! If sizes and values are compressed, each of them begins with the number of its bytes before
//! compression, as a varint. The host decompresses them, the values in parts. Block headers may
//! interrupt both.

use std::ops::Range;

use pipemill_plugin::{Codec, DecodeError, Records};

use crate::chunk::Chunk;
use crate::{trailer, varint};

/// Bytes of values that are decompressed at a time, unless a record is larger.
const PART: u64 = 256 << 10;
/// The sizes of the records of a chunk may have this many bytes, or those of `max_record`.
const MAX_SIZES: u64 = 1 << 20;
/// Most bytes of a varint.
const MAX_VARINT: u64 = 10;
/// Bytes of output that a record counts besides its own.
const RECORD: usize = 8;

/// A simple chunk whose records are being emitted. The data is sound.
#[derive(Debug)]
pub(crate) struct Simple {
    chunk: Chunk,
    codec: Option<Codec>,
    /// The sizes of all records, as varints.
    sizes: Vec<u8>,
    /// Bytes of them that are read.
    sizes_at: usize,
    /// Records that are emitted.
    emitted: u64,
    /// The bytes of the values in the chunk's data.
    values: Range<u64>,
    /// Bytes of the values, after decompression, that are emitted.
    done: u64,
    /// The decompressed values from `part_at` on.
    part: Vec<u8>,
    part_at: u64,
}

/// A call of `decode` that emits records of a chunk.
pub(crate) struct Output<'a> {
    /// The bytes of the call.
    pub(crate) bytes: &'a [u8],
    /// Where the chunk begins in them.
    pub(crate) at: usize,
    pub(crate) records: &'a mut Records,
    /// Bytes that the call has made.
    pub(crate) made: usize,
    /// A record that would make it more than this is left for the next call.
    pub(crate) budget: usize,
    pub(crate) max_record: u64,
}

impl Output<'_> {
    /// The bytes from the chunk's start on.
    fn chunk(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// Where some bytes of the chunk's data lie.
    fn pieces(&self, chunk: &Chunk, data: Range<u64>) -> Vec<Range<usize>> {
        let at = self.at;
        chunk.pieces(data).map(|piece| at + piece.start..at + piece.end).collect()
    }

    /// The error of a chunk that can't be decoded, after which the next one follows.
    pub(crate) fn damaged(&self, chunk: &Chunk, why: String) -> DecodeError {
        let next = self.at as u64 + chunk.bytes_with_padding();
        DecodeError::skippable(self.at, why, next)
    }
}

impl Simple {
    /// Reads the sizes of a chunk's records.
    pub(crate) fn open(chunk: Chunk, out: &mut Output) -> Result<Self, DecodeError> {
        let head = chunk.copied(out.chunk(), 0..chunk.data.min(1 + MAX_VARINT));
        let Some((compression, mut rest)) = head.split_first() else {
            return Err(out.damaged(&chunk, describe(&chunk, "expected data, found none")));
        };
        let codec = match compression {
            0 => None,
            b'b' => Some(Codec::Brotli),
            b'z' => Some(Codec::Zstd),
            b's' => Some(Codec::Snappy),
            other => {
                let shown = other.escape_ascii();
                let why = format!(
                    "the chunk's compression is `{shown}`; only Brotli, Zstandard, Snappy and none \
                     are known"
                );
                return Err(DecodeError::refused(out.at, why));
            }
        };
        let length = varint::take(&mut rest);
        let from = (head.len() - rest.len()) as u64;
        let Some(end) =
            length.and_then(|size| from.checked_add(size)).filter(|end| *end <= chunk.data)
        else {
            let why = "expected the length of the sizes of its records, found another number";
            return Err(out.damaged(&chunk, describe(&chunk, why)));
        };
        let mut simple = Self {
            chunk,
            codec,
            sizes: Vec::new(),
            sizes_at: 0,
            emitted: 0,
            values: end..chunk.data,
            done: 0,
            part: Vec::new(),
            part_at: 0,
        };
        let opened = simple.read_sizes(from..end, out).and_then(|()| simple.begin_values(out));
        opened.map_err(|why| out.damaged(&chunk, describe(&chunk, &why)))?;
        Ok(simple)
    }

    /// Reads the sizes, and checks that they are those of all records.
    fn read_sizes(&mut self, data: Range<u64>, out: &mut Output) -> Result<(), String> {
        let (records, values) = (self.chunk.records, self.chunk.values);
        self.sizes = match self.codec {
            None => self.chunk.copied(out.chunk(), data),
            // The only size is known.
            Some(_) if records == 1 => encoded(values),
            Some(codec) => {
                let (size, data) = self.before_compression(data, out)?;
                let most = out.max_record.max(MAX_SIZES).min(records.saturating_mul(MAX_VARINT));
                if !(records..=most).contains(&size) {
                    return Err(format!(
                        "expected sizes of {records} records in {records} to {most} bytes, found \
                         {size} bytes"
                    ));
                }
                // The value fits: the largest record has at most 1 GiB.
                decompressed(codec, (&self.chunk, data), (0, size as usize, true), out)?
            }
        };
        let (mut sum, mut count) = (0_u64, 0);
        let mut rest = &self.sizes[..];
        while !rest.is_empty() {
            let size =
                varint::take(&mut rest).ok_or("expected sizes of records, found no number")?;
            sum = sum.saturating_add(size);
            count += 1;
        }
        if (count, sum) != (records, values) {
            return Err(format!(
                "expected {records} records of {values} bytes, found {count} sizes of {sum} bytes"
            ));
        }
        Ok(())
    }

    /// Checks how many bytes the values have.
    fn begin_values(&mut self, out: &Output) -> Result<(), String> {
        let (expected, stored) = (self.chunk.values, self.values.clone());
        let found = match self.codec {
            None => stored.end - stored.start,
            Some(_) => {
                let (size, data) = self.before_compression(stored, out)?;
                self.values = data;
                size
            }
        };
        match found == expected {
            true => Ok(()),
            false => Err(format!("expected {expected} bytes of values, found {found}")),
        }
    }

    /// The number of bytes before compression, and the compressed bytes after it.
    fn before_compression(
        &self,
        data: Range<u64>,
        out: &Output,
    ) -> Result<(u64, Range<u64>), String> {
        let end = data.end.min(data.start + MAX_VARINT);
        let head = self.chunk.copied(out.chunk(), data.start..end);
        let mut rest = &head[..];
        let size =
            varint::take(&mut rest).ok_or("expected a size before compression, found none")?;
        Ok((size, data.start + (head.len() - rest.len()) as u64..data.end))
    }

    pub(crate) fn chunk(&self) -> &Chunk {
        &self.chunk
    }

    /// The sizes of the records that are not emitted.
    fn sizes_left(&self) -> impl Iterator<Item = u64> {
        let mut rest = &self.sizes[self.sizes_at..];
        std::iter::from_fn(move || varint::take(&mut rest))
    }

    /// Whether the chunk looks like the footer of an ArrayRecord file.
    pub(crate) fn looks_like_footer(&mut self, out: &mut Output) -> Result<bool, DecodeError> {
        let Some(size) = self.sizes_left().next().filter(|_| trailer::has_sizes(self.sizes_left()))
        else {
            return Ok(false);
        };
        let first = match self.codec {
            None => {
                let from = self.values.start;
                self.chunk.copied(out.chunk(), from..from + size)
            }
            Some(_) => self.in_part(size, out)?.to_vec(),
        };
        Ok(trailer::describes(&first, self.chunk.records - 1))
    }

    /// Emits records, until all are emitted or the call has made enough. Returns whether all are.
    pub(crate) fn emit(&mut self, out: &mut Output) -> Result<bool, DecodeError> {
        loop {
            let mut sizes = &self.sizes[self.sizes_at..];
            let Some(size) = varint::take(&mut sizes) else { return Ok(true) };
            let sizes_at = self.sizes.len() - sizes.len();
            // The value fits: it is at most that of `max_record`, which is at most 1 GiB.
            let bytes = if size > out.max_record { 0 } else { size as usize };
            if out.made > 0 && out.made + bytes + RECORD > out.budget {
                return Ok(false);
            }
            match self.codec {
                None => self.emit_stored(size, out),
                Some(_) => self.emit_decompressed(size, out)?,
            }
            out.made += bytes + RECORD;
            (self.done, self.emitted, self.sizes_at) =
                (self.done + size, self.emitted + 1, sizes_at);
        }
    }

    /// Emits the next record, which is not compressed. It is a span, unless block headers interrupt
    /// it.
    fn emit_stored(&self, size: u64, out: &mut Output) {
        let (at, from) = (out.at, self.values.start + self.done);
        let mut pieces = self.chunk.pieces(from..from + size);
        let Some(Range { start, end }) = pieces.next() else {
            // The data begins with the compression, so a byte is before the values.
            let place = self.chunk.pieces(from - 1..from).last().map_or(0, |before| before.end);
            return out.records.span(at, at + place..at + place);
        };
        let Some(second) = pieces.next() else {
            return out.records.span(at, at + start..at + end);
        };
        let bytes = out.chunk();
        let all = [start..end, second].into_iter().chain(pieces);
        let value: Vec<_> = all.flat_map(|piece| &bytes[piece]).copied().collect();
        out.records.bytes(at, &value);
    }

    fn emit_decompressed(&mut self, size: u64, out: &mut Output) -> Result<(), DecodeError> {
        if size > out.max_record {
            let (number, most) = (self.emitted, out.max_record);
            let left = self.chunk.records - number;
            let why = format!(
                "record {number} of the chunk has {size} bytes, more than max_record ({most} bytes); \
                 raise max_record; the last {left} records of the chunk are lost"
            );
            return Err(out.damaged(&self.chunk, why));
        }
        let (at, value) = (out.at, self.in_part(size, out)?);
        out.records.bytes(at, value);
        Ok(())
    }

    /// The value of the next record. Decompresses the next part if the value is not in this one.
    fn in_part(&mut self, size: u64, out: &mut Output) -> Result<&[u8], DecodeError> {
        let end = self.part_at + self.part.len() as u64;
        if self.done + size > end {
            self.next_part(size, out).map_err(|why| {
                let left = self.chunk.records - self.emitted;
                let why = format!("{why}; the last {left} records of the chunk are lost");
                out.damaged(&self.chunk, describe(&self.chunk, &why))
            })?;
        }
        let from = (self.done - self.part_at) as usize;
        Ok(self.part.get(from..from + size as usize).unwrap_or_default())
    }

    fn next_part(&mut self, size: u64, out: &mut Output) -> Result<(), String> {
        let Some(codec) = self.codec else { return Ok(()) };
        let left = self.chunk.values - self.done;
        let wanted = PART.max(size).min(left);
        let part = (self.done, wanted as usize, wanted == left);
        self.part = decompressed(codec, (&self.chunk, self.values.clone()), part, out)?;
        self.part_at = self.done;
        Ok(())
    }
}

/// A part of a compressed block of the chunk's data: `size` bytes after the first `skip`, which are the
/// last ones or not.
fn decompressed(
    codec: Codec,
    (chunk, data): (&Chunk, Range<u64>),
    (skip, size, is_last): (u64, usize, bool),
    out: &mut Output,
) -> Result<Vec<u8>, String> {
    let pieces = out.pieces(chunk, data);
    let (bytes, ends) = out.records.read_pieces(codec, &pieces, skip, size)?;
    if bytes.len() < size && !ends {
        return Err("it can't be decompressed within limits.output; raise it".to_owned());
    }
    if bytes.len() < size || ends != is_last {
        let (found, more) = (skip + bytes.len() as u64, if ends { "" } else { " or more" });
        let expected = if is_last { "" } else { "at least " };
        return Err(format!(
            "expected {expected}{} bytes after decompression, found {found}{more}",
            skip + size as u64
        ));
    }
    Ok(bytes)
}

fn describe(chunk: &Chunk, why: &str) -> String {
    format!("the chunk of {} records is not valid: {why}", chunk.records)
}

fn encoded(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}
