//! zlib streams, one after the other, from compressed bytes that come in pieces of any size: RFC
//! 1950. TensorFlow writes such files with `ZLIB`, and `pigz -z` does.
//!
//! As for [`GzipMembers`](crate::GzipMembers), the result does not depend on the pieces, and the
//! bytes before damage are returned before the error.

use std::io::{self, BufRead, ErrorKind, Read};
use std::ops::Range;

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{
    TINFL_FLAG_COMPUTE_ADLER32, TINFL_FLAG_HAS_MORE_INPUT, TINFL_FLAG_PARSE_ZLIB_HEADER,
};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use crate::block_start::{STOP_AT_BLOCKS, block_start, restart};
use crate::first_bytes::FirstBytes;
use crate::seek_point::WINDOW;
use crate::seek_points::Collector;
use crate::{Codec, SeekPoint, SeekPoints};

/// The inflater reads the header, and compares the checksum.
const FLAGS: u32 =
    TINFL_FLAG_PARSE_ZLIB_HEADER | TINFL_FLAG_COMPUTE_ADLER32 | TINFL_FLAG_HAS_MORE_INPUT;

/// Inflates the streams of an input. An input without any bytes ends early.
pub struct ZlibStreams<R> {
    input: R,
    /// Number of compressed bytes read so far; after damage, up to its place.
    consumed: u64,
    /// Number of inflated bytes of all streams so far.
    inflated: u64,
    /// The same, at the first byte of the stream's content or of the window that it began with.
    window_begin: u64,
    inflater: Box<DecompressorOxide>,
    /// The last bytes of content. The inflater uses them as a ring buffer.
    window: Box<[u8]>,
    /// The inflated bytes in `window` that were not returned yet. The inflater continues at their
    /// end.
    pending: Range<usize>,
    /// Whether the last call of the inflater filled the window to its end: there may be more
    /// without input.
    is_full: bool,
    /// Whether a stream has ended, and the next one has not begun.
    is_between: bool,
    damage: Option<&'static str>,
    /// The first bytes after the seek point at which reading began, until they were returned.
    first: Option<Box<FirstBytes>>,
    /// Notes seek points.
    collector: Option<Box<Collector>>,
}

impl<R: BufRead> ZlibStreams<R> {
    /// The streams of an input.
    pub fn new(input: R) -> Self {
        Self {
            input,
            consumed: 0,
            inflated: 0,
            window_begin: 0,
            inflater: Box::default(),
            window: vec![0; WINDOW].into_boxed_slice(),
            pending: 0..0,
            is_full: false,
            is_between: false,
            damage: None,
            first: None,
            collector: None,
        }
    }

    /// The rest of the streams of an object from this point on. `input` begins at its compressed
    /// byte.
    ///
    /// # Errors
    /// As for [`GzipMembers::at`](crate::GzipMembers::at).
    pub fn at(input: R, point: &SeekPoint) -> io::Result<Self> {
        point.check_codec(Codec::Zlib)?;
        let mut streams = Self {
            consumed: point.compressed,
            inflated: point.inflated,
            window_begin: point.inflated,
            first: Some(FirstBytes::after(point)),
            ..Self::new(input)
        };
        if let Some(block) = &point.block {
            *streams.inflater =
                restart(block, &mut streams.window).map_err(|why| point.wrong(why))?;
            streams.window_begin = point.inflated.saturating_sub(block.window_len.into());
        }
        Ok(streams)
    }

    /// Adds seek points while the streams are inflated. It is called before the first read.
    pub fn set_seek_points(&mut self, points: &SeekPoints) {
        self.collector = Collector::of(points, self.inflated);
    }

    /// The input.
    pub fn get_ref(&self) -> &R {
        &self.input
    }

    /// The input.
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.input
    }

    /// Number of compressed bytes read up to the last byte returned or the error.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Takes one piece of input. Returns whether there was one: there is none at the end of the
    /// last stream.
    fn take_piece(&mut self) -> io::Result<bool> {
        let piece = if self.is_full { &[] } else { self.input.fill_buf()? };
        if piece.is_empty() && !self.is_full {
            if self.is_between {
                if let Some(collector) = &mut self.collector {
                    collector.end();
                }
                return Ok(false);
            }
            return Err(io::Error::new(ErrorKind::UnexpectedEof, "incomplete zlib stream"));
        }
        if std::mem::take(&mut self.is_between) {
            *self.inflater = DecompressorOxide::new();
            self.window.fill(0);
            self.pending = 0..0;
            self.window_begin = self.inflated;
            if let Some(collector) = &mut self.collector {
                collector.note(Codec::Zlib, self.consumed, self.inflated, None);
            }
        }
        let at = self.pending.end % WINDOW;
        let stop = if self.collector.is_some() { STOP_AT_BLOCKS } else { 0 };
        let (status, consumed, produced) =
            decompress(&mut self.inflater, piece, &mut self.window, at, FLAGS | stop);
        self.input.consume(consumed);
        self.consumed += consumed as u64;
        self.pending = at..at + produced;
        self.is_full = status == TINFLStatus::HasMoreOutput;
        self.inflated += produced as u64;
        if let Some(collector) = &mut self.collector {
            collector.inflated(&self.window[self.pending.clone()]);
        }
        match status {
            TINFLStatus::Done => self.is_between = true,
            TINFLStatus::HasMoreOutput | TINFLStatus::NeedsMoreInput => {}
            TINFLStatus::BlockBoundary => self.note_block(),
            TINFLStatus::Adler32Mismatch => {
                self.damage = Some("the checksum of the content is not the one at its end");
            }
            _ => self.damage = Some("invalid zlib data"),
        }
        Ok(true)
    }

    /// Notes the boundary of two blocks.
    fn note_block(&mut self) {
        let Some(collector) = &mut self.collector else { return };
        if collector.is_due(self.inflated) {
            let before = self.inflated - self.window_begin;
            let block = block_start(&self.inflater, &self.window, self.pending.end, before, |it| {
                collector.compress(it)
            });
            if block.is_some() {
                collector.note(Codec::Zlib, self.consumed, self.inflated, block);
            }
        }
    }

    /// Reads on after the first bytes of a seek point.
    fn read_on(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.pending.is_empty() {
            if let Some(damage) = self.damage {
                return Err(io::Error::new(ErrorKind::InvalidData, damage));
            }
            if !self.take_piece()? {
                return Ok(0);
            }
        }
        let pending = &self.window[self.pending.clone()];
        let count = pending.len().min(buf.len());
        buf[..count].copy_from_slice(&pending[..count]);
        self.pending.start += count;
        Ok(count)
    }
}

impl<R: BufRead> Read for ZlibStreams<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        let Some(mut first) = self.first.take() else { return self.read_on(buf) };
        let outcome = first.read(buf, |buf| self.read_on(buf));
        self.first = Some(first).filter(|first| !first.is_done());
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Write};

    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use proptest::prelude::*;

    use super::*;

    fn compress(content: &[u8], level: u32) -> Vec<u8> {
        let mut to = ZlibEncoder::new(Vec::new(), Compression::new(level));
        to.write_all(content).expect("a vector takes all");
        to.finish().expect("a vector takes all")
    }

    /// The content up to the end or the error, with the error and its place.
    fn inflate(bytes: &[u8], piece: usize) -> (Vec<u8>, Option<(String, u64)>) {
        let mut streams = ZlibStreams::new(BufReader::with_capacity(piece, bytes));
        let (mut content, mut buf) = (Vec::new(), [0; 100]);
        loop {
            match streams.read(&mut buf) {
                Ok(0) => return (content, None),
                Ok(count) => content.extend_from_slice(&buf[..count]),
                Err(error) => return (content, Some((error.to_string(), streams.consumed()))),
            }
        }
    }

    /// Bytes that compress well, and some that don't.
    fn content(size: usize) -> Vec<u8> {
        (0..size).map(|n| if n % 7 == 0 { ((n * n) >> 5) as u8 } else { (n / 900) as u8 }).collect()
    }

    #[test]
    fn what_other_writers_compress_is_inflated() {
        for (size, level) in [(0, 6), (1, 0), (1000, 9), (300_000, 1), (300_000, 6), (70_000, 0)] {
            let (content, piece) = (content(size), 1 + size / 3);
            assert!(
                inflate(&compress(&content, level), piece) == (content, None),
                "{size} {level}"
            );
        }
        let two = [compress(b"one", 6), compress(b"two", 9)].concat();
        assert_eq!(inflate(&two, 3), (b"onetwo".to_vec(), None));
    }

    #[test]
    fn damage_is_an_error_after_what_was_before_it() {
        let content = content(100_000);
        let whole = compress(&content, 6);
        let error = |bytes: &[u8]| inflate(bytes, 77).1.expect("there is damage").0;
        assert_eq!(error(b""), "incomplete zlib stream");
        assert_eq!(error(&whole[..whole.len() - 1]), "incomplete zlib stream");
        assert_eq!(error(b"\x1f\x8b\x08\0"), "invalid zlib data");
        assert_eq!(error(&[&whole[..], b"text"].concat()), "invalid zlib data");
        let mut wrong = whole.clone();
        *wrong.last_mut().expect("it has bytes") ^= 1;
        let (inflated, error) = inflate(&wrong, 77);
        assert!(inflated == content);
        let message = "the checksum of the content is not the one at its end";
        assert_eq!(error, Some((message.to_owned(), whole.len() as u64)));
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            size in 0usize..100_000,
            flip in prop::option::of((any::<prop::sample::Index>(), 1u8..)),
            piece in 1usize..5000,
        ) {
            let mut bytes = compress(&content(size), 6);
            if let Some((at, flip)) = flip {
                let at = at.index(bytes.len());
                bytes[at] ^= flip;
            }
            prop_assert!(inflate(&bytes, piece) == inflate(&bytes, 1 << 20));
        }
    }
}
