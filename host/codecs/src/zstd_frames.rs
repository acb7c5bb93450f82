//! Zstandard frames, from compressed bytes that come in pieces of any size.
//!
//! The library has two ways to decompress a frame: as a whole if it has all of its bytes, or block
//! by block. They do not refuse the same damage, so the result would depend on the pieces.
//! Moreover, a call that ends with an error drops the bytes that it has decompressed before. Here
//! each call gets at most one block, without the header of the next one: so the library never has a
//! whole frame, and the bytes before damage are always returned.
//!
//! Decompressing block by block compares the size of the content with the one in the frame's header
//! only at the last block, and not if that is empty. So it is compared here. A frame with more
//! bytes than its header says is refused at the first such byte, because nobody reserved memory for
//! the rest.

use std::io::{self, BufRead, ErrorKind, Read};

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use crate::first_bytes::FirstBytes;
use crate::seek_points::Collector;
use crate::{Codec, SeekPoint, SeekPoints};

/// Bytes of a block's header. Together with a block, the library asks for the header of the next
/// block.
const BLOCK_HEADER: usize = 3;
/// Largest size in bytes of a frame's header up to the size of the content, after RFC 8878.
const MAX_HEADER: usize = 18;
/// The magic number of a frame. Other frames are skippable and have no content.
const MAGIC: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();

/// Decompresses the frames of an input.
pub struct ZstdFrames<R> {
    input: R,
    decoder: Decoder<'static>,
    /// The first bytes of the current frame.
    header: [u8; MAX_HEADER],
    /// Number of compressed bytes of the current frame that were passed on; 0 between two frames.
    frame_consumed: u64,
    /// Number of compressed bytes that were passed on, of all frames and of the piece that was
    /// refused.
    consumed: u64,
    /// Largest number of bytes that the next call gets.
    wanted: usize,
    /// Whether the last call had no room for all that it decompressed.
    is_full: bool,
    /// Number of decompressed bytes of the current frame.
    produced: u64,
    /// Whether the frame has more bytes than its header says. All bytes that its header announces
    /// were returned.
    is_too_long: bool,
    /// Number of decompressed bytes of all frames that were returned.
    inflated: u64,
    /// The first bytes after the seek point at which reading began, until they were returned.
    first: Option<Box<FirstBytes>>,
    /// Notes seek points.
    collector: Option<Box<Collector>>,
}

impl<R: BufRead> ZstdFrames<R> {
    /// The frames of an input. They need a window of at most 128 MiB.
    ///
    /// # Errors
    /// The library has no memory for a decoder.
    pub fn new(input: R) -> io::Result<Self> {
        let decoder = Decoder::new()?;
        Ok(Self {
            input,
            decoder,
            header: [0; MAX_HEADER],
            frame_consumed: 0,
            consumed: 0,
            wanted: 1,
            is_full: false,
            produced: 0,
            is_too_long: false,
            inflated: 0,
            first: None,
            collector: None,
        })
    }

    /// The rest of the frames of an object from this point on. `input` begins at its compressed
    /// byte.
    ///
    /// # Errors
    /// The library has no memory for a decoder, or as for
    /// [`GzipMembers::at`](crate::GzipMembers::at).
    pub fn at(input: R, point: &SeekPoint) -> io::Result<Self> {
        point.check_codec(Codec::Zstd)?;
        let first = Some(FirstBytes::after(point));
        let (consumed, inflated) = (point.compressed, point.inflated);
        Ok(Self { consumed, inflated, first, ..Self::new(input)? })
    }

    /// Adds seek points while the frames are decompressed. It is called before the first read.
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

    /// Passes one piece on. Returns the numbers of consumed and produced bytes.
    fn step(&mut self, buf: &mut [u8]) -> io::Result<(usize, usize)> {
        let piece = if self.is_full {
            &[]
        } else {
            let bytes = self.input.fill_buf()?;
            if self.frame_consumed == 0 {
                if bytes.is_empty() {
                    self.collector.iter_mut().for_each(|collector| collector.end());
                    return Ok((0, 0));
                }
                if let Some(collector) = &mut self.collector {
                    collector.note(Codec::Zstd, self.consumed, self.inflated, None);
                }
            }
            &bytes[..self.wanted.min(bytes.len())]
        };
        let room = buf.len();
        let (mut from, mut to) = (InBuffer::around(piece), OutBuffer::around(buf));
        let hint = self.decoder.run(&mut from, &mut to).map_err(|error| {
            self.consumed += piece.len() as u64;
            same_text(error)
        })?;
        let (consumed, produced) = (from.pos(), to.pos());
        // The last byte of a block is passed separately. The library returns the bytes of an
        // uncompressed block as they come, and compares the size of the content when it has the
        // last one. It asks for the next header only if the block is not the last one, so the end
        // is passed byte by byte.
        self.wanted = hint.saturating_sub(BLOCK_HEADER + 1).max(1);
        self.is_full = produced == room;
        if self.frame_consumed < MAX_HEADER as u64 {
            // The library checks each byte of a header as soon as it has it.
            self.wanted = 1;
            let header = &mut self.header[self.frame_consumed as usize..];
            let count = header.len().min(consumed);
            header[..count].copy_from_slice(&piece[..count]);
        }
        self.input.consume(consumed);
        self.frame_consumed += consumed as u64;
        self.consumed += consumed as u64;
        self.produced += produced as u64;
        if let Some(size) = content_size(&self.header) {
            // The first excess byte of an uncompressed block is passed separately: the library
            // refuses a piece with it as a whole.
            let rest = size.saturating_sub(self.produced).max(1);
            self.wanted = self.wanted.min(usize::try_from(rest).unwrap_or(usize::MAX));
        }
        if produced > 0
            && let Some(excess) = content_size(&self.header)
                .and_then(|size| self.produced.checked_sub(size))
                .filter(|excess| *excess > 0)
        {
            self.is_too_long = true;
            return Ok((consumed, produced.saturating_sub(excess as usize)));
        }
        if hint == 0 {
            self.end_frame()?;
        }
        Ok((consumed, produced))
    }

    /// Reads on after the first bytes of a seek point.
    fn read_on(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let was_full = self.is_full;
            if self.is_too_long {
                return Err(io::Error::new(ErrorKind::InvalidData, DAMAGED));
            }
            let (consumed, produced) = self.step(buf)?;
            if produced > 0 {
                self.inflated += produced as u64;
                if let Some(collector) = &mut self.collector {
                    collector.inflated(&buf[..produced]);
                }
                return Ok(produced);
            }
            if consumed == 0 && !was_full {
                return match self.frame_consumed {
                    0 => Ok(0),
                    _ => Err(io::Error::new(ErrorKind::UnexpectedEof, "incomplete frame")),
                };
            }
        }
    }

    /// Checks a frame that has ended, and begins the next one.
    fn end_frame(&mut self) -> io::Result<()> {
        let produced = std::mem::take(&mut self.produced);
        (self.frame_consumed, self.wanted, self.is_full) = (0, 1, false);
        self.decoder.reinit()?;
        match content_size(&self.header) {
            Some(size) if size != produced => Err(io::Error::new(ErrorKind::InvalidData, DAMAGED)),
            _ => Ok(()),
        }
    }
}

/// The library's text for most damage.
const DAMAGED: &str = "Data corruption detected";

/// The library's error. The library has two texts for a block that is larger than its frame says,
/// depending on the room for the result: here it has one.
fn same_text(error: io::Error) -> io::Error {
    if error.to_string().contains("Destination buffer is too small") {
        return io::Error::new(ErrorKind::InvalidData, DAMAGED);
    }
    error
}

impl<R: BufRead> Read for ZstdFrames<R> {
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

/// The size of the content in the header of a frame, if it has one: section 3.1.1.1 of RFC 8878.
fn content_size(header: &[u8; MAX_HEADER]) -> Option<u64> {
    let descriptor = header[4];
    let single_segment = descriptor >> 5 & 1;
    let bytes = match (descriptor >> 6, single_segment) {
        _ if header[..4] != MAGIC => return None,
        (0, 0) => return None,
        (flag, _) => 1 << flag,
    };
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let at = 5 + usize::from(1 - single_segment) + dictionary;
    let size =
        header[at..at + bytes].iter().rev().fold(0, |size, byte| size << 8 | u64::from(*byte));
    // A size of two bytes counts from 256 on, because one byte holds less.
    Some(if bytes == 2 { size + 256 } else { size })
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor};

    use super::*;

    /// Decompresses with pieces of `size` compressed bytes and reads of `read` bytes. Returns the
    /// bytes before the first error, and the error with its place.
    fn decompress(bytes: &[u8], size: usize, read: usize) -> (Vec<u8>, Option<(u64, String)>) {
        let input = BufReader::with_capacity(size, Cursor::new(bytes.to_vec()));
        let mut frames = ZstdFrames::new(input).expect("memory");
        let (mut all, mut buf) = (Vec::new(), vec![0; read]);
        loop {
            match frames.read(&mut buf) {
                Ok(0) => return (all, None),
                Ok(count) => all.extend_from_slice(&buf[..count]),
                Err(why) => return (all, Some((frames.consumed(), why.to_string()))),
            }
        }
    }

    /// The result of any pieces, which must be the same.
    fn any_pieces(bytes: &[u8]) -> Result<Vec<u8>, String> {
        let whole = decompress(bytes, bytes.len().max(1), 1 << 20);
        for (size, read) in [(1, 1), (1, 1 << 20), (3, 7), (8, 64), (9, 40), (64, 1 << 20)] {
            assert_eq!(decompress(bytes, size, read), whole, "pieces of {size}, reads of {read}");
        }
        match whole {
            (bytes, None) => Ok(bytes),
            (_, Some((_, why))) => Err(why),
        }
    }

    fn pledged(content: &[u8]) -> Vec<u8> {
        zstd::bulk::compress(content, 3).expect("memory")
    }

    #[test]
    fn frames_of_any_size_are_whole() {
        let mut all = (Vec::new(), Vec::new());
        for size in [0, 1, 255, 256, 257, 65_791, 65_792, 300_000] {
            let content: Vec<u8> = (0..size).map(|n: u32| (n.wrapping_mul(n) >> 7) as u8).collect();
            assert_eq!(any_pieces(&pledged(&content)), Ok(content.clone()));
            let streamed = zstd::encode_all(&*content, 1).expect("memory");
            assert_eq!(any_pieces(&streamed), Ok(content.clone()));
            all.0.extend_from_slice(&pledged(&content));
            all.1.extend_from_slice(&content);
        }
        // A skippable frame of five bytes.
        all.0.extend_from_slice(b"\x50\x2a\x4d\x18\x05\0\0\0hello");
        assert_eq!(any_pieces(&all.0), Ok(all.1));
    }

    #[test]
    fn damage_is_the_same_error_in_any_pieces() {
        // Several blocks, with a damaged one after sound ones.
        let content: Vec<u8> = (0..300_000_u32).map(|n| (n.wrapping_mul(n) >> 9) as u8).collect();
        let large = pledged(&content);
        for at in (0..large.len()).step_by(1 + large.len() / 20) {
            let mut damaged = large.clone();
            damaged[at] ^= 1 << (at % 8);
            let _ = any_pieces(&damaged);
        }
        let content: Vec<u8> = (0..2_000_u32).map(|n| (n % 251) as u8).collect();
        let frame = pledged(&content);
        for at in 0..frame.len() {
            let mut damaged = frame.clone();
            damaged[at] ^= 1 << (at % 8);
            let _ = any_pieces(&damaged);
            let cut = any_pieces(&frame[..at]);
            assert!(at == 0 || cut == Err("incomplete frame".to_owned()), "{at}: {cut:?}");
        }
    }

    #[test]
    fn an_empty_last_block_hides_no_missing_content() {
        // 32 bytes in one segment, then a last empty block: compressed, and plain.
        for block in [5_u8, 1] {
            let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x20, block, 0, 0];
            let wrong = any_pieces(&frame).expect_err("nothing of 32 bytes");
            assert_eq!(wrong, DAMAGED);
        }
    }

    /// A frame whose header says `size` bytes in one segment, with blocks that each repeat one byte
    /// 32 times, and other bytes after it.
    fn repeated(size: u8, blocks: usize, end: &[u8]) -> Vec<u8> {
        // Three bytes: bit 0 says whether it is the last one, bits 1 and 2 the type, the rest the
        // size.
        let [low, high, ..] = (1_u32 << 1 | 32 << 3).to_le_bytes();
        let block = [low, high, 0, b'x'];
        [&[0x28, 0xb5, 0x2f, 0xfd, 0x20, size], &*block.repeat(blocks), end].concat()
    }

    #[test]
    fn all_blocks_before_a_damaged_header_are_returned() {
        // The type 3 is reserved.
        let frame = repeated(255, 2, &[3 << 1, 0, 0]);
        any_pieces(&frame).expect_err("damage");
        assert_eq!(decompress(&frame, frame.len(), 1 << 20).0, [b'x'; 64]);
    }

    #[test]
    fn an_uncompressed_last_block_that_is_too_short_is_returned_but_for_its_last_byte() {
        let frame =
            [&[0x28, 0xb5, 0x2f, 0xfd, 0x20, 20][..], &[1 | 5 << 3, 0, 0], b"hello"].concat();
        any_pieces(&frame).expect_err("5 bytes of 20");
        assert_eq!(decompress(&frame, frame.len(), 1 << 20).0, b"hell");
    }

    #[test]
    fn more_content_than_the_header_says_is_the_same_error_in_any_pieces() {
        let block = |kind: u32, last: bool, size: u32, bytes: &[u8]| {
            let header = (u32::from(last) | kind << 1 | size << 3).to_le_bytes();
            [&header[..3], bytes].concat()
        };
        let plain = |last| block(0, last, 200, &[b'p'; 200]);
        let repeated = |last| block(1, last, 100, b"x");
        let content: Vec<u8> = (0..200_u32).map(|n| (n % 7) as u8).collect();
        let compressed = |last: u8| {
            let frame = pledged(&content);
            // Four bytes of magic, two of header; then one block, the last.
            let mut block = frame[6..].to_vec();
            block[0] = block[0] & !1 | last;
            block
        };
        // A block that is larger than the content is refused by its header, so most cases have
        // several blocks.
        for says in [0, 99, 199, 200, 201, 230, 255] {
            for blocks in [
                vec![plain(false), plain(true)],
                vec![plain(false), plain(false), plain(true)],
                vec![repeated(false), plain(false), repeated(true)],
                vec![repeated(false), repeated(false), repeated(true)],
                vec![repeated(false), compressed(1)],
                vec![repeated(false), compressed(0), plain(true)],
                vec![repeated(false), plain(true)],
            ] {
                let frame = [&[0x28, 0xb5, 0x2f, 0xfd, 0x20, says][..], &blocks.concat()].concat();
                any_pieces(&frame).expect_err("too much");
            }
        }
    }

    #[test]
    fn an_uncompressed_block_that_is_too_large_is_returned_as_far_as_the_header_says() {
        // A window of 2 MiB, 117 bytes of content, and a block of 40,256 bytes.
        let start = [0x28, 0xb5, 0x2f, 0xfd, 0x84, 0x58, 117, 0, 0, 0, 0, 0xea, 4];
        let frame = [&start[..], &[b'x'; 40_256]].concat();
        any_pieces(&frame).expect_err("too much");
        let (bytes, error) = decompress(&frame, 100, 4096);
        let place = start.len() as u64 + 117 + 1;
        assert_eq!((bytes, error), (vec![b'x'; 117], Some((place, DAMAGED.to_owned()))));
    }

    #[test]
    fn more_content_than_the_header_says_is_refused_at_once() {
        let frame = repeated(32, 1_000, &[]);
        any_pieces(&frame).expect_err("too much");
        let mut frames = ZstdFrames::new(Cursor::new(frame)).expect("memory");
        let mut bytes = Vec::new();
        let wrong = frames.read_to_end(&mut bytes).expect_err("too much");
        assert_eq!((wrong.to_string().as_str(), bytes), (DAMAGED, vec![b'x'; 32]));
        // The frame's header, two blocks, and the header of one more.
        assert!(frames.get_ref().position() <= 6 + 2 * 4 + 3, "{}", frames.get_ref().position());
        // It stays an error.
        frames.read(&mut [0]).expect_err("too much");
    }
}
