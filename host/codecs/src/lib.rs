//! Decompresses a block of a block-compressed format, in windows. The sandbox's host uses it, and
//! the plugin SDK's test host, so that both give a decoder the same bytes and the same errors.
//! Sources use [`GzipMembers`], [`ZlibStreams`] and [`ZstdFrames`].
//!
//! - `at_once`: blocks that a library decompresses in one call.
//! - `block_start`: the state between two blocks of deflate data.
//! - `brotli`: a Brotli stream, from its bytes in memory.
//! - `first_bytes`: the first inflated bytes after a seek point, which are compared with it.
//! - `gzip_members`: gzip members (RFC 1952), from compressed bytes that come in pieces of any
//!   size.
//! - `seek_point`: a point of a compressed object at which inflating can begin.
//! - `seek_points`: the seek points of one object.
//! - `zlib_streams`: zlib streams (RFC 1950), from compressed bytes that come in pieces of any
//!   size.
//! - `zstd_frames`: Zstandard frames, from compressed bytes that come in pieces of any size.

#![forbid(unsafe_code)]

mod at_once;
mod block_start;
mod brotli;
mod first_bytes;
mod gzip_members;
mod seek_point;
mod seek_points;
mod zlib_streams;
mod zstd_frames;

use std::io::{self, Cursor, Read};

use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use lz4_flex::frame::FrameDecoder;

use brotli::Brotli;

pub use at_once::AtOnce;
pub use gzip_members::GzipMembers;
pub use seek_point::{SeekPoint, WrongSeekPoint, is_wrong_seek_point};
pub use seek_points::SeekPoints;
pub use zlib_streams::ZlibStreams;
pub use zstd_frames::ZstdFrames;

/// The compression of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// DEFLATE without a header (RFC 1951).
    Deflate,
    /// DEFLATE in a zlib stream (RFC 1950).
    Zlib,
    /// One or more gzip members (RFC 1952).
    Gzip,
    /// One or more Zstandard frames (RFC 8878).
    Zstd,
    /// An LZ4 frame.
    Lz4,
    /// One Snappy block, without framing.
    Snappy,
    /// One LZ4 block, without framing. It does not say its size, and has no end mark: who knows the
    /// size compares it.
    Lz4Block,
    /// A Brotli stream (RFC 7932).
    Brotli,
}

impl Codec {
    /// All codecs.
    pub const ALL: [Self; 8] = [
        Self::Deflate,
        Self::Zlib,
        Self::Gzip,
        Self::Zstd,
        Self::Lz4,
        Self::Snappy,
        Self::Lz4Block,
        Self::Brotli,
    ];

    /// Whether a block has no parts: it is decompressed as a whole.
    pub fn is_whole(self) -> bool {
        matches!(self, Self::Snappy | Self::Lz4Block)
    }

    /// The codec's name in the decoder interface.
    pub fn word(self) -> &'static str {
        match self {
            Self::Deflate => "deflate",
            Self::Zlib => "zlib",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
            Self::Snappy => "snappy",
            Self::Lz4Block => "lz4-block",
            Self::Brotli => "brotli",
        }
    }

    /// The codec with this name.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.word() == word)
    }
}

/// Largest window of a Zstandard frame, as a power of two: 128 MiB, the default of `zstd`.
const ZSTD_WINDOW_LOG: u32 = 27;
/// The same size in bytes.
pub const ZSTD_WINDOW_BYTES: u64 = 1 << ZSTD_WINDOW_LOG;
/// Largest window of a Brotli stream. Its ring buffer has twice as many bytes.
const BROTLI_WINDOW_BYTES: u64 = 16 << 20;
/// A byte of an LZ4 block becomes at most this many.
const LZ4_RATIO: u64 = 255;
/// Largest block of an LZ4 frame.
const LZ4_BLOCK_BYTES: u64 = 4 << 20;
/// Number of bytes that are decompressed at a time while some are skipped.
const SKIP_BYTES: usize = 64 << 10;

/// A block that is being decompressed, from its start to its end.
pub struct BlockReader {
    codec: Codec,
    /// Decompressed bytes: from `window_at` on, the bytes of the last window that was returned, and
    /// maybe more.
    compressed: u64,
    reader: Box<dyn Stream>,
    /// Decompressed bytes: from `window_at` on, those of the last window that was returned, and
    /// maybe more.
    decompressed: Vec<u8>,
    /// Start of the window in `decompressed`.
    window_at: usize,
    /// Offset of the window in the decompressed block.
    window_start: u64,
    /// The byte after `decompressed`. It was read to find out whether the block ends there.
    next: Option<u8>,
    /// Whether `decompressed` ends with the block.
    is_last: bool,
}

impl BlockReader {
    /// Begins a block. One [without parts](Codec::is_whole) must have at most `max_whole` bytes
    /// after decompression. [`held`](Self::held) returns the memory that it needs.
    ///
    /// # Errors
    /// The text says what is wrong with the start of the block.
    pub fn new(codec: Codec, block: &[u8], max_whole: u64) -> Result<Self, String> {
        if block.is_empty() {
            return Err(format!("the {} data is cut short: it has no bytes", codec.word()));
        }
        // A whole block is decompressed here, into its place: the stream after it has no bytes.
        let (block, decompressed) = match codec {
            Codec::Snappy => (Vec::new(), unsnap(block, max_whole)?),
            Codec::Lz4Block => (Vec::new(), lz4_block(block, max_whole)?),
            _ => (block.to_vec(), Vec::new()),
        };
        let compressed = block.len() as u64;
        let block = Cursor::new(block);
        let reader: Box<dyn Stream> = match codec {
            Codec::Deflate => Box::new(DeflateDecoder::new(block)),
            Codec::Zlib => Box::new(ZlibDecoder::new(block)),
            Codec::Gzip => Box::new(MultiGzDecoder::new(block)),
            Codec::Zstd => Box::new(ZstdFrames::new(block).map_err(|why| describe(codec, &why))?),
            Codec::Lz4 => Box::new(FrameDecoder::new(Lz4Frame { block, ran_out: false })),
            Codec::Snappy | Codec::Lz4Block => Box::new(block),
            Codec::Brotli => Box::new(Brotli::new(block.into_inner())),
        };
        Ok(Self {
            codec,
            compressed,
            reader,
            is_last: codec.is_whole(),
            decompressed,
            window_at: 0,
            window_start: 0,
            next: None,
        })
    }

    /// Upper limit of the memory in bytes that the reader holds: a copy of the compressed block,
    /// and the decompressed bytes that the codec keeps.
    pub fn held(&self) -> u64 {
        let kept = match self.codec {
            Codec::Deflate | Codec::Zlib | Codec::Gzip => 0,
            Codec::Lz4 => self.decompressed_end().min(2 * LZ4_BLOCK_BYTES),
            Codec::Zstd => self.decompressed_end().min(ZSTD_WINDOW_BYTES),
            Codec::Snappy | Codec::Lz4Block => self.decompressed.len() as u64,
            Codec::Brotli => self.decompressed_end().min(2 * BROTLI_WINDOW_BYTES),
        };
        self.compressed + kept
    }

    /// Whether a window that starts at `skip` is possible without beginning the block again.
    pub fn can_go_on_at(&self, skip: u64) -> bool {
        skip >= self.window_start
    }

    /// Returns at most `max` bytes of the decompressed block, after its first `skip`, and whether
    /// they are its last. `go_on` is called now and then while bytes are skipped. If it returns
    /// false, this ends with an error.
    ///
    /// # Errors
    /// The text says what is wrong with the block.
    ///
    /// # Panics
    /// If [`can_go_on_at`](Self::can_go_on_at) says that `skip` is before the last window.
    pub fn window(
        &mut self,
        skip: u64,
        max: usize,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<(&[u8], bool), String> {
        assert!(self.can_go_on_at(skip), "the reader is already after this place");
        while self.decompressed_end() < skip {
            if self.is_last {
                return Err(format!("the block has {} bytes, not {skip}", self.decompressed_end()));
            }
            if !go_on() {
                return Err("passing over the start of the block took too long".to_owned());
            }
            self.move_to(self.decompressed_end());
            let left = skip - self.window_start;
            self.fill(usize::try_from(left).unwrap_or(usize::MAX).min(SKIP_BYTES))?;
        }
        self.move_to(skip);
        if self.decompressed.len() - self.window_at <= max && !self.is_last {
            self.fill(max)?;
        }
        // Bytes beyond this window belong to the next one.
        let window = &self.decompressed[self.window_at..];
        match window.get(..max) {
            Some(first) if window.len() > max => Ok((first, false)),
            _ => Ok((window, self.is_last)),
        }
    }

    /// Offset in the decompressed block at which `decompressed` ends.
    fn decompressed_end(&self) -> u64 {
        self.window_start + (self.decompressed.len() - self.window_at) as u64
    }

    /// Moves the start of the window to this offset in the decompressed block, which is in
    /// `decompressed` or at its end.
    fn move_to(&mut self, skip: u64) {
        self.window_at += (skip - self.window_start) as usize;
        self.window_start = skip;
    }

    /// Decompresses until the window has `size` bytes or the block ends. Then finds out whether the
    /// block ends there.
    fn fill(&mut self, size: usize) -> Result<(), String> {
        self.decompressed.drain(..self.window_at);
        self.window_at = 0;
        let mut have = self.decompressed.len();
        if have < size
            && let Some(next) = self.next.take()
        {
            self.decompressed.push(next);
            have += 1;
        }
        self.decompressed.resize(size.max(have), 0);
        while have < size && !self.is_last {
            match read(self.codec, &mut *self.reader, &mut self.decompressed[have..]) {
                Ok(0) => self.is_last = true,
                Ok(count) => have += count,
                Err(why) => {
                    self.decompressed.truncate(have);
                    return Err(why);
                }
            }
        }
        self.decompressed.truncate(have);
        let mut byte = [0];
        if !self.is_last && self.next.is_none() {
            match read(self.codec, &mut *self.reader, &mut byte)? {
                0 => self.is_last = true,
                _ => self.next = Some(byte[0]),
            }
        }
        Ok(())
    }
}

/// Reads once. At the end of the stream, no byte of the block may be left.
fn read(codec: Codec, reader: &mut dyn Stream, buf: &mut [u8]) -> Result<usize, String> {
    loop {
        match reader.read(buf) {
            Ok(0) if !buf.is_empty() && reader.ran_out() => {
                return Err(format!("the {} data is cut short", codec.word()));
            }
            Ok(0) if !buf.is_empty() => {
                return match reader.unread() {
                    0 => Ok(0),
                    left => {
                        Err(format!("{left} bytes follow the end of the {} data", codec.word()))
                    }
                };
            }
            Ok(count) => return Ok(count),
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(describe(codec, &why)),
        }
    }
}

/// A decompressor, from its compressed bytes to its end.
trait Stream: Read + Send {
    /// Compressed bytes that were not read; at the end of the stream, the bytes after it.
    fn unread(&self) -> u64;

    /// Whether the compressed bytes ended before the stream did, although no read failed.
    fn ran_out(&self) -> bool {
        false
    }
}

/// The bytes of a block after those that were read.
fn left(block: &Cursor<Vec<u8>>) -> u64 {
    block.get_ref().len() as u64 - block.position()
}

impl Stream for DeflateDecoder<Cursor<Vec<u8>>> {
    fn unread(&self) -> u64 {
        // The decoder reads ahead, so the position of the block does not count.
        self.get_ref().get_ref().len() as u64 - self.total_in()
    }
}

impl Stream for ZlibDecoder<Cursor<Vec<u8>>> {
    fn unread(&self) -> u64 {
        self.get_ref().get_ref().len() as u64 - self.total_in()
    }
}

impl Stream for MultiGzDecoder<Cursor<Vec<u8>>> {
    fn unread(&self) -> u64 {
        0 // Bytes after a member are read as the next member.
    }
}

impl Stream for ZstdFrames<Cursor<Vec<u8>>> {
    fn unread(&self) -> u64 {
        left(self.get_ref())
    }
}

/// The bytes of an LZ4 frame. Its decoder accepts a frame without its end mark as complete, but
/// only in that case it reads beyond the bytes.
struct Lz4Frame {
    block: Cursor<Vec<u8>>,
    ran_out: bool,
}

impl Read for Lz4Frame {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.block.read(buf)?;
        self.ran_out |= count < buf.len();
        Ok(count)
    }
}

impl Stream for FrameDecoder<Lz4Frame> {
    fn unread(&self) -> u64 {
        left(&self.get_ref().block)
    }

    fn ran_out(&self) -> bool {
        self.get_ref().ran_out
    }
}

/// The rest of a block that was decompressed as a whole: nothing.
impl Stream for Cursor<Vec<u8>> {
    fn unread(&self) -> u64 {
        left(self)
    }
}

/// Decompresses a Snappy block of at most `max` decompressed bytes.
fn unsnap(block: &[u8], max: u64) -> Result<Vec<u8>, String> {
    let size = snap::raw::decompress_len(block)
        .map_err(|why| format!("the snappy data is damaged: {why}"))?;
    if size as u64 > max {
        return Err(format!(
            "the snappy block says that it has {size} bytes, more than the {max} that can be \
             decompressed at a time"
        ));
    }
    snap::raw::Decoder::new()
        .decompress_vec(block)
        .map_err(|why| format!("the snappy data is damaged: {why}"))
}

/// Decompresses an LZ4 block of at most `max` decompressed bytes.
fn lz4_block(block: &[u8], max: u64) -> Result<Vec<u8>, String> {
    use lz4_flex::block::{DecompressError, decompress_into};
    let most = max.min((block.len() as u64).saturating_mul(LZ4_RATIO));
    // The kernel gives pages of zeros when they are written, so the rest takes no memory.
    let mut bytes = vec![0; usize::try_from(most).unwrap_or(usize::MAX)];
    match decompress_into(block, &mut bytes) {
        Ok(size) => {
            bytes.truncate(size);
            bytes.shrink_to_fit();
            Ok(bytes)
        }
        Err(DecompressError::OutputTooSmall { .. }) => Err(format!(
            "the lz4 block has more than the {max} bytes that can be decompressed at a time"
        )),
        Err(why) => Err(format!("the lz4 data is damaged: {why}")),
    }
}

fn describe(codec: Codec, why: &io::Error) -> String {
    match why.kind() {
        io::ErrorKind::UnexpectedEof => format!("the {} data is cut short", codec.word()),
        _ => format!("the {} data is damaged: {why}", codec.word()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn compress(codec: Codec, bytes: &[u8]) -> Vec<u8> {
        let level = flate2::Compression::default();
        match codec {
            Codec::Deflate => {
                let mut to = flate2::write::DeflateEncoder::new(Vec::new(), level);
                to.write_all(bytes).unwrap();
                to.finish().unwrap()
            }
            Codec::Zlib => {
                let mut to = flate2::write::ZlibEncoder::new(Vec::new(), level);
                to.write_all(bytes).unwrap();
                to.finish().unwrap()
            }
            Codec::Gzip => {
                let mut to = flate2::write::GzEncoder::new(Vec::new(), level);
                to.write_all(bytes).unwrap();
                to.finish().unwrap()
            }
            Codec::Zstd => zstd::encode_all(bytes, 3).unwrap(),
            Codec::Lz4 => {
                let mut to = lz4_flex::frame::FrameEncoder::new(Vec::new());
                to.write_all(bytes).unwrap();
                to.finish().unwrap()
            }
            Codec::Snappy => snap::raw::Encoder::new().compress_vec(bytes).unwrap(),
            Codec::Lz4Block => lz4_flex::block::compress(bytes),
            Codec::Brotli => {
                let mut to = Vec::new();
                // The default is the slowest quality.
                let quality = 4;
                let params = ::brotli::enc::BrotliEncoderParams { quality, ..Default::default() };
                ::brotli::BrotliCompress(&mut &*bytes, &mut to, &params).unwrap();
                to
            }
        }
    }

    /// Decompresses a block in windows: after each, decoding continues `used(window)` bytes later.
    fn in_windows(
        codec: Codec,
        block: &[u8],
        max: usize,
        mut used: impl FnMut(usize) -> usize,
    ) -> Result<Vec<u8>, String> {
        let mut reader = BlockReader::new(codec, block, 1 << 20)?;
        let mut bytes = Vec::new();
        loop {
            let (window, last) = reader.window(bytes.len() as u64, max, || true)?;
            assert!(window.len() == max || last);
            let take = if last { window.len() } else { used(window.len()).max(1) };
            bytes.extend_from_slice(&window[..take]);
            if last {
                return Ok(bytes);
            }
        }
    }

    fn sample(seed: u64, size: usize) -> Vec<u8> {
        let mut state = seed;
        let next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 60) as u8
        };
        std::iter::repeat_with(next).take(size).collect()
    }

    proptest::proptest! {
        #[test]
        fn any_windows_give_the_same_bytes(
            seed: u64, size in 0usize..300_000, max in 1usize..100_000, part in 1usize..100_000
        ) {
            let bytes = sample(seed, size);
            for codec in Codec::ALL {
                let block = compress(codec, &bytes);
                let max = max.max(size / 100);
                let read = in_windows(codec, &block, max, |window| window.min(part.max(max / 2)));
                proptest::prop_assert_eq!(read.as_deref(), Ok(&*bytes), "{:?}", codec);
            }
        }

        #[test]
        fn a_damaged_block_is_an_error_or_other_bytes_but_no_panic(
            seed: u64, at: usize, bit in 0u8..8, max in 1usize..5000
        ) {
            for codec in Codec::ALL {
                let mut block = compress(codec, &sample(seed, 3000));
                let at = at % block.len();
                block[at] ^= 1 << bit;
                if let Ok(bytes) = in_windows(codec, &block, max, |window| window) {
                    proptest::prop_assert!(bytes.len() <= 4 << 20);
                }
            }
        }
    }

    /// All but one that has no end mark.
    fn with_end() -> impl Iterator<Item = Codec> {
        Codec::ALL.into_iter().filter(|codec| *codec != Codec::Lz4Block)
    }

    #[test]
    fn a_block_that_is_cut_short_is_an_error_at_every_length() {
        let bytes = sample(1, 2000);
        for codec in with_end() {
            let block = compress(codec, &bytes);
            for size in 0..block.len() {
                let read = in_windows(codec, &block[..size], 512, |window| window);
                assert!(read.is_err(), "{codec:?}: {size} of {} bytes: {read:?}", block.len());
            }
        }
    }

    #[test]
    fn bytes_after_the_end_are_an_error() {
        for codec in with_end() {
            for end in [&b"x"[..], &[0; 40]] {
                let block = [&compress(codec, &sample(1, 2000)), end].concat();
                let read = in_windows(codec, &block, 512, |window| window);
                assert!(read.is_err(), "{codec:?}: {read:?}");
            }
        }
    }

    #[test]
    fn passing_over_bytes_ends_when_it_is_told_to() {
        let block = compress(Codec::Deflate, &vec![0; 4 << 20]);
        let mut reader = BlockReader::new(Codec::Deflate, &block, 0).unwrap();
        let mut asked = 0;
        let passed = reader.window(3 << 20, 1, || {
            asked += 1;
            asked < 10
        });
        assert!(passed.unwrap_err().contains("too long"));
        let mut reader = BlockReader::new(Codec::Deflate, &compress(Codec::Deflate, b"abc"), 0);
        let after = reader.as_mut().unwrap().window(4, 1, || true);
        assert_eq!(after, Err("the block has 3 bytes, not 4".to_owned()));
    }

    #[test]
    fn an_lz4_block_that_is_too_large_is_refused() {
        let block = compress(Codec::Lz4Block, &[7; 2000]);
        assert!(BlockReader::new(Codec::Lz4Block, &block, 2000).is_ok());
        let refused = BlockReader::new(Codec::Lz4Block, &block, 1999).map(|_| ());
        assert!(refused.unwrap_err().contains("more than the 1999 bytes"));
    }

    #[test]
    fn a_snappy_block_that_is_too_large_is_refused_before_memory_is_taken() {
        let block = [0xff, 0xff, 0xff, 0xff, 0x0f, 0];
        assert!(BlockReader::new(Codec::Snappy, &block, 1000).is_err());
    }
}
